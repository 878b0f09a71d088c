//! Package managers: which packages bring a tool, and how they are installed.

use std::time::Duration;

use fs_err as fs;

use super::probe::{Probe, find};
use crate::env::Env;
use crate::exit::{Code, coded};
use crate::interrupt;
use crate::proc::Proc;

/// A system's package manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora, RHEL and its rebuilds.
    Dnf,
    /// openSUSE, SLES.
    Zypper,
    /// Arch.
    Pacman,
    /// Alpine.
    Apk,
}

impl Manager {
    /// All, in the order in which they are looked for.
    pub const ALL: [Self; 5] = [Self::Apt, Self::Dnf, Self::Zypper, Self::Pacman, Self::Apk];

    /// The program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Apt => "apt-get",
            Self::Dnf => "dnf",
            Self::Zypper => "zypper",
            Self::Pacman => "pacman",
            Self::Apk => "apk",
        }
    }

    /// The one that this system has.
    pub fn detect() -> Option<Self> {
        Self::ALL.into_iter().find(|manager| find(manager.program()).is_some())
    }

    /// The packages that bring a tool; none when that is not known. Those of compilers stand in
    /// `toolchains/<name>.toml`.
    pub fn packages(self, tool: &str) -> Vec<String> {
        /// Named alike everywhere.
        const TOOLS: [&str; 9] =
            ["make", "patch", "git", "curl", "perl", "bison", "flex", "cmake", "sysbench"];
        let own = TOOLS.iter().copied().find(|known| *known == tool);
        own.or_else(|| self.header(tool)).map(str::to_owned).into_iter().collect()
    }

    /// The package that brings a header.
    fn header(self, name: &str) -> Option<&'static str> {
        // In the order of `ALL`.
        const HEADERS: [(&str, [&str; 5]); 5] = [
            (
                "openssl/ssl.h",
                ["libssl-dev", "openssl-devel", "libopenssl-devel", "openssl", "openssl-dev"],
            ),
            (
                "curses.h",
                ["libncurses-dev", "ncurses-devel", "ncurses-devel", "ncurses", "ncurses-dev"],
            ),
            ("libaio.h", ["libaio-dev", "libaio-devel", "libaio-devel", "libaio", "libaio-dev"]),
            ("pcre2.h", ["libpcre2-dev", "pcre2-devel", "pcre2-devel", "pcre2", "pcre2-dev"]),
            ("fmt/core.h", ["libfmt-dev", "fmt-devel", "fmt-devel", "fmt", "fmt-dev"]),
        ];
        let (_, packages) = HEADERS.iter().find(|(header, _)| *header == name)?;
        let place = Self::ALL.iter().position(|manager| *manager == self)?;
        Some(packages[place])
    }

    fn words(self) -> &'static [&'static str] {
        match self {
            // What is there already stays as it is: another compiler makes other builds.
            Self::Apt => &["install", "-y", "--no-install-recommends", "--no-upgrade"],
            Self::Dnf => &["install", "-y"],
            Self::Zypper => &["--non-interactive", "install"],
            Self::Pacman => &["-S", "--needed", "--noconfirm"],
            Self::Apk => &["add"],
        }
    }

    /// The command that installs packages, for root.
    pub fn line(self, packages: &[String]) -> String {
        format!("{} {} {}", self.program(), self.words().join(" "), packages.join(" "))
    }

    pub(super) fn install(
        self,
        env: &Env,
        probe: &Probe,
        packages: &[String],
    ) -> anyhow::Result<()> {
        if !probe.root && !probe.sudo {
            let line = self.line(packages);
            let text = format!("not root, and `sudo -n` does not work; run this: sudo {line}");
            return Err(coded(Code::Environment, text));
        }
        fs::create_dir_all(env.logs())?;
        let task = env.reporter.task("packages", None);
        // A fresh machine or container has no lists yet, and old lists name packages that are gone.
        if let Self::Apt | Self::Apk = self {
            task.state("bringing the lists up to date");
            let update = self.proc(probe, &["update"]).log(env.logs().join("doctor-update.log"));
            if let Err(error) = update.run() {
                env.reporter.warn(format!("{error:#}"));
            }
        }
        let install = |packages: &[String]| {
            task.state(format!("installing {}", packages.join(" ")));
            let log = env.logs().join("doctor-install.log");
            self.proc(probe, self.words()).args(packages).log(log).run()
        };
        let Err(error) = install(packages) else {
            task.finish(format!("installed {}", packages.join(" ")));
            return Ok(());
        };
        // One name that this system does not have must not keep the others away.
        let mut failed = Vec::new();
        for package in packages {
            interrupt::check()?;
            if packages.len() > 1 && install(std::slice::from_ref(package)).is_err() {
                failed.push(package.as_str());
            }
        }
        if packages.len() == 1 || failed.len() == packages.len() {
            return Err(error);
        }
        task.finish(format!("installed all but {}", failed.join(" ")));
        Ok(())
    }

    fn proc(self, probe: &Probe, words: &[&str]) -> Proc {
        let proc = if probe.root {
            Proc::new(self.program())
        } else {
            // The variables have to be given by hand: sudo clears the environment.
            Proc::new("sudo").args(["-n", "env", "DEBIAN_FRONTEND=noninteractive", self.program()])
        };
        proc.args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .inherit(&["http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"])
            .timeout(Duration::from_secs(1800))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_by_distribution() {
        let line = |manager: Manager, thing: &str| manager.line(&manager.packages(thing));
        assert_eq!(
            line(Manager::Apt, "make"),
            "apt-get install -y --no-install-recommends --no-upgrade make"
        );
        assert_eq!(line(Manager::Zypper, "flex"), "zypper --non-interactive install flex");
        assert_eq!(line(Manager::Pacman, "bison"), "pacman -S --needed --noconfirm bison");
        assert_eq!(Manager::Apt.packages("curses.h"), ["libncurses-dev"]);
        assert_eq!(Manager::Pacman.packages("openssl/ssl.h"), ["openssl"]);
        assert!(Manager::Apk.packages("windows.h").is_empty());
        assert!(Manager::Apt.packages("gcc").is_empty(), "compilers have a table of their own");
        assert!(Manager::Apt.packages("unheard-of").is_empty());
    }
}
