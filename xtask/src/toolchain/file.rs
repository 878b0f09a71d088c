//! `toolchains/<name>.toml`: how a compiler and its matching tools are called, which versions are
//! wanted, and which packages bring them.

use std::collections::BTreeMap;
use std::path::Path;

use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::host::os;
use crate::matrix::model::Family;
use crate::toolchain::seal::lock::{self, Lock};

/// The file as written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Wire {
    family: Family,
    version: Option<String>,
    min_version: Option<String>,
    max_version: Option<String>,
    cc: Vec<String>,
    #[serde(default)]
    cxx: Vec<String>,
    #[serde(default)]
    ar: Vec<String>,
    #[serde(default)]
    ranlib: Vec<String>,
    #[serde(default)]
    nm: Vec<String>,
    #[serde(default)]
    lto_linker: Vec<String>,
    #[serde(default)]
    packages: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    lto_packages: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    seal_packages: BTreeMap<String, Vec<String>>,
}

/// What is wanted of a toolchain: the file, applied to the name of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// The setting: `gcc`, `clang-14`.
    pub name: String,
    /// The file that says so, for messages: `toolchains/gcc.toml`.
    pub file: String,
    /// The family that the compiler must belong to.
    pub family: Family,
    /// The version must be this one, as far as it is written: `12` or `12.2`.
    pub version: Option<String>,
    /// At least this version.
    pub min_version: Option<String>,
    /// At most this version, as far as it is written: `13` admits 13.2.
    pub max_version: Option<String>,
    /// Names of the C compiler, the first found wins.
    pub cc: Vec<String>,
    /// Names of the C++ compiler; it may be missing.
    pub cxx: Vec<String>,
    /// Names of the matching archiver.
    pub ar: Vec<String>,
    /// Names of the matching indexer of archives.
    pub ranlib: Vec<String>,
    /// Names of the matching lister of symbols.
    pub nm: Vec<String>,
    /// Names of the linker for link-time optimisation, if not the usual one.
    pub lto_linker: Vec<String>,
    /// `-14` for `clang-14`, else nothing.
    pub suffix: String,
    packages: BTreeMap<String, Vec<String>>,
    lto_packages: BTreeMap<String, Vec<String>>,
    seal_packages: BTreeMap<String, Vec<String>>,
}

impl Wanted {
    /// What a lock promises: the very compiler that was sealed.
    pub fn of_lock(lock: &Lock) -> Self {
        let programs = lock.programs.clone();
        Self {
            name: lock.name.clone(),
            file: "its lock".to_owned(),
            family: lock.family,
            version: Some(lock.version.clone()).filter(|version| !version.is_empty()),
            min_version: None,
            max_version: None,
            cc: programs.cc,
            cxx: programs.cxx,
            ar: programs.ar,
            ranlib: programs.ranlib,
            nm: programs.nm,
            lto_linker: programs.lto_linker,
            suffix: String::new(),
            packages: BTreeMap::new(),
            lto_packages: BTreeMap::new(),
            seal_packages: BTreeMap::new(),
        }
    }

    /// All packages that a sealed toolchain is resolved from: the compiler's, those for link-time
    /// optimisation, and what builds need besides.
    ///
    /// # Errors
    /// When the file does not say which these are on this distribution.
    pub fn sealed_packages(&self) -> Result<Vec<String>, String> {
        self.sealed_packages_on(&os::release())
    }

    fn sealed_packages_on(&self, os_release: &str) -> Result<Vec<String>, String> {
        let of = |table| packages(table, &self.suffix, os_release);
        let more = named(&self.seal_packages, os_release);
        let (Some((_, mut all)), Some((id, more))) = (of(&self.packages), more) else {
            let known: Vec<&str> = self.seal_packages.keys().map(String::as_str).collect();
            return Err(format!(
                "{} does not say which packages make `{}` on this distribution; `packages` and \
                 `seal-packages` are needed (there are some for: {})",
                self.file,
                self.name,
                known.join(", ")
            ));
        };
        if !["debian", "ubuntu"].contains(&id.as_str()) {
            return Err(format!("sealing knows how to ask apt, which `{id}` does not have"));
        }
        all.extend(of(&self.lto_packages).map_or_else(Vec::new, |(_, names)| names));
        all.extend(more.iter().map(|name| fill(name, &self.suffix)));
        all.sort();
        all.dedup();
        Ok(all)
    }

