//! The flags that a project, a compiler or the system adds by itself, each with its reason: what
//! the audit finds beside the plan's flags must stand here.

use crate::audit::judge::Allowed;
use crate::matrix::model::{Engine, Family};

/// What gcc writes although nobody gave it: its target's defaults.
const GCC: [Allowed; 6] = [
    by_default("-mtune=generic"),
    by_default("-march=x86-64"),
    by_default("-mlittle-endian"),
    by_default("-mabi=lp64"),
    by_default("-fasynchronous-unwind-tables"),
    by_default("-fcf-protection*"),
];

/// What the build of PostgreSQL adds (read from its configure and makefiles, and from the units of
/// 15.18 as gcc 12 and clang 14 record them; clang spells the vectorizer's switch differently).
const POSTGRES: [Allowed; 14] = [
    project("", "-fno-strict-aliasing", "PostgreSQL needs it"),
    project("", "-fwrapv", "PostgreSQL relies on integers that wrap"),
    project("", "-fexcess-precision=standard", "PostgreSQL wants exact floating point"),
    project("", "-fPIC", "libraries need it"),
    project("", "-fvisibility=hidden", "loadable modules hide their symbols from 16 on"),
    project("checksum.c", "-funroll-loops", "PostgreSQL tunes its page checksum"),
    project("checksum.c", "-ftree-vectorize", "PostgreSQL tunes its page checksum"),
    project("checksum.c", "-fvectorize", "PostgreSQL tunes its page checksum"),
    project("numeric.c", "-ftree-vectorize", "PostgreSQL tunes multiplication of numerics"),
    project("numeric.c", "-fvectorize", "PostgreSQL tunes multiplication of numerics"),
    project("pg_crc32c_sse42.c", "-msse4.2", "chosen at run time by what the CPU has"),
    project("pg_crc32c_armv8.c", "-march=armv8-a+crc*", "chosen at run time by what the CPU has"),
    project("pg_popcount_avx512.c", "-m*", "chosen at run time by what the CPU has"),
    project("pg_popcount_avx512_choose.c", "-mxsave", "asks the CPU what it has"),
];

/// What CMake adds by itself where a project makes libraries or hides symbols.
const CMAKE: [Allowed; 4] = [
    project("", "-fPIC", "libraries need it"),
    project("", "-fPIE", "programs that can be loaded anywhere need it"),
    project("", "-fvisibility=hidden", "the project hides symbols of its libraries"),
    project("", "-fvisibility-inlines-hidden", "the project hides symbols of its libraries"),
];

/// What the build of MySQL 5.7 and 8.0 adds (read from `cmake/build_configurations` and from
/// command lines and units of 8.0.39).
const MYSQL: [Allowed; 6] = [
    project("", "-fno-omit-frame-pointer", "MySQL keeps frame pointers from 5.7 on"),
    project("", "-ftls-model=initial-exec", "MySQL's thread-local variables belong to the program"),
    project("", "-ffunction-sections", "MySQL lets the linker drop unused functions"),
    project("", "-fdata-sections", "MySQL lets the linker drop unused data"),
    project("filesort_utils.cc", "-fno-builtin-memcmp", "MySQL calls the C library's memcmp"),
    project("rem0cmp.cc", "-fno-builtin-memcmp", "MySQL calls the C library's memcmp"),
];

/// What the build of MariaDB 10.11 adds (read from its `CMakeLists.txt` and command lines).
const MARIADB: [Allowed; 5] = [
    project("", "-fno-omit-frame-pointer", "MariaDB keeps frame pointers in RelWithDebInfo"),
    project("", "-fstack-protector*", "MariaDB's SECURITY_HARDENED, which is on by default"),
    project("", "--param=ssp-buffer-size=4", "MariaDB's SECURITY_HARDENED, which is on by default"),
    project("", "--param ssp-buffer-size=4", "MariaDB's SECURITY_HARDENED, which is on by default"),
    project("crc32_x86.c", "-m*", "chosen at run time by what the CPU has"),
];

const fn by_default(flag: &'static str) -> Allowed {
    Allowed { file: "", flag, why: "" }
}

const fn project(file: &'static str, flag: &'static str, why: &'static str) -> Allowed {
    Allowed { file, flag, why }
}

/// Everything that may stand in the units of an engine made by a family of compilers.
pub fn allowed(engine: Engine, family: Family) -> Vec<Allowed> {
    let mut list = Vec::new();
    if family == Family::Gcc {
        list.extend(GCC);
    }
    match engine {
        Engine::Postgres => list.extend(POSTGRES),
        Engine::Mysql => list.extend(MYSQL.into_iter().chain(CMAKE)),
        Engine::Mariadb => list.extend(MARIADB.into_iter().chain(CMAKE)),
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_hold_for_their_files_only() {
        let rules = allowed(Engine::Postgres, Family::Clang);
        let covers = |file, flag| rules.iter().any(|rule| rule.covers(file, flag));
        assert!(covers("storage/page/checksum.c", "-fvectorize"));
        assert!(!covers("access/heap/heapam.c", "-fvectorize"));
        assert!(!covers("a.c", "-mtune=generic"), "only gcc writes its defaults");
        assert!(!covers("a.c", "-O2"), "a level is never the project's own");
        let rules = allowed(Engine::Mysql, Family::Gcc);
        let covers = |file, flag| rules.iter().any(|rule| rule.covers(file, flag));
        assert!(covers("/mnt/src/sql/filesort_utils.cc", "-fno-builtin-memcmp"));
        assert!(!covers("/mnt/src/sql/filesort.cc", "-fno-builtin-memcmp"));
        let rules = allowed(Engine::Mariadb, Family::Gcc);
        assert!(rules.iter().any(|rule| rule.covers("a.cc", "-fstack-protector-strong")));
    }
}
