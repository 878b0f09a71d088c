//! Logs of `vmstat 1` and `iostat -kx 1`: means over a run, columns found by their headers' names,
//! because their order changed with every second distribution.

use crate::import::{Figure, Imported, Place, lines, number};

/// Which lines of a log of `vmstat` are samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Samples {
    /// As published figures count: a header that repeats is a sample of zeros, and the first line,
    /// which tells the time since boot, is one. CPU comes out some 4.5% low, of all targets alike.
    #[default]
    Published,
    /// The seconds of the run and nothing else.
    Run,
}

/// Reads a log of `vmstat`: context switches per second, and percent of the machine's CPU (user and
/// system).
pub fn vmstat(place: &Place, text: &str, samples: Samples, out: &mut Imported) {
    let (mut columns, mut first_line) = (None, None);
    let (mut count, mut switches, mut cpu) = (0_u32, 0.0, 0.0);
    let mut since_boot = samples == Samples::Run;
    for (line_number, line) in lines(text) {
        if line.starts_with("procs") {
            // The very first one is not counted even by those who count headers.
            let repeated = samples == Samples::Published && columns.is_some();
            count += u32::from(repeated);
            continue;
        }
        let cells: Vec<&str> = line.split_whitespace().collect();
        let at = |name: &str| cells.iter().position(|it| *it == name);
        if let (Some(cs), Some(us), Some(sy)) = (at("cs"), at("us"), at("sy")) {
            columns = Some([cs, us, sy]);
            continue;
        }
        let Some(columns) = columns.filter(|_| !cells.is_empty()) else { continue };
        let values = columns.map(|at| cells.get(at).and_then(|it| number(it)));
        let [Some(cs), Some(us), Some(sy)] = values else {
            out.skip(place, line_number, "a line of vmstat without its columns: cut");
            continue;
        };
        if std::mem::take(&mut since_boot) {
            continue;
        }
        first_line.get_or_insert(line_number);
        count += 1;
        switches += cs;
        cpu += us + sy;
    }
    let Some(line) = first_line else {
        out.skip(place, 0, "no samples of vmstat");
        return;
    };
    let count = f64::from(count);
    out.results.push(mean(place, line, "cs/s", 0, switches / count));
    out.results.push(mean(place, line, "cpu/s", 1, cpu / count));
}

/// Reads a log of `iostat`: reads and writes of `device` per second. Without a device there must be
/// only one that is a disk.
///
/// The name is matched exactly; the published figures took every line with the name in it.
pub fn iostat(place: &Place, text: &str, device: Option<&str>, out: &mut Imported) {
    let found = disks(text);
    let device = match (device, found.as_slice()) {
        (Some(device), _) => device,
        (None, [one]) => one,
        (None, []) => {
            out.skip(place, 0, "no device in this log of iostat");
            return;
        }
        (None, several) => {
            out.skip(place, 0, format!("which device? It has `{}`", several.join("`, `")));
            return;
        }
    };
    let mut columns = None;
    let (mut count, mut sums, mut first_line) = (0_u32, [0.0; 4], None);
    for (line_number, line) in lines(text) {
        if line.starts_with("Device") {
            columns = Columns::of(line);
        } else if line.split_whitespace().next() == Some(device) {
            let Some(values) = columns.as_ref().and_then(|it| it.values(line)) else {
                out.skip(place, line_number, "a line of iostat without its columns: cut");
                continue;
            };
            first_line.get_or_insert(line_number);
            count += 1;
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += value;
            }
        }
    }
    let Some(line) = first_line else {
        out.skip(
            place,
            0,
            format!("no line of device `{device}`; it has `{}`", found.join("`, `")),
        );
        return;
    };
    let [r, w, rkb, wkb] = sums.map(|it| it / f64::from(count));
    for (metric, value) in
        [("r/s", r), ("rMB/s", rkb / 1024.0), ("w/s", w), ("wMB/s", wkb / 1024.0)]
    {
        out.results.push(mean(place, line, metric, 1, value));
    }
}

/// Names of the devices, without those that are no disks.
fn disks(text: &str) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let mut table = false;
    for line in text.lines() {
        if line.starts_with("Device") {
            // A second table repeats the names.
            if !names.is_empty() {
                break;
            }
            table = true;
        } else if table && let Some(name) = line.split_whitespace().next() {
            let virtually = ["loop", "ram", "zram", "sr"];
            if !virtually.iter().any(|it| name.starts_with(it)) {
                names.push(name);
            }
        } else {
            table = false;
        }
    }
    names
}

/// Where reads, writes and their kilobytes per second stand.
struct Columns {
    at: [usize; 4],
    /// 1024 where the sizes are in megabytes.
    scale: f64,
}

impl Columns {
    fn of(header: &str) -> Option<Self> {
        let names: Vec<&str> = header.split_whitespace().collect();
        let at = |name: &str| names.iter().position(|it| *it == name);
        let sizes = |r: &str, w: &str| Some((at(r)?, at(w)?));
        let (scale, (rkb, wkb)) = match sizes("rkB/s", "wkB/s") {
            Some(found) => (1.0, found),
            None => (1024.0, sizes("rMB/s", "wMB/s")?),
        };
        Some(Self { at: [at("r/s")?, at("w/s")?, rkb, wkb], scale })
    }

    fn values(&self, line: &str) -> Option<[f64; 4]> {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let mut values = [0.0; 4];
        for (value, at) in values.iter_mut().zip(self.at) {
            *value = number(cells.get(at)?)?;
        }
        values[2] *= self.scale;
        values[3] *= self.scale;
        Some(values)
    }
}

