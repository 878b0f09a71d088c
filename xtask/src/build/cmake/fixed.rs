//! What the recipe of the MySQL family gives CMake besides the flags, by engine and release:
//! nothing is taken from the machine by chance, nothing is built that a measured server does not
//! need, and libraries come from the release where it carries them. Facts only.
//!
//! Seen in the CMake files of MySQL 5.6.21 and 8.0.39 and of MariaDB 10.11.18. Where a range begins
//! or ends at a release between or beyond these, that was not checked. A release that does not know
//! a variable says so and goes on, so a range may be too wide, not too narrow. Who changes what is
//! in here must raise the recipe's revision: it is not part of a build's id otherwise.

use crate::matrix::model::{Engine, Source};

/// The first release of a range and the first one behind it; `END` is behind all.
type Range = ([u32; 3], [u32; 3]);

/// Behind every release.
const END: [u32; 3] = [u32::MAX; 3];
/// Every release.
const ALL: Range = ([0; 3], END);
/// MySQL 8.0 and later.
const FROM_8: Range = ([8, 0, 0], END);

/// Variables for every release of both engines: what keeps a project from choosing flags by itself,
/// from the distribution, from what is installed, or from the build type.
const BOTH: [(&str, &str); 8] = [
    ("WITH_PACKAGE_FLAGS", "OFF"),
    ("MINIMAL_RELWITHDEBINFO", "OFF"),
    // It would leave the flags out of the debug information.
    ("REPRODUCIBLE_BUILD", "OFF"),
    // Warnings would be errors.
    ("MYSQL_MAINTAINER_MODE", "OFF"),
    ("WITH_UNIT_TESTS", "OFF"),
    ("WITH_EMBEDDED_SERVER", "OFF"),
    ("WITH_NUMA", "OFF"),
    ("WITH_ZLIB", "bundled"),
];

/// Variables of MySQL.
const MYSQL: [(Range, &str, &str); 21] = [
    // The libraries of TLS that 5.6 was written for are not made any more; it carries one. Between
    // 5.7.28 and 8.0.29 an OpenSSL before 3 must be named.
    (([0; 3], [5, 7, 28]), "WITH_SSL", "bundled"),
    (([5, 7, 28], END), "WITH_SSL", "system"),
    // Else the flags of two build types are overwritten; what it would add is in `flags`.
    (([0; 3], [5, 7, 0]), "WITH_DEFAULT_COMPILER_OPTIONS", "OFF"),
    (ALL, "WITH_EDITLINE", "bundled"),
    (([5, 7, 0], END), "WITH_LZ4", "bundled"),
    (([5, 7, 12], END), "WITH_PROTOBUF", "bundled"),
    (([5, 7, 0], END), "WITH_LIBEVENT", "bundled"),
    (([5, 7, 12], [8, 0, 36]), "WITH_RAPID", "OFF"),
    (([5, 7, 17], END), "WITHOUT_GROUP_REPLICATION", "ON"),
    (FROM_8, "WITH_ICU", "bundled"),
    (([8, 0, 18], END), "WITH_ZSTD", "bundled"),
    (FROM_8, "WITH_ROUTER", "OFF"),
    (FROM_8, "WITH_MYSQLX", "OFF"),
    (FROM_8, "WITH_SYSTEMD", "OFF"),
    (FROM_8, "WITH_CURL", "none"),
    (FROM_8, "WITH_AUTHENTICATION_CLIENT_PLUGINS", "OFF"),
    (FROM_8, "WITH_AUTHENTICATION_LDAP", "OFF"),
    (([8, 0, 26], END), "WITH_AUTHENTICATION_KERBEROS", "OFF"),
    (([8, 0, 27], [8, 4, 0]), "WITH_AUTHENTICATION_FIDO", "OFF"),
    (([8, 2, 0], END), "WITH_AUTHENTICATION_WEBAUTHN", "OFF"),
    (([8, 0, 0], END), "WITH_BUILD_ID", "ON"),
];

/// Variables of MariaDB.
const MARIADB: [(Range, &str, &str); 26] = [
    // Hardening is flags of the project's own choice, behind ours.
    (ALL, "SECURITY_HARDENED", "OFF"),
    (ALL, "WITH_SSL", "system"),
    // Releases do not carry these two: without them they would be fetched while building.
    (ALL, "WITH_PCRE", "system"),
    (([10, 7, 0], END), "WITH_LIBFMT", "system"),
    (ALL, "WITHOUT_DYNAMIC_PLUGINS", "ON"),
    (ALL, "WITH_WSREP", "OFF"),
    (ALL, "WITH_MARIABACKUP", "OFF"),
    (ALL, "WITH_SYSTEMD", "no"),
    (ALL, "CONC_WITH_UNIT_TESTS", "OFF"),
    (([10, 6, 0], END), "WITH_URING", "OFF"),
    (([10, 2, 0], [10, 7, 0]), "WITH_INNODB_BZIP2", "OFF"),
    (([10, 2, 0], [10, 7, 0]), "WITH_INNODB_LZ4", "OFF"),
    (([10, 2, 0], [10, 7, 0]), "WITH_INNODB_LZMA", "OFF"),
    (([10, 2, 0], [10, 7, 0]), "WITH_INNODB_LZO", "OFF"),
    (([10, 2, 0], [10, 7, 0]), "WITH_INNODB_SNAPPY", "OFF"),
    (ALL, "PLUGIN_ARCHIVE", "NO"),
    (ALL, "PLUGIN_AUTH_GSSAPI", "NO"),
    (ALL, "PLUGIN_AUTH_PAM", "NO"),
    (ALL, "PLUGIN_BLACKHOLE", "NO"),
    (ALL, "PLUGIN_COLUMNSTORE", "NO"),
    (ALL, "PLUGIN_CONNECT", "NO"),
    (ALL, "PLUGIN_FEEDBACK", "NO"),
    (ALL, "PLUGIN_MROONGA", "NO"),
    (ALL, "PLUGIN_OQGRAPH", "NO"),
    (ALL, "PLUGIN_ROCKSDB", "NO"),
    (ALL, "PLUGIN_SPIDER", "NO"),
];

