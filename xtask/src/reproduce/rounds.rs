//! Builds several times, each time as somebody else would: another folder, user, host name, locale,
//! time zone, mask, number of jobs, and variables that nobody should heed. For someone who wants to
//! publish a build.
//!
//! A round is a call of this very program with a work folder of its own, so that it finds out about
//! the compiler by itself; only the source's archive is shared.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fs_err as fs;
use nix::unistd::{Gid, Uid, chown};
use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::exact::compare::Verdict;
use crate::interrupt;
use crate::launch::{self, Guise};
use crate::proc::{Proc, own_file};

/// How one round went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Round {
    /// Counted from 1.
    pub number: usize,
    /// What was varied: name and value, in the order of the table.
    pub varied: Vec<(String, String)>,
    /// How alike the round's build is to the manifest's; none when it failed.
    pub verdict: Option<Verdict>,
    /// The hash over the round's files.
    pub tree: Option<String>,
    /// Why it failed, or what differs.
    pub told: String,
}

/// What this machine allows to vary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Means {
    /// Cores.
    pub core_count: usize,
    /// Whether rounds can be other users: really (as root) or only as it seems to them.
    pub user: User,
    /// Whether rounds can have another host name.
    pub host: bool,
}

/// How a round is another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// A user of its own, to whom its work folder belongs.
    Real,
    /// The same user, who sees another number.
    Apparent,
    /// The same user.
    Same,
}

/// How one round is made different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variation {
    /// Below the folder of all rounds.
    pub folder: PathBuf,
    /// For `--jobs`.
    pub job_count: usize,
    /// The number of the user, if it is another one.
    pub user: Option<u32>,
    /// The host's name, if it is another one.
    pub host: Option<String>,
    /// The file mode mask.
    pub mask: u32,
    /// Variables of the caller.
    pub variables: Vec<(&'static str, String)>,
}

/// The first number of the users that rounds are; nobody's on any distribution.
const FIRST_USER: u32 = 61_000;
const LOCALES: [&str; 4] = ["C", "de_DE.UTF-8", "tr_TR.UTF-8", "ja_JP.eucJP"];
const ZONES: [&str; 4] = ["UTC", "Asia/Tokyo", "America/St_Johns", "Pacific/Apia"];
const MASKS: [u32; 4] = [0o022, 0o077, 0o027, 0o002];
/// What a shell may have set for other work; none of it may reach a build.
const STRAY: [&[(&str, &str)]; 4] = [
    &[],
    &[("CFLAGS", "-O0 -DFROM_THE_CALLER"), ("LDFLAGS", "-Wl,--nonsense"), ("CC", "false")],
    &[("MAKEFLAGS", "-n"), ("CONFIG_SITE", "/nonsense"), ("GCC_COLORS", "error=01")],
    &[("SOURCE_DATE_EPOCH", "1"), ("CPATH", "/nonsense"), ("LD_LIBRARY_PATH", "/nonsense")],
];

/// How the rounds differ from each other: no two neighbours share any value that can be varied.
pub fn variations(count: usize, means: &Means) -> Vec<Variation> {
    let mut jobs = vec![1, 2, means.core_count, 2 * means.core_count];
    jobs.sort_unstable();
    jobs.dedup();
    (0..count)
        .map(|index| {
            let number = index + 1;
            // Other depth and length each time.
            let mut folder = PathBuf::from(number.to_string());
            folder.extend(std::iter::repeat_n("deeper", index % 4));
            folder.push("w".repeat(1 + 9 * (index % 5)));
            let mut variables = vec![
                ("LC_ALL", LOCALES[index % 4].to_owned()),
                ("TZ", ZONES[index % 4].to_owned()),
            ];
            let stray = STRAY[index % 4].iter();
            variables.extend(stray.map(|&(key, value)| (key, value.to_owned())));
            Variation {
                folder,
                job_count: jobs[index % jobs.len()],
                user: (means.user != User::Same).then(|| FIRST_USER + number as u32),
                host: means.host.then(|| format!("host{}-{number}", "x".repeat(index % 3 * 10))),
                mask: MASKS[index % 4],
                variables,
            }
        })
        .collect()
}

