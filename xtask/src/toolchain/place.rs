//! Where the files of a toolchain are and how its programs are run: on this machine itself, or in a
//! root folder of its own that holds a sealed one. Everything that asks a compiler goes through
//! here, so that a sealed compiler is never mixed up with what the machine has.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use crate::exit::{Code, coded};
use crate::launch::{self, Bind};
use crate::proc::{PATH, Proc, own_file};

/// How many links one path may lead through; Linux itself stops at 40.
const MAX_LINKS: usize = 40;
/// The folder that a program in a root folder sees as its own.
const WORK: &str = "try";

/// Where a toolchain is. Paths of its files are as its own programs see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    root: Option<PathBuf>,
}

impl Place {
    /// This machine itself.
    pub fn here() -> Self {
        Self::default()
    }

    /// A root folder.
    pub fn sealed(root: &Path) -> Self {
        Self { root: Some(root.to_owned()) }
    }

    /// The root folder, if it is not this machine itself.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// The path on this machine of a file of the toolchain, links followed as its programs would.
    pub fn host(&self, inside: &Path) -> PathBuf {
        match &self.root {
            None => inside.to_owned(),
            Some(root) => root.join(follow(root, inside).unwrap_or_else(|| relative(inside))),
        }
    }

    /// The path of a file without links, as programs of the toolchain see it.
    pub fn real(&self, inside: &Path) -> PathBuf {
        let found = match &self.root {
            None => inside.canonicalize().ok(),
            Some(root) => follow(root, inside).map(|path| Path::new("/").join(path)),
        };
        found.unwrap_or_else(|| inside.to_owned())
    }

    /// All programs of this name on a search path; an absolute path stands for itself.
    pub fn which_all(&self, name: impl AsRef<OsStr>, path: &OsStr) -> Vec<PathBuf> {
        let name = Path::new(name.as_ref());
        if self.root.is_none() {
            return which::which_in_all(name, Some(path), "/").into_iter().flatten().collect();
        }
        let candidates: Vec<PathBuf> = if name.is_absolute() {
            vec![name.to_owned()]
        } else if name.components().count() == 1 {
            std::env::split_paths(path).map(|folder| folder.join(name)).collect()
        } else {
            Vec::new()
        };
        let runs = |path: &PathBuf| {
            let data = std::fs::metadata(self.host(path));
            data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
        };
        candidates.into_iter().filter(runs).collect()
    }

    /// The first program of this name on the search path that every process gets.
    pub fn which(&self, name: impl AsRef<OsStr>) -> Option<PathBuf> {
        self.which_all(name, OsStr::new(PATH)).into_iter().next()
    }

    /// The same, for a build that cannot go on without it.
    ///
    /// # Errors
    /// When it is not there: how to get it.
    pub fn program(&self, name: &str) -> anyhow::Result<PathBuf> {
        self.which(name).ok_or_else(|| {
            let mend = match &self.root {
                None => "install it (`cargo xtask doctor` says how)",
                Some(_) => "name its package in `seal-packages` and seal the toolchain again",
            };
            coded(Code::Environment, format!("`{name}` not found; {mend}"))
        })
    }

    /// A call of one of the toolchain's programs.
    pub fn proc(&self, program: impl Into<PathBuf>) -> Proc {
        match &self.root {
            None => Proc::new(program),
            Some(_) => Proc::new(program).launch(own_file(), self.launch(Vec::new(), "/".into())),
        }
    }

    /// A call in a folder of this machine, where the program may write. Its files are named without
    /// the folder, or by [`Place::inside`].
    pub fn proc_in(&self, program: impl Into<PathBuf>, folder: &Path) -> Proc {
        if self.root.is_none() {
            return Proc::new(program).cwd(folder);
        }
        let at = Path::new(launch::ROOT).join(WORK);
        let bind = Bind { host: folder.to_owned(), at: at.clone(), read_only: false };
        Proc::new(program).launch(own_file(), self.launch(vec![bind], at))
    }

    /// The path of a file in the folder of [`Place::proc_in`], as the program sees it.
    pub fn inside(&self, folder: &Path, name: &str) -> PathBuf {
        match &self.root {
            None => folder.join(name),
            Some(_) => Path::new(launch::ROOT).join(WORK).join(name),
        }
    }

