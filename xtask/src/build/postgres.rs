//! The recipe for PostgreSQL 13 to 18: configure and make, out of tree, and only the parts that a
//! measurable server needs (`initdb` fails without any of them; psql, ecpg, contrib and tests are
//! left out).
//!
//! `CFLAGS` replaces configure's own `-O2 -g`; the project's flags come before ours, so ours win.
//! No server needs libpq's static library, and it alone would differ from build to build: gcc names
//! the sections of objects for link-time optimisation at random, which nothing linked shows.
//! The run path is relative to the program: with a constant prefix the staged programs would load
//! the system's libpq otherwise.

use crate::build::layout::{Layout, tool_name};
use crate::build::recipe::{Step, prefix};
use crate::build::spec::Spec;
use crate::exit::{Code, coded};
use crate::matrix::model::Engine;

/// The folders below `src/` to build, in this order: name of the step, folder, target.
const PARTS: [(&str, &str, &str); 9] = [
    ("headers", "backend", "generated-headers"),
    ("port", "port", "all"),
    ("common", "common", "all"),
    ("backend", "backend", "all"),
    ("timezone", "timezone", "all"),
    ("snowball", "backend/snowball", "all"),
    ("plpgsql", "pl/plpgsql/src", "all"),
    ("libpq", "interfaces/libpq", "all"),
    ("initdb", "bin/initdb", "all"),
];

/// The folders below `src/` to install.
const INSTALLED: [&str; 6] =
    ["backend", "timezone", "backend/snowball", "pl/plpgsql/src", "interfaces/libpq", "bin/initdb"];

/// The steps, see [`crate::build::recipe::steps`].
pub fn steps(spec: &Spec, layout: &Layout) -> anyhow::Result<Vec<Step>> {
    let mut steps = vec![step("configure", configure(spec, layout)?, layout, false)];
    for (name, folder, target) in PARTS {
        steps.push(step(name, make(folder, target, None), layout, true));
    }
    // From 17 on, what `initdb` reads is made and installed from here and not by the backend. It
    // counts on a folder that the installation of all headers makes.
    let major = spec.source.version.as_ref().map_or(0, |version| version.major());
    let catalog = (major >= 17).then_some("include/catalog");
    if let Some(folder) = catalog {
        let installed = format!("{}{}", layout.stage.display(), prefix(Engine::Postgres));
        let headers = format!("{installed}/include/server/catalog");
        let words = ["mkdir", "-p", &headers].map(str::to_owned).into();
        steps.push(step(&format!("folder for {folder}"), words, layout, false));
    }
    for folder in INSTALLED.into_iter().chain(catalog) {
        let name = format!("install {folder}");
        steps.push(step(&name, make(folder, "install", Some(layout)), layout, true));
    }
    let library = format!("{}{}/lib/libpq.a", layout.stage.display(), prefix(Engine::Postgres));
    let words = ["rm", "-f", &library].map(str::to_owned).into();
    steps.push(step("leave out libpq.a", words, layout, false));
    Ok(steps)
}

fn step(name: &str, words: Vec<String>, layout: &Layout, make: bool) -> Step {
    Step { name: name.to_owned(), words, cwd: layout.object.clone(), make }
}

fn configure(spec: &Spec, layout: &Layout) -> anyhow::Result<Vec<String>> {
    let options = &spec.options;
    if !options.cflags.iter().any(|flag| flag.starts_with("-O")) {
        return Err(coded(
            Code::Input,
            format!(
                "`{}`: no setting gives an optimisation level, and CFLAGS replaces configure's own \
                 -O2: the server would be built without optimisation; name a setting of the axis \
                 `opt`",
                spec.name
            ),
        ));
    }
    let Some(toolchain) = &spec.toolchain else {
        return Err(coded(Code::Input, format!("`{}`: no toolchain", spec.name)));
    };
    let mut words = vec![
        layout.source.join("configure").display().to_string(),
        format!("--prefix={}", prefix(Engine::Postgres)),
    ];
    words.extend(options.configure.iter().cloned());
    for (variable, role) in
        [("CC", "cc"), ("CXX", "cxx"), ("AR", "ar"), ("RANLIB", "ranlib"), ("NM", "nm")]
    {
        if toolchain.tool(role).is_some()
            && let Some(name) = tool_name(toolchain.family, role)
        {
            words.push(format!("{variable}={name}"));
        }
    }
    words.push(format!("CFLAGS={}", options.cflags.join(" ")));
    words.push(format!("CXXFLAGS={}", options.cxxflags.join(" ")));
    words.push(format!("LDFLAGS={}", options.ldflags.join(" ")));
    Ok(words)
}

fn make(folder: &str, target: &str, install: Option<&Layout>) -> Vec<String> {
    let mut words: Vec<String> = ["make", "--no-print-directory", "-C"].map(str::to_owned).into();
    words.push(format!("src/{folder}"));
    words.push(target.to_owned());
    words.push("rpathdir=$$ORIGIN/../lib".to_owned());
    if let Some(layout) = install {
        words.push(format!("DESTDIR={}", layout.stage.display()));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::spec::tests::spec;
    use std::path::Path;

    #[test]
    fn configure_gets_the_flags_and_nothing_else() {
        let spec = spec(&["-g1", "-O3", "-fno-plt"]);
        let layout = Layout::canonical(Path::new("/s"), Path::new("/t"));
        let steps = steps(&spec, &layout).expect("steps");
        assert_eq!(
            steps[0].words,
            [
                "/mnt/src/configure",
                "--prefix=/opt/matrix/pgsql",
                "--without-zlib",
                "CC=gcc",
                "AR=gcc-ar",
                "CFLAGS=-g1 -O3 -fno-plt",
                "CXXFLAGS=-g1 -O3 -fno-plt",
                "LDFLAGS=",
            ]
        );
        assert_eq!(steps[4].words[3..], ["src/backend", "all", "rpathdir=$$ORIGIN/../lib"]);
        let last = &steps[steps.len() - 2..];
        assert!(last[0].words.contains(&"DESTDIR=/mnt/stage".to_owned()));
        assert_eq!(last[1].words, ["rm", "-f", "/mnt/stage/opt/matrix/pgsql/lib/libpq.a"]);
    }

    #[test]
    fn what_initdb_reads_is_installed_from_where_it_is_made() {
        let layout = Layout::canonical(Path::new("/s"), Path::new("/t"));
        for (version, wanted) in [("13.16", false), ("16.1", false), ("17.0", true), ("18.6", true)]
        {
            let mut spec = spec(&["-O2"]);
            spec.source.version = version.parse().ok();
            let steps = steps(&spec, &layout).expect("steps");
            let found = steps.iter().any(|step| step.name == "install include/catalog");
            assert_eq!(found, wanted, "{version}");
        }
    }

    #[test]
    fn missing_level_is_an_error() {
        let layout = Layout::canonical(Path::new("/s"), Path::new("/t"));
        let error = steps(&spec(&["-fno-omit-frame-pointer"]), &layout).expect_err("no -O");
        assert!(error.to_string().contains("without optimisation"), "{error}");
        assert_eq!(crate::exit::code_of(&error), Code::Input);
    }
}
