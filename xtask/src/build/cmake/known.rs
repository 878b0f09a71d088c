//! What is known of the CMake variables that settings of the MySQL family give: whether a release
//! has them, whether they change anything, and how to get the same where they do not. Pure.
//!
//! Two ways to know. A table of facts, for releases whose tree is not there yet; and the words of
//! the tree itself where it is unpacked ([`Vocabulary`]), which stand above the table. A fork by
//! git revision may have what its release has not: there only its tree says what is not there. A
//! variable of which neither says anything is no mistake; what configuring makes of it is audited.

mod facts;

use crate::build::cmake::known::facts::{FACTS, Fate, Release};
use crate::build::cmake::vocabulary::{Reading, Vocabulary};
use crate::diag::nearest;
use crate::matrix::model::{Engine, Source, SourceKind};
use crate::matrix::version::Version;

use Fate::{Breaks, GoneBy, Idle, Never, Since, Unread};

/// Variables that one source has no use for, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The variables.
    pub names: Vec<String>,
    /// What is wrong with them: goes behind their names.
    pub what: String,
    /// What to do instead.
    pub advice: Option<String>,
    /// A condition that holds for releases that have them.
    pub when: Option<String>,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> = self.names.iter().map(|name| format!("`{name}`")).collect();
        write!(f, "{} {}", names.join(", "), self.what)
    }
}

/// What is wrong with variables that a source is given: `given` are names and values, `patched`
/// whether patches are applied to it, `words` those of its tree, if that is there.
pub fn faults(
    source: &Source,
    given: &[(String, String)],
    patched: bool,
    words: Option<&Vocabulary>,
) -> Vec<Fault> {
    let mut found: Vec<Fault> = Vec::new();
    if source.engine == Engine::Postgres {
        return found;
    }
    for (name, _) in given {
        let reading = words.map(|words| words.reading(name));
        let by_table = source
            .version
            .as_ref()
            .and_then(|version| by_table(source, version, name, patched, reading));
        let fault = by_table.or_else(|| words.and_then(|words| by_tree(words, name, reading)));
        let Some(fault) = fault else { continue };
        let same = |known: &&mut Fault| {
            (&known.what, &known.advice, &known.when) == (&fault.what, &fault.advice, &fault.when)
        };
        match found.iter_mut().find(same) {
            Some(known) => known.names.extend(fault.names),
            None => found.push(fault),
        }
    }
    found
}

fn by_table(
    source: &Source,
    version: &Version,
    name: &str,
    patched: bool,
    reading: Option<Reading>,
) -> Option<Fault> {
    let engine = source.engine.name();
    let numbers = [0, 1, 2].map(|index| version.number(index));
    let within = |from: Release, until: Release| from <= numbers && numbers < until;
    let is_fork = matches!(source.kind, SourceKind::Git { .. });
    // What the tree names is there, in a fork, too; what it might make up proves nothing.
    let may_lack = match reading {
        Some(Reading::Read) => false,
        Some(Reading::Declared | Reading::Unknown) => true,
        Some(Reading::Composed) | None => !is_fork,
    };
    let facts = FACTS.iter().filter(|fact| fact.engine == source.engine);
    for fact in facts.filter(|fact| fact.names.contains(&name)) {
        let (what, when) = match fact.fate {
            Since(from) if numbers < from && may_lack => {
                let from = dotted(from);
                (format!("came with {engine} {from}"), Some(format!("version >= {from}")))
            }
            GoneBy(from) if numbers >= from && may_lack => {
                (format!("had gone by {engine} {}", dotted(from)), None)
            }
            Never if may_lack => (format!("never existed in {engine}"), None),
            Unread(from, until) if within(from, until) && may_lack => {
                ("can be given, and nothing reads the value".to_owned(), None)
            }
            Idle(from, until) if within(from, until) => ("would change nothing".to_owned(), None),
            Breaks(release) if numbers == release && !patched && !is_fork => {
                ("keeps this release from compiling".to_owned(), None)
            }
            _ => continue,
        };
        let (names, advice) = (vec![name.to_owned()], Some(fact.advice.to_owned()));
        return Some(Fault { names, what, advice, when });
    }
    None
}

fn by_tree(words: &Vocabulary, name: &str, reading: Option<Reading>) -> Option<Fault> {
    /// How alike two names are that may be one: a slip or two in a name of this length.
    const ALIKE: f64 = 0.95;
    let what = match reading? {
        Reading::Read | Reading::Composed => return None,
        Reading::Declared => "can be given, and no CMake file of the tree reads the value",
        Reading::Unknown => "cannot be found in any CMake file of the tree",
    };
    let tabled = FACTS.iter().flat_map(|fact| fact.names.iter().copied());
    let alike = |known: &&str| {
        strsim::jaro_winkler(known, name) >= ALIKE && words.reading(known) == Reading::Read
    };
    let mut known: Vec<&str> = words.options().chain(tabled).filter(alike).collect();
    known.sort_unstable();
    known.dedup();
    let (names, advice) = (vec![name.to_owned()], nearest(name, known));
    Some(Fault { names, what: what.to_owned(), advice, when: None })
}