    /// The packages that bring the compiler on this distribution; none where that is not known.
    pub fn packages(&self) -> Vec<String> {
        let found = packages(&self.packages, &self.suffix, &os::release());
        found.map_or_else(Vec::new, |(_, names)| names)
    }

    /// The packages that bring what link-time optimisation needs besides.
    pub fn lto_packages(&self) -> Vec<String> {
        let found = packages(&self.lto_packages, &self.suffix, &os::release());
        found.map_or_else(Vec::new, |(_, names)| names)
    }

    /// The command that installs the compiler on this distribution, if known.
    pub fn hint(&self) -> Option<String> {
        install(&self.packages, &self.suffix, &os::release())
    }

    /// The command that installs what link-time optimisation needs besides, if known.
    pub fn lto_hint(&self) -> Option<String> {
        install(&self.lto_packages, &self.suffix, &os::release())
    }

    /// What the file demands, if `version` does not have it: `13`, `14 or later`.
    pub fn objection(&self, version: &str) -> Option<String> {
        let have = numbers(version);
        let compare = |bound: &str| {
            let bound = numbers(bound);
            have[..have.len().min(bound.len())].cmp(&bound)
        };
        if let Some(exact) = &self.version
            && compare(exact).is_ne()
        {
            return Some(exact.clone());
        }
        if let Some(min) = &self.min_version
            && compare(min).is_lt()
        {
            return Some(format!("{min} or later"));
        }
        let max = self.max_version.as_ref().filter(|max| compare(max).is_gt())?;
        Some(format!("{max} or earlier"))
    }
}

/// Reads the description of the setting `name`: its own file, or for `gcc-12` the file `gcc.toml`.
///
/// # Errors
/// When there is no such file or it is wrong: file, line, column, the line, and the nearest name.
pub fn load(folder: &Path, name: &str) -> Result<Wanted, String> {
    let own = folder.join(format!("{name}.toml"));
    if own.is_file() {
        return read(&own, name, "");
    }
    if let Some((family, major)) = name.rsplit_once('-')
        && !major.is_empty()
        && major.bytes().all(|byte| byte.is_ascii_digit())
    {
        let file = folder.join(format!("{family}.toml"));
        if file.is_file() {
            return read(&file, name, major);
        }
    }
    let known = names(folder);
    Err(format!(
        "toolchain `{name}` is not described: no `toolchains/{name}.toml`; known: {}, each also \
         with a major version behind it, as in `gcc-12`",
        known.join(", ")
    ))
}

/// The names of all descriptions in the folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let name = name.to_str().filter(|name| !name.ends_with(lock::SUFFIX))?;
            name.strip_suffix(".toml").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

fn read(path: &Path, name: &str, major: &str) -> Result<Wanted, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let file_name = path.file_name().unwrap_or_default().to_string_lossy();
    parse(&text, &format!("toolchains/{file_name}"), name, major)
}

/// Parses a description; `major` is what the setting's name demands, or empty.
///
/// # Errors
/// As [`load`].
pub fn parse(text: &str, file: &str, name: &str, major: &str) -> Result<Wanted, String> {
    let wire: Wire = toml::from_str(text).map_err(|error| explain(text, file, &error))?;
    let bounds = [
        ("version", &wire.version),
        ("min-version", &wire.min_version),
        ("max-version", &wire.max_version),
    ];
    for (key, bound) in bounds {
        if let Some(bound) = bound
            && !bound.split('.').all(|part| part.parse::<u32>().is_ok())
        {
            return Err(format!(
                "{file}: `{key}` is `{bound}`; write numbers as in \"12\" or \"12.2\""
            ));
        }
    }
    if wire.cc.is_empty() {
        return Err(format!("{file}: `cc` is empty; name the C compiler"));
    }
    let suffix = if major.is_empty() { String::new() } else { format!("-{major}") };
    let with = |names: Vec<String>| names.iter().map(|name| format!("{name}{suffix}")).collect();
    Ok(Wanted {
        name: name.to_owned(),
        file: file.to_owned(),
        family: wire.family,
        version: if major.is_empty() { wire.version } else { Some(major.to_owned()) },
        min_version: wire.min_version,
        max_version: wire.max_version,
        cc: with(wire.cc),
        cxx: with(wire.cxx),
        // The tools are looked up with the compiler's own major version first, see `probe`.
        ar: wire.ar,
        ranlib: wire.ranlib,
        nm: wire.nm,
        lto_linker: wire.lto_linker,
        suffix,
        packages: wire.packages,
        lto_packages: wire.lto_packages,
        seal_packages: wire.seal_packages,
    })
}

