//! `toolchains/<name>.lock.toml`: the packages that make a toolchain, each by its content. Pure.
//!
//! No address stands in a lock unless its owner puts one there: a file is named by its path below
//! any mirror of the distribution, and known by its hash wherever it comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::hash::Digest;
use crate::matrix::model::Family;

/// The version of the form; readers refuse a newer one.
pub const SCHEMA: u32 = 1;
/// How the file of the setting `gcc` ends: `gcc.lock.toml`.
pub const SUFFIX: &str = ".lock.toml";

/// A sealed toolchain: everything that is needed to make it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lock {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The setting of the axis `toolchain`.
    pub name: String,
    /// The family of the compiler.
    pub family: Family,
    /// The version of the compiler, as it told when it was sealed.
    pub version: String,
    /// The day of sealing, UTC: `2026-12-01`.
    pub sealed: String,
    /// The distribution's `ID` by os-release(5): `debian`.
    pub distribution: String,
    /// Its release: `bookworm`.
    pub codename: String,
    /// Its name for the processor's architecture: `amd64`.
    pub architecture: String,
    /// Addresses that are asked when the system's own lists do not have a package (any more): what
    /// stands before `pool/…`. `https://`, `http://` or `file:`.
    #[serde(default)]
    pub archives: Vec<String>,
    /// How the compiler and its tools are called.
    pub programs: Programs,
    /// All packages, by name.
    pub packages: Vec<Package>,
}

/// The names of the programs of a toolchain, the first that is there wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Programs {
    /// The C compiler.
    pub cc: Vec<String>,
    /// The C++ compiler.
    pub cxx: Vec<String>,
    /// The archiver.
    pub ar: Vec<String>,
    /// The indexer of archives.
    pub ranlib: Vec<String>,
    /// The lister of symbols.
    pub nm: Vec<String>,
    /// The linker for link-time optimisation, if not the usual one.
    pub lto_linker: Vec<String>,
}

impl Programs {
    fn all(&self) -> [(&'static str, &[String]); 6] {
        [
            ("cc", &self.cc),
            ("cxx", &self.cxx),
            ("ar", &self.ar),
            ("ranlib", &self.ranlib),
            ("nm", &self.nm),
            ("lto-linker", &self.lto_linker),
        ]
    }
}

/// One package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Package {
    /// `gcc-12`.
    pub name: String,
    /// `12.2.0-14+deb12u1`.
    pub version: String,
    /// `amd64`, or `all`.
    pub architecture: String,
    /// Length of the file in bytes.
    pub size: u64,
    /// Hash of the file.
    pub sha256: Digest,
    /// The file, below a mirror of the distribution: `pool/main/g/gcc-12/….deb`.
    pub file: String,
}

impl Package {
    /// The package for people: `gcc-12 12.2.0-14 amd64`.
    pub fn label(&self) -> String {
        format!("{} {} {}", self.name, self.version, self.architecture)
    }

    /// The last part of the file's path.
    pub fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }

    fn objection(&self) -> Option<String> {
        let plain = |text: &str, more: &str| {
            text.starts_with(|first: char| first.is_ascii_alphanumeric())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        let inside = Path::new(&self.file).components().all(|c| matches!(c, Component::Normal(_)));
        let bad = if !plain(&self.name, "+-.") {
            "name"
        } else if !plain(&self.version, "+-.~:") {
            "version"
        } else if !plain(&self.architecture, "-") {
            "architecture"
        } else if !inside || !plain(&self.file, "+-.~:%_/") {
            "file"
        } else if self.size == 0 {
            "size"
        } else {
            return None;
        };
        Some(format!("the `{bad}` of package `{}` is not one", self.name))
    }
}

