//! Why a build is made again: its stored inputs against those of now.

use crate::build::spec::Inputs;

/// One line for each input that changed, old -> new; empty when nothing did.
pub fn why(old: &Inputs, new: &Inputs) -> Vec<String> {
    let mut lines = Vec::new();
    let mut changed = |what: &str, old: &str, new: &str| {
        if old != new {
            lines.push(format!("{what} {old} -> {new}"));
        }
    };
    changed("recipe", &old.recipe, &new.recipe);
    changed("source", &old.source, &new.source);
    let (before, after) = (&old.source_facts, &new.source_facts);
    changed("version", &before.version, &after.version);
    let show = |patches: &[(String, crate::hash::Digest)]| {
        patches.iter().map(|(path, digest)| format!("{path} ({})", digest.short())).collect()
    };
    let patches = list("patches", &show(&before.patches), &show(&after.patches));
    if patches.is_none() {
        // Patches are part of the digest of the tree.
        changed("source tree", &before.digest.short(), &after.digest.short());
    }
    let compiler = |inputs: &Inputs| {
        inputs
            .toolchain
            .as_ref()
            .map(|(name, version, digest)| (format!("{name} {version}"), digest.short()))
    };
    match (compiler(old), compiler(new)) {
        // The same words but other files: the digest tells.
        (Some(old), Some(new)) if old.0 == new.0 => {
            changed(&format!("files of toolchain {}", old.0), &old.1, &new.1);
        }
        (old, new) => {
            let words = |compiler: Option<(String, String)>| {
                compiler.map_or("none".to_owned(), |(words, _)| words)
            };
            changed("toolchain", &words(old), &words(new));
        }
    }
    lines.extend(patches);
    let pairs = |pairs: &[(String, String)]| {
        pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
    };
    let system = |inputs: &Inputs| {
        let named = inputs.system.iter().map(|(name, hash)| format!("{name} ({})", hash.short()));
        named.collect::<Vec<_>>()
    };
    lines.extend(list("system", &system(old), &system(new)));
    let (old, new) = (&old.options, &new.options);
    lines.extend(list("cflags", &old.cflags, &new.cflags));
    lines.extend(list("cxxflags", &old.cxxflags, &new.cxxflags));
    lines.extend(list("ldflags", &old.ldflags, &new.ldflags));
    lines.extend(list("configure", &old.configure, &new.configure));
    lines.extend(list("cmake", &pairs(&old.cmake), &pairs(&new.cmake)));
    lines.extend(list("env", &pairs(&old.env), &pairs(&new.env)));
    lines
}

/// `cflags -O2 -> -O3`: what is gone and what came; or that only the order is another.
fn list(what: &str, old: &Vec<String>, new: &Vec<String>) -> Option<String> {
    if old == new {
        return None;
    }
    let (gone, came) = (without(old, new), without(new, old));
    Some(match (gone.is_empty(), came.is_empty()) {
        (false, false) => format!("{what} {gone} -> {came}"),
        (false, true) => format!("{what} {gone} -> nothing"),
        (true, false) => format!("{what} nothing -> {came}"),
        (true, true) => format!("{what}: order {} -> {}", old.join(" "), new.join(" ")),
    })
}

/// What `from` has more often than `other`, in its order.
fn without(from: &[String], other: &[String]) -> String {
    let mut left = other.to_vec();
    let rest = from.iter().filter(|word| match left.iter().position(|known| known == *word) {
        Some(place) => {
            left.remove(place);
            false
        }
        None => true,
    });
    rest.map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::SourceFacts;
    use crate::hash::Digest;
    use crate::matrix::model::Options;

    fn inputs(cflags: &[&str]) -> Inputs {
        let digest = Digest::of(b"a");
        let cflags = cflags.iter().map(|flag| (*flag).to_owned()).collect();
        Inputs {
            recipe: "r1".to_owned(),
            source: "pg".to_owned(),
            source_facts: SourceFacts { version: "15.1".to_owned(), digest, patches: Vec::new() },
            toolchain: Some(("gcc".to_owned(), "12.2.0".to_owned(), digest)),
            options: Options { cflags, ..Options::default() },
            system: Vec::new(),
        }
    }

    #[test]
    fn flags_and_other_inputs() {
        let old = inputs(&["-g1", "-O2"]);
        assert_eq!(why(&old, &old), Vec::<String>::new());
        for (flags, line) in [
            (vec!["-g1", "-O3"], "cflags -O2 -> -O3"),
            (vec!["-g1", "-O2", "-O2"], "cflags nothing -> -O2"),
            (vec!["-O2"], "cflags -g1 -> nothing"),
            (vec!["-O2", "-g1"], "cflags: order -g1 -O2 -> -O2 -g1"),
        ] {
            assert_eq!(why(&old, &inputs(&flags)), [line]);
        }
        let mut new = old.clone();
        new.toolchain = Some(("gcc".to_owned(), "12.2.0".to_owned(), Digest::of(b"b")));
        new.recipe = "r2".to_owned();
        new.source_facts.patches = vec![("postgres/x.patch".to_owned(), Digest::of(b"p"))];
        new.source_facts.digest = Digest::of(b"c");
        let lines = why(&old, &new);
        assert_eq!(lines[0], "recipe r1 -> r2");
        assert!(
            lines[1].starts_with("files of toolchain gcc 12.2.0 ca978112ca1b -> "),
            "{lines:?}"
        );
        assert!(lines[2].starts_with("patches nothing -> postgres/x.patch ("), "{lines:?}");
        new.system = vec![("bison".to_owned(), Digest::of(b"c"))];
        assert!(why(&old, &new).iter().any(|line| line.starts_with("system nothing -> bison (")));
        new.toolchain = None;
        assert!(why(&old, &new).contains(&"toolchain gcc 12.2.0 -> none".to_owned()));
    }
}
