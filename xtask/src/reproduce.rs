//! Making a colleague's build again: find its manifest, hold this machine against it, build, compare.
//!
//! A manifest is all that is needed: neither `matrix.toml` nor `patches/` have a say. It is checked
//! before anything is built ([`check`]): a build by another compiler could only come out different.
//! Everything lies in `work/reproduce/<name>-<id>/`; the store of builds is not touched.

pub mod check;
pub mod find;
pub mod make;
pub mod rounds;
