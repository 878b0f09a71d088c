//! Findings as text for people and as JSON for programs.

use serde::Serialize;

use super::{Finding, State};

/// Version of the JSON; raised when a field changes its meaning.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    findings: &'a [Finding],
}

/// Aligned columns: state, check, reason; below a finding the command that mends it.
pub fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.check.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for finding in findings {
        let state = match finding.state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Missing => "MISSING",
        };
        // A reason of several lines (a compiler's words) stays in its column.
        let indent = format!("\n{:1$}", "", 7 + 2 + width + 2);
        let reason = finding.reason.trim_end().replace('\n', &indent);
        out.push_str(&format!("{state:7}  {:width$}  {reason}\n", finding.check));
        if let Some(command) = &finding.mend
            && finding.state != State::Ok
        {
            out.push_str(&format!("{:1$}  mend: {command}\n", "", 7 + 2 + width));
        }
    }
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let (missing, warnings) = (count(State::Missing), count(State::Warning));
    out.push_str(&format!(
        "{} checks: {missing} missing, {warnings} {}\n",
        findings.len(),
        if warnings == 1 { "warning" } else { "warnings" }
    ));
    out
}

/// One JSON object.
///
/// # Errors
/// Never for these types; the signature is serde's.
pub fn json(findings: &[Finding]) -> serde_json::Result<String> {
    let mut text = serde_json::to_string_pretty(&Report { schema: SCHEMA, findings })?;
    text.push('\n');
    Ok(text)
}
