//! Which packages a toolchain needs: asked of the system's own apt, as on a machine without any, so
//! that the answer depends on the distribution's lists alone.

use anyhow::{Context as _, bail, ensure};

use crate::env::Env;
use crate::exit::{Code, coded};
use crate::progress::Task;
use crate::source::apt::{Apt, Kind};
use crate::source::{lock, staging};
use crate::toolchain::seal::lock::Package;

/// Opens the private apt for packages; lists are brought up to date.
pub(super) fn apt(env: &Env, task: &Task) -> anyhow::Result<(Apt, std::fs::File)> {
    task.state("bringing the lists of packages up to date");
    let apt = Apt::new(&env.work.join("apt-binary"), "/etc".as_ref(), Kind::Binary)?;
    let held = lock(env, &apt.dir.join("lock"))?;
    apt.write_config()?;
    let logs = staging(env)?;
    apt.update(task, &logs.path().join("update.log"))?;
    Ok((apt, held))
}

/// The packages with all that they depend on.
///
/// # Errors
/// When there is no apt, or it does not know one of the packages: its own words.
pub(super) fn resolve(env: &Env, task: &Task, wanted: &[String]) -> anyhow::Result<Vec<Package>> {
    let (apt, _held) = apt(env, task)?;
    task.state(format!("resolving {} packages", wanted.len()));
    let answer = apt.proc("apt-get", &["-qq", "--simulate", "install"]).args(wanted).run_any()?;
    if !answer.status.success() {
        let text = String::from_utf8_lossy(&answer.stderr).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("E: ")).collect();
        let said = if lines.is_empty() { text.trim().to_owned() } else { lines.join("; ") };
        return Err(coded(Code::Environment, format!("apt-get cannot resolve them: {said}")));
    }
    let chosen = simulated(&answer.text())?;
    let known = records(&apt, &chosen)?;
    let mut packages = Vec::new();
    for (name, version, architecture) in chosen {
        let found = known.iter().find(|package| {
            (&package.name, &package.version, &package.architecture)
                == (&name, &version, &architecture)
        });
        packages.push(found.with_context(|| format!("no record of {name} {version}"))?.clone());
    }
    packages.sort();
    packages.dedup();
    Ok(packages)
}

/// All versions that the lists have of some packages.
pub(super) fn records(
    apt: &Apt,
    packages: &[(String, String, String)],
) -> anyhow::Result<Vec<Package>> {
    let names = packages.iter().map(|(name, _, architecture)| match architecture.as_str() {
        "all" => name.clone(),
        other => format!("{name}:{other}"),
    });
    // Fails although it answers for the others when it does not know one.
    let output = apt.proc("apt-cache", &["show"]).args(names).run_any()?;
    parse_records(&output.text())
}

/// What `apt-get --simulate install` would install: name, version, architecture of each, from lines
/// `Inst NAME[:ARCH] (VERSION ORIGIN… [ARCH]) …`.
fn simulated(text: &str) -> anyhow::Result<Vec<(String, String, String)>> {
    let mut found = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("Inst ") else { continue };
        let parts = || {
            let name = rest.split_whitespace().next()?;
            let inner = rest.split_once('(')?.1.split_once(')')?.0;
            let version = inner.split_whitespace().next()?;
            let architecture = inner.rsplit_once('[')?.1.strip_suffix(']')?;
            let name = name.split_once(':').map_or(name, |(name, _)| name);
            Some((name.to_owned(), version.to_owned(), architecture.to_owned()))
        };
        found.push(parts().with_context(|| format!("apt-get says `{line}`: not understood"))?);
    }
    ensure!(!found.is_empty(), "apt-get would install nothing");
    Ok(found)
}

/// The stanzas of `apt-cache show`, `Name: value` each, with an empty line between two.
fn parse_records(text: &str) -> anyhow::Result<Vec<Package>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut packages = Vec::new();
    for stanza in lines.split(|line| line.trim().is_empty()) {
        let field = |name: &str| {
            let mut lines = stanza.iter();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(str::trim)
        };
        let Some(name) = field("Package") else { continue };
        // An installed package that no list has any more has no file.
        let (Some(file), Some(sha256)) = (field("Filename"), field("SHA256")) else { continue };
        let (Some(version), Some(architecture), Some(size)) =
            (field("Version"), field("Architecture"), field("Size"))
        else {
            bail!("the record of `{name}` lacks version, architecture or size");
        };
        packages.push(Package {
            name: name.to_owned(),
            version: version.to_owned(),
            architecture: architecture.to_owned(),
            size: size.parse().with_context(|| format!("the size of `{name}`"))?,
            sha256: sha256.parse().with_context(|| format!("the hash of `{name}`"))?,
            file: file.trim_start_matches("./").to_owned(),
        });
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Digest;

    #[test]
    fn simulated_installs() {
        let text = "\
NOTE: This is only a simulation!
Inst gcc-12-base (12.2.0-14+deb12u1 Debian:12.11/stable [amd64])
Inst libc6:amd64 (2.36-9 Debian:12.11/stable, Debian-Security:12/stable-security [amd64]) []
Inst tzdata (2025b-0 Debian:12.11/stable [all]) [libc6:amd64 ]
Conf gcc-12-base (12.2.0-14+deb12u1 Debian:12.11/stable [amd64])
";
        let all = simulated(text).unwrap();
        let names: Vec<_> = all.iter().map(|(n, v, a)| format!("{n} {v} {a}")).collect();
        let wanted =
            ["gcc-12-base 12.2.0-14+deb12u1 amd64", "libc6 2.36-9 amd64", "tzdata 2025b-0 all"];
        assert_eq!(names, wanted);
        assert!(simulated("Conf x (1 y [amd64])\n").unwrap_err().to_string().contains("nothing"));
        for odd in ["Inst gcc", "Inst gcc (1.0 Debian", "Inst gcc (1.0 Debian)", "Inst gcc ()"] {
            let error = simulated(odd).unwrap_err().to_string();
            assert!(error.contains("not understood") && error.contains(odd), "{error}");
        }
    }

    #[test]
    fn records_of_several_versions() {
        let stanza = |version: &str| {
            format!(
                "Package: make\nVersion: {version}\nArchitecture: amd64\nDepends: libc6 (>= 2.34)\n\
                 Description: makes\n Filename: not this one\n\
                 Filename: pool/main/m/make_{version}.deb\nSize: 396\nSHA256: {}\n",
                Digest::of(version.as_bytes())
            )
        };
        let installed = "Package: make\nStatus: install ok installed\nVersion: 0\n";
        let text = format!("{}\n{}\n\n{installed}", stanza("4.3-4"), stanza("4.4-1"));
        let found = parse_records(&text).unwrap();
        assert_eq!(found.len(), 2);
        let wanted = Package {
            name: "make".into(),
            version: "4.4-1".into(),
            architecture: "amd64".into(),
            size: 396,
            sha256: Digest::of(b"4.4-1"),
            file: "pool/main/m/make_4.4-1.deb".into(),
        };
        assert_eq!(found[1], wanted);
        let broken = stanza("1").replace("Size: 396", "Size: many");
        assert!(parse_records(&broken).unwrap_err().to_string().contains("the size of `make`"));
        let broken = stanza("1").replace("Size: 396\n", "");
        assert!(parse_records(&broken).unwrap_err().to_string().contains("lacks"));
    }
}