/// An error with its place, its line and, for an unknown key, the nearest known one.
fn explain(text: &str, file: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count();
    let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
    let shown = text.lines().nth(line).unwrap_or_default();
    let message = error.message();
    let mut report = format!("{file}:{}:{column}: {message}\n  | {shown}", line + 1);
    let mut names = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown ")
        && let Some(wrong) = names.next()
        && let Some(near) = names.max_by(|a, b| {
            strsim::jaro_winkler(wrong, a).total_cmp(&strsim::jaro_winkler(wrong, b))
        })
    {
        report.push_str(&format!("\n  did you mean `{near}`?"));
    }
    report
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

/// The distribution's name in the table, and its packages for this version of the compiler.
fn packages(
    table: &BTreeMap<String, Vec<String>>,
    suffix: &str,
    os_release: &str,
) -> Option<(String, Vec<String>)> {
    let (id, names) = named(table, os_release)?;
    let is_versioned = |name: &String| name.contains("{suffix}") || name.contains("{major}");
    if !suffix.is_empty() && !names.iter().any(is_versioned) {
        return None;
    }
    Some((id, names.iter().map(|name| fill(name, suffix)).collect()))
}

/// The entry of the distribution, or of the one that it is made from.
fn named<'a>(
    table: &'a BTreeMap<String, Vec<String>>,
    os_release: &str,
) -> Option<(String, &'a [String])> {
    let value = |key: &str| os::field(os_release, key).unwrap_or_default();
    let ids = format!("{} {}", value("ID"), value("ID_LIKE"));
    ids.split_whitespace().find_map(|id| {
        // openSUSE names itself `opensuse-leap` and the like.
        let id = if id.starts_with("opensuse") { "opensuse" } else { id };
        table.get_key_value(id).map(|(id, names)| (id.clone(), names.as_slice()))
    })
}

fn fill(name: &str, suffix: &str) -> String {
    let major = suffix.trim_start_matches('-');
    name.replace("{suffix}", suffix).replace("{major}", major)
}