fn dotted(release: Release) -> String {
    release.map(|number| number.to_string()).join(".")
}

#[cfg(test)]
mod tests {
    use super::facts::{MACROS, MISSPELT_PFS};
    use super::*;
    use crate::build::spec::tests::spec;
    use Engine::{Mariadb, Mysql};

    fn source(engine: Engine, version: &str) -> Source {
        Source { engine, version: version.parse().ok(), ..spec(&[]).source }
    }

    fn fork(engine: Engine, version: &str) -> Source {
        let kind = SourceKind::Git { url: "u".to_owned(), rev: "0".repeat(40) };
        Source { kind, ..source(engine, version) }
    }

    fn given(names: &[&str]) -> Vec<(String, String)> {
        names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect()
    }

    fn said(source: &Source, names: &[&str], words: Option<&Vocabulary>) -> Vec<String> {
        faults(source, &given(names), false, words).iter().map(ToString::to_string).collect()
    }

    fn tree(text: &str) -> Vocabulary {
        let mut words = Vocabulary::default();
        words.add_cmake("CMakeLists.txt", text);
        words.finished()
    }

    #[test]
    fn releases_that_do_not_have_it_yet_or_any_more() {
        let lto = |engine, version| said(&source(engine, version), &["WITH_LTO"], None);
        assert_eq!(lto(Mysql, "8.0.12"), ["`WITH_LTO` came with mysql 8.0.13"]);
        assert!(lto(Mysql, "8.0.13").is_empty() && lto(Mysql, "9.4.0").is_empty());
        assert_eq!(lto(Mariadb, "10.11.18"), ["`WITH_LTO` never existed in mariadb"]);
        let rapid = |version| said(&source(Mysql, version), &["WITH_RAPID"], None);
        assert_eq!(rapid("5.7.11"), ["`WITH_RAPID` came with mysql 5.7.12"]);
        assert!(rapid("5.7.21").is_empty() && rapid("8.0.35").is_empty());
        assert_eq!(rapid("8.0.39"), ["`WITH_RAPID` had gone by mysql 8.0.39"]);
        let trace = |version| said(&source(Mysql, version), &["OPTIMIZER_TRACE"], None);
        assert!(trace("5.6.21").is_empty());
        assert_eq!(trace("8.0.39"), ["`OPTIMIZER_TRACE` had gone by mysql 8.0.34"]);
        let all = faults(&source(Mysql, "5.6.21"), &given(&["WITH_LTO"]), false, None);
        assert_eq!(all[0].when.as_deref(), Some("version >= 8.0.13"));
        assert!(all[0].advice.as_deref().is_some_and(|text| text.contains("-flto=auto")));
    }

    #[test]
    fn switches_of_the_performance_schema_by_release() {
        let names = ["DISABLE_PSI_MUTEX", "DISABLE_PSI_MEMORY", "DISABLE_PSI_FILE"];
        let all = faults(&source(Mysql, "5.6.21"), &given(&names), false, None);
        // Those of one reason are said together.
        assert_eq!(all.len(), 2, "{all:?}");
        assert_eq!(all[0].names, ["DISABLE_PSI_MUTEX", "DISABLE_PSI_FILE"]);
        assert_eq!(all[0].advice.as_deref(), Some(MACROS));
        assert_eq!(all[1].names, ["DISABLE_PSI_MEMORY"]);
        assert!(said(&source(Mysql, "5.7.44"), &names, None).is_empty());
        assert!(said(&source(Mysql, "8.0.39"), &names, None).is_empty());
        assert_eq!(
            said(&source(Mariadb, "10.11.18"), &names[..1], None),
            ["`DISABLE_PSI_MUTEX` can be given, and nothing reads the value"]
        );
        let idle = ["DISABLE_PSI_DATA_LOCK", "DISABLE_TLS_CHANNEL", "DISABLE_PSI_THREAD"];
        assert_eq!(
            said(&source(Mysql, "8.0.39"), &idle, None),
            [
                "`DISABLE_PSI_DATA_LOCK` can be given, and nothing reads the value",
                "`DISABLE_TLS_CHANNEL` never existed in mysql",
                "`DISABLE_PSI_THREAD` keeps this release from compiling",
            ]
        );
        assert_eq!(
            said(&source(Mysql, "5.7.44"), &idle[..1], None),
            ["`DISABLE_PSI_DATA_LOCK` came with mysql 8.0.0"]
        );
        let thread = given(&idle[2..]);
        assert!(faults(&source(Mysql, "8.0.39"), &thread, true, None).is_empty(), "patched");
        assert!(faults(&source(Mysql, "8.0.40"), &thread, false, None).is_empty(), "not known");
    }

