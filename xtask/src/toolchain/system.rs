//! What a build takes from the system besides its compiler: the programs that generate sources, and
//! the libraries that configure options pull in. Known by content, so that a system update is seen.
//!
//! The one table of what an option means; [`identify`] alone looks at the machine.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::build::cmake::fixed;
use crate::facts::Toolchain;
use crate::hash::Digest;
use crate::matrix::model::{Engine, Options, Source, SourceKind};
use crate::toolchain::place::Place;
use crate::toolchain::{cache, identity};

/// Something of the system that shows in what a build makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// A program that runs during the build.
    Program(&'static str),
    /// A library, by the name that follows `-l`.
    Library(&'static str),
}

impl Need {
    /// The name for people: `bison`, `libicuuc`.
    pub fn name(self) -> String {
        match self {
            Self::Program(name) => name.to_owned(),
            Self::Library(name) => format!("lib{name}"),
        }
    }
}

use Need::{Library, Program};

/// `--with-NAME[=VALUE]` of PostgreSQL's configure, and what it brings.
const POSTGRES: [(&str, Option<&str>, &[Need]); 22] = [
    ("readline", None, &[Library("readline")]),
    ("zlib", None, &[Library("z")]),
    ("icu", None, &[Library("icuuc"), Library("icui18n")]),
    ("openssl", None, &[Library("ssl"), Library("crypto")]),
    ("ssl", Some("openssl"), &[Library("ssl"), Library("crypto")]),
    ("lz4", None, &[Library("lz4")]),
    ("zstd", None, &[Library("zstd")]),
    ("libxml", None, &[Library("xml2")]),
    ("libxslt", None, &[Library("xslt")]),
    ("gssapi", None, &[Library("gssapi_krb5")]),
    ("ldap", None, &[Library("ldap"), Library("lber")]),
    ("pam", None, &[Library("pam")]),
    ("systemd", None, &[Library("systemd")]),
    ("selinux", None, &[Library("selinux")]),
    ("uuid", Some("e2fs"), &[Library("uuid")]),
    ("uuid", Some("ossp"), &[Library("ossp-uuid")]),
    ("liburing", None, &[Library("uring")]),
    ("libcurl", None, &[Library("curl")]),
    ("libnuma", None, &[Library("numa")]),
    ("perl", None, &[Program("perl")]),
    ("python", None, &[Program("python3")]),
    ("tcl", None, &[Program("tclsh")]),
];

/// `NAME=system` of the CMake files of MySQL and MariaDB, and what it brings.
const CMAKE: [(&str, &[Need]); 11] = [
    ("WITH_SSL", &[Library("ssl"), Library("crypto")]),
    ("WITH_ZLIB", &[Library("z")]),
    ("WITH_LZ4", &[Library("lz4")]),
    ("WITH_ZSTD", &[Library("zstd")]),
    ("WITH_ICU", &[Library("icuuc"), Library("icui18n")]),
    ("WITH_CURL", &[Library("curl")]),
    ("WITH_LIBEVENT", &[Library("event")]),
    ("WITH_PROTOBUF", &[Library("protobuf")]),
    ("WITH_EDITLINE", &[Library("edit")]),
    ("WITH_PCRE", &[Library("pcre2-8")]),
    ("WITH_LIBFMT", &[Library("fmt")]),
];

/// The programs that generate part of a source, compiler and make not among them. From version 17
/// on, archives of PostgreSQL have no generated parsers any more; git revisions never had them.
pub fn generators(source: &Source) -> &'static [&'static str] {
    match (source.engine, &source.kind) {
        (_, SourceKind::Prefix { .. }) => &[],
        (Engine::Postgres, SourceKind::Archive { .. })
            if source.version.as_ref().is_some_and(|version| version.major() < 17) =>
        {
            &[]
        }
        (Engine::Postgres, _) => &["bison", "flex", "perl"],
        (Engine::Mysql | Engine::Mariadb, _) => &["cmake", "bison"],
    }
}