impl Lock {
    /// Reads a lock; `shown` is its file for messages and `name` the setting that it stands for.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str, shown: &str, name: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let place = |error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            format!("{shown}:{}: {}", before.matches('\n').count() + 1, error.message())
        };
        let head: Head = toml::from_str(text).map_err(place)?;
        if head.schema != SCHEMA {
            return Err(format!(
                "{shown} has schema {}, this tool knows {SCHEMA}: use the tool that wrote it",
                head.schema
            ));
        }
        let lock: Self = toml::from_str(text).map_err(place)?;
        if lock.name != name {
            return Err(format!(
                "{shown} is the lock of `{}`: seal `{name}` instead of copying it",
                lock.name
            ));
        }
        lock.check().map_err(|reason| format!("{shown}: {reason}"))?;
        Ok(lock)
    }

    /// Whether it can be what it says; also for one that came inside of a manifest.
    ///
    /// # Errors
    /// The first thing that cannot be.
    pub fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("schema {}, this tool knows {SCHEMA}", self.schema));
        }
        if self.packages.is_empty() || self.programs.cc.is_empty() {
            return Err("no packages or no C compiler in it".to_owned());
        }
        let mut seen = BTreeSet::new();
        for package in &self.packages {
            if let Some(objection) = package.objection() {
                return Err(objection);
            }
            if !seen.insert((&package.name, &package.architecture)) {
                return Err(format!("package `{}` stands in it twice", package.name));
            }
        }
        for archive in &self.archives {
            check_archive(archive)?;
        }
        Ok(())
    }

    /// The file's text: sorted, one line per package.
    pub fn text(&self) -> String {
        let mut text = format!(
            "# Made by `cargo xtask toolchain seal {0}`: with this file, the setting `{0}` is this \
             very compiler\n# on every machine. docs/toolchains.md tells more; not to be edited.\n\
             schema = {1}\n",
            self.name, self.schema
        );
        let fields = [
            ("name", self.name.as_str()),
            ("family", self.family.name()),
            ("version", &self.version),
            ("sealed", &self.sealed),
            ("distribution", &self.distribution),
            ("codename", &self.codename),
            ("architecture", &self.architecture),
        ];
        for (key, value) in fields {
            text.push_str(&format!("{key} = {}\n", quoted(value)));
        }
        text.push_str(&format!("archives = {}\n", list(&self.archives)));
        let programs = self.programs.all().map(|(key, names)| format!("{key} = {}", list(names)));
        text.push_str(&format!("programs = {{ {} }}\n", programs.join(", ")));
        text.push_str("packages = [\n");
        let sorted: BTreeSet<&Package> = self.packages.iter().collect();
        for package in sorted {
            text.push_str(&format!(
                "  {{ name = {}, version = {}, architecture = {}, size = {}, sha256 = {}, file = {} }},\n",
                quoted(&package.name),
                quoted(&package.version),
                quoted(&package.architecture),
                package.size,
                quoted(&package.sha256.to_string()),
                quoted(&package.file),
            ));
        }
        text.push_str("]\n");
        text
    }

    /// The hash over what is in it: the packages, by name, version, architecture and content. Where
    /// they come from, when it was sealed and how it is called make no other compiler.
    pub fn digest(&self) -> Digest {
        let mut lines: Vec<String> = (self.packages.iter())
            .map(|package| format!("{} {}\n", package.label(), package.sha256))
            .collect();
        lines.sort();
        Digest::of(lines.concat().as_bytes())
    }

    /// Bytes to download in all.
    pub fn bytes(&self) -> u64 {
        self.packages.iter().map(|package| package.size).sum()
    }

    /// How many packages of which size: `143 packages, 98 MB`.
    pub fn size(&self) -> String {
        format!("{} packages, {:.0} MB", self.packages.len(), self.bytes() as f64 / 1e6)
    }

    /// What is in `self` and was not in `old`, and the reverse: a line per package.
    pub fn changes(&self, old: &Self) -> Vec<String> {
        let table = |lock: &Self| -> BTreeMap<(String, String), (String, Digest)> {
            let all = lock.packages.iter().map(|package| {
                let key = (package.name.clone(), package.architecture.clone());
                (key, (package.version.clone(), package.sha256))
            });
            all.collect()
        };
        let (before, after) = (table(old), table(self));
        let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let line = |key: &(String, String)| {
            let name = &key.0;
            match (before.get(key), after.get(key)) {
                (Some(old), Some(new)) if old == new => None,
                (Some((old, _)), Some((new, _))) if old == new => {
                    Some(format!("{name} {old}: other content"))
                }
                (Some((old, _)), Some((new, _))) => Some(format!("{name} {old} -> {new}")),
                (None, Some((new, _))) => Some(format!("{name} {new}: new")),
                (Some((old, _)), None) => Some(format!("{name} {old}: gone")),
                (None, None) => None,
            }
        };
        keys.into_iter().filter_map(line).collect()
    }
}

/// Whether an archive's address is of a known form.
///
/// # Errors
/// The forms that are known.
pub fn check_archive(archive: &str) -> Result<(), String> {
    let known = ["https://", "http://", "file:"];
    let rest = known.iter().find_map(|scheme| archive.strip_prefix(scheme));
    match rest {
        Some(rest) if !rest.is_empty() && !archive.chars().any(char::is_whitespace) => Ok(()),
        _ => Err(format!("`{archive}` is no archive: write https://…, http://… or file:DIR")),
    }
}

