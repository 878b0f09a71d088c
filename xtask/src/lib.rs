//! The tool behind `cargo xtask`: expands `matrix.toml` into builds, makes them from source, runs
//! benchmarks against them, and compares.
//!
//! One way through, each stage taking the previous stage's type and nothing else:
//!
//! ```text
//! matrix.toml -> cells -> sources -> builds -> servers -> runs -> records -> comparison -> report
//!    matrix     matrix    source     build     server    bench    record     compare      report
//! ```
//!
//! [`matrix`], [`build::spec`], statistics, comparing and rendering are pure; only [`proc`],
//! [`launch`] and the files whose names say so touch the world. ARCHITECTURE.md has the code map.

pub mod audit;
pub mod bench;
pub mod build;
pub mod cli;
pub mod cmd;
pub mod compare;
pub mod diag;
pub mod doctor;
pub mod env;
pub mod exact;
pub mod exit;
pub mod facts;
pub mod hash;
pub mod host;
pub mod import;
pub mod interrupt;
pub mod launch;
pub mod matrix;
pub mod one_axis;
pub mod proc;
pub mod progress;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod server;
pub mod sizes;
pub mod source;
pub mod stats;
pub mod toolchain;
pub mod world;
