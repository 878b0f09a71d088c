//! The table of facts about CMake variables of the MySQL family.
//!
//! Seen in the CMake files of MySQL 5.6.21 and 8.0.39 and of MariaDB 10.11.18. The releases between
//! and beyond these at which an option came or went are as generally known, and were not checked
//! against each release; the words of the tree overrule them where it is unpacked.

use crate::matrix::model::Engine;

/// A release, number by number.
pub type Release = [u32; 3];

/// Why a variable is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is not there before this release.
    Since(Release),
    /// It is not there from this release on, perhaps from an earlier one on.
    GoneBy(Release),
    /// It was never there.
    Never,
    /// It can be given to releases from the first on and before the second, and nothing reads it.
    Unread(Release, Release),
    /// It is read in these releases, and changes nothing.
    Idle(Release, Release),
    /// This release, as it was published, does not compile with it.
    Breaks(Release),
}

use Engine::{Mariadb, Mysql};
use Fate::{Breaks, GoneBy, Idle, Never, Since, Unread};

/// One fact about variables of an engine, and what to do.
pub struct Fact {
    /// The variables.
    pub names: &'static [&'static str],
    /// The engine.
    pub engine: Engine,
    /// What became of them.
    pub fate: Fate,
    /// How to get the same, or what to do.
    pub advice: &'static str,
}

const fn fact(
    engine: Engine,
    fate: Fate,
    names: &'static [&'static str],
    advice: &'static str,
) -> Fact {
    Fact { names, engine, fate, advice }
}

/// 8.0 since only mistakes are mended in it: what 8.0.39 has was not changed any more.
const LATE_8: (Release, Release) = ([8, 0, 34], [8, 1, 0]);
const MARIA_10_11: (Release, Release) = ([10, 11, 0], [10, 12, 0]);

/// Instruments of the performance schema that 5.6 can leave out, though not by CMake.
const PSI_5_6: &[&str] = &[
    "DISABLE_PSI_COND",
    "DISABLE_PSI_FILE",
    "DISABLE_PSI_IDLE",
    "DISABLE_PSI_MUTEX",
    "DISABLE_PSI_RWLOCK",
    "DISABLE_PSI_SOCKET",
    "DISABLE_PSI_STAGE",
    "DISABLE_PSI_STATEMENT",
    "DISABLE_PSI_STATEMENT_DIGEST",
    "DISABLE_PSI_TABLE",
    "DISABLE_PSI_THREAD",
];
/// Instruments that came with 5.7.
const PSI_5_7: &[&str] = &[
    "DISABLE_PSI_MEMORY",
    "DISABLE_PSI_METADATA",
    "DISABLE_PSI_PS",
    "DISABLE_PSI_SP",
    "DISABLE_PSI_TRANSACTION",
];
/// Instruments that MariaDB does not have.
const PSI_MYSQL: &[&str] = &[
    "DISABLE_PSI_DATA_LOCK",
    "DISABLE_PSI_ERROR",
    "DISABLE_PSI_SERVER_TELEMETRY_TRACES",
    "DISABLE_PSI_TLS_CHANNEL",
    "DISABLE_TLS_CHANNEL",
];

const OUT: &str = "leave it out";
const NO_INSTRUMENT: &str = "there is nothing of this kind to leave out of the build";
/// Advice where CMake does not hand the switch on.
pub const MACROS: &str = "they are macros of the preprocessor only: give `-DNAME` in `flags`";
const LTO: &str = "give `-flto=auto` (gcc) or `-flto=thin` (clang) in `flags`; the archiver that \
    every build is given understands it";
/// Advice for a name that people write.
pub const MISSPELT_PFS: &str = "the name is `WITH_PERFSCHEMA_STORAGE_ENGINE`";
const MERGE: &str = "the engine's name is `MYISAMMRG`, and every server has it: leave it out";
const MANDATORY: &str = "every server has these engines: leave it out";
const PROFILE: &str = "give `-fprofile-generate` or `-fprofile-use` in `flags` and `ldflags`";

