//! What `native` stands for: the explicit options in place of `-march=native` and its like, and the
//! processor features that a list of options demands. Pure; [`super::flags`] asks the compilers.

use std::collections::BTreeSet;

use crate::toolchain::cpu::Cpu;

/// The options whose value may be `native`.
const KEYS: [&str; 3] = ["-march=", "-mtune=", "-mcpu="];

/// Whether any of these options says `native`.
pub fn mentions_native(flags: &[String]) -> bool {
    flags.iter().any(|flag| is_native(flag))
}

fn is_native(flag: &str) -> bool {
    KEYS.iter().any(|key| flag.strip_prefix(key) == Some("native"))
}

/// The options that decide which machine code is used: `-m…` and the cache sizes.
pub fn machine_words(flags: &[String]) -> Vec<String> {
    let machine = |flag: &&String| flag.starts_with("-m") || flag.starts_with("--param=l");
    flags.iter().filter(machine).cloned().collect()
}

/// The machine options in gcc's `-E -v` output of `native`: those of the line that starts cc1.
pub fn parse_gcc(output: &str) -> Option<Vec<String>> {
    let line = output.lines().find(|line| {
        let program = line.split_whitespace().next().unwrap_or_default();
        program.rsplit('/').next() == Some("cc1") && line.contains(" -E ")
    })?;
    let mut words = line.split_whitespace().skip(1);
    let mut flags = Vec::new();
    while let Some(word) = words.next() {
        if word == "--param" {
            flags.push(format!("--param={}", words.next()?));
        } else if word.starts_with("-m") && word != "-mlittle-endian" && !word.starts_with("-mabi=")
        {
            flags.push(word.to_owned());
        }
    }
    (!flags.is_empty()).then_some(flags)
}

/// What clang's `-###` output says of the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClangCpu {
    /// `-target-cpu`.
    pub cpu: String,
    /// `-tune-cpu`, if given.
    pub tune: Option<String>,
    /// `-target-feature`, each `+name` or `-name`, sorted by name.
    pub features: Vec<String>,
}

/// Reads the line of clang's `-###` output that starts the compiler proper.
pub fn parse_clang(output: &str) -> Option<ClangCpu> {
    let line = output.lines().find(|line| line.contains("\"-cc1\""))?;
    let words = shlex::split(line)?;
    let mut found = ClangCpu::default();
    for pair in words.windows(2) {
        let value = pair[1].clone();
        match pair[0].as_str() {
            "-target-cpu" => found.cpu = value,
            "-tune-cpu" => found.tune = Some(value),
            "-target-feature" => found.features.push(value),
            _ => {}
        }
    }
    // The compiler lists them in the order of a hash table.
    found.features.sort_by(|a, b| a[1..].cmp(&b[1..]));
    (!found.cpu.is_empty()).then_some(found)
}

/// The options that say the same as clang's own view of `-march=native` (x86) or `-mcpu=native`
/// (arm64), as far as options exist; the caller proves that the rest makes no difference.
pub fn clang_flags(arch: &str, found: &ClangCpu) -> Vec<String> {
    if arch == "aarch64" {
        let features = found.features.iter().filter_map(|feature| {
            let name = match &feature[1..] {
                "fp-armv8" => "fp",
                "neon" => "simd",
                "fullfp16" => "fp16",
                same @ ("aes" | "sha2" | "sha3" | "sm4" | "crc" | "lse" | "rdm" | "rcpc"
                | "dotprod" | "ras" | "sve" | "sve2" | "bf16" | "i8mm" | "ssbs") => same,
                _ => return None,
            };
            Some(format!("+{}{name}", if feature.starts_with('-') { "no" } else { "" }))
        });
        return vec![format!("-mcpu={}{}", found.cpu, features.collect::<String>())];
    }
    /// Features of the base instruction set, for which there is no option.
    const WITHOUT_OPTION: [&str; 4] = ["64bit", "cmov", "cx8", "crc32"];
    let features = found.features.iter().filter_map(|feature| {
        let name = &feature[1..];
        let no = if feature.starts_with('-') { "no-" } else { "" };
        (!WITHOUT_OPTION.contains(&name)).then(|| format!("-m{no}{name}"))
    });
    std::iter::once(format!("-march={}", found.cpu)).chain(features).collect()
}