    fn launch(&self, binds: Vec<Bind>, cwd: PathBuf) -> launch::Spec {
        launch::Spec { root: self.root.clone(), binds, cwd: Some(cwd), ..launch::Spec::default() }
    }
}

fn relative(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

/// Follows a path below `root` as a process would whose root that is: absolute links count from
/// there, and nothing leads out. `None` when a part is not there or there are too many links.
pub fn follow(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut at = PathBuf::new();
    let mut todo: VecDeque<OsString> = parts(path).collect();
    let mut links = 0;
    while let Some(part) = todo.pop_front() {
        if part == "/" {
            at.clear();
        } else if part == ".." {
            // As in the real root, which is its own parent.
            at.pop();
        } else {
            let next = at.join(&part);
            let data = std::fs::symlink_metadata(root.join(&next)).ok()?;
            if data.is_symlink() {
                links += 1;
                if links > MAX_LINKS {
                    return None;
                }
                let target = std::fs::read_link(root.join(&next)).ok()?;
                for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                    todo.push_front(part);
                }
            } else {
                at = next;
            }
        }
    }
    Some(at)
}

/// The parts of a path, `/` among them where it begins so.
fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    let kept = path.components().filter(|part| *part != Component::CurDir);
    kept.map(|part| part.as_os_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        fs::create_dir_all(path.join("usr/bin")).unwrap();
        fs::create_dir_all(path.join("etc/alternatives")).unwrap();
        symlink("usr/bin", path.join("bin")).unwrap();
        fs::write(path.join("usr/bin/mawk"), "#!").unwrap();
        fs::set_permissions(path.join("usr/bin/mawk"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(path.join("usr/bin/notes"), "").unwrap();
        symlink("/etc/alternatives/awk", path.join("usr/bin/awk")).unwrap();
        symlink("/usr/bin/mawk", path.join("etc/alternatives/awk")).unwrap();
        symlink("round", path.join("round")).unwrap();
        symlink("../../../../etc", path.join("usr/up")).unwrap();
        root
    }

    #[test]
    fn links_count_from_the_root_folder_and_lead_nowhere_else() {
        let root = root();
        let follow = |path: &str| follow(root.path(), Path::new(path));
        for awk in ["/bin/awk", "/usr/bin/awk", "bin/../bin/awk", "/../bin/./awk"] {
            assert_eq!(follow(awk).unwrap(), Path::new("usr/bin/mawk"), "{awk}");
        }
        assert_eq!(follow("/usr/up/alternatives").unwrap(), Path::new("etc/alternatives"));
        assert_eq!(follow("/").unwrap(), Path::new(""));
        for none in ["/round", "/bin/none", "/etc/passwd", "/none/.."] {
            assert_eq!(follow(none), None, "{none}");
        }
    }

    #[test]
    fn programs_of_a_root_folder_are_its_own() {
        let root = root();
        let place = Place::sealed(root.path());
        assert_eq!(place.which("awk").unwrap(), Path::new("/usr/bin/awk"));
        assert_eq!(place.real(Path::new("/bin/awk")), Path::new("/usr/bin/mawk"));
        assert_eq!(place.host(Path::new("/bin/awk")), root.path().join("usr/bin/mawk"));
        assert_eq!(place.which("/bin/mawk").unwrap(), Path::new("/bin/mawk"));
        // What this machine has, a file that does not run, and a folder.
        for none in ["sh", "notes", "/bin/sh", "/usr", "bin/awk"] {
            assert_eq!(place.which(none), None, "{none}");
        }
        assert!(Place::here().which("sh").is_some());
        let missing = place.program("cmake").unwrap_err().to_string();
        assert!(missing.starts_with("`cmake` not found; name its package"), "{missing}");
        let line = place.proc("/usr/bin/awk").line();
        assert_eq!(line, "/usr/bin/awk", "errors show the call itself");
        assert_eq!(place.inside(Path::new("/x"), "a.o"), Path::new("/mnt/try/a.o"));
        assert_eq!(Place::here().inside(Path::new("/x"), "a.o"), Path::new("/x/a.o"));
    }
}
