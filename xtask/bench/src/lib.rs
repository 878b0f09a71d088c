//! Holds the criterion benchmarks of the tool; see `benches/`.
