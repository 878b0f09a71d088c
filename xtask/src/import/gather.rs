//! From files to figures: what each file is, which target and test its name and folder mean, and
//! the parser for it. Texts come from a function, so this is pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::import::kind::{Kind, Named, by_name, by_text};
use crate::import::{
    Imported, Options, Place, Skip, file_name, hyperfine, ibench, merge, met, names, pgbench,
    published, sqlbench, stat, sysbench, table,
};

/// Gives the text of a file, or the reason to skip it.
pub type Read<'a> = &'a mut dyn FnMut(&Path) -> Result<String, String>;

/// The figures of one file.
pub struct Part {
    /// What the file is.
    pub kind: Kind,
    /// Whether a second file of the same target and test is another run, not the same one told
    /// again.
    pub repeats: bool,
    /// What came out.
    pub imported: Imported,
}

/// Imports `files`, which lie below `root`.
pub fn files(root: &Path, files: &[PathBuf], options: &Options, read: Read<'_>) -> Imported {
    let mut gatherer = Gatherer::new(root, files, options);
    let mut parts = Vec::with_capacity(files.len());
    for file in files {
        parts.extend(gatherer.file(file, read));
    }
    for (place, clients) in std::mem::take(&mut gatherer.clients) {
        let mut imported = Imported::default();
        ibench::clients(&place, &clients, &mut imported);
        parts.push(Part { kind: Kind::IbenchLog, repeats: false, imported });
    }
    let mut imported = merge::merge(parts, options);
    imported.skipped.append(&mut gatherer.skipped);
    for (folder, kinds) in gatherer.nothing {
        let kinds: Vec<String> =
            kinds.into_iter().map(|(kind, count)| format!("{count} of `{kind}`")).collect();
        let what = format!("files without figures to compare: {}", kinds.join(", "));
        imported.skipped.push(Skip { file: folder, line: 0, what });
    }
    imported
}

struct Gatherer<'a> {
    root: &'a Path,
    options: &'a Options,
    known: HashSet<&'a Path>,
    /// Numbers of clients of a test, by folder and full name.
    dops: HashMap<(&'a Path, String), Vec<u32>>,
    /// Logs of the insert benchmark by step, whose file is its folder.
    clients: BTreeMap<Place, Vec<ibench::Client>>,
    nothing: BTreeMap<PathBuf, BTreeMap<String, u32>>,
    skipped: Vec<Skip>,
}

impl<'a> Gatherer<'a> {
    fn new(root: &'a Path, files: &'a [PathBuf], options: &'a Options) -> Self {
        let mut dops: HashMap<(&Path, String), Vec<u32>> = HashMap::new();
        for path in files {
            let Some(file) = names::file(file_name(path)) else { continue };
            let Some(dop) = file.dop else { continue };
            dops.entry((folder(path), file.full())).or_default().push(dop);
        }
        for dops in dops.values_mut() {
            dops.sort_unstable();
            dops.dedup();
        }
        Self {
            root,
            options,
            known: files.iter().map(PathBuf::as_path).collect(),
            dops,
            clients: BTreeMap::new(),
            nothing: BTreeMap::new(),
            skipped: Vec::new(),
        }
    }

    fn skip(&mut self, file: &Path, what: impl Into<String>) {
        self.skipped.push(Skip { file: file.to_owned(), line: 0, what: what.into() });
    }

    fn file(&mut self, file: &Path, read: Read<'_>) -> Option<Part> {
        let name = file_name(file);
        let named = by_name(name);
        if named == Named::Nothing {
            // `sb.ps`, without the test.
            let kind = match names::file(name) {
                Some(it) if it.range.is_some() => format!("sb.{}", it.kind),
                Some(_) => name.to_owned(),
                None => name.split('.').take(2).collect::<Vec<_>>().join("."),
            };
            *self.nothing.entry(folder(file).to_owned()).or_default().entry(kind).or_default() += 1;
            return None;
        }
        let text = match read(file) {
            Ok(text) => text,
            Err(why) => {
                self.skip(file, why);
                return None;
            }
        };
        let kind = match named {
            Named::Is(kind) => Some(kind),
            _ => by_text(name, &text).or(self.options.kind),
        };
        let Some(kind) = kind else {
            self.skip(file, "neither its name nor its first lines are of a known kind");
            return None;
        };
        let mut part = Part { kind, repeats: false, imported: Imported::default() };
        self.parse(file, &text, &mut part, read);
        Some(part)
    }