/// Replaces `native` in `flags`. `expand` gives the options for one whole word (`-march=native`).
///
/// Drivers put what `native` means before all other machine options, let the last `-march` win,
/// and leave the tuning alone where one is given; so does this.
///
/// # Errors
/// Those of `expand`.
pub fn replace<E>(
    flags: &[String],
    mut expand: impl FnMut(&str) -> Result<Vec<String>, E>,
) -> Result<Vec<String>, E> {
    let mut flags = flags.to_vec();
    // A processor for everything first, then the tuning alone.
    for key in ["-march=", "-mcpu=", "-mtune="] {
        let Some(last) = flags.iter().rfind(|flag| flag.starts_with(key)).cloned() else {
            continue;
        };
        if !is_native(&last) {
            flags.retain(|flag| !(flag.starts_with(key) && is_native(flag)));
            continue;
        }
        let place = flags.iter().position(|flag| flag.starts_with("-m")).unwrap_or(0);
        flags.retain(|flag| !flag.starts_with(key));
        let tuned = flags.iter().any(|flag| flag.starts_with("-mtune="));
        let meaning = expand(&last)?;
        let meaning = meaning.into_iter().filter(|word| !(tuned && word.starts_with("-mtune=")));
        flags.splice(place..place, meaning);
    }
    Ok(flags)
}

/// The processor features, by the kernel's names, that code built with these options may use.
///
/// Only explicit options (`-mavx2`) and the levels `x86-64-v2` to `v4` are understood: a resolved
/// `native` lists every feature, a bare `-march=znver3` lists none.
pub fn required_features(flags: &[String]) -> Vec<String> {
    const V2: &str = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3";
    const V3: &str = "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave";
    const V4: &str = "avx512f avx512bw avx512cd avx512dq avx512vl";
    // Explicit options hold wherever `-march` stands; of several `-march` the last one holds.
    let cpu = flags.iter().rev().find_map(|flag| flag.strip_prefix("-march="));
    let levels: &[&str] = match cpu {
        Some("x86-64-v2") => &[V2],
        Some("x86-64-v3") => &[V2, V3],
        Some("x86-64-v4") => &[V2, V3, V4],
        _ => &[],
    };
    let mut features: BTreeSet<&str> = levels.iter().flat_map(|level| level.split(' ')).collect();
    for flag in flags {
        if let Some(name) = flag.strip_prefix("-mno-") {
            kernel_name(name).map(|name| features.remove(name));
        } else if let Some(name) = flag.strip_prefix("-m") {
            features.extend(kernel_name(name));
        }
    }
    features.into_iter().map(str::to_owned).collect()
}

/// Which of these features this processor lacks.
pub fn missing_on_this_cpu(required: &[String], cpu: &Cpu) -> Vec<String> {
    required.iter().filter(|name| !cpu.features.contains(*name)).cloned().collect()
}

