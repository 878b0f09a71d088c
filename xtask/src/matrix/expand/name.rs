//! Names of builds and targets: readable, file-name safe, unique.

use crate::matrix::expand::rows::{AXES, RENAMED, UNNAMED, VARIANT};
use crate::matrix::expand::scope::{Scope, is_installed};
use crate::matrix::expand::targets::Combo;

/// The name of a cell all of whose tags are empty ends with this.
const DEFAULT: &str = "default";
/// File names have at most 255 bytes; a build id, a config and suffixes come behind the name.
pub const LENGTH_LIMIT: usize = 200;

/// Writes the name of a row's build into a buffer that is used again.
///
/// `<source>_<variant>` for a named variant; else `<source>_` and the tags that are not empty, in
/// the order of the axes. An installed server has the name of its source.
pub fn build(scope: &Scope<'_>, row: &[u16], name: &mut String) {
    let source = scope.source(row);
    name.clear();
    name.push_str(&source.name);
    if is_installed(source) {
        return;
    }
    name.push('_');
    let variant = row[VARIANT];
    if variant & RENAMED == 0 && variant != UNNAMED {
        name.push_str(&scope.matrix.variants[usize::from(variant)].name);
        return;
    }
    let start = name.len();
    for (axis, setting) in scope.matrix.axes.iter().zip(&row[AXES..]) {
        let tag = &axis.settings[usize::from(*setting)].tag;
        if !tag.is_empty() {
            if name.len() > start {
                name.push('_');
            }
            name.push_str(tag);
        }
    }
    if name.len() == start {
        name.push_str(DEFAULT);
    }
}

/// Appends what makes a target's name of a build's: `.config`, and `_tag` for each run-only setting
/// with a tag.
pub fn combo(scope: &Scope<'_>, combo: &Combo, name: &mut String) {
    name.push('.');
    name.push_str(&scope.matrix.configs[combo.config].name);
    for (axis, setting) in scope.matrix.run_axes.iter().zip(&combo.run) {
        let tag = &axis.settings[*setting].tag;
        if !tag.is_empty() {
            name.push('_');
            name.push_str(tag);
        }
    }
}
