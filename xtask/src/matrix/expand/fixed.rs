//! `--set axis=setting`: settings that the command line fixes.

use crate::diag::Diagnostic;
use crate::matrix::decode::{Mistakes, Text, lookup};
use crate::matrix::expand::generate::Fixed;
use crate::matrix::model::Matrix;

/// Reads `axis=setting` from the command line.
pub fn fixed(matrix: &Matrix, set: &[String], mistakes: &mut Mistakes) -> Fixed {
    let mut fixed = Fixed::default();
    let before = mistakes.len();
    for word in set {
        let Some((axis, setting)) = word.split_once('=') else {
            let message = format!("`--set {word}` is not of the form AXIS=SETTING");
            mistakes.push(Diagnostic::nowhere(message));
            continue;
        };
        let span = 0..0;
        let (axis, setting) =
            (Text { text: axis.trim(), span: span.clone() }, Text { text: setting.trim(), span });
        let build = matrix.axes.iter().map(|axis| axis.name.as_str());
        let run = matrix.run_axes.iter().map(|axis| axis.name.as_str());
        let Some(index) = lookup("`--set`: axis", &axis, build.chain(run), mistakes) else {
            continue;
        };
        let what = format!("`--set`: setting of axis `{}`:", axis.text);
        if let Some(axis) = matrix.axes.get(index) {
            let names = axis.settings.iter().map(|setting| setting.name.as_str());
            fixed.build.extend(lookup(&what, &setting, names, mistakes).map(|s| (index, s)));
        } else {
            let index = index - matrix.axes.len();
            let settings = &matrix.run_axes[index].settings;
            let names = settings.iter().map(|setting| setting.name.as_str());
            fixed.run.extend(lookup(&what, &setting, names, mistakes).map(|s| (index, s)));
        }
    }
    // These stand on the command line and nowhere in the file.
    mistakes[before..].iter_mut().for_each(|mistake| mistake.span = None);
    for list in [&fixed.build, &fixed.run] {
        for (place, (axis, setting)) in list.iter().enumerate() {
            if list[..place].iter().any(|(other, set)| other == axis && set != setting) {
                let message = "`--set` gives one axis two settings";
                mistakes.push(Diagnostic::nowhere(message));
            }
        }
    }
    fixed
}
