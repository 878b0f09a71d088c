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
/// 15.18 as gcc 12 and clang 14 record them).
const POSTGRES: [Allowed; 13] = [
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
        // Their recipes come with lists of their own.
        Engine::Mysql | Engine::Mariadb => {}
    }
    list
}