impl Variation {
    /// Name and value of what is varied, as the table has it.
    pub fn told(&self) -> Vec<(String, String)> {
        let value = |key: &str| {
            let found = self.variables.iter().find(|(name, _)| *name == key);
            found.map_or(String::new(), |(_, value)| value.clone())
        };
        let stray: Vec<&str> = self
            .variables
            .iter()
            .map(|(key, _)| *key)
            .filter(|k| !["LC_ALL", "TZ"].contains(k))
            .collect();
        let or_same = |text: Option<String>| text.unwrap_or_else(|| "the same".to_owned());
        let depth = self.folder.components().count();
        let length = self.folder.as_os_str().len();
        [
            ("jobs", self.job_count.to_string()),
            ("user", or_same(self.user.map(|user| user.to_string()))),
            ("host", or_same(self.host.clone())),
            ("folder", format!("{depth} deep, {length} long")),
            ("locale", value("LC_ALL")),
            ("zone", value("TZ")),
            ("mask", format!("{:03o}", self.mask)),
            ("set", if stray.is_empty() { "-".to_owned() } else { stray.join(" ") }),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }
}

/// What every round is given.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The folder for all rounds, made anew.
    pub folder: &'a Path,
    /// The manifest, with its list of functions beside it.
    pub manifest: &'a Path,
    /// The toolchain, if it is not the one that the manifest names.
    pub toolchain: Option<&'a str>,
    /// Whether to build although the toolchain differs.
    pub anyway: bool,
}

/// Runs the rounds, one after the other.
///
/// # Errors
/// When the user asks to stop or the disk refuses; a round that fails is one of the rounds.
pub fn run(env: &Env, asked: &Asked<'_>, count: usize) -> anyhow::Result<Vec<Round>> {
    if asked.folder.exists() {
        fs::remove_dir_all(asked.folder)?;
    }
    fs::create_dir_all(asked.folder)?;
    let means = means(env, asked)?;
    let mut rounds = Vec::new();
    for (index, variation) in variations(count, &means).iter().enumerate() {
        interrupt::check()?;
        let number = index + 1;
        let task = env.reporter.task(format!("round {number} of {count}"), None);
        let told: Vec<String> =
            variation.told().iter().map(|(name, value)| format!("{name} {value}")).collect();
        task.state(told.join(", "));
        let round = one(env, asked, number, variation, &means)?;
        task.finish(round.verdict.map_or("failed", Verdict::name));
        rounds.push(round);
    }
    Ok(rounds)
}

/// Tries what can be varied here.
fn means(env: &Env, asked: &Asked<'_>) -> anyhow::Result<Means> {
    let core_count = std::thread::available_parallelism().map_or(1, usize::from);
    let own = own_file();
    // A round reads and starts these, and writes into its own folder.
    let test = "test -x \"$1\" && test -r \"$2\" && test -r \"$3\" && test -w \"$4\"";
    let folder = asked.folder.join("probe");
    fs::create_dir_all(&folder)?;
    let works = |user: Option<(u32, u32)>, guise: Option<Guise>| -> anyhow::Result<bool> {
        if let Some((uid, gid)) = user {
            give(&folder, uid, gid)?;
        }
        let spec = launch::Spec { user, guise, ..launch::Spec::default() };
        let probe = Proc::new("/bin/sh").args(["-c", test, "sh"]).arg(&own).arg(asked.manifest);
        let probe = probe.arg(env.toolchains()).arg(&folder);
        Ok(probe.launch(&own, spec).run_any()?.status.success())
    };
    let root = Uid::effective().is_root();
    let host = Guise { user: None, host: Some("probe".to_owned()) };
    let host = works(None, Some(host))?;
    let user = if root && works(Some((FIRST_USER, FIRST_USER)), None)? {
        User::Real
    } else if !root && works(None, Some(Guise { user: Some(FIRST_USER), host: None }))? {
        User::Apparent
    } else {
        User::Same
    };
    for (missing, what, why) in [
        (user == User::Same, "user", "other users cannot read this program, or may have no number"),
        (!host, "host name", "the kernel allows no namespace for it"),
    ] {
        if missing {
            env.reporter.warn(format!("the {what} is the same in all rounds: {why}"));
        }
    }
    Ok(Means { core_count, user, host })
}

