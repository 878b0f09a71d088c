//! The paths that a build sees. They are the same on every machine, because compilers write paths
//! into what they make: debug information, `__FILE__`, LTO symbol names, recorded command lines.
//!
//! Where the kernel allows it the build runs in a mount namespace in which its folders have these
//! names ([`Layout::canonical`]). Where it does not, the real folders are used and the compilers
//! are called through small scripts that map the real names to the canonical ones
//! ([`Layout::mapped`]); that covers everything but clang's ThinLTO, which hashes the real names.

use std::path::{Path, PathBuf};

use fs_err as fs;
use fs_err::os::unix::fs as unix_fs;

use crate::build::commands;
use crate::facts::Toolchain;
use crate::launch::{Bind, ROOT};
use crate::matrix::model::Family;

/// The name of the source tree inside a build.
const SOURCE: &str = "src";
/// The name of the build tree.
const OBJECT: &str = "obj";
/// The name of the folder that `make install` fills, by `DESTDIR`.
const STAGE: &str = "stage";
/// The name of the folder with the tools of the toolchain, first in `PATH`.
const TOOLS: &str = "bin";
/// The name of the folder for temporary files, also `HOME`.
const TEMP: &str = "tmp";
/// The name of the folder for the compile log.
const LOG: &str = "log";

/// The paths of one build, as its steps see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The source tree; read only.
    pub source: PathBuf,
    /// The build tree.
    pub object: PathBuf,
    /// What `DESTDIR` is.
    pub stage: PathBuf,
    /// The tools, first in `PATH`.
    pub tools: PathBuf,
    /// Temporary files and `HOME`.
    pub temp: PathBuf,
    /// Where the compilers note their calls ([`commands`]).
    pub log: PathBuf,
    /// The mounts that make these paths; empty when they are the real ones.
    pub binds: Vec<Bind>,
}

impl Layout {
    /// The canonical paths, for a build whose real folders lie below `staging`.
    pub fn canonical(staging: &Path, source: &Path) -> Self {
        let at = |name: &str| Path::new(ROOT).join(name);
        let bind = |host: PathBuf, name: &str, read_only| Bind { host, at: at(name), read_only };
        let own = |name: &str| bind(staging.join(name), name, false);
        Self {
            binds: vec![
                bind(source.to_owned(), SOURCE, true),
                own(OBJECT),
                own(STAGE),
                bind(staging.join(TOOLS), TOOLS, true),
                own(TEMP),
                own(LOG),
            ],
            source: at(SOURCE),
            object: at(OBJECT),
            stage: at(STAGE),
            tools: at(TOOLS),
            temp: at(TEMP),
            log: at(LOG),
        }
    }

    /// The real paths, for a kernel that allows no mount namespace.
    pub fn mapped(staging: &Path, source: &Path) -> Self {
        Self {
            source: source.to_owned(),
            object: staging.join(OBJECT),
            stage: staging.join(STAGE),
            tools: staging.join(TOOLS),
            temp: staging.join(TEMP),
            log: staging.join(LOG),
            binds: Vec::new(),
        }
    }

    /// Makes the real folders below `staging` and fills the one with the tools.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn prepare(&self, staging: &Path, toolchain: &Toolchain) -> anyhow::Result<()> {
        for name in [OBJECT, STAGE, TOOLS, TEMP, LOG] {
            fs::create_dir_all(staging.join(name))?;
        }
        for (role, target) in &toolchain.tools {
            let Some(name) = tool_name(toolchain.family, role) else { continue };
            let link = staging.join(TOOLS).join(name);
            if matches!(role.as_str(), "cc" | "cxx") {
                self.write_wrapper(&link, target)?;
            } else {
                unix_fs::symlink(target, link)?;
            }
        }
        Ok(())
    }

    /// A compiler that notes its call and, without canonical paths, maps the real names to them.
    /// gcc takes the last map that matches and the build tree may lie inside the source tree's
    /// parent, so source comes first.
    fn write_wrapper(&self, link: &Path, compiler: &Path) -> anyhow::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let map =
            |from: &Path, name: &str| format!("-ffile-prefix-map={}={ROOT}/{name}", from.display());
        let maps = match self.binds.is_empty() {
            true => vec![map(&self.source, SOURCE), map(&self.object, OBJECT)],
            false => Vec::new(),
        };
        fs::write(link, commands::script(compiler, &self.log, &maps)?)?;
        fs::set_permissions(link, std::fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// The folder of the compile log on the host, for a build whose real folders lie below
    /// `staging`.
    pub fn log_on_host(staging: &Path) -> PathBuf {
        staging.join(LOG)
    }

    /// The build tree on the host.
    pub fn object_on_host(staging: &Path) -> PathBuf {
        staging.join(OBJECT)
    }

    /// What was installed, on the host, under this prefix.
    pub fn installed_on_host(staging: &Path, prefix: &str) -> PathBuf {
        staging.join(STAGE).join(prefix.trim_start_matches('/'))
    }
}

/// The constant name under which a tool is called, since an engine may store it in its binaries.
pub fn tool_name(family: Family, role: &str) -> Option<&'static str> {
    Some(match (family, role) {
        (Family::Gcc, "cc") => "gcc",
        (Family::Gcc, "cxx") => "g++",
        (Family::Gcc, "ar") => "gcc-ar",
        (Family::Gcc, "ranlib") => "gcc-ranlib",
        (Family::Gcc, "nm") => "gcc-nm",
        (Family::Clang, "cc") => "clang",
        (Family::Clang, "cxx") => "clang++",
        (Family::Clang, "ar") => "llvm-ar",
        (Family::Clang, "ranlib") => "llvm-ranlib",
        (Family::Clang, "nm") => "llvm-nm",
        (Family::Clang, "lld") => "ld.lld",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_paths_do_not_depend_on_the_real_ones() {
        let one = Layout::canonical(Path::new("/a/staging"), Path::new("/a/trees/x"));
        let two = Layout::canonical(Path::new("/home/b/s"), Path::new("/elsewhere/x"));
        assert_eq!(
            (&one.source, &one.object, &one.stage, &one.tools),
            (&two.source, &two.object, &two.stage, &two.tools)
        );
        assert_eq!(one.source, Path::new("/mnt/src"));
        assert!(one.binds.iter().all(|bind| bind.at.starts_with(ROOT)));
    }

    #[test]
    fn wrapper_maps_source_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let layout = Layout::mapped(dir.path(), Path::new("/src/it's here"));
        let link = dir.path().join("gcc");
        layout.write_wrapper(&link, Path::new("/usr/bin/gcc-12")).expect("a wrapper");
        let text = std::fs::read_to_string(link).expect("readable");
        let words = shlex::split(text.lines().nth(2).expect("a line")).expect("words");
        assert_eq!(words[..3], ["exec", "/usr/bin/gcc-12", "$@"]);
        assert_eq!(words[3], "-ffile-prefix-map=/src/it's here=/mnt/src");
        assert!(words[4].ends_with("/obj=/mnt/obj"));
    }
}
