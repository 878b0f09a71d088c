//! What the user sees while the tool works: bars on a terminal, else one line per change of state.
//! Everything goes to standard error; standard output is for data.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shared by all threads; cheap to clone.
#[derive(Clone, Debug)]
pub struct Reporter {
    bars: MultiProgress,
    terminal: bool,
    quiet: bool,
    spent: Arc<Mutex<Vec<(String, Duration)>>>,
    begin: Instant,
}

impl Reporter {
    /// A reporter for this process; `quiet` leaves only warnings.
    pub fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal() && !quiet;
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self {
            bars: MultiProgress::with_draw_target(target),
            terminal,
            quiet,
            spent: Arc::default(),
            begin: Instant::now(),
        }
    }

    /// One line of information.
    pub fn line(&self, text: impl AsRef<str>) {
        if !self.quiet {
            self.print(text.as_ref());
        }
    }

    /// One line that is shown also when quiet.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.print(&format!("warning: {}", text.as_ref()));
    }

    fn print(&self, text: &str) {
        if self.terminal {
            // Through the bars, which would be torn otherwise.
            let _ = self.bars.println(text);
        } else {
            eprintln!("{text}");
        }
    }

    /// Starts showing one thing that takes a while. `total` is the expected number of steps.
    pub fn task(&self, name: impl Into<String>, total: Option<u64>) -> Task {
        let bar = match total {
            Some(total) => {
                let style = "{prefix:24!} [{bar:24}] {percent:>3}% {elapsed:>5} eta {eta:<5} {msg}";
                ProgressBar::new(total).with_style(style_of(style))
            }
            None => ProgressBar::new_spinner()
                .with_style(style_of("{prefix:24!} {spinner} {elapsed:>5} {msg}")),
        };
        let name = name.into();
        let bar = self.bars.add(bar.with_prefix(name.clone()));
        if self.terminal {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Task { reporter: self.clone(), name, bar, begin: Instant::now(), done: false }
    }

    /// Adds to the account of where the time went.
    pub fn account(&self, what: impl Into<String>, time: Duration) {
        self.lock().push((what.into(), time));
    }

    /// The account of where the time went, longest first, and the wall time so far.
    pub fn spent(&self) -> (Vec<(String, Duration)>, Duration) {
        let mut sums: Vec<(String, Duration)> = Vec::new();
        for (what, time) in self.lock().iter() {
            match sums.iter_mut().find(|(name, _)| name == what) {
                Some((_, sum)) => *sum += *time,
                None => sums.push((what.clone(), *time)),
            }
        }
        sums.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        (sums, self.begin.elapsed())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(String, Duration)>> {
        self.spent.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// One thing that takes a while. Dropping it removes its bar.
#[derive(Debug)]
pub struct Task {
    reporter: Reporter,
    name: String,
    bar: ProgressBar,
    begin: Instant,
    done: bool,
}

impl Task {
    /// A change of state: the bar's message, or a line when there is no terminal.
    pub fn state(&self, text: impl Into<String>) {
        let text = text.into();
        if !self.reporter.terminal {
            self.reporter.line(format!("{}: {text}", self.name));
        }
        self.bar.set_message(text);
    }

    /// A message that only the bar shows (a rate, say).
    pub fn message(&self, text: impl Into<String>) {
        self.bar.set_message(text.into());
    }

    /// How many steps are done.
    pub fn position(&self, steps: u64) {
        self.bar.set_position(steps);
    }

    /// The expected number of steps, once it is known.
    pub fn total(&self, steps: u64) {
        self.bar.set_length(steps);
    }

    /// Ends the task with a line that says how it went and how long it took.
    pub fn finish(mut self, text: impl AsRef<str>) {
        self.done = true;
        self.bar.finish_and_clear();
        self.reporter.line(format!(
            "{}: {} ({})",
            self.name,
            text.as_ref(),
            seconds(self.begin.elapsed())
        ));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.done {
            self.bar.finish_and_clear();
        }
    }
}

/// A duration for people: `0.3 s`, `42 s`, `3 min 05 s`, `2 h 10 min`.
pub fn seconds(time: Duration) -> String {
    let whole = time.as_secs();
    match whole {
        0..=9 => format!("{:.1} s", time.as_secs_f64()),
        10..=99 => format!("{whole} s"),
        100..=5999 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ if whole < 36 * 3600 => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
        _ => HumanDuration(time).to_string(),
    }
}

fn style_of(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let text = |s: f64| seconds(Duration::from_secs_f64(s));
        assert_eq!(
            [text(0.26), text(42.4), text(185.0), text(7800.0)],
            ["0.3 s", "42 s", "3 min 05 s", "2 h 10 min"]
        );
    }

    #[test]
    fn account_sums_by_name() {
        let reporter = Reporter::new(true);
        for (what, s) in [("a", 1), ("b", 5), ("a", 2)] {
            reporter.account(what, Duration::from_secs(s));
        }
        let names: Vec<_> = reporter.spent().0;
        assert_eq!(names[0], ("b".to_owned(), Duration::from_secs(5)));
        assert_eq!(names[1], ("a".to_owned(), Duration::from_secs(3)));
    }
}