/// Flags that old releases need besides those of the settings, for C and for C++: 5.6 was written
/// for compilers that did not yet take a write through one type and a read through another for two
/// objects, and before C++11 changed what a comparison with a character constant means.
const OLD_MYSQL: [(Range, &[&str], &[&str]); 1] = [(
    ([5, 5, 0], [5, 7, 0]),
    &["-fno-strict-aliasing"],
    &["-fno-strict-aliasing", "-std=gnu++98"],
)];

/// The folder of the source tree with boost, where `WITH_BOOST` must name it: from 5.7.5 to 8.2.
/// Later releases carry it at a place of their own.
const BOOST: (Range, &str) = (([5, 7, 5], [8, 3, 0]), "boost");

fn holds(range: Range, source: &Source) -> bool {
    // A source whose release is not known before it is there is taken for a new one.
    let version = source.version.as_ref();
    let numbers = version.map_or([u32::MAX - 1; 3], |v| [0, 1, 2].map(|index| v.number(index)));
    range.0 <= numbers && numbers < range.1
}

/// The recipe's own variables for a source, in a fixed order.
pub fn variables(source: &Source) -> Vec<(&'static str, &'static str)> {
    let mut list: Vec<(&str, &str)> = match source.engine {
        Engine::Postgres => return Vec::new(),
        _ => BOTH.to_vec(),
    };
    let own: &[(Range, &str, &str)] = match source.engine {
        Engine::Mysql => &MYSQL,
        _ => &MARIADB,
    };
    let own = own.iter().filter(|(range, _, _)| holds(*range, source));
    list.extend(own.map(|&(_, name, value)| (name, value)));
    list
}

/// The flags that a source needs besides those of the settings: for C, for C++.
pub fn flags(source: &Source) -> (Vec<&'static str>, Vec<&'static str>) {
    let rules = OLD_MYSQL.iter().filter(|_| source.engine == Engine::Mysql);
    let found = rules.filter(|(range, _, _)| holds(*range, source));
    found.map(|&(_, c, cxx)| (c.to_vec(), cxx.to_vec())).next().unwrap_or_default()
}

/// Where a source's boost lies below its tree, for `WITH_BOOST`.
pub fn boost(source: &Source) -> Option<&'static str> {
    (source.engine == Engine::Mysql && holds(BOOST.0, source)).then_some(BOOST.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::spec::tests::spec;

    fn source(engine: Engine, version: &str) -> Source {
        Source { engine, version: version.parse().ok(), ..spec(&[]).source }
    }

    fn value(source: &Source, name: &str) -> Option<&'static str> {
        let list = variables(source);
        // Each once, or it would depend on the order which one holds.
        assert!(list.iter().filter(|(key, _)| *key == name).count() <= 1, "{name}");
        list.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    #[test]
    fn libraries_follow_the_release() {
        let ssl = |version| value(&source(Engine::Mysql, version), "WITH_SSL");
        assert_eq!(ssl("5.6.21"), Some("bundled"));
        assert_eq!(ssl("5.7.27"), Some("bundled"));
        assert_eq!(ssl("5.7.28"), Some("system"));
        assert_eq!(ssl("9.4.0"), Some("system"));
        assert_eq!(value(&source(Engine::Mysql, "8.0.17"), "WITH_ZSTD"), None);
        assert_eq!(value(&source(Engine::Mysql, "8.0.18"), "WITH_ZSTD"), Some("bundled"));
        assert_eq!(value(&source(Engine::Mariadb, "10.6.20"), "WITH_LIBFMT"), None);
        assert_eq!(value(&source(Engine::Mariadb, "10.11.18"), "WITH_LIBFMT"), Some("system"));
        assert!(variables(&source(Engine::Postgres, "15.18")).is_empty());
    }

    #[test]
    fn no_variable_is_given_twice_to_any_release() {
        for engine in [Engine::Mysql, Engine::Mariadb] {
            for version in ["5.5.62", "5.6.21", "5.7.44", "8.0.0", "8.0.39", "9.4.0", "11.8.2"] {
                let source = source(engine, version);
                for (name, _) in variables(&source) {
                    assert!(value(&source, name).is_some());
                }
            }
        }
    }

    #[test]
    fn flags_that_old_releases_need() {
        let of = |engine, version| flags(&source(engine, version));
        assert_eq!(of(Engine::Mysql, "5.6.21").1, ["-fno-strict-aliasing", "-std=gnu++98"]);
        assert_eq!(of(Engine::Mysql, "5.6.51").0, ["-fno-strict-aliasing"]);
        assert!(of(Engine::Mysql, "5.7.44").1.is_empty());
        assert!(of(Engine::Mariadb, "10.11.18").0.is_empty());
        let mut unknown = source(Engine::Mysql, "5.6.21");
        unknown.version = None;
        assert!(flags(&unknown).0.is_empty(), "taken for a new release");
    }
}