/// The mean itself, and how `sb.met` prints it.
fn mean(place: &Place, line: u32, metric: &str, decimals: usize, value: f64) -> Figure {
    place.figure(line, metric, &format!("{value:.decimals$}"), value)
}

/// What a mean is per operation at this many operations per second, as `sb.met` prints it; none for
/// the metrics that it does not divide.
pub fn per_operation(figure: &Figure, rate: f64) -> Option<Figure> {
    let (metric, factor, decimals) = match figure.metric.as_str() {
        "cs/s" => ("cs/o", 1.0, 3),
        "cpu/s" => ("cpu/o", 1.0, 6),
        "r/s" => ("r/o", 1.0, 3),
        "rMB/s" => ("rKB/o", 1024.0, 3),
        "wMB/s" => ("wKB/o", 1024.0, 3),
        _ => return None,
    };
    if rate <= 0.0 {
        return None;
    }
    let value = figure.value * factor / rate;
    let (unit, lower_is_better) = crate::import::metric::describe(metric);
    Some(Figure {
        metric: metric.to_owned(),
        value,
        text: format!("{value:.decimals$}"),
        unit: unit.to_owned(),
        lower_is_better,
        ..figure.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMSTAT: &str = "procs -----------memory---------- ---swap-- ------cpu-----\n \
                          r  b   in   cs us sy id wa st\n 4  0    0  900 16 10 72  2  0\n \
                          4  0 1000  100 76  6 18  0  0\nprocs -----------memory----------\n \
                          r  b   in   cs us sy id wa st\n 4  0 1000  200 70  8 18  0  0\n";

    fn read(parse: impl Fn(&Place, &mut Imported)) -> (Vec<(String, f64)>, Vec<String>) {
        let mut out = Imported::default();
        parse(&Place::default(), &mut out);
        let figures = out.results.iter().map(|it| (it.metric.clone(), it.value)).collect();
        (figures, out.skipped.iter().map(|it| format!("{}: {}", it.line, it.what)).collect())
    }

    #[test]
    fn headers_of_vmstat_count_or_not() {
        let (figures, _) = read(|place, out| vmstat(place, VMSTAT, Samples::Published, out));
        // 900, 100, a header, 200; 26, 82, a header, 78.
        assert_eq!(figures, [("cs/s".to_owned(), 300.0), ("cpu/s".to_owned(), 46.5)]);
        let (figures, skipped) = read(|place, out| vmstat(place, VMSTAT, Samples::Run, out));
        assert_eq!(figures, [("cs/s".to_owned(), 150.0), ("cpu/s".to_owned(), 80.0)]);
        assert_eq!(skipped, [""; 0]);
        let (figures, skipped) = read(|place, out| {
            vmstat(place, "r b cs us sy\n1 0 7 1 1\n4 0", Samples::Published, out);
        });
        assert_eq!((figures.len(), skipped[0].starts_with("3: ")), (2, true));
        let (_, skipped) = read(|place, out| vmstat(place, "", Samples::Run, out));
        assert_eq!(skipped, ["0: no samples of vmstat"]);
    }

    /// Heads of the tables of four distributions: 16.04, 18.04, 20.04 and 22.04 of Ubuntu.
    const LAYOUTS: [(&str, &str); 4] = [
        (
            "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz",
            "9 9 1 2 3 4 9",
        ),
        (
            "Device            r/s     w/s     rkB/s     wkB/s   rrqm/s   wrqm/s  %rrqm",
            "1 2 3 4 9 9 9",
        ),
        (
            "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s",
            "1 3 9 9 9 9 2 4 9",
        ),
        (
            "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   f/s",
            "1 3 9 9 9 9 2 4 9",
        ),
    ];

    #[test]
    fn iostat_is_read_by_its_headers() {
        for (header, values) in LAYOUTS {
            let text = format!(
                "Linux 5 (host)\n\navg-cpu:  %user\n 1\n\n{header}\nloop0 {values}\nmd2 {values}\n\
                 md20 8 8 8 8 8 8 8 8 8 8\n\n{header}\nmd2 {values}\nmd2 1\n"
            );
            let (figures, skipped) = read(|place, out| iostat(place, &text, Some("md2"), out));
            let want =
                [("r/s", 1.0), ("rMB/s", 3.0 / 1024.0), ("w/s", 2.0), ("wMB/s", 4.0 / 1024.0)];
            assert_eq!(figures, want.map(|(name, value)| (name.to_owned(), value)), "{header}");
            assert_eq!(skipped.len(), 1, "{skipped:?}");
            let (figures, skipped) = read(|place, out| iostat(place, &text, None, out));
            assert_eq!(
                (figures.len(), skipped[0].as_str()),
                (0, "0: which device? It has `md2`, `md20`")
            );
            let (_, skipped) = read(|place, out| iostat(place, &text, Some("sda"), out));
            assert_eq!(skipped, ["0: no line of device `sda`; it has `md2`, `md20`"]);
        }
    }

    #[test]
    fn per_operation_as_sb_met_prints_it() {
        let figure = mean(&Place::default(), 1, "wMB/s", 1, 2.0);
        let per = per_operation(&figure, 1000.0).unwrap();
        assert_eq!((per.metric.as_str(), per.text.as_str()), ("wKB/o", "2.048"));
        assert_eq!(per_operation(&figure, 0.0), None);
        assert_eq!(per_operation(&per, 1.0), None);
    }
}