    fn parse(&mut self, file: &Path, text: &str, part: &mut Part, read: Read<'_>) {
        let place = self.place(file, part.kind);
        let out = &mut part.imported;
        match part.kind {
            Kind::Met => met::single(&place, text, out),
            Kind::AllMet => met::all(&place, text, out),
            Kind::Sysbench => {
                part.repeats = place.test.is_empty();
                sysbench::parse(&place, text, out);
                self.name_test(file, part);
            }
            Kind::Vmstat => stat::vmstat(&place, text, self.options.samples, out),
            Kind::Iostat => stat::iostat(&place, text, self.options.device.as_deref(), out),
            Kind::Load => load(&place, text, out),
            Kind::OneLine => {
                let dops = self.dops.get(&(folder(file), place.test.clone()));
                table::one_line(&place, text, dops.map_or(&[], Vec::as_slice), out);
            }
            Kind::Rates => {
                // `qps.abs.all.csv` has its names in `qps.abs.all.tsv`.
                let twin = self.other(file, &file.with_extension("tsv"), read);
                table::rates(&place, text, twin.map(|it| table::legend(&it)).as_ref(), out);
            }
            Kind::IbenchTable => {
                let name = file_name(file).replacen("rel.", "mrg.", 1);
                let twin = self.other(file, &file.with_file_name(name), read);
                let bases = twin.map(|it| ibench::bases(&it)).unwrap_or_default();
                ibench::table(&place, text, &bases, out);
            }
            Kind::IbenchResult => ibench::result(&place, text, out),
            Kind::IbenchLog => {
                if let Some(client) = ibench::client(&place, text, out) {
                    let step = Place { file: folder(file).to_owned(), ..place };
                    self.clients.entry(step).or_default().push(client);
                }
            }
            Kind::SqlTest => sqlbench::test(&place, text, out),
            Kind::SqlRun => sqlbench::run(&place, text, out),
            Kind::Pgbench => {
                part.repeats = true;
                pgbench::parse(&place, text, out);
            }
            Kind::Hyperfine => {
                part.repeats = true;
                hyperfine::parse(&place, text, out);
            }
            Kind::Published => published::parse(&place, text, out),
        }
    }

    /// The text of a file that explains another one.
    fn other(&self, file: &Path, other: &Path, read: Read<'_>) -> Option<String> {
        if file == other || !self.known.contains(other) { None } else { read(other).ok() }
    }

    /// What the names of a file and its folders mean.
    fn place(&self, file: &Path, kind: Kind) -> Place {
        let name = file_name(file);
        let parent = file_name(folder(file)).to_owned();
        let plain = Place { file: file.to_owned(), target: parent.clone(), ..Place::default() };
        match kind {
            _ if names::file(name).is_some() => met::located(&plain, name),
            Kind::IbenchTable => {
                let step = name.split_once('.').map_or(name, |(_, step)| step);
                plain.testing(step)
            }
            Kind::IbenchResult | Kind::IbenchLog => {
                let grandparent = file_name(folder(folder(file))).to_owned();
                let dop = name.split('.').find_map(|it| it.strip_prefix("dop")?.parse().ok());
                let target = if ibench::step(&parent) { grandparent } else { parent.clone() };
                Place { threads: dop, ..plain.of(&target).testing(&parent) }
            }
            Kind::SqlTest | Kind::SqlRun => {
                let (test, server) = sqlbench::name(name).unwrap_or(("", ""));
                // All servers are called `mysql` unless a suffix was given: then the folder tells.
                let output = parent == "output";
                let above = if output { folder(folder(file)) } else { folder(file) };
                let target = if server.contains('-') { server } else { file_name(above) };
                plain.of(target).testing(test)
            }
            _ => plain.of(&self.bare_target(file)),
        }
    }

    /// The target of a file whose name means nothing: the folder right below the root that it is
    /// in; right in the root each file is a target of its own.
    fn bare_target(&self, file: &Path) -> String {
        let below = file.strip_prefix(self.root).unwrap_or(file);
        let mut parts = below.components();
        let first = parts.next().and_then(|it| it.as_os_str().to_str()).unwrap_or_default();
        if parts.next().is_some() { first.to_owned() } else { stem(first).to_owned() }
    }

