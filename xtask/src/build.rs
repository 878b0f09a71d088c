//! Builds: what they are (`spec`), how an engine is made (recipes), and where they lie.

pub mod spec;
