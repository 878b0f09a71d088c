//! Snapshots of every format. `UPDATE_EXPECT=1 cargo test` renews them.

mod json;

use expect_test::{Expect, expect};

use super::*;
use crate::compare::{Options, compare};
use crate::record::Record;
use crate::record::testing::{failed, record};

/// Five blocks; a clear win, a loss, a small one, none, noise, failures of three kinds.
fn records() -> Vec<Record> {
    let rows = [
        ("point-query", 21_000.0, 1.08, 0.004),
        ("random-points", 3_456.0, 0.94, 0.003),
        ("scan", 12.3, 1.015, 0.002),
        ("range-covered-pk", 9_876.5, 1.001, 0.006),
        ("update-nonindex", 812.0, 1.03, 0.05),
    ];
    let noise = [0.3, -1.0, 0.8, -0.6, 0.5];
    let mut records = Vec::new();
    for block in 1..=5_u32 {
        for (row, (name, qps, ratio, sd)) in rows.into_iter().enumerate() {
            let speed = qps * (1.0 + 0.01 * noise[(row + block as usize) % 5]);
            let at = |shift: usize| 1.0 + sd * noise[(row + block as usize + shift) % 5];
            records.push(record("pg_o2.c", name, block, speed));
            records.push(match (name, block) {
                ("scan", 2) => failed("pg_o3.c", name, block, "server ended by signal 9"),
                _ => record("pg_o3.c", name, block, speed * ratio * at(0)),
            });
            records.push(match name {
                "update-nonindex" => failed("pg_os.c", name, block, "disk\tfull"),
                _ => record("pg_os.c", name, block, speed * at(2) / ratio),
            });
        }
    }
    records.push(record("pg_lto.c", "point-query", 1, 23_000.0));
    records
}

fn check(records: &[Record], format: TableFormat, style: Style, expected: &Expect) {
    let comparison = compare(records, "pg_o2.c", Options::default()).expect("comparable");
    let mut out = Vec::new();
    let views = [View::Full, View::Groups];
    render_with(&comparison, &views, format, style, &mut out).expect("written");
    expected.assert_eq(&String::from_utf8(out).expect("text"));
}

const WIDE: Style = Style { width: 160, colour: false };

