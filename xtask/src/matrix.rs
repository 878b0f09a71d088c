//! `matrix.toml`: read, checked, expanded. Pure.
//!
//! [`parse`] turns a text into a [`model::Matrix`] or into all of its mistakes; [`expand()`] turns
//! a matrix, an experiment and what is known of this machine into builds and targets.
//! docs/matrix.md describes the language for people.

pub mod append;
pub mod decode;
pub mod expand;
pub mod expr;
pub mod formula;
pub mod model;
pub mod pattern;
pub mod placeholder;
pub mod plan;
pub mod read;
pub mod version;
pub mod why;

pub use expand::{Expansion, expand};
pub use read::{Known, parse};
