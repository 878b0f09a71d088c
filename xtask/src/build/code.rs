//! Which builds are the same server: equal in all that a running server has in its memory and in
//! all other installed files that it reads. Pure.
//!
//! Debug information, the order of flags in it, headers and static libraries do not count: two
//! builds that differ only there would be measured twice to learn the noise of the machine.

use crate::build::manifest::Manifest;
use crate::hash::Digest;

/// Sections that are in memory and yet only a name of the rest.
const IDENTITIES: [&str; 2] = [".note.gnu.build-id", ".note.package"];
/// Installed below `share/`, but read by people only.
const FOR_PEOPLE: [&str; 3] = ["share/doc/", "share/man/", "share/info/"];

/// The hash over what makes the server: of every installed program and shared library the loaded
/// sections, of every other file below `share/` the content. `None` where the manifest does not
/// list sections, so nothing is known.
pub fn digest(manifest: &Manifest) -> Option<Digest> {
    let mut lines = Vec::new();
    for binary in manifest.binaries.iter().filter(|binary| !binary.path.ends_with(".a")) {
        for section in binary.sections.iter().filter(|section| section.loaded) {
            if !IDENTITIES.contains(&section.name.as_str()) {
                let (path, name) = (&binary.path, &section.name);
                lines.push(format!("{path}\t{name}\t{}\t{}\n", section.size, section.sha256));
            }
        }
    }
    if lines.is_empty() {
        return None;
    }
    let is_binary = |path: &str| manifest.binaries.iter().any(|binary| binary.path == path);
    for file in &manifest.files {
        let read = file.path.starts_with("share/")
            && !FOR_PEOPLE.iter().any(|folder| file.path.starts_with(folder));
        if read && !is_binary(&file.path) {
            lines.push(format!("{}\t{}\t{}\n", file.path, file.mode, file.sha256));
        }
    }
    // A section may occur twice under one name: the order within a file stays.
    Some(Digest::of(format!("code 1\n{}", lines.concat()).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::manifest::{BinaryDone, FileDone, SectionDone};
    use crate::build::statement::tests::manifest;

    fn section(name: &str, loaded: bool, content: &str) -> SectionDone {
        let sha256 = Digest::of(content.as_bytes()).to_string()[..32].to_owned();
        SectionDone { name: name.to_owned(), loaded, size: 7, sha256 }
    }

    fn file(path: &str, content: &str) -> FileDone {
        let sha256 = Digest::of(content.as_bytes());
        FileDone { path: path.to_owned(), mode: "0644".to_owned(), size: 7, sha256 }
    }

    fn build() -> Manifest {
        let sections = vec![
            section(".text", true, "code"),
            section(".note.gnu.build-id", true, "id"),
            section(".debug_info", false, "debug"),
        ];
        let archive = vec![section("a.o", true, "object")];
        Manifest {
            binaries: vec![
                BinaryDone { path: "bin/postgres".to_owned(), sections },
                BinaryDone { path: "lib/libx.a".to_owned(), sections: archive },
            ],
            files: vec![
                file("bin/postgres", "all of it"),
                file("include/pg_config.h", "header"),
                file("share/doc/a.html", "text"),
                file("share/postgres.bki", "catalogue"),
            ],
            ..manifest()
        }
    }

    #[test]
    fn only_what_a_server_loads_or_reads_counts() {
        let of = |change: fn(&mut Manifest)| {
            let mut build = build();
            change(&mut build);
            digest(&build)
        };
        let plain = of(|_| {});
        assert!(plain.is_some());
        let same: [fn(&mut Manifest); 6] = [
            |m| m.binaries[0].sections[1] = section(".note.gnu.build-id", true, "other"),
            |m| m.binaries[0].sections[2] = section(".debug_info", false, "other"),
            |m| m.binaries[1].sections[0] = section("a.o", true, "other"),
            |m| m.files[0] = file("bin/postgres", "other"),
            |m| m.files[1] = file("include/pg_config.h", "other"),
            |m| m.files[2] = file("share/doc/a.html", "other"),
        ];
        for (index, change) in same.into_iter().enumerate() {
            assert_eq!(of(change), plain, "{index}");
        }
        let other: [fn(&mut Manifest); 5] = [
            |m| m.binaries[0].sections[0] = section(".text", true, "other"),
            |m| m.binaries[0].sections[0].name = ".text.hot".to_owned(),
            |m| m.binaries[0].path = "bin/postgrez".to_owned(),
            |m| m.files[3] = file("share/postgres.bki", "other"),
            |m| m.files.push(file("share/extension/x.sql", "more")),
        ];
        let digests: Vec<_> = other.into_iter().map(of).collect();
        for (index, one) in digests.iter().enumerate() {
            assert!(one.is_some() && *one != plain && !digests[..index].contains(one), "{index}");
        }
    }

    #[test]
    fn nothing_known_is_no_code() {
        assert_eq!(digest(&Manifest { binaries: Vec::new(), ..build() }), None);
        let mut debug_only = build();
        debug_only.binaries[0].sections.remove(0);
        debug_only.binaries[0].sections.remove(0);
        debug_only.binaries.truncate(1);
        assert_eq!(digest(&debug_only), None, "two files of nothing are not the same server");
    }
}