/// The kernel's name (`arch/x86/include/asm/cpufeatures.h`) for what a compiler option enables;
/// `None` for what is no feature, does nothing harmful where it is missing (`shstk`, `cldemote`),
/// or is for the system's own use.
fn kernel_name(option: &str) -> Option<&str> {
    Some(match option {
        "sse3" => "pni",
        "sse4.1" => "sse4_1",
        "sse4.2" => "sse4_2",
        "abm" | "lzcnt" => "abm",
        "bmi" => "bmi1",
        "sahf" => "lahf_lm",
        "pclmul" => "pclmulqdq",
        "sha" => "sha_ni",
        "rdrnd" => "rdrand",
        "avxvnni" => "avx_vnni",
        "avx512vbmi2" => "avx512_vbmi2",
        "avx512vnni" => "avx512_vnni",
        "avx512bitalg" => "avx512_bitalg",
        "avx512vpopcntdq" => "avx512_vpopcntdq",
        "avx512bf16" => "avx512_bf16",
        "avx512fp16" => "avx512_fp16",
        "avx512vp2intersect" => "avx512_vp2intersect",
        "amx-tile" => "amx_tile",
        "amx-int8" => "amx_int8",
        "amx-bf16" => "amx_bf16",
        "mmx" | "sse" | "sse2" | "ssse3" | "sse4a" | "avx" | "avx2" | "fma" | "fma4" | "xop"
        | "tbm" | "lwp" | "f16c" | "bmi2" | "popcnt" | "aes" | "adx" | "movbe" | "cx16"
        | "xsave" | "xsavec" | "xsaveopt" | "rtm" | "hle" | "gfni" | "vaes" | "vpclmulqdq"
        | "avx512f" | "avx512bw" | "avx512cd" | "avx512dq" | "avx512vl" | "avx512ifma"
        | "avx512vbmi" | "avx512er" | "avx512pf" | "rdseed" | "fsgsbase" | "movdiri"
        | "movdir64b" | "clflushopt" | "clwb" | "rdpid" => option,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn gcc_line() {
        let output = "Using built-in specs.\nCOLLECT_GCC=gcc\nCOLLECT_GCC_OPTIONS='-E' '-v'\n \
            /usr/lib/gcc/x86_64-linux-gnu/12/cc1 -E -quiet -v -imultiarch x86_64-linux-gnu - \
            -march=rocketlake -mmmx -mno-sse4a -msse4.2 --param l1-cache-size=48 --param \
            l1-cache-line-size=64 -mtune=rocketlake -fasynchronous-unwind-tables -dumpbase -\n";
        let expected = "-march=rocketlake -mmmx -mno-sse4a -msse4.2 --param=l1-cache-size=48 \
                        --param=l1-cache-line-size=64 -mtune=rocketlake";
        assert_eq!(parse_gcc(output).unwrap(), words(expected));
        assert_eq!(parse_gcc("gcc: error: no input files\n"), None);
        let arm = " /usr/libexec/cc1 -E -quiet - -mcpu=neoverse-n1 -mlittle-endian -mabi=lp64\n";
        assert_eq!(parse_gcc(arm).unwrap(), ["-mcpu=neoverse-n1"]);
    }

    #[test]
    fn clang_line() {
        let output = "Debian clang version 14.0.6\n \"/usr/lib/llvm-14/bin/clang\" \"-cc1\" \
            \"-triple\" \"x86_64-pc-linux-gnu\" \"-target-cpu\" \"rocketlake\" \"-target-feature\" \
            \"-tbm\" \"-target-feature\" \"+64bit\" \"-target-feature\" \"+avx2\" \"-o\" \"x\"\n";
        let found = parse_clang(output).unwrap();
        assert_eq!((found.cpu.as_str(), &found.tune), ("rocketlake", &None));
        assert_eq!(clang_flags("x86_64", &found), ["-march=rocketlake", "-mavx2", "-mno-tbm"]);
        let tuned = output.replace("\"-o\" \"x\"", "\"-tune-cpu\" \"znver3\"");
        assert_eq!(parse_clang(&tuned).unwrap().tune.as_deref(), Some("znver3"));
        let arm = ClangCpu {
            cpu: "neoverse-n1".into(),
            tune: None,
            features: words("+crc -sve +neon +v8.2a"),
        };
        assert_eq!(clang_flags("aarch64", &arm), ["-mcpu=neoverse-n1+crc+nosve+simd"]);
        assert_eq!(parse_clang("clang: error: no input files"), None);
    }

    #[test]
    fn replacing_keeps_the_drivers_order() {
        let expand = |word: &str| -> Result<Vec<String>, String> {
            match word {
                "-march=native" => Ok(words("-march=znver3 -mavx2 -mtune=znver3")),
                "-mtune=native" => Ok(words("-mtune=znver3")),
                other => Err(format!("`{other}` refused")),
            }
        };
        let cases = [
            ("-O2 -march=native -g", "-O2 -march=znver3 -mavx2 -mtune=znver3 -g"),
            ("-mno-avx2 -march=native", "-march=znver3 -mavx2 -mtune=znver3 -mno-avx2"),
            ("-march=native -march=x86-64", "-march=x86-64"),
            ("-march=x86-64 -march=native", "-march=znver3 -mavx2 -mtune=znver3"),
            ("-march=native -mtune=generic", "-march=znver3 -mavx2 -mtune=generic"),
            ("-O2 -mtune=native", "-O2 -mtune=znver3"),
            ("-march=native -mtune=native", "-mtune=znver3 -march=znver3 -mavx2"),
            ("-O2", "-O2"),
        ];
        for (given, expected) in cases {
            assert_eq!(replace(&words(given), expand).unwrap(), words(expected), "{given}");
        }
        let refused = replace(&words("-mcpu=native"), expand);
        assert_eq!(refused.unwrap_err(), "`-mcpu=native` refused");
    }

    #[test]
    fn features_that_a_build_demands() {
        let flags = words("-O2 -march=znver3 -mavx2 -msse4.2 -mbmi -mtune=znver3 -mno-bmi -mshstk");
        assert_eq!(required_features(&flags), ["avx2", "sse4_2"]);
        assert_eq!(required_features(&words("-march=x86-64-v3 -mno-fma")).len(), 15);
        assert_eq!(required_features(&words("-O2 -mavx -march=x86-64")), ["avx"]);
        assert!(required_features(&words("-march=x86-64-v2 -O2 -march=x86-64")).is_empty());
        let cpu = Cpu { features: ["avx2".to_owned()].into(), ..Cpu::default() };
        assert_eq!(missing_on_this_cpu(&words("avx2 sse4_2"), &cpu), ["sse4_2"]);
    }
}
