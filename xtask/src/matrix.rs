//! `matrix.toml`: read, checked, expanded. Pure.
//!
//! [`parse`] turns a text into a [`model::Matrix`] or into all of its mistakes.
//! docs/matrix.md describes the language for people.

pub mod decode;
pub mod expand;
pub mod expr;
pub mod formula;
pub mod model;
pub mod pattern;
pub mod read;
pub mod version;

pub use read::{Known, parse};