/// A JSON string is a basic string of TOML, and so is an array of them.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn list(all: &[String]) -> String {
    format!("[{}]", all.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A small lock, for tests.
    pub(crate) fn lock(name: &str) -> Lock {
        let package = |name: &str, version: &str, size: u64| Package {
            name: name.to_owned(),
            version: version.to_owned(),
            architecture: "amd64".to_owned(),
            size,
            sha256: Digest::of(name.as_bytes()),
            file: format!("pool/main/x/{name}_{version}_amd64.deb"),
        };
        Lock {
            schema: SCHEMA,
            name: name.to_owned(),
            family: Family::Gcc,
            version: "12.2.0".to_owned(),
            sealed: "2026-12-01".to_owned(),
            distribution: "debian".to_owned(),
            codename: "bookworm".to_owned(),
            architecture: "amd64".to_owned(),
            archives: Vec::new(),
            programs: Programs { cc: vec!["gcc".to_owned()], ..Programs::default() },
            packages: vec![package("gcc-12", "12.2.0-14", 19_000_000), package("make", "4.3", 1)],
        }
    }

    fn locks() -> impl Strategy<Value = Lock> {
        let word = "[a-z0-9][a-z0-9+.-]{0,12}";
        let package = (word, "[0-9][A-Za-z0-9+.~:-]{0,12}", 1..u64::MAX >> 1, any::<[u8; 32]>());
        let packages = prop::collection::btree_map(word, package, 1..20);
        let text = "[^\\x7f]{0,20}";
        (packages, text, text, prop::collection::vec("https://[a-z/.]{1,20}", 0..3)).prop_map(
            |(packages, version, codename, archives)| {
                let mut all = lock("gcc-12");
                all.packages.clear();
                for (name, (file, version, size, hash)) in packages {
                    let file = format!("pool/{file}_{version}.deb");
                    let (architecture, sha256) = ("all".to_owned(), Digest(hash));
                    all.packages.push(Package { name, version, architecture, size, sha256, file });
                }
                Lock { version, codename, archives, ..all }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(lock in locks()) {
            let text = lock.text();
            prop_assert_eq!(&Lock::parse(&text, "f", "gcc-12").unwrap(), &lock);
            let mut turned = lock.clone();
            turned.packages.reverse();
            prop_assert_eq!(turned.text(), text, "the order is the file's own");
            prop_assert_eq!(turned.digest(), lock.digest());
            let json = serde_json::to_string(&lock).unwrap();
            prop_assert_eq!(serde_json::from_str::<Lock>(&json).unwrap(), lock);
        }
    }

    #[test]
    fn one_line_per_package_and_no_address() {
        let text = lock("gcc").text();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  { name")).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("\"pool/main/x/gcc-12_12.2.0-14_amd64.deb\""), "{text}");
        assert!(!text.contains("://"), "{text}");
        assert_eq!(lock("gcc").size(), "2 packages, 19 MB");
    }

    #[test]
    fn only_the_packages_make_another_compiler() {
        let first = lock("gcc");
        let mut same = lock("gcc-12");
        same.sealed = "2027-01-01".to_owned();
        same.archives = vec!["https://example.org/".to_owned()];
        same.packages[0].file = "pool/elsewhere.deb".to_owned();
        assert_eq!(same.digest(), first.digest());
        let mut other = lock("gcc");
        other.packages[1].sha256 = Digest::of(b"other");
        assert_ne!(other.digest(), first.digest());
        assert_eq!(other.changes(&first), ["make 4.3: other content"]);
        other.packages[0].version = "12.2.0-15".to_owned();
        other.packages[1].name = "cmake".to_owned();
        let changes = ["cmake 4.3: new", "gcc-12 12.2.0-14 -> 12.2.0-15", "make 4.3: gone"];
        assert_eq!(other.changes(&first), changes);
        assert!(first.changes(&first).is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let parse = |text: &str, name: &str| Lock::parse(text, "toolchains/gcc.lock.toml", name);
        let good = lock("gcc").text();
        let error = |change: &dyn Fn(&mut Lock)| {
            let mut bad = lock("gcc");
            change(&mut bad);
            parse(&bad.text(), "gcc").unwrap_err()
        };
        assert!(parse(&good, "clang").unwrap_err().contains("is the lock of `gcc`"));
        let newer = good.replace("schema = 1", "schema = 2\nmore = 1");
        assert!(parse(&newer, "gcc").unwrap_err().contains("has schema 2, this tool knows 1"));
        let unknown = parse(&good.replace("codename", "codname"), "gcc").unwrap_err();
        assert!(unknown.starts_with("toolchains/gcc.lock.toml:9: unknown field `codname`"));
        for name in ["", "-o", "a b", "a=1", "../x"] {
            let text = error(&|lock| lock.packages[0].name = name.to_owned());
            assert!(text.contains("the `name` of package"), "{name}: {text}");
        }
        for file in ["/etc/passwd", "../x.deb", "pool/../../x.deb", "", "a b.deb"] {
            let text = error(&|lock| lock.packages[0].file = file.to_owned());
            assert!(text.contains("the `file` of package `gcc-12`"), "{file}: {text}");
        }
        // Two versions of one package cannot be unpacked into one root.
        let twice = error(&|lock| lock.packages[1].name = "gcc-12".to_owned());
        assert!(twice.contains("`gcc-12` stands in it twice"), "{twice}");
        assert!(error(&|lock| lock.packages.clear()).contains("no packages"));
        for archive in ["ftp://x", "https://", "https://a b", "/srv/mirror"] {
            assert!(error(&|lock| lock.archives = vec![archive.into()]).contains("is no archive"));
        }
        assert!(parse(&good.replace("size = 1,", "size = -1,"), "gcc").is_err());
    }
}