/// Gives a folder to a user.
fn give(folder: &Path, uid: u32, gid: u32) -> anyhow::Result<()> {
    chown(folder, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
        .with_context(|| format!("cannot give {} to user {uid}", folder.display()))
}

/// What a round's own report says, as far as it is needed here.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Said {
    verdict: Option<String>,
    tree: Option<String>,
}

fn one(
    env: &Env,
    asked: &Asked<'_>,
    number: usize,
    variation: &Variation,
    means: &Means,
) -> anyhow::Result<Round> {
    let work = asked.folder.join(&variation.folder);
    fs::create_dir_all(&work)?;
    let user = variation.user.filter(|_| means.user == User::Real).map(|user| (user, user));
    if let Some((uid, gid)) = user {
        give(&work, uid, gid)?;
    }
    let guise = Guise {
        user: variation.user.filter(|_| means.user == User::Apparent),
        host: variation.host.clone(),
    };
    let guise = (guise != Guise::default()).then_some(guise);
    let spec = launch::Spec {
        user,
        guise,
        umask: Some(variation.mask),
        death_signal: Some(nix::libc::SIGTERM),
        ..launch::Spec::default()
    };
    let output = call(env, asked, &work, variation).launch(own_file(), spec).run_any()?;
    let said: Option<Said> = serde_json::from_slice(&output.stdout).ok();
    let verdict = said.as_ref().and_then(|said| match said.verdict.as_deref() {
        Some("identical") => Some(Verdict::Identical),
        Some("same-code") => Some(Verdict::SameCode),
        Some("different") => Some(Verdict::Different),
        _ => None,
    });
    let log = asked.folder.join(format!("{number}.log"));
    fs::write(&log, [output.stdout.as_slice(), &output.stderr].concat())?;
    let told = match verdict {
        Some(Verdict::Identical) => {
            // Nothing in it that is not in the others.
            fs::remove_dir_all(asked.folder.join(number.to_string()))?;
            String::new()
        }
        Some(_) => format!("see {} and {}", env.shown(&work), env.shown(&log)),
        None => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let error = text.lines().rfind(|line| line.starts_with("error: "));
            let error = error.unwrap_or("it said nothing").trim_start_matches("error: ");
            format!("{error} (see {})", env.shown(&log))
        }
    };
    let tree = said.and_then(|said| said.tree);
    Ok(Round { number, varied: variation.told(), verdict, tree, told })
}

/// The call of this program that makes one round.
fn call(env: &Env, asked: &Asked<'_>, work: &Path, variation: &Variation) -> Proc {
    let mut call = Proc::new(own_file())
        .arg("reproduce")
        .arg(asked.manifest)
        .args(["--format", "json", "--jobs", &variation.job_count.to_string()])
        .arg("--work")
        .arg(work)
        .arg("--results")
        .arg(work.join("results"))
        .arg("--matrix")
        .arg(&env.matrix)
        // Archives lie there by their hash.
        .arg("--sources")
        .arg(env.downloads())
        // Where `toolchains/` is.
        .env("CARGO_MANIFEST_DIR", env.root.join("xtask"))
        .env("HOME", work)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .inherit(&[crate::build::run::NO_NAMESPACE])
        .cwd(work);
    for (key, value) in &variation.variables {
        call = call.env(key, value);
    }
    if let Some(name) = asked.toolchain {
        call = call.args(["--toolchain", name]);
    }
    if asked.anyway {
        call = call.arg("--anyway");
    }
    call
}

