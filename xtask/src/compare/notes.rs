//! What must be said of single targets beside their numbers: that their binaries are not what was
//! asked for, what else differs from the base than what their names say, whose runs they show.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::{Comparison, HostComparison, Made, Warning, WarningKind};
use crate::build::manifest::Manifest;
use crate::hash::Digest;
use crate::one_axis;
use crate::stats::Verdict;

/// Something that must be said of one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Note {
    /// The target; the base's name for what is said of the base.
    pub target: String,
    /// What it is about.
    pub kind: NoteKind,
    /// For people: one sentence.
    pub text: String,
    /// All phrases of which the sentence names the first ones.
    #[serde(default)]
    pub details: Vec<String>,
}

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoteKind {
    /// The binaries were not what was asked for when runs were made.
    Mismatch,
    /// It is the same server as another target, whose runs are shown.
    SameCode,
    /// It is the same server as another target, and both were measured.
    AaPair,
    /// It differs from the base in several axes.
    Axes,
    /// What differs from the base besides what is said.
    Besides,
    /// What else differs from the base cannot be told.
    Unchecked,
}

/// Gives the manifest of a build by name and id, or says why there is none.
pub type Lookup<'a> = dyn Fn(&str, Digest) -> Result<Rc<Manifest>, String> + 'a;

impl Comparison {
    /// Writes the notes on every target, and the warnings that go with them. Called once, when all
    /// columns are there.
    pub fn annotate(&mut self, manifests: &Lookup<'_>) {
        for host in &mut self.hosts {
            let mut notes = Vec::new();
            if let Some(base) = &host.base_made {
                notes.extend(mismatch(base));
            }
            for (index, made) in host.made.iter().enumerate() {
                notes.extend(mismatch(made));
                notes.extend(same_code(host, index));
                if let Some(base) = &host.base_made {
                    notes.extend(against_base(base, made, manifests));
                }
            }
            host.warnings.splice(0..0, warnings(host, &notes));
            host.notes = notes;
        }
    }
}

impl HostComparison {
    /// What must be said of a target.
    pub fn notes_of<'a>(&'a self, target: &'a str) -> impl Iterator<Item = &'a Note> {
        self.notes.iter().filter(move |note| note.target == target)
    }
}

fn note(made: &Made, kind: NoteKind, text: String) -> Note {
    Note { target: made.target.clone(), kind, text, details: Vec::new() }
}

fn mismatch(made: &Made) -> Option<Note> {
    let mark = made.audit.as_ref()?;
    let text = format!("`{}` is NOT what was asked for: {}", made.target, mark.text());
    let details = mark.findings.clone();
    Some(Note { details, ..note(made, NoteKind::Mismatch, text) })
}

/// That a target shows another one's runs, or that both are an A/A pair.
fn same_code(host: &HostComparison, index: usize) -> Option<Note> {
    let made = &host.made[index];
    if let Some(with) = &made.same_as {
        let text = format!("`{}` has the same code and config as `{with}`: its runs", made.target);
        return Some(note(made, NoteKind::SameCode, text));
    }
    let own = |other: &&Made| other.same_as.is_none() && other.code_id == made.code_id;
    made.code_id?;
    let twin = host.base_made.iter().chain(&host.made[..index]).find(own)?;
    let text = format!(
        "A/A pair: `{}` has the same code and config as `{}`; any difference between the two is \
         noise",
        made.target, twin.target
    );
    Some(note(made, NoteKind::AaPair, text))
}