fn install(
    table: &BTreeMap<String, Vec<String>>,
    suffix: &str,
    os_release: &str,
) -> Option<String> {
    let (id, names) = packages(table, suffix, os_release)?;
    let command = match id.as_str() {
        "debian" | "ubuntu" => "apt-get install",
        "fedora" | "rhel" | "centos" => "dnf install",
        "arch" => "pacman -S",
        "alpine" => "apk add",
        "opensuse" | "suse" => "zypper install",
        _ => return None,
    };
    Some(format!("{command} {}", names.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GCC: &str = include_str!("../../../toolchains/gcc.toml");
    const CLANG: &str = include_str!("../../../toolchains/clang.toml");

    #[test]
    fn shipped_files_with_and_without_a_major_version() {
        let gcc = parse(GCC, "toolchains/gcc.toml", "gcc", "").unwrap();
        assert_eq!((gcc.cc, gcc.cxx, gcc.version), (vec!["gcc".into()], vec!["g++".into()], None));
        let clang = parse(CLANG, "toolchains/clang.toml", "clang-14", "14").unwrap();
        assert_eq!((clang.cc[0].as_str(), clang.cxx[0].as_str()), ("clang-14", "clang++-14"));
        assert_eq!(clang.objection("14.0.6"), None);
        assert_eq!(clang.objection("15.0.1"), Some("14".into()));
        let debian = install(&clang.packages, &clang.suffix, "NAME=x\nID=debian\n");
        assert_eq!(debian.unwrap(), "apt-get install clang-14 libc6-dev");
        let mint = install(&clang.packages, "", "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n");
        assert_eq!(mint.unwrap(), "apt-get install clang libc6-dev");
        assert_eq!(install(&clang.packages, "-14", "ID=arch\n"), None, "no package per version");
        assert_eq!(install(&clang.packages, "", "ID=plan9\n"), None);
        let suse = install(&clang.lto_packages, "-17", "ID=\"opensuse-leap\"\n");
        assert_eq!(suse.unwrap(), "zypper install lld17 llvm17");
        let alpine = install(&clang.packages, "-17", "ID=alpine\n");
        assert_eq!(alpine.unwrap(), "apk add clang17 musl-dev");
        let gcc = parse(GCC, "toolchains/gcc.toml", "gcc-13", "13").unwrap();
        let suse = install(&gcc.packages, &gcc.suffix, "ID=opensuse-tumbleweed\n");
        assert_eq!(suse.unwrap(), "zypper install gcc13 glibc-devel");
        assert_eq!(install(&gcc.packages, "-13", "ID=fedora\n"), None);
        let fedora = install(&gcc.packages, "", "ID=rocky\nID_LIKE=\"rhel centos fedora\"\n");
        assert_eq!(fedora.unwrap(), "dnf install gcc glibc-devel");
    }

    #[test]
    fn what_a_sealed_toolchain_is_resolved_from() {
        let debian = "ID=debian\n";
        let gcc = parse(GCC, "toolchains/gcc.toml", "gcc-12", "12").unwrap();
        let all = gcc.sealed_packages_on(debian).unwrap();
        for name in ["gcc-12", "g++-12", "libc6-dev", "make", "perl", "bison", "cmake"] {
            assert!(all.iter().any(|known| known == name), "{name}: {all:?}");
        }
        let clang = parse(CLANG, "toolchains/clang.toml", "clang-14", "14").unwrap();
        let ubuntu = clang.sealed_packages_on("ID=pop\nID_LIKE=\"ubuntu debian\"\n").unwrap();
        assert_eq!(ubuntu, clang.sealed_packages_on(debian).unwrap());
        for name in ["clang-14", "lld-14", "llvm-14"] {
            assert!(ubuntu.iter().any(|known| known == name), "{name}: {ubuntu:?}");
        }
        assert!(!all.iter().chain(&ubuntu).any(|name| name.contains('{')));
        let error = gcc.sealed_packages_on("ID=fedora\n").unwrap_err();
        assert!(error.contains("`gcc-12`") && error.contains("for: debian)"), "{error}");
        let lock = Lock { version: "12.2.0".into(), ..lock::tests::lock("gcc") };
        let wanted = Wanted::of_lock(&lock);
        assert_eq!(wanted.objection("12.2.0"), None);
        assert_eq!(wanted.objection("12.2.1").as_deref(), Some("12.2.0"));
    }

    #[test]
    fn version_bounds_compare_as_far_as_they_are_written() {
        let text = |bounds: &str| format!("family = \"gcc\"\ncc = [\"gcc\"]\n{bounds}\n");
        let parse = |bounds| parse(&text(bounds), "f", "gcc", "");
        let bounded = parse("min-version = \"12.2\"\nmax-version = \"13\"").unwrap();
        for good in ["12.2.0", "12.10", "13.9.1"] {
            assert_eq!(bounded.objection(good), None, "{good}");
        }
        assert_eq!(bounded.objection("12.1.9").unwrap(), "12.2 or later");
        assert_eq!(bounded.objection("14.1.0").unwrap(), "13 or earlier");
        assert_eq!(parse("version = \"13\"").unwrap().objection("12.2.0").unwrap(), "13");
        assert!(parse("version = \"twelve\"").unwrap_err().contains("twelve"));
    }

    #[test]
    fn mistakes_are_shown_with_place_and_nearest_name() {
        let error = parse("family = \"gcc\"\ncc = [\"gcc\"]\nrandlib = []\n", "t/g.toml", "g", "");
        let error = error.unwrap_err();
        assert!(error.starts_with("t/g.toml:3:1: unknown field `randlib`"), "{error}");
        assert!(error.ends_with("| randlib = []\n  did you mean `ranlib`?"), "{error}");
        let error = parse("family = \"icc\"\ncc = [\"icc\"]\n", "f", "g", "").unwrap_err();
        assert!(error.starts_with("f:1:10: unknown variant `icc`"), "{error}");
        assert!(parse("family = \"gcc\"\n", "f", "g", "").unwrap_err().contains("`cc`"));
        assert!(parse("family = \"gcc\"\ncc = []\n", "f", "g", "").unwrap_err().contains("empty"));
    }

    #[test]
    fn unknown_settings_name_the_known_ones() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("gcc.toml"), GCC).unwrap();
        fs::write(folder.path().join("gcc.lock.toml"), "").unwrap();
        assert_eq!(names(folder.path()), ["gcc"], "a lock is no description");
        assert_eq!(load(folder.path(), "gcc-11").unwrap().cc, ["gcc-11"]);
        for wrong in ["icc", "gcc-x", "gcc-", "clang-14"] {
            let error = load(folder.path(), wrong).unwrap_err();
            assert!(
                error.contains(&format!("`{wrong}`")) && error.contains("known: gcc"),
                "{error}"
            );
        }
    }
}
