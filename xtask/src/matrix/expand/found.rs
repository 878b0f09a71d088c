//! What resolving options found wrong, as mistakes with a place and a way out.

use std::collections::BTreeMap;

use crate::build::cmake::known::Fault;
use crate::diag::Diagnostic;
use crate::matrix::expand::ids::{Found, Place, Refusal};
use crate::matrix::model::{Axis, Matrix, Setting};

/// All of it. What a setting gives one source in vain is one mistake.
pub fn told(matrix: &Matrix, found: Found) -> Vec<Diagnostic> {
    let refusals = found.refusals.into_iter().map(|refusal| refused(matrix, refusal));
    let mut told: Vec<Diagnostic> = refusals.collect();
    let mut faults: BTreeMap<(usize, Place), Vec<Fault>> = BTreeMap::new();
    for (source, place, fault) in found.faults {
        faults.entry((source, place)).or_default().push(fault);
    }
    let faults = faults.into_iter();
    told.extend(faults.map(|((source, place), faults)| useless(matrix, source, place, &faults)));
    told
}

fn setting(matrix: &Matrix, (axis, setting): (usize, usize)) -> (&Axis, &Setting) {
    let axis = &matrix.axes[axis];
    (axis, &axis.settings[setting])
}

/// A flag that a compiler refuses.
fn refused(matrix: &Matrix, (place, words): Refusal) -> Diagnostic {
    let Some(place) = place else {
        return Diagnostic::nowhere(format!("the options of a source: {words}"));
    };
    let (axis, setting) = setting(matrix, place);
    let message = format!("setting `{}` of axis `{}`: {words}", setting.name, axis.name);
    let help = "give the setting a `requires` or exclude these cells, so that nothing asks this \
                compiler for the flag";
    Diagnostic::at(&setting.span, message).help(help)
}

/// CMake variables of which a source has no use.
fn useless(matrix: &Matrix, source: usize, place: Place, faults: &[Fault]) -> Diagnostic {
    let source = &matrix.sources[source];
    let release = source.version.as_ref().map_or_else(
        || source.engine.name().to_owned(),
        |version| format!("{} {version}", source.engine.name()),
    );
    let what = match faults {
        [fault] => fault.to_string(),
        _ => {
            let count: usize = faults.iter().map(|fault| fault.names.len()).sum();
            format!("{count} CMake variables are of no use there")
        }
    };
    let mut item = match place {
        Some(place) => {
            let (axis, setting) = setting(matrix, place);
            let (name, axis) = (&setting.name, &axis.name);
            let of = format!("setting `{name}` of axis `{axis}`, source `{}`", source.name);
            let item = Diagnostic::at(&setting.span, format!("{of} ({release}): {what}"));
            item.also(&source.span, "this source")
        }
        None => {
            let of = format!("options of source `{}`", source.name);
            Diagnostic::at(&source.span, format!("{of} ({release}): {what}"))
        }
    };
    for fault in faults {
        item = match (faults.len(), &fault.advice) {
            (1, Some(advice)) => item.help(advice.clone()),
            (1, None) => item,
            (_, Some(advice)) => item.help(format!("{fault}: {advice}")),
            (_, None) => item.help(fault.to_string()),
        };
    }
    if place.is_none() {
        return item;
    }
    let such = match faults {
        [Fault { when: Some(when), .. }] => format!(" (`{when}`)"),
        _ => String::new(),
    };
    item.help(format!(
        "or give the setting a `when`{such}, or exclude these cells, so that nothing asks this \
         source for it"
    ))
}
