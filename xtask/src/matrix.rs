//! `matrix.toml`: read, checked, expanded. Pure.

pub mod expr;
pub mod formula;
pub mod model;
pub mod pattern;
pub mod version;