/// All that is known.
pub const FACTS: &[Fact] = &[
    fact(Mysql, Since([8, 0, 13]), &["WITH_LTO"], LTO),
    fact(Mariadb, Never, &["WITH_LTO"], LTO),
    fact(Mysql, Since([5, 7, 0]), PSI_5_6, MACROS),
    fact(Mysql, Since([5, 7, 0]), PSI_5_7, NO_INSTRUMENT),
    fact(Mysql, Since([8, 0, 0]), &["DISABLE_PSI_ERROR"], NO_INSTRUMENT),
    fact(Mysql, Since([8, 0, 33]), &["DISABLE_PSI_SERVER_TELEMETRY_TRACES"], NO_INSTRUMENT),
    fact(Mysql, Since([8, 0, 0]), &["DISABLE_PSI_DATA_LOCK"], NO_INSTRUMENT),
    fact(
        Mysql,
        Unread(LATE_8.0, LATE_8.1),
        &["DISABLE_PSI_DATA_LOCK", "DISABLE_PSI_TLS_CHANNEL"],
        OUT,
    ),
    fact(
        Mysql,
        Breaks([8, 0, 39]),
        &["DISABLE_PSI_THREAD"],
        "leave it out, or give the source a patch: InnoDB's os0file.cc uses the instrumentation of \
         threads without asking whether it is there",
    ),
    fact(
        Mysql,
        Never,
        &["DISABLE_TLS_CHANNEL"],
        "the name is `DISABLE_PSI_TLS_CHANNEL`, and that changes nothing either: leave it out",
    ),
    fact(
        Mysql,
        Never,
        &["HAVE_PSI_MEMORY_INTERFACE"],
        "a header computes it; from 5.7 on `DISABLE_PSI_MEMORY = 1` is what is meant",
    ),
    fact(Mariadb, Unread(MARIA_10_11.0, MARIA_10_11.1), PSI_5_6, MACROS),
    fact(Mariadb, Unread(MARIA_10_11.0, MARIA_10_11.1), PSI_5_7, MACROS),
    fact(Mariadb, Never, PSI_MYSQL, NO_INSTRUMENT),
    fact(Mysql, Never, &["WITH_PERF_SCHEMA_STORAGE_ENGINE"], MISSPELT_PFS),
    fact(Mariadb, Never, &["WITH_PERF_SCHEMA_STORAGE_ENGINE"], MISSPELT_PFS),
    fact(Mysql, Never, &["WITH_MRG_MYISAM_STORAGE_ENGINE"], MERGE),
    fact(Mariadb, Never, &["WITH_MRG_MYISAM_STORAGE_ENGINE"], MERGE),
    fact(
        Mysql,
        Idle([5, 6, 0], [8, 1, 0]),
        &[
            "WITH_CSV_STORAGE_ENGINE",
            "WITHOUT_CSV_STORAGE_ENGINE",
            "WITH_HEAP_STORAGE_ENGINE",
            "WITHOUT_HEAP_STORAGE_ENGINE",
            "WITH_MYISAM_STORAGE_ENGINE",
            "WITHOUT_MYISAM_STORAGE_ENGINE",
            "WITH_MYISAMMRG_STORAGE_ENGINE",
            "WITHOUT_MYISAMMRG_STORAGE_ENGINE",
        ],
        MANDATORY,
    ),
    fact(
        Mysql,
        Idle(LATE_8.0, LATE_8.1),
        &[
            "WITH_ARCHIVE_STORAGE_ENGINE",
            "WITH_BLACKHOLE_STORAGE_ENGINE",
            "WITH_FEDERATED_STORAGE_ENGINE",
        ],
        "these engines are in unless `WITHOUT_…_STORAGE_ENGINE = 1` leaves them out",
    ),
    fact(
        Mysql,
        Idle(LATE_8.0, LATE_8.1),
        &["WITH_PERFSCHEMA_STORAGE_ENGINE", "WITHOUT_PERFSCHEMA_STORAGE_ENGINE"],
        "every server has it: leave instruments out by `DISABLE_PSI_…`, or turn it off by a config \
         with `performance_schema = 0`",
    ),
    fact(
        Mysql,
        GoneBy([8, 0, 34]),
        &["OPTIMIZER_TRACE"],
        "the trace of the optimizer is always compiled in: leave it out",
    ),
    fact(Mariadb, Never, &["OPTIMIZER_TRACE"], "it is always compiled in: leave it out"),
    fact(Mysql, Since([5, 7, 12]), &["WITH_RAPID"], OUT),
    fact(Mysql, GoneBy([8, 0, 39]), &["WITH_RAPID"], "`WITH_MYSQLX = \"OFF\"` is given anyway"),
    fact(Mariadb, Never, &["WITH_RAPID"], OUT),
    fact(Mysql, Since([5, 7, 2]), &["WITH_CLIENT_PROTOCOL_TRACING"], OUT),
    fact(Mariadb, Never, &["WITH_CLIENT_PROTOCOL_TRACING"], OUT),
    fact(Mysql, Since([8, 0, 19]), &["FPROFILE_GENERATE", "FPROFILE_USE"], PROFILE),
    fact(Mariadb, Never, &["FPROFILE_GENERATE", "FPROFILE_USE"], PROFILE),
    fact(
        Mysql,
        Since([8, 0, 16]),
        &["USE_LD_LLD"],
        "give `-fuse-ld=lld` in `ldflags`, which serves every release",
    ),
    fact(
        Mysql,
        GoneBy([8, 0, 34]),
        &["USE_LD_GOLD"],
        "give `-fuse-ld=…` in `ldflags`; these releases do not take gold there either",
    ),
    fact(
        Mysql,
        Since([8, 0, 22]),
        &["WITH_TCMALLOC"],
        "preload it: a run-axis or a config with `preload = \"libtcmalloc_minimal.so.4\"`",
    ),
    fact(
        Mysql,
        Since([8, 0, 16]),
        &["WITH_JEMALLOC"],
        "preload it: a run-axis or a config with `preload = \"libjemalloc.so.2\"`",
    ),
    fact(Mysql, GoneBy([8, 3, 0]), &["WITH_INNODB_MEMCACHED"], OUT),
    fact(Mysql, GoneBy([8, 0, 34]), &["ENABLE_DTRACE"], OUT),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        for (index, fact) in FACTS.iter().enumerate() {
            for name in fact.names {
                let is_plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
                assert!(name.bytes().all(is_plain), "{name}");
                let twice = FACTS[..index].iter().any(|other| {
                    other.engine == fact.engine
                        && other.names.contains(name)
                        && std::mem::discriminant(&other.fate) == std::mem::discriminant(&fact.fate)
                });
                assert!(!twice, "{name} stands twice for {}", fact.engine.name());
            }
            if let Unread(from, until) | Idle(from, until) = fact.fate {
                assert!(from < until, "{:?}", fact.names);
            }
            assert!(!fact.advice.is_empty());
        }
    }
}