    /// Text of sysbench tells its script only where somebody printed the command; else the file's
    /// name is the test, without the number of a repeat.
    fn name_test(&self, file: &Path, part: &mut Part) {
        let alone = self.bare_target(file) == stem(file_name(file));
        let test = repeated(stem(file_name(file)));
        if !part.repeats || alone || test.is_empty() {
            return;
        }
        for figure in part.imported.results.iter_mut().filter(|it| it.test == "sysbench") {
            test.clone_into(&mut figure.test);
        }
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// A file's name without its extension, which is no number: `pg15.4` is a name.
fn stem(name: &str) -> &str {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    match name.rsplit_once('.') {
        Some((stem, end)) if !stem.is_empty() && end.parse::<u32>().is_err() => stem,
        _ => name,
    }
}

/// `oltp_read_only` of `oltp_read_only.2`, `oltp_read_only-run3`; empty for `run1`.
fn repeated(stem: &str) -> &str {
    let rest = stem.trim_end_matches(|it: char| it.is_ascii_digit());
    if rest.len() == stem.len() {
        return stem;
    }
    let run = rest.strip_suffix("run").unwrap_or(rest);
    let cut = run.trim_end_matches(['.', '-', '_']);
    if cut.len() == rest.len() { stem } else { cut }
}

/// Reads the last line of a load: `Load seconds is S for N tables, M Mips, R ips`.
fn load(place: &Place, text: &str, out: &mut Imported) {
    let found = super::lines(text).filter(|(_, it)| it.starts_with("Load seconds is ")).last();
    let Some((line, text)) = found else {
        out.skip(place, 0, "no line `Load seconds is`: the load failed or the file is cut");
        return;
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    if let Some(seconds) = words.get(3) {
        out.add(place, line, "seconds", seconds);
    }
    if let Some([rate, "ips"]) = words.last_chunk() {
        out.add(place, line, "ips", rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Imports files that exist here only.
    fn import(files: &[(&str, &str)], options: &Options) -> Imported {
        let paths: Vec<PathBuf> = files.iter().map(|(name, _)| PathBuf::from(name)).collect();
        let texts: HashMap<&str, &str> = files.iter().copied().collect();
        super::files(Path::new("r"), &paths, options, &mut |path| {
            texts.get(path.to_str().unwrap()).map(|it| (*it).to_owned()).ok_or("gone".to_owned())
        })
    }

    const SYSBENCH: &str = "sysbench 1.0.20 (using system LuaJIT 2.1.0)\nNumber of threads: 4\n\
                            SQL statistics:\n    queries:     9 (3.00 per sec.)\n";

    #[test]
    fn repeats_of_bare_output_are_numbered() {
        let out = import(
            &[
                ("r/my8-o2/oltp_read_only.1", SYSBENCH),
                ("r/my8-o2/oltp_read_only.2", SYSBENCH),
                ("r/my8-o3/run1.txt", SYSBENCH),
                ("r/my9.txt", SYSBENCH),
            ],
            &Options::default(),
        );
        let found: Vec<_> =
            out.results.iter().map(|it| (&*it.target, &*it.test, it.repeat)).collect();
        let want = [
            ("my8-o2", "oltp_read_only", 0),
            ("my8-o2", "oltp_read_only", 1),
            ("my8-o3", "sysbench", 0),
            ("my9", "sysbench", 0),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn the_step_of_the_insert_benchmark_is_its_folder() {
        let head = "i_sec\tt_sec\ti_ips\ti_qps\tmax_i\tt_ins\tt_query\tretry_i\n";
        let log = format!("{head}1.0\t2.0\t5\t0\t9\t10\t0\t0\n");
        let files = [
            ("r/20m.my8022.cx6d/l.i0/o.ib.dop2.1", log.as_str()),
            ("r/20m.my8022.cx6d/l.i0/o.ib.dop2.2", log.as_str()),
            ("r/20m.my8022.cx6d/l.i0/o.ps.dop2", ""),
        ];
        let out = import(&files, &Options::default());
        let rate = &out.results[0];
        assert_eq!((&*rate.target, &*rate.test, &*rate.metric), ("20m.my8022.cx6d", "l.i0", "ips"));
        assert_eq!((rate.text.as_str(), rate.threads), ("10.0", Some(2)));
        assert_eq!(out.skipped.len(), 1);
        assert_eq!(out.skipped[0].what, "files without figures to compare: 1 of `o.ps`");
    }

    #[test]
    fn targets_of_sql_bench_and_what_cannot_be_read() {
        let total = "Total time: 7 wallclock secs ( 0.10 usr)\n";
        let out = import(
            &[
                ("r/5.0.85/output/ATIS-mysql-Linux_3", total),
                ("r/output/ATIS-mysql-ps-Linux_3", total),
            ],
            &Options::default(),
        );
        let found: Vec<_> = out.results.iter().map(|it| (&*it.target, &*it.test)).collect();
        assert_eq!(found, [("5.0.85", "ATIS"), ("mysql-ps", "ATIS")]);
        let files = [PathBuf::from("r/qps.abs.x.tsv"), PathBuf::from("r/letter.txt")];
        let out = super::files(Path::new("r"), &files, &Options::default(), &mut |path| {
            if path.ends_with("letter.txt") {
                Ok("Dear".to_owned())
            } else {
                Err("gone".to_owned())
            }
        });
        let said: Vec<String> = out.skipped.iter().map(ToString::to_string).collect();
        assert_eq!(said[0], "r/qps.abs.x.tsv: gone");
        assert!(said[1].contains("known kind"), "{said:?}");
        // Where nothing tells, the caller may.
        let forced = Options { kind: Some(Kind::Vmstat), ..Options::default() };
        let out = import(&[("r/log", " r b cs us sy\n 1 0 7 1 2\n")], &forced);
        assert_eq!(out.results.len(), 2);
    }

    #[test]
    fn names_of_repeats() {
        let cases = [
            ("oltp.2", "oltp"),
            ("oltp-run3", "oltp"),
            ("oltp_10", "oltp"),
            ("run1", ""),
            ("range100", "range100"),
            ("oltp", "oltp"),
        ];
        for (stem, want) in cases {
            assert_eq!(repeated(stem), want, "{stem}");
        }
        assert_eq!((stem("a.b.txt"), stem("pg15.4"), stem("x.txt.gz")), ("a.b", "pg15.4", "x"));
    }
}