/// What a source takes from the system by itself and by its own options.
pub fn of_source(source: &Source) -> Vec<Need> {
    let mut needs: Vec<Need> = generators(source).iter().map(|name| Program(name)).collect();
    let mut defaults = Vec::new();
    if source.engine == Engine::Postgres {
        defaults.extend(["readline", "zlib"]);
        if source.version.as_ref().is_some_and(|version| version.major() >= 16) {
            defaults.push("icu");
        }
    }
    needs.extend(of_options(source.engine, &with_fixed(source), &defaults));
    needs.sort_unstable();
    needs.dedup();
    needs
}

/// A source's options behind the variables that its recipe gives by itself, which they may replace.
fn with_fixed(source: &Source) -> Options {
    let mut options = source.options.clone();
    let fixed = fixed::variables(source).into_iter();
    options.cmake.splice(0..0, fixed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    options
}

/// The headers of the system that a source includes, by the name in the include line. Without them
/// configuring fails, or leaves out what depends on them.
pub fn headers(source: &Source) -> Vec<&'static str> {
    if matches!(source.kind, SourceKind::Prefix { .. }) || source.engine == Engine::Postgres {
        return Vec::new();
    }
    let options = with_fixed(source);
    let system = |name: &str| {
        let last = options.cmake.iter().rfind(|(key, _)| key == name);
        last.is_some_and(|(_, value)| value == "system")
    };
    let by_option =
        [("WITH_SSL", "openssl/ssl.h"), ("WITH_PCRE", "pcre2.h"), ("WITH_LIBFMT", "fmt/core.h")];
    let mut found = vec!["curses.h", "libaio.h"];
    found.extend(by_option.iter().filter(|(name, _)| system(name)).map(|(_, header)| header));
    found
}

/// What options ask for; `defaults` are the names of configure that hold unless they are denied.
pub fn of_options(engine: Engine, options: &Options, defaults: &[&str]) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    if engine == Engine::Postgres {
        for (name, wanted, brings) in POSTGRES {
            let mut on = defaults.contains(&name);
            for word in &options.configure {
                // The last one counts, as configure has it.
                if word.strip_prefix("--without-") == Some(name) {
                    on = false;
                } else if let Some(rest) = word.strip_prefix("--with-") {
                    let (key, value) = rest.split_once('=').unwrap_or((rest, "yes"));
                    if key == name {
                        on = value != "no" && wanted.is_none_or(|wanted| wanted == value);
                    }
                }
            }
            needs.extend(brings.iter().filter(|_| on));
        }
    } else {
        for (name, brings) in CMAKE {
            let last = options.cmake.iter().rfind(|(key, _)| key == name);
            needs.extend(brings.iter().filter(|_| last.is_some_and(|(_, v)| v == "system")));
        }
    }
    needs.sort_unstable();
    needs.dedup();
    needs
}

/// The hash over what `need` is on this machine; `None` when it is not there, which the build's own
/// configure tells better. Kept in `folder` until one of the files changes.
pub fn identify(need: Need, toolchain: &Toolchain, folder: &Path) -> Option<Digest> {
    let place = toolchain.place();
    let path = match need {
        Program(name) => place.which(name)?,
        Library(name) => library(name, &place, toolchain.tool("cc")?, folder)?,
    };
    let key = cache::key(&(need.name(), &path, place.root()));
    let found = cache::stamped(folder, "system", &key, |watched| {
        let mut lines = vec![need.name()];
        if let Program(_) = need {
            lines.push(place.proc(&path).arg("--version").read()?);
            let libraries = match place.root() {
                None => identity::loaded_libraries(&path),
                // Those of a sealed toolchain are known by its packages.
                Some(_) => Vec::new(),
            };
            for library in libraries {
                let name = library.file_name().unwrap_or_default().to_string_lossy().into_owned();
                lines.push(format!("{name} {}", watched.digest(&library)?));
            }
        }
        lines.push(watched.digest(&place.host(&path))?.to_string());
        Ok(Digest::of(lines.join("\n").as_bytes()))
    });
    found.ok()
}

