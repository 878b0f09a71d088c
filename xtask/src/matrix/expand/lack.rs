//! What this machine lacks, and which settings the cells that it can build have.

use std::collections::HashMap;

use crate::facts::Unavailable;
use crate::matrix::expand::rows::{AXES, Rows, SOURCE};
use crate::matrix::expand::scope::{Gate, Scope, is_installed};

/// What this machine lacks for each cell: an index into the reasons, from 1; 0 for nothing.
pub fn availability(scope: &Scope<'_>, cells: &Rows) -> (Vec<u32>, Vec<String>) {
    let requires = Gate::new(scope, |setting| setting.requires.as_ref());
    let mut reasons: Vec<String> = Vec::new();
    let mut known: HashMap<(u8, usize, usize), u32> = HashMap::new();
    let unavailable = cells.iter().map(|row| {
        let source = usize::from(row[SOURCE]);
        let compiler = scope.toolchain(row);
        let (key, text): (_, &dyn Fn() -> String) = if let Some(Err(lack)) = &scope.sources[source]
        {
            ((0, source, 0), &|| lack.to_string())
        } else if is_installed(&scope.matrix.sources[source]) {
            return 0;
        } else if let Err(lack) = &scope.toolchains[compiler] {
            ((1, compiler, 0), &|| lack.to_string())
        } else if let Some(axis) = requires.closed_by(scope, row) {
            let setting = usize::from(row[AXES + axis]);
            ((2, axis, setting), &move || {
                let axis = &scope.matrix.axes[axis];
                let setting = &axis.settings[setting];
                let text = setting.requires.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("`{} = {}` requires {text}", axis.name, setting.name)
            })
        } else {
            return 0;
        };
        *known.entry(key).or_insert_with(|| {
            reasons.push(text());
            reasons.len() as u32
        })
    });
    let unavailable = unavailable.collect();
    (unavailable, reasons)
}

/// The axis and setting that lack something (`None`: the source itself), and what.
type Lack = (Option<(usize, usize)>, Unavailable);

/// Adds what resolving their options showed to be lacking for cells that seemed to be available.
pub fn add(
    scope: &Scope<'_>,
    cells: &Rows,
    lacks: &HashMap<(usize, usize), Vec<Lack>>,
    unavailable: &mut [u32],
    reasons: &mut Vec<String>,
) {
    if lacks.is_empty() {
        return;
    }
    let mut known: HashMap<String, u32> = HashMap::new();
    for (row, reason) in cells.iter().zip(unavailable).filter(|(_, reason)| **reason == 0) {
        let of_column = lacks.get(&(usize::from(row[SOURCE]), scope.toolchain(row)));
        let has = |place: &Option<(usize, usize)>| {
            place.is_none_or(|(axis, setting)| usize::from(row[AXES + axis]) == setting)
        };
        let lack = of_column.into_iter().flatten().find(|(place, _)| has(place));
        if let Some((_, lack)) = lack {
            *reason = *known.entry(lack.to_string()).or_insert_with_key(|text| {
                reasons.push(text.clone());
                reasons.len() as u32
            });
        }
    }
}

/// By source and compiler: which settings the available cells have.
pub fn used_settings(
    scope: &Scope<'_>,
    cells: &Rows,
    unavailable: &[u32],
) -> HashMap<(usize, usize), Vec<Vec<bool>>> {
    let mut used: HashMap<(usize, usize), Vec<Vec<bool>>> = HashMap::new();
    for (row, reason) in cells.iter().zip(unavailable) {
        if *reason != 0 {
            continue;
        }
        let key = (usize::from(row[SOURCE]), scope.toolchain(row));
        let marks = used.entry(key).or_insert_with(|| {
            scope.matrix.axes.iter().map(|axis| vec![false; axis.settings.len()]).collect()
        });
        for (axis, setting) in row[AXES..].iter().enumerate() {
            marks[axis][usize::from(*setting)] = true;
        }
    }
    used
}
