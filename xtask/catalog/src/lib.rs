//! What the tool and its load driver both know: the microbenchmarks ([`Microbenchmark`]) and the
//! language that the two processes speak ([`protocol`]). Data and types only, no I/O.

pub mod protocol;
