//! Integration tests of the real program and of real servers, in one binary.

mod bench;
