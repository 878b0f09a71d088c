//! The processor as the kernel describes it: its identity, on which the meaning of `native` hangs,
//! and its features, which a program built for another may lack.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::hash::Digest;

/// One processor (the first; machines with unlike cores are told by nobody's `native`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cpu {
    /// The name for people: `AMD EPYC 7763 64-Core Processor`.
    pub model: String,
    /// Vendor, family, model, stepping and cache size (or their equivalents), in a fixed order.
    pub identity: Vec<String>,
    /// The features that programs can use, by the kernel's names.
    pub features: BTreeSet<String>,
}

impl Cpu {
    /// This machine's processor; empty where the kernel does not tell.
    ///
    /// The kernel leaves out of its list what it does not trust (RDSEED of some AMD processors,
    /// RDRAND of others), although programs can execute it. Compilers ask the processor itself and
    /// put it into `native`, so the processor is asked for these here, too.
    pub fn this() -> Self {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut))]
        let mut cpu = Self::parse(&fs_err::read_to_string("/proc/cpuinfo").unwrap_or_default());
        #[cfg(target_arch = "x86_64")]
        if !cpu.features.is_empty() {
            let asked = [
                ("rdseed", std::is_x86_feature_detected!("rdseed")),
                ("rdrand", std::is_x86_feature_detected!("rdrand")),
            ];
            let there = asked.iter().filter(|(_, there)| *there);
            cpu.features.extend(there.map(|(name, _)| (*name).to_owned()));
        }
        cpu
    }

    /// Reads the first processor of `/proc/cpuinfo` (x86 and arm64 forms).
    pub fn parse(cpuinfo: &str) -> Self {
        // The cache size counts: gcc's `native` tells the optimiser about it.
        const KEYS: [&str; 10] = [
            "vendor_id",
            "cpu family",
            "model",
            "stepping",
            "cache size",
            "CPU implementer",
            "CPU architecture",
            "CPU variant",
            "CPU part",
            "CPU revision",
        ];
        let mut cpu = Self::default();
        let lines = cpuinfo.lines().skip_while(|line| line.trim().is_empty());
        for line in lines.take_while(|line| !line.trim().is_empty()) {
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim(), value.trim());
            match key {
                "model name" => cpu.model = value.to_owned(),
                "flags" | "Features" => {
                    cpu.features = value.split_whitespace().map(str::to_owned).collect();
                }
                _ if KEYS.contains(&key) => cpu.identity.push(format!("{key}: {value}")),
                _ => {}
            }
        }
        cpu.identity.sort();
        if cpu.model.is_empty() {
            cpu.model = cpu.identity.join(", ");
        }
        cpu
    }

    /// A hash over all that decides what `native` means.
    pub fn digest(&self) -> Digest {
        let features: Vec<&str> = self.features.iter().map(String::as_str).collect();
        Digest::of([self.identity.join("\n"), features.join(" ")].join("\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x86_and_arm_forms() {
        let x86 = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\
                   model name\t: Xeon\nstepping\t: 8\ncpu MHz\t: 2000.1\n\
                   flags\t\t: fpu avx sse2\n\n\
                   processor\t: 1\nflags\t\t: other\n";
        let cpu = Cpu::parse(x86);
        assert_eq!(cpu.model, "Xeon");
        assert_eq!(cpu.features.iter().collect::<Vec<_>>(), ["avx", "fpu", "sse2"]);
        assert_eq!(cpu.identity.len(), 4);
        // Neither the frequency of the moment nor the order of the flags is part of it.
        let same = x86.replace("2000.1", "1999.9").replace("fpu avx", "avx fpu");
        assert_eq!(cpu.digest(), Cpu::parse(&same).digest());
        assert_ne!(cpu.digest(), Cpu::parse(&x86.replace("avx ", "")).digest());
        assert_ne!(cpu.digest(), Cpu::parse(&x86.replace(": 143", ": 144")).digest());
        let arm = Cpu::parse("processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n");
        assert_eq!((arm.model.as_str(), arm.features.len()), ("CPU part: 0xd0c", 2));
        assert_eq!(Cpu::parse(""), Cpu::default());
    }
}
