//! What the tool and its load driver both know: the microbenchmarks ([`Microbenchmark`]), the steps
//! of the insert benchmark ([`insert_benchmark`]) and the language that the two processes speak
//! ([`protocol`]). Data and types only, no I/O.

pub mod insert_benchmark;
mod list;
mod metric;
mod microbenchmark;
pub mod protocol;
pub mod sql;

pub use list::{MICROBENCHMARKS, SQL_BENCH_TESTS};
pub use metric::{Better, Metric};
pub use microbenchmark::{
    Column, Distribution, DurationClass, Group, Key, Microbenchmark, Phase, ROW_BYTES, Statement,
    Step, ZIPF_EXPONENT, find, names,
};
