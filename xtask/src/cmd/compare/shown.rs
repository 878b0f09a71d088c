//! What of a comparison is shown: `--filter`, and the words of `--only` that name verdicts.

use crate::cli::{Common, CompareArgs};
use crate::compare::Comparison;
use crate::compare::filter::Filter;
use crate::compare::show::Which;
use crate::env::Env;
use crate::exit::{Code, coded};

/// Splits `--only` into globs, which stay in the options, and words that name verdicts. A word that
/// is a name here is a name.
pub fn split(common: &Common, is_name: &dyn Fn(&str) -> bool) -> (Common, Vec<Which>) {
    let mut common = common.clone();
    let mut which = Vec::new();
    common.only.retain(|word| match Which::of_word(word) {
        Some(found) if !is_name(word) => {
            which.push(found);
            false
        }
        _ => true,
    });
    (common, which)
}

/// Leaves out what is not asked for; gives whether anything is left to print.
///
/// # Errors
/// For a filter that is none, names what nobody has, or leaves nothing.
pub fn narrow(
    env: &Env,
    comparison: &mut Comparison,
    args: &CompareArgs,
    which: &[Which],
) -> anyhow::Result<bool> {
    let filters = args.filter.iter().map(|text| Filter::parse(text)).collect::<Result<Vec<_>, _>>();
    filters
        .and_then(|filters| comparison.filter(&filters))
        .map_err(|text| coded(Code::Input, text))?;
    let empty = comparison.hosts.iter().all(|it| it.rows.is_empty() || it.targets.is_empty());
    if empty && !args.filter.is_empty() {
        return Err(coded(Code::Input, "`--filter` leaves nothing to show"));
    }
    if which.is_empty() {
        return Ok(true);
    }
    let found = comparison.show_verdicts(which);
    let nouns: Vec<&str> = which.iter().map(|which| which.noun()).collect();
    env.reporter.line(format!(
        "rows and targets without any {}: {} and {} are hidden",
        nouns.join(" or "),
        found.hidden_rows,
        found.hidden_targets
    ));
    comparison.hosts.retain(|host| !host.targets.is_empty());
    if !comparison.hosts.is_empty() {
        return Ok(true);
    }
    env.reporter.line(format!(
        "no {} is shown; {} entries are undecided or have one pair only",
        nouns.join(" or "),
        found.undecided
    ));
    Ok(false)
}
