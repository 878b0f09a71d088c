//! How long expanding takes: from a parsed matrix to cells with names and ids, checked.
//!
//! `cargo bench -p xtask-bench --bench expand`. One source, six axes; 1,000, 100,000 and 1,000,000
//! cells.

use std::fmt::Write as _;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use xtask::diag::File;
use xtask::facts::{Facts, SourceFacts, Toolchain, Unavailable, Unusable};
use xtask::hash::Digest;
use xtask::matrix::model::{Engine, Family, Matrix, Options, Source};
use xtask::matrix::{Known, expand, parse};

/// A machine that has what it is asked for.
struct Machine;

impl Facts for Machine {
    fn arch(&self) -> &str {
        "x86_64"
    }

    fn toolchain(&self, name: &str) -> Result<Toolchain, Unavailable> {
        Ok(Toolchain {
            name: name.to_owned(),
            family: Family::Gcc,
            version: "12.2.0".to_owned(),
            target: "x86_64-linux-gnu".to_owned(),
            tools: Vec::new(),
            files: Vec::new(),
            digest: Digest::of(name.as_bytes()),
            details: Default::default(),
            sealed: None,
        })
    }

    fn resolve(&self, _: &Toolchain, options: &Options) -> Result<Options, Unusable> {
        Ok(options.clone())
    }

    fn source(&self, source: &Source) -> Result<SourceFacts, Unavailable> {
        let digest = Digest::of(source.name.as_bytes());
        Ok(SourceFacts { version: "15.18".to_owned(), digest, patches: Vec::new() })
    }
}

/// A matrix of one source and axes of these sizes, each setting with a flag of its own.
fn matrix(sizes: &[usize]) -> Matrix {
    let mut text = "schema = 1\n[source.pg]\nengine = 'postgres'\nversion = '15.18'\ngit = 'x'\n\
                    rev = '0123456789012345678901234567890123456789'\n"
        .to_owned();
    let mut cross = String::new();
    for (axis, size) in sizes.iter().enumerate() {
        writeln!(text, "[axis.a{axis}]").expect("writes to a string");
        for setting in 0..*size {
            writeln!(
                text,
                "s{setting} = {{ tag = 'a{axis}s{setting}', flags = ['-fa{axis}={setting}'] }}"
            )
            .expect("writes to a string");
        }
        write!(cross, "a{axis} = '*', ").expect("writes to a string");
    }
    let cross = cross.trim_end_matches(", ");
    writeln!(text, "[experiment.e]\nsources = ['pg']\ncross = {{ {cross} }}")
        .expect("writes to a string");
    let known = Known { names: Vec::new(), find: |_| None };
    parse(&File::new("generated", &text), &known).expect("a right matrix")
}

fn expanding(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("expand");
    group.sample_size(10);
    let recipe = |_: Engine| "r1";
    for sizes in [&[10, 10, 10][..], &[10, 10, 10, 10, 10], &[10, 10, 10, 10, 10, 10]] {
        let matrix = matrix(sizes);
        let cells: usize = sizes.iter().product();
        group.throughput(Throughput::Elements(cells as u64));
        group.bench_function(BenchmarkId::from_parameter(cells), |bencher| {
            bencher.iter(|| {
                let all = expand(&matrix, &matrix.experiments[0], &[], &Machine, recipe);
                let all = all.unwrap_or_else(|error| panic!("{error}"));
                assert_eq!((all.builds(), all.distinct_builds()), (cells, cells));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, expanding);
criterion_main!(benches);