    #[test]
    fn engines_that_are_in_anyway() {
        let names = [
            "WITH_ARCHIVE_STORAGE_ENGINE",
            "WITHOUT_ARCHIVE_STORAGE_ENGINE",
            "WITHOUT_CSV_STORAGE_ENGINE",
        ];
        assert_eq!(
            said(&source(Mysql, "8.0.39"), &names, None),
            [
                "`WITH_ARCHIVE_STORAGE_ENGINE` would change nothing",
                "`WITHOUT_CSV_STORAGE_ENGINE` would change nothing",
            ]
        );
        assert!(said(&source(Mysql, "5.6.21"), &names[..2], None).is_empty());
        let misspelt = ["WITH_PERF_SCHEMA_STORAGE_ENGINE"];
        let fault = &faults(&source(Mysql, "5.5.62"), &given(&misspelt), false, None)[0];
        assert_eq!(fault.advice.as_deref(), Some(MISSPELT_PFS));
    }

    #[test]
    fn the_tree_stands_above_the_table() {
        let has = tree("OPTION(WITH_LTO \"\" OFF)\nIF(WITH_LTO)\nENDIF()\nIF(WITH_OTHER_THING)\n");
        let old = source(Mysql, "8.0.12");
        assert!(said(&old, &["WITH_LTO"], Some(&has)).is_empty(), "brought back");
        let without = tree("IF(WITH_OTHER_THING)\nENDIF()\n");
        // The table has the better words where it knows the name, too.
        assert_eq!(
            said(&old, &["WITH_LTO"], Some(&without)),
            ["`WITH_LTO` came with mysql 8.0.13"]
        );
        let new = source(Mysql, "8.0.39");
        assert_eq!(
            said(&new, &["WITH_LTO"], Some(&without)),
            ["`WITH_LTO` cannot be found in any CMake file of the tree"]
        );
        let fault = &faults(&new, &given(&["WITH_OTHER_THNG"]), false, Some(&without))[0];
        assert_eq!(fault.advice.as_deref(), Some("did you mean `WITH_OTHER_THING`?"));
        let far = &faults(&new, &given(&["WITH_NONSENSE"]), false, Some(&without))[0];
        assert_eq!(far.advice, None);
        assert!(said(&new, &["CMAKE_CXX_STANDARD"], Some(&without)).is_empty());
        let composed = tree("IF(WITH_${plugin})\nADD(lto)\n");
        assert_eq!(said(&old, &["WITH_LTO"], Some(&composed)).len(), 1, "the table is surer");
        assert!(said(&new, &["WITH_LTO"], Some(&composed)).is_empty());
        assert!(said(&fork(Mysql, "8.0.12"), &["WITH_LTO"], Some(&composed)).is_empty());
        let declared = tree("option(DISABLE_PSI_NEW \"\" OFF)\n");
        assert_eq!(
            said(&new, &["DISABLE_PSI_NEW"], Some(&declared)),
            ["`DISABLE_PSI_NEW` can be given, and no CMake file of the tree reads the value"]
        );
        assert!(said(&new, &["WITH_NONSENSE"], None).is_empty(), "unknown is no mistake");
    }

    #[test]
    fn a_fork_is_judged_by_its_tree() {
        let names = ["WITH_LTO", "DISABLE_PSI_THREAD", "DISABLE_TLS_CHANNEL"];
        assert!(said(&fork(Mysql, "5.7.44"), &names, None).is_empty());
        assert!(said(&fork(Mysql, "8.0.39"), &names, None).is_empty());
        let has = tree("IF(WITH_LTO OR DISABLE_PSI_THREAD)\n");
        assert_eq!(
            said(&fork(Mysql, "5.7.44"), &names, Some(&has)),
            ["`DISABLE_TLS_CHANNEL` never existed in mysql"]
        );
        let idle = ["WITH_CSV_STORAGE_ENGINE"];
        assert_eq!(
            said(&fork(Mysql, "8.0.39"), &idle, None),
            ["`WITH_CSV_STORAGE_ENGINE` would change nothing"]
        );
        assert!(said(&source(Engine::Postgres, "15.18"), &names, Some(&has)).is_empty());
    }
}
