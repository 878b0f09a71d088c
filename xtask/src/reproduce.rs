//! Making a colleague's build again: its manifest is found, this machine held against it, then it
//! is built and compared.
//!
//! A manifest is all that is needed: neither `matrix.toml` nor `patches/` have a say. It is checked
//! before anything is built ([`check`]): a build by another compiler could only come out different.
//! Everything lies in `work/reproduce/<name>-<id>/`; the store of builds is not touched.

pub mod check;
pub mod find;
pub mod make;
pub mod rounds;
