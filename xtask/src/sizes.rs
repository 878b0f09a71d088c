//! What a build is besides fast: how large its server is, and what it took to make it. Pure but for
//! [`installed`].

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::build::manifest::{BinaryDone, FileDone, HostDone, Manifest};
use crate::build::recipe;
use crate::exact::sections;
use crate::matrix::model::Engine;
use crate::report::table::{Cell, Column, Table, TableRow};
use crate::source::installed;

/// Bytes of a MiB.
const MIB: f64 = 1024.0 * 1024.0;

/// Size and cost of one build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct BuildSize {
    /// The name of the build.
    pub build: String,
    /// The server's program, below the prefix.
    pub server: String,
    /// Length of its file in bytes, debug information included.
    pub file_bytes: u64,
    /// Its machine code: bytes of the section `.text`.
    pub text_bytes: u64,
    /// All installed files in bytes; none for an installed server.
    pub installed_bytes: Option<u64>,
    /// What it took to make; none for an installed server.
    pub cost: Option<Cost>,
}

/// What it took to make a build, on the machine and under the load of that time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cost {
    /// Wall time of all steps in seconds, waiting for job tokens not included.
    pub seconds: f64,
    /// CPU time of all steps in seconds; none when it was not recorded.
    pub cpu_seconds: Option<f64>,
    /// The most memory of one process, in MiB; none when it was not recorded.
    pub peak_mib: Option<u64>,
    /// The machine that built.
    pub host: HostDone,
}

impl BuildSize {
    /// From a manifest; `None` when it has no server.
    pub fn of(manifest: &Manifest) -> Option<Self> {
        let names = recipe::servers(manifest.source.engine);
        let file = names.iter().find_map(|name| {
            manifest.files.iter().find(|file| file.path == **name && file.mode != "link")
        })?;
        let steps = &manifest.steps;
        let cpu: Option<Vec<f64>> = steps.iter().map(|step| step.cpu_seconds).collect();
        Some(Self {
            build: manifest.name.clone(),
            server: file.path.clone(),
            file_bytes: file.size,
            text_bytes: text(&manifest.binaries, &file.path)?,
            installed_bytes: Some(manifest.files.iter().map(|file| file.size).sum()),
            cost: Some(Cost {
                seconds: steps.iter().map(|step| step.seconds).sum(),
                cpu_seconds: cpu.map(|list| list.iter().sum()),
                peak_mib: steps.iter().filter_map(|step| step.peak_mib).max(),
                host: manifest.host.clone(),
            }),
        })
    }
}

/// The sizes of an installed server; `None` when it is not there or cannot be read.
pub fn installed(name: &str, engine: Engine, prefix: &Path) -> Option<BuildSize> {
    let path = installed::program(engine, prefix).ok()?;
    let real = path.canonicalize().ok()?;
    let size = real.metadata().ok()?.len();
    let listed = FileDone {
        path: real.file_name()?.to_str()?.to_owned(),
        mode: "0755".to_owned(),
        size,
        sha256: crate::hash::Digest::of(b""),
    };
    let binaries = sections::binaries(real.parent()?, std::slice::from_ref(&listed)).ok()?;
    Some(BuildSize {
        build: name.to_owned(),
        server: path.strip_prefix(prefix).unwrap_or(&path).display().to_string(),
        file_bytes: size,
        text_bytes: text(&binaries, &listed.path)?,
        installed_bytes: None,
        cost: None,
    })
}

fn text(binaries: &[BinaryDone], path: &str) -> Option<u64> {
    let binary = binaries.iter().find(|binary| binary.path == path)?;
    binary.sections.iter().find(|section| section.name == ".text").map(|section| section.size)
}

