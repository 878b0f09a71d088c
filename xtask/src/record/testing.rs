//! Records for tests: one line makes one, the fields that do not matter are filled in.

use catalog::protocol::{ClientUsage, Latency};

use super::{Outcome, PlacementUsed, Record, SCHEMA, Sample, ServerUsage};
use crate::hash::Digest;
use crate::matrix::model::Placement;

/// A run with this QPS, experiment `e`, host `h`; blocks are half an hour apart.
pub(crate) fn record(target: &str, microbenchmark: &str, block: u32, qps: f64) -> Record {
    let group = match microbenchmark {
        name if name.contains("random-points") => "point-2",
        name if name.contains("point") => "point-1",
        name if name.contains("update") || name.contains("insert") => "writes",
        name if name.contains("read-only") => "range-2",
        _ => "range-1",
    };
    let minutes = 30 * block;
    Record {
        schema: SCHEMA,
        tool: "0.1.0".into(),
        experiment: "e".into(),
        block,
        place: 0,
        order_seed: 1,
        invocation: format!("{target}-{block}"),
        target: target.into(),
        target_id: Digest::of(target.as_bytes()),
        build: target.into(),
        build_id: Digest::of(target.as_bytes()),
        code_id: None,
        audit: None,
        compiler: Some("gcc 12.2.0".into()),
        server_version: Some("15.18".into()),
        settings: vec![("opt".into(), "o2".into())],
        config: "default".into(),
        workload: "w".into(),
        workload_id: Digest::of(microbenchmark.as_bytes()),
        microbenchmark: microbenchmark.into(),
        group: group.into(),
        threads: 1,
        host: "h".into(),
        boot: "boot-1".into(),
        kernel: "6.1.0".into(),
        driver: Digest::of(b"driver"),
        started: format!("2026-01-01T{:02}:{:02}:00Z", minutes / 60, minutes % 60),
        placement: PlacementUsed {
            kind: Placement::Free,
            server_cpus: vec![0, 1],
            client_cpus: vec![0, 1],
        },
        imported: None,
        outcome: Outcome::Ok(Box::new(sample(qps))),
    }
}

/// A run that could not be measured.
pub(crate) fn failed(target: &str, microbenchmark: &str, block: u32, reason: &str) -> Record {
    let outcome = Outcome::Failed { reason: reason.into(), log: None };
    Record { outcome, ..record(target, microbenchmark, block, 1.0) }
}

/// The sample of a run: ten thousand seconds, so that the counts are whole for any QPS; 80 us of
/// server CPU, 20 us of client CPU, two context switches and half a KiB written per query.
fn sample(qps: f64) -> Sample {
    let seconds = 10_000.0;
    let queries = (qps * seconds).round();
    Sample {
        seconds,
        warmup_seconds: 1.0,
        queries: queries as u64,
        events: queries as u64,
        rows: queries as u64,
        errors: vec![],
        queries_per_second: vec![],
        latency: Latency { p99_us: 300, max_us: 400, ..Latency::default() },
        server: ServerUsage {
            user_seconds: queries * 60e-6,
            system_seconds: queries * 20e-6,
            context_switches: 2 * queries as u64,
            read_kib: 0.0,
            written_kib: queries / 2.0,
        },
        client: ClientUsage {
            user_seconds: queries * 15e-6,
            system_seconds: queries * 5e-6,
            context_switches: queries as u64,
        },
        machine: None,
        sizes: None,
        rows_written_kib: None,
        streams: Vec::new(),
        maintained: None,
        rate: None,
        metrics: Vec::new(),
    }
}