/// What the linker would take for `-lNAME`, as the compiler tells.
fn library(name: &str, place: &Place, cc: &Path, folder: &Path) -> Option<PathBuf> {
    let key = cache::key(&("library", name, cc, place.root()));
    let found = cache::stamped(folder, "library", &key, |watched| {
        for end in ["so", "a"] {
            let question = format!("-print-file-name=lib{name}.{end}");
            let answer = PathBuf::from(place.proc(cc).arg(question).read()?);
            // A bare name means that there is none.
            if answer.is_absolute() && place.host(&answer).is_file() {
                watched.path(&place.host(cc));
                watched.path(&place.host(&answer));
                return Ok(answer);
            }
        }
        // An error is not kept: the library may be installed at any time.
        None.with_context(|| format!("no lib{name}"))
    });
    found.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(version: &str, archive: bool, configure: &[&str]) -> Source {
        let kind = if archive {
            SourceKind::Archive { sha256: Digest::of(b"a"), origins: Vec::new() }
        } else {
            SourceKind::Git { url: "x".into(), rev: "0".repeat(40) }
        };
        let configure = configure.iter().map(|word| (*word).to_owned()).collect();
        Source {
            name: "s".into(),
            engine: Engine::Postgres,
            version: version.parse().ok(),
            kind,
            patches: Vec::new(),
            options: Options { configure, ..Options::default() },
            span: 0..0,
        }
    }

    fn names(source: &Source) -> Vec<String> {
        of_source(source).into_iter().map(Need::name).collect()
    }

    #[test]
    fn sources_bring_generators_and_defaults() {
        let bare = ["--without-readline", "--without-zlib"];
        assert!(names(&source("15.18", true, &bare)).is_empty());
        assert_eq!(names(&source("15.18", true, &[])), ["libreadline", "libz"]);
        assert_eq!(names(&source("15.18", false, &bare)), ["bison", "flex", "perl"]);
        let all = ["bison", "flex", "perl", "libicui18n", "libicuuc"];
        assert_eq!(names(&source("17.2", true, &bare)), all);
        let bare = ["--without-readline", "--without-zlib", "--without-icu"];
        assert!(names(&source("16.1", true, &bare)).is_empty());
    }

    #[test]
    fn options_bring_libraries_and_the_last_one_counts() {
        let pg = |configure: &[&str]| -> Vec<String> {
            let options = source("15.18", true, configure).options;
            of_options(Engine::Postgres, &options, &[]).into_iter().map(Need::name).collect()
        };
        assert_eq!(pg(&["--with-lz4", "--with-zstd"]), ["liblz4", "libzstd"]);
        assert_eq!(pg(&["--with-openssl"]), pg(&["--with-ssl=openssl"]));
        assert_eq!(pg(&["--with-icu", "--without-icu"]), Vec::<String>::new());
        assert_eq!(pg(&["--with-uuid=ossp"]), ["libossp-uuid"]);
        assert_eq!(pg(&["--with-libs=/x", "--with-blocksize=8"]), Vec::<String>::new());
        let cmake = [("WITH_ZLIB", "system"), ("WITH_SSL", "/opt/ssl")];
        let cmake = cmake.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let options = Options { cmake, ..Options::default() };
        assert_eq!(of_options(Engine::Mysql, &options, &[]), [Library("z")]);
    }

    fn toolchain_of(name: &str, cache: &Path) -> Toolchain {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolchains");
        crate::toolchain::find(&shipped, cache, crate::proc::PATH.as_ref(), name)
            .unwrap_or_else(|error| panic!("this test needs {name}: {error}"))
    }

    #[test]
    fn what_is_there_has_a_hash_and_what_is_not_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let gcc = toolchain_of("gcc", folder.path());
        let libm = identify(Library("m"), &gcc, folder.path()).expect("libm");
        assert_eq!(identify(Library("m"), &gcc, folder.path()), Some(libm));
        assert_ne!(identify(Library("c"), &gcc, folder.path()), Some(libm));
        assert_eq!(identify(Library("no-such-thing"), &gcc, folder.path()), None);
        assert!(identify(Program("perl"), &gcc, folder.path()).is_some(), "perl is everywhere");
        assert_eq!(identify(Program("no-such-thing"), &gcc, folder.path()), None);
    }
}