/// The rounds as a table, and what follows from them.
pub fn text(rounds: &[Round]) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let names = rounds.first().map_or(&[][..], |round| &round.varied);
    let names = names.iter().map(|(name, _)| name.clone());
    rows.push(std::iter::once("round".to_owned()).chain(names).chain(["".to_owned()]).collect());
    for round in rounds {
        let verdict = round.verdict.map_or("failed", Verdict::name);
        let last = match round.told.is_empty() {
            true => verdict.to_owned(),
            false => format!("{verdict}: {}", round.told),
        };
        let values = round.varied.iter().map(|(_, value)| value.clone());
        let number = std::iter::once(round.number.to_string());
        rows.push(number.chain(values).chain([last]).collect());
    }
    let width = |column: usize| {
        rows.iter().map(|row| row.get(column).map_or(0, |cell| cell.chars().count())).max()
    };
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Writing into a text cannot fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&conclusion(rounds));
    text.push('\n');
    text
}

fn conclusion(rounds: &[Round]) -> String {
    let count = rounds.len();
    let made: Vec<&String> = rounds.iter().filter_map(|round| round.tree.as_ref()).collect();
    let all = |verdict| rounds.iter().all(|round| round.verdict == Some(verdict));
    if all(Verdict::Identical) {
        return format!("identical: all {count} rounds, byte by byte");
    }
    if made.len() == count && made.windows(2).all(|pair| pair[0] == pair[1]) {
        return format!(
            "all {count} rounds have the same bytes, which are not the manifest's: what was varied \
             has no influence"
        );
    }
    let same = rounds.iter().filter(|round| round.verdict == Some(Verdict::Identical)).count();
    format!("{same} of {count} rounds are identical to the manifest")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn neighbours_share_nothing_that_can_be_varied() {
        let means = Means { core_count: 8, user: User::Real, host: true };
        let all = variations(9, &means);
        assert_eq!(all.len(), 9);
        for pair in all.windows(2) {
            for ((name, one), (_, two)) in pair[0].told().iter().zip(pair[1].told()) {
                assert_ne!(*one, two, "{name}");
            }
        }
        assert_eq!(all[0].job_count, 1);
        assert!(all.iter().any(|one| one.job_count == 16));
        // One core: still another number of jobs each time.
        let means = Means { core_count: 1, user: User::Same, host: false };
        let all = variations(3, &means);
        assert_eq!(all.iter().map(|one| one.job_count).collect::<Vec<_>>(), [1, 2, 1]);
        assert!(all.iter().all(|one| one.user.is_none() && one.host.is_none()));
        assert!(all[0].told().contains(&("user".to_owned(), "the same".to_owned())));
    }

    fn round(number: usize, verdict: Option<Verdict>, tree: &str) -> Round {
        let varied = [("jobs", "1"), ("user", "61001")];
        Round {
            number,
            varied: varied.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            verdict,
            tree: (!tree.is_empty()).then(|| tree.to_owned()),
            told: verdict.map_or("no compiler".to_owned(), |_| String::new()),
        }
    }

    #[test]
    fn the_table_tells_each_round_and_the_whole() {
        let one = round(1, Some(Verdict::Identical), "a");
        expect![[r#"
            round  jobs  user
            1      1     61001  identical
            2      1     61001  failed: no compiler
            1 of 2 rounds are identical to the manifest
        "#]]
        .assert_eq(&text(&[one.clone(), round(2, None, "")]));
        let two = round(2, Some(Verdict::Identical), "a");
        assert!(text(&[one.clone(), two]).ends_with("identical: all 2 rounds, byte by byte\n"));
        let other = |number| round(number, Some(Verdict::Different), "b");
        assert!(text(&[other(1), other(2)]).contains("same bytes, which are not the manifest's"));
        assert!(text(&[one, other(2)]).contains("1 of 2 rounds"));
    }
}