/// The table for people. The base, or else the first build, is what the others' sizes are divided
/// by.
pub fn table(sizes: &[BuildSize], base: Option<&str>) -> Table {
    let base = sizes.iter().find(|size| Some(size.build.as_str()) == base).or(sizes.first());
    let mut table = Table {
        title: "Size of the server's program, and what it took to build".to_owned(),
        columns: vec![
            Column::left("build"),
            Column::right(".text MiB"),
            Column::right("relative"),
            Column::right("file MiB"),
            Column::right("relative"),
            Column::right("wall s"),
            Column::right("CPU s"),
            Column::right("peak MiB"),
        ],
        fixed: 1,
        ..Table::default()
    };
    let divided = |own: u64, base: u64| format!("{:.3}", own as f64 / base as f64);
    for size in sizes {
        let missing = || "-".to_owned();
        let cost = size.cost.as_ref();
        let mut cells = vec![
            size.build.clone(),
            format!("{:.2}", size.text_bytes as f64 / MIB),
            base.map_or_else(missing, |base| divided(size.text_bytes, base.text_bytes)),
            format!("{:.1}", size.file_bytes as f64 / MIB),
            base.map_or_else(missing, |base| divided(size.file_bytes, base.file_bytes)),
        ];
        cells.push(cost.map_or_else(missing, |cost| format!("{:.0}", cost.seconds)));
        let cpu = cost.and_then(|cost| cost.cpu_seconds);
        cells.push(cpu.map_or_else(missing, |cpu| format!("{cpu:.0}")));
        let peak = cost.and_then(|cost| cost.peak_mib);
        cells.push(peak.map_or_else(missing, |peak| peak.to_string()));
        table.rows.push(TableRow::Cells(cells.into_iter().map(Cell::plain).collect()));
    }
    let hosts: Vec<&HostDone> =
        sizes.iter().filter_map(|size| Some(&size.cost.as_ref()?.host)).collect();
    if hosts.windows(2).any(|pair| pair[0] != pair[1]) {
        let text = "built on different machines or systems: their times are not comparable";
        table.footnotes.push(("note:".to_owned(), text.to_owned()));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::manifest::SectionDone;
    use crate::build::statement::tests::manifest;

    fn sized(name: &str, text: u64, file: u64) -> Manifest {
        let mut manifest = manifest();
        manifest.name = name.to_owned();
        manifest.source.engine = Engine::Postgres;
        let sha256 = crate::hash::Digest::of(b"");
        let one =
            |path: &str, size| FileDone { path: path.into(), mode: "0755".into(), size, sha256 };
        manifest.files = vec![one("bin/initdb", 10), one("bin/postgres", file)];
        let section = |name: &str, size| SectionDone {
            name: name.into(),
            loaded: true,
            size,
            sha256: String::new(),
        };
        manifest.binaries = vec![BinaryDone {
            path: "bin/postgres".into(),
            sections: vec![section(".text", text), section(".data", 5)],
        }];
        for (index, step) in manifest.steps.iter_mut().enumerate() {
            step.seconds = 2.0;
            step.cpu_seconds = Some(1.5);
            step.peak_mib = Some(100 + index as u64);
        }
        manifest
    }

    #[test]
    fn sizes_and_costs_are_the_manifests() {
        let manifest = sized("a", 3 << 20, 8 << 20);
        let size = BuildSize::of(&manifest).expect("a server");
        let steps = manifest.steps.len();
        assert_eq!((size.text_bytes, size.file_bytes), (3 << 20, 8 << 20));
        assert_eq!(size.installed_bytes, Some((8 << 20) + 10));
        let cost = size.cost.expect("a cost");
        assert_eq!(cost.seconds, 2.0 * steps as f64);
        assert_eq!(cost.cpu_seconds, Some(1.5 * steps as f64));
        assert_eq!(cost.peak_mib, Some(99 + steps as u64));
        let mut without = sized("b", 1, 1);
        without.steps[0].cpu_seconds = None;
        let cost = BuildSize::of(&without).and_then(|size| size.cost).expect("a cost");
        assert_eq!(cost.cpu_seconds, None, "a part is not the whole");
        without.files.clear();
        assert_eq!(BuildSize::of(&without), None);
    }

    #[test]
    fn the_base_divides_and_other_machines_are_told() {
        let of = |manifest: &Manifest| BuildSize::of(manifest).expect("a server");
        let (a, mut b) = (sized("a", 4 << 20, 8 << 20), sized("b", 3 << 20, 10 << 20));
        let cells = |table: &Table, row: usize| match &table.rows[row] {
            TableRow::Cells(cells) => {
                cells.iter().map(|cell| cell.text.clone()).collect::<Vec<_>>()
            }
            TableRow::Section(_) => panic!("a heading"),
        };
        let shown = table(&[of(&a), of(&b)], Some("a"));
        assert_eq!(cells(&shown, 0)[..5], ["a", "4.00", "1.000", "8.0", "1.000"]);
        assert_eq!(cells(&shown, 1)[..5], ["b", "3.00", "0.750", "10.0", "1.250"]);
        assert!(shown.footnotes.is_empty());
        b.host.kernel.push_str("-other");
        assert_eq!(table(&[of(&a), of(&b)], None).footnotes.len(), 1);
    }

    #[test]
    fn an_installed_server_has_sizes_only() {
        let temp = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(temp.path().join("bin")).expect("made");
        let me = std::env::current_exe().expect("this test");
        std::fs::copy(&me, temp.path().join("bin/postgres")).expect("copied");
        let size = installed("own", Engine::Postgres, temp.path()).expect("a server");
        assert_eq!(size.file_bytes, me.metadata().expect("there").len());
        assert!(size.text_bytes > 100_000 && size.text_bytes < size.file_bytes);
        assert!(size.cost.is_none() && size.server == "bin/postgres");
        assert_eq!(installed("own", Engine::Mysql, temp.path()), None);
    }
}
