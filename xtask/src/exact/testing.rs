//! Small programs and archives from a real compiler, for the tests of this module.

use std::path::Path;

use crate::proc::Proc;

/// Compiles and links these files in a new folder, in which only the program `prog` and the
/// sources are then.
pub(crate) fn compile(folder: &Path, sources: &[(&str, &str)], flags: &[&str]) {
    write(folder, sources);
    let names = sources.iter().map(|(name, _)| *name);
    Proc::new("gcc").args(flags).args(names).args(["-o", "prog"]).cwd(folder).run().expect("gcc");
}

/// Compiles these files into an archive `liball.a` in a new folder.
pub(crate) fn archive(folder: &Path, sources: &[(&str, &str)], flags: &[&str]) {
    write(folder, sources);
    for (name, _) in sources {
        Proc::new("gcc").args(flags).arg("-c").arg(name).cwd(folder).run().expect("gcc");
    }
    let objects: Vec<String> = sources.iter().map(|(name, _)| name.replace(".c", ".o")).collect();
    Proc::new("ar").args(["rcsD", "liball.a"]).args(&objects).cwd(folder).run().expect("ar");
    for name in objects {
        std::fs::remove_file(folder.join(name)).expect("removed");
    }
}

fn write(folder: &Path, sources: &[(&str, &str)]) {
    std::fs::create_dir_all(folder).expect("a folder");
    for (name, text) in sources {
        std::fs::write(folder.join(name), text).expect("written");
    }
}