/// In what a target differs from the base.
fn against_base(base: &Made, made: &Made, manifests: &Lookup<'_>) -> Vec<Note> {
    if base.build_id == made.build_id
        && base.config == made.config
        && base.settings == made.settings
    {
        return Vec::new();
    }
    // Nothing that differs can matter.
    if made.code_id.is_some() && made.code_id == base.code_id {
        return Vec::new();
    }
    let mut notes = Vec::new();
    if base.installed || made.installed {
        if base.build_id != made.build_id {
            let which = if made.installed { &made.target } else { &base.target };
            let text = format!(
                "what else differs between `{}` and the base could not be checked: `{which}` was \
                 built elsewhere",
                made.target
            );
            notes.push(note(made, NoteKind::Unchecked, text));
        }
        return notes;
    }
    let both = (base.build_id != made.build_id).then(|| {
        let (a, b) = (manifests(&base.build, base.build_id), manifests(&made.build, made.build_id));
        a.and_then(|a| Ok((a, b?)))
    });
    let mut said: Vec<String> = one_axis::axes(&base.settings, &made.settings);
    if let Some(Ok((a, b))) = &both
        && a.source.name != b.source.name
    {
        said.insert(0, "source".to_owned());
    }
    if base.config != made.config {
        said.push("config".to_owned());
    }
    if let [first @ .., last] = said.as_slice()
        && !first.is_empty()
    {
        let text = format!(
            "`{}` differs from the base in {} and {last}: which of them makes the difference \
             cannot be told",
            made.target,
            first.join(", ")
        );
        notes.push(Note { details: said.clone(), ..note(made, NoteKind::Axes, text) });
    }
    match both {
        None => {}
        Some(Err(why)) => {
            let text = format!(
                "what else differs between `{}` and the base could not be checked: {why}",
                made.target
            );
            notes.push(note(made, NoteKind::Unchecked, text));
        }
        Some(Ok((a, b))) => {
            let details = one_axis::besides(&a, &b);
            if !details.is_empty() {
                let (name, listed) = (&made.target, one_axis::listed(&details));
                let text = match besides(&said, made, &b) {
                    Some(said) => format!("`{name}` besides {said}: {listed}"),
                    None => format!("`{name}`, with the same settings as the base: {listed}"),
                };
                notes.push(Note { details, ..note(made, NoteKind::Besides, text) });
            }
        }
    }
    notes
}

/// What is said to differ, in the words of the matrix file: `cpu=native`.
fn besides(said: &[String], made: &Made, manifest: &Manifest) -> Option<String> {
    let phrase = |axis: &String| match axis.as_str() {
        "source" => format!("source={}", manifest.source.name),
        "config" => format!("config={}", made.config),
        axis => {
            let found = made.settings.iter().find(|(name, _)| name == axis);
            format!("{axis}={}", found.map_or("(none)", |(_, setting)| setting.as_str()))
        }
    };
    (!said.is_empty()).then(|| said.iter().map(phrase).collect::<Vec<_>>().join(" "))
}

/// Warnings for what must not be overlooked in a footnote.
fn warnings(host: &HostComparison, notes: &[Note]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(base) = host.base_made.as_ref().filter(|base| base.audit.is_some()) {
        let text = format!(
            "THE BASE `{}` IS NOT WHAT WAS ASKED FOR: every ratio is against the wrong build",
            base.target
        );
        warnings.push(Warning { kind: WarningKind::BaseMismatch, text });
    }
    let base = host.base_made.as_ref().and_then(|base| base.code_id);
    for (index, made) in host.made.iter().enumerate() {
        // Only against the base are there verdicts.
        let is_pair = base.is_some() && made.code_id == base;
        if !is_pair
            || !notes.iter().any(|it| it.target == made.target && it.kind == NoteKind::AaPair)
        {
            continue;
        }
        let judged = host.rows.iter().filter_map(|row| row.cells[index].result.judged());
        let is_shown =
            |verdict| matches!(verdict, Verdict::Faster | Verdict::Slower | Verdict::Small);
        let shown = judged.clone().filter(|it| is_shown(it.verdict)).count();
        if shown > 0 {
            let text = format!(
                "the A/A pair of `{}` and the base shows a difference in {shown} of {} rows where \
                 there is none: smaller differences elsewhere are not to be believed",
                made.target,
                judged.count()
            );
            warnings.push(Warning { kind: WarningKind::AaDifference, text });
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