#[test]
fn text() {
    check(
        &records(),
        TableFormat::Text,
        WIDE,
        &expect![[r#"
            Experiment `e`: QPS of each target relative to the base `pg_o2.c`; above 1 is faster.
            An entry is `ratio [low, high] verdict`: the geometric mean over blocks of QPS of the target / QPS
              of the base, its 95% interval, and what may be claimed:
            - faster, slower: a difference is shown, and it is 3% or more
            - small: a difference is shown, and it is less than 3%
            - same: no difference is shown, and one of 3% is ruled out
            - undecided (+N): neither; about N more blocks would tell
            - n=1: one pair only, so no interval and no verdict

            Host `h`, base `pg_o2.c`, 5 blocks; the base moved by +0.0% in 2.0 h (+0.0% per hour)

            microbenchmark      base QPS  pg_o3.c                               pg_os.c                      pg_lto.c
            point-1
              point-query          21000  1.080 [1.076, 1.084] faster           0.926 [0.922, 0.929] slower  1.106 n=1
            point-2
              random-points         3456  0.940 [0.937, 0.943] slower           1.064 [1.061, 1.067] faster  -
            range-1
              scan                  12.3  1.015 [1.012, 1.017] small (1)        0.985 [0.983, 0.987] small   -
              range-covered-pk      9876  1.001 [0.995, 1.007] same             0.999 [0.993, 1.005] same    -
            writes
              update-nonindex        812  1.029 [0.981, 1.080] undecided (+11)  failed (2)                   -
            (1) `pg_o3.c` failed in block 2: server ended by signal 9
            (2) `pg_os.c` failed in blocks 1, 2, 3, 4, 5: disk full

            group    target    rows    min    max    avg  median  geometric mean
            point-1  pg_o3.c    1/1  1.080  1.080  1.080   1.080  1.080 [1.076, 1.084] faster
                     pg_os.c    1/1  0.926  0.926  0.926   0.926  0.926 [0.922, 0.929] slower
                     pg_lto.c   1/1  1.106  1.106  1.106   1.106  1.106 n=1 (1)
            point-2  pg_o3.c    1/1  0.940  0.940  0.940   0.940  0.940 [0.937, 0.943] slower
                     pg_os.c    1/1  1.064  1.064  1.064   1.064  1.064 [1.061, 1.067] faster
                     pg_lto.c   0/1      -      -      -       -  -
            range-1  pg_o3.c    2/2  1.001  1.015  1.008   1.008  1.008 [1.005, 1.011] small (2)
                     pg_os.c    2/2  0.985  0.999  0.992   0.992  0.992 [0.990, 0.994] small
                     pg_lto.c   0/2      -      -      -       -  -
            writes   pg_o3.c    1/1  1.029  1.029  1.029   1.029  1.029 [0.981, 1.080] undecided (+11)
                     pg_os.c    0/1      -      -      -       -  -
                     pg_lto.c   0/1      -      -      -       -  -
            (1) over 1 of 1 rows in 1 of 5 blocks: the others lack a pair
            (2) over 2 of 2 rows in 4 of 5 blocks: the others lack a pair

            pg_o3.c: 1 faster, 1 slower, 1 small, 1 same, 1 undecided
            pg_os.c: 1 faster, 1 slower, 1 small, 1 same, 1 failed
            pg_lto.c: 1 n=1, 4 not measured
        "#]],
    );
}

#[test]
fn narrow_text_is_cut_into_tables() {
    check(
        &records(),
        TableFormat::Text,
        Style { width: 78, ..WIDE },
        &expect![[r#"
            Experiment `e`: QPS of each target relative to the base `pg_o2.c`; above 1 is
              faster.
            An entry is `ratio [low, high] verdict`: the geometric mean over blocks of QPS
              of the target / QPS of the base, its 95% interval, and what may be claimed:
            - faster, slower: a difference is shown, and it is 3% or more
            - small: a difference is shown, and it is less than 3%
            - same: no difference is shown, and one of 3% is ruled out
            - undecided (+N): neither; about N more blocks would tell
            - n=1: one pair only, so no interval and no verdict

            Host `h`, base `pg_o2.c`, 5 blocks; the base moved by +0.0% in 2.0 h (+0.0%
              per hour)

            microbenchmark      base QPS  pg_o3.c
            point-1
              point-query          21000  1.080 [1.076, 1.084] faster
            point-2
              random-points         3456  0.940 [0.937, 0.943] slower
            range-1
              scan                  12.3  1.015 [1.012, 1.017] small (1)
              range-covered-pk      9876  1.001 [0.995, 1.007] same
            writes
              update-nonindex        812  1.029 [0.981, 1.080] undecided (+11)

            microbenchmark      base QPS  pg_os.c                      pg_lto.c
            point-1
              point-query          21000  0.926 [0.922, 0.929] slower  1.106 n=1
            point-2
              random-points         3456  1.064 [1.061, 1.067] faster  -
            range-1
              scan                  12.3  0.985 [0.983, 0.987] small   -
              range-covered-pk      9876  0.999 [0.993, 1.005] same    -
            writes
              update-nonindex        812  failed (2)                   -
            (1) `pg_o3.c` failed in block 2: server ended by signal 9
            (2) `pg_os.c` failed in blocks 1, 2, 3, 4, 5: disk full

            group    target    rows    min    max    avg  median
            point-1  pg_o3.c    1/1  1.080  1.080  1.080   1.080
                     pg_os.c    1/1  0.926  0.926  0.926   0.926
                     pg_lto.c   1/1  1.106  1.106  1.106   1.106
            point-2  pg_o3.c    1/1  0.940  0.940  0.940   0.940
                     pg_os.c    1/1  1.064  1.064  1.064   1.064
                     pg_lto.c   0/1      -      -      -       -
            range-1  pg_o3.c    2/2  1.001  1.015  1.008   1.008
                     pg_os.c    2/2  0.985  0.999  0.992   0.992
                     pg_lto.c   0/2      -      -      -       -
            writes   pg_o3.c    1/1  1.029  1.029  1.029   1.029
                     pg_os.c    0/1      -      -      -       -
                     pg_lto.c   0/1      -      -      -       -

            group    target    geometric mean
            point-1  pg_o3.c   1.080 [1.076, 1.084] faster
                     pg_os.c   0.926 [0.922, 0.929] slower
                     pg_lto.c  1.106 n=1 (1)
            point-2  pg_o3.c   0.940 [0.937, 0.943] slower
                     pg_os.c   1.064 [1.061, 1.067] faster
                     pg_lto.c  -
            range-1  pg_o3.c   1.008 [1.005, 1.011] small (2)
                     pg_os.c   0.992 [0.990, 0.994] small
                     pg_lto.c  -
            writes   pg_o3.c   1.029 [0.981, 1.080] undecided (+11)
                     pg_os.c   -
                     pg_lto.c  -
            (1) over 1 of 1 rows in 1 of 5 blocks: the others lack a pair
            (2) over 2 of 2 rows in 4 of 5 blocks: the others lack a pair

            pg_o3.c: 1 faster, 1 slower, 1 small, 1 same, 1 undecided
            pg_os.c: 1 faster, 1 slower, 1 small, 1 same, 1 failed
            pg_lto.c: 1 n=1, 4 not measured
        "#]],
    );
}

#[test]
fn one_block_has_no_verdict() {
    let first: Vec<Record> = records().into_iter().filter(|record| record.block == 1).collect();
    check(
        &first,
        TableFormat::Text,
        WIDE,
        &expect![[r#"
            Experiment `e`: QPS of each target relative to the base `pg_o2.c`; above 1 is faster.
            An entry is `ratio [low, high] verdict`: the geometric mean over blocks of QPS of the target / QPS
              of the base, its 95% interval, and what may be claimed:
            - faster, slower: a difference is shown, and it is 3% or more
            - small: a difference is shown, and it is less than 3%
            - same: no difference is shown, and one of 3% is ruled out
            - undecided (+N): neither; about N more blocks would tell
            - n=1: one pair only, so no interval and no verdict

            Host `h`, base `pg_o2.c`, 1 block

            microbenchmark      base QPS  pg_o3.c    pg_os.c     pg_lto.c
            point-1
              point-query          20790  1.076 n=1  0.924 n=1   1.106 n=1
            point-2
              random-points         3484  0.942 n=1  1.065 n=1   -
            range-1
              scan                  12.2  1.014 n=1  0.986 n=1   -
              range-covered-pk      9926  1.004 n=1  0.993 n=1   -
            writes
              update-nonindex        814  1.045 n=1  failed (1)  -
            (1) `pg_os.c` failed in block 1: disk full

            group    target    rows    min    max    avg  median  geometric mean
            point-1  pg_o3.c    1/1  1.076  1.076  1.076   1.076  1.076 n=1
                     pg_os.c    1/1  0.924  0.924  0.924   0.924  0.924 n=1
                     pg_lto.c   1/1  1.106  1.106  1.106   1.106  1.106 n=1
            point-2  pg_o3.c    1/1  0.942  0.942  0.942   0.942  0.942 n=1
                     pg_os.c    1/1  1.065  1.065  1.065   1.065  1.065 n=1
                     pg_lto.c   0/1      -      -      -       -  -
            range-1  pg_o3.c    2/2  1.004  1.014  1.009   1.009  1.009 n=1
                     pg_os.c    2/2  0.986  0.993  0.989   0.989  0.989 n=1
                     pg_lto.c   0/2      -      -      -       -  -
            writes   pg_o3.c    1/1  1.045  1.045  1.045   1.045  1.045 n=1
                     pg_os.c    0/1      -      -      -       -  -
                     pg_lto.c   0/1      -      -      -       -  -

            pg_o3.c: 5 n=1
            pg_os.c: 4 n=1, 1 failed
            pg_lto.c: 1 n=1, 4 not measured

            warning: 1 block cannot tell a small difference from noise: measure 5 (`repeats = 5`), at least 3
        "#]],
    );
}

#[test]
fn tab_separated() {
    check(
        &records()[..30],
        TableFormat::Tsv,
        WIDE,
        &expect![[r#"
            experiment	host	kind	group	name	threads	base	target	state	verdict	pairs	ratio	low	high	p	adjusted_p	more_blocks	base_qps	qps	failed_runs	reason	rows	min	max	avg	median	notes	metric	unit	better	base_value	value
            e	h	microbenchmark	point-1	point-query	1	pg_o2.c	pg_o3.c	judged	undecided	2	1.0795609985885317	1.0312726672355232	1.1301103837044686	0.029927301839658776	0.05985460367931755	1	20978.148631373537	22647.191085024257	0								qps	1/s	higher	20978.148631373537	22647.191085024257
            e	h	microbenchmark	point-1	point-query	1	pg_o2.c	pg_os.c	judged	slower	2	0.9257384995490489	0.9002139969734475	0.9519867191896173	0.018149341547385168	0.04839824412636045		20978.148631373537	19420.27983732467	0								qps	1/s	higher	20978.148631373537	19420.27983732467
            e	h	microbenchmark	point-2	random-points	1	pg_o2.c	pg_o3.c	judged	slower	2	0.9402799246140597	0.9338055695142707	0.9467991683666119	0.0006793851171135514	0.0027175404684542056		3459.3714115532584	3252.7774900673344	0								qps	1/s	higher	3459.3714115532584	3252.7774900673344
            e	h	microbenchmark	point-2	random-points	1	pg_o2.c	pg_os.c	judged	faster	2	1.065106338682545	1.0577724836515578	1.0724910415380378	0.0006475502721235934	0.0027175404684542056		3459.3714115532584	3684.598418302562	0								qps	1/s	higher	3459.3714115532584	3684.598418302562
            e	h	microbenchmark	range-1	scan	1	pg_o2.c	pg_o3.c	single		1	1.013781878261439						12.293663868025673	12.394700000000002	1	server ended by signal 9							qps	1/s	higher	12.293663868025673	12.394700000000002
            e	h	microbenchmark	range-1	scan	1	pg_o2.c	pg_os.c	judged	same	2	0.9845309830362798	0.9684337368478819	1.0008957966637195	0.05285889034990507	0.08457422455984812		12.293663868025673	12.103492973104913	0								qps	1/s	higher	12.293663868025673	12.103492973104913
            e	h	microbenchmark	range-1	range-covered-pk	1	pg_o2.c	pg_o3.c	judged	same	2	1.0034022201879353	0.9834191129924166	1.0237913847479203	0.5430744043052311	0.7240992057403082		9916.00108142308	9949.737500485895	0								qps	1/s	higher	9916.00108142308	9949.737500485895
            e	h	microbenchmark	range-1	range-covered-pk	1	pg_o2.c	pg_os.c	judged	same	2	0.9983870230627819	0.9785037952772768	1.0186742786600118	0.762819733938272	0.7895367882044835		9916.00108142308	9900.006800369325	0								qps	1/s	higher	9916.00108142308	9900.006800369325
            e	h	microbenchmark	writes	update-nonindex	1	pg_o2.c	pg_o3.c	judged	undecided	2	1.0114211939378634	0.6642453581805323	1.5400526611864767	0.7895367882044835	0.7895367882044835	20	809.1407860687776	818.3821399095048	0								qps	1/s	higher	809.1407860687776	818.3821399095048
            e	h	microbenchmark	writes	update-nonindex	1	pg_o2.c	pg_os.c	failed									809.1407860687776		2	disk full							qps	1/s	higher	809.1407860687776	
            e	h	group	point-1	point-1	1	pg_o2.c	pg_o3.c	judged	undecided	2	1.0795609985885317	1.0312726672355232	1.1301103837044686	0.029927301839658776	0.08978190551897633	1					1/1	1.0795609985885317	1.0795609985885317	1.0795609985885317	1.0795609985885317						
            e	h	group	point-1	point-1	1	pg_o2.c	pg_os.c	judged	undecided	2	0.9257384995490489	0.9002139969734475	0.9519867191896173	0.018149341547385168	0.07259736618954067	1					1/1	0.9257384995490489	0.9257384995490489	0.9257384995490489	0.9257384995490489						
            e	h	group	point-2	point-2	1	pg_o2.c	pg_o3.c	judged	slower	2	0.9402799246140597	0.9338055695142707	0.9467991683666119	0.0006793851171135514	0.0038853016327415604						1/1	0.9402799246140597	0.9402799246140597	0.9402799246140597	0.9402799246140597						
            e	h	group	point-2	point-2	1	pg_o2.c	pg_os.c	judged	faster	2	1.065106338682545	1.0577724836515578	1.0724910415380378	0.0006475502721235934	0.0038853016327415604						1/1	1.065106338682545	1.065106338682545	1.065106338682545	1.065106338682545						
            e	h	group	range-1	range-1	1	pg_o2.c	pg_o3.c	single		1	1.008880590723719										2/2	1.0034022201879353	1.013781878261439	1.0085920492246871	1.0085920492246871						
            e	h	group	range-1	range-1	1	pg_o2.c	pg_os.c	judged	same	2	0.9914347972845546	0.9659075624412736	1.0176366719630359	0.14914305157805835	0.2982861031561167						2/2	0.9845309830362798	0.9983870230627819	0.9914590030495309	0.9914590030495309						
            e	h	group	writes	writes	1	pg_o2.c	pg_o3.c	judged	undecided	2	1.0114211939378634	0.6642453581805323	1.5400526611864767	0.7895367882044835	0.7895367882044835	20					1/1	1.0114211939378634	1.0114211939378634	1.0114211939378634	1.0114211939378634						
            e	h	group	writes	writes	1	pg_o2.c	pg_os.c	not-measured													0/1										
        "#]],
    );
}

#[test]
fn colour_only_when_asked_for_and_never_counted_as_width() {
    let comparison = compare(&records(), "pg_o2.c", Options::default()).expect("comparable");
    let shown = |colour| {
        let mut out = Vec::new();
        let style = Style { colour, ..WIDE };
        render_with(&comparison, &[View::Full], TableFormat::Text, style, &mut out).expect("ok");
        String::from_utf8(out).expect("text")
    };
    let (plain, mut coloured) = (shown(false), shown(true));
    assert!(!plain.contains('\u{1b}'));
    assert!(coloured.contains("\u{1b}[32m1.08"), "faster is green");
    for code in ["\u{1b}[0m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m"] {
        coloured = coloured.replace(code, "");
    }
    let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trimmed(&coloured), trimmed(&plain));
}

/// As [`records`], but for one target that is not what was asked for, one whose flags changed more
/// than they should, and one that has the code of another.
fn annotated() -> Comparison {
    use crate::audit::judge::Verdict;
    use crate::record::Mark;
    let mut records = records();
    for record in records.iter_mut().filter(|record| record.target == "pg_o3.c") {
        let findings = vec!["bin/postgres: asked for -O3, got -O1".to_owned()];
        record.audit = Some(Mark { verdict: Verdict::Mismatch, findings, count: 1 });
    }
    let mut comparison = compare(&records, "pg_o2.c", Options::default()).expect("comparable");
    let made = |target: &str, code: &[u8]| {
        let mut made = comparison.hosts[0].made[1].clone();
        (made.target, made.code_id) = (target.to_owned(), Some(crate::hash::Digest::of(code)));
        made
    };
    let known = [
        made("pg_os.c", b"os"),
        made("pg_oz.c", b"os"),
        made("pg_o2.c", b"o2"),
        made("pg_o1.c", b"o2"),
    ];
    comparison.share_runs("h", &known);
    comparison.annotate(&|name, _| Err(format!("no manifest of `{name}`")));
    comparison
}

#[test]
fn notes_stand_below_every_table_and_in_every_format() {
    let comparison = annotated();
    let written = |views: &[View], format| {
        let mut out = Vec::new();
        render_with(&comparison, views, format, WIDE, &mut out).expect("written");
        String::from_utf8(out).expect("text")
    };
    let wrong = "`pg_o3.c` is NOT what was asked for: bin/postgres: asked for -O3, got -O1";
    let text = written(&[View::Full, View::Groups], TableFormat::Text);
    assert_eq!(text.matches(wrong).count(), 2, "below each table:\n{text}");
    assert!(text.contains("pg_o3.c (1) (2)"), "{text}");
    assert_eq!(text.matches("`pg_oz.c` has the same code and config as `pg_os.c`").count(), 1);
    assert!(text.contains("pg_o1.c: 5 same code\n"), "{text}");
    assert!(written(&[View::Groups], TableFormat::Text).contains("`pg_oz.c` has the same code"));
    let tsv = written(&[View::Full, View::Groups], TableFormat::Tsv);
    let lines: Vec<&str> = tsv.lines().filter(|line| line.contains("\tpg_o3.c\t")).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.contains(wrong)), "{tsv}");
    assert!(tsv.lines().all(|line| line.split('\t').count() == 32), "{tsv}");
    let json = written(&[], TableFormat::Json);
    let read: Comparison = serde_json::from_str(&json).expect("JSON");
    assert_eq!(read, comparison);
    assert!(json.contains("\"kind\": \"mismatch\""), "{json}");
}
