//! Targets that are the same server: measured once, unless the user wants A/A pairs. Pure.
//!
//! Two targets are the same server when their builds have the same code ([`crate::build::code`])
//! and get the same config, environment, preloaded libraries and `initdb`. Measuring both would
//! only tell the noise of the machine, which is what an A/A pair is for.

use super::plan::Plan;
use crate::record::{Outcome, Record};

/// A target whose runs are those of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The target that is not measured.
    pub target: String,
    /// The target with the same code that is.
    pub with: String,
}

/// Takes every target out of the plan whose server is that of another one that stays: of equal ones
/// the base, else the one with the most measured runs, else the first. A build that the audit has
/// something against shares only with others of its kind: the mark is on its runs.
pub fn share(plan: &mut Plan, records: &[Record]) -> Vec<Shared> {
    let measured: Vec<usize> =
        plan.targets.iter().map(|it| runs(plan, &it.name, records)).collect();
    // For each target the one that is measured in its place.
    let instead: Vec<usize> = (0..plan.targets.len())
        .map(|index| {
            let same = (0..plan.targets.len()).filter(|other| same(plan, index, *other));
            // The first of several maxima: `max_by_key` gives the last.
            same.rev().max_by_key(|other| (*other == 0, measured[*other])).unwrap_or(index)
        })
        .collect();
    let mut shared = Vec::new();
    let mut kept = Vec::new();
    for (index, target) in plan.targets.iter().enumerate() {
        if instead[index] == index {
            kept.push(target.clone());
        } else {
            let with = plan.targets[instead[index]].name.clone();
            shared.push(Shared { target: target.name.clone(), with });
        }
    }
    plan.targets = kept;
    shared
}

/// Whether two targets, or one and itself, are the same server.
fn same(plan: &Plan, one: usize, other: usize) -> bool {
    let (a, b) = (&plan.targets[one], &plan.targets[other]);
    one == other || (a.code_id.is_some() && a.code_id == b.code_id && a.audit == b.audit)
}

/// How many measured runs a target has, as it is now, on this host.
fn runs(plan: &Plan, name: &str, records: &[Record]) -> usize {
    let Some(target) = plan.targets.iter().find(|target| target.name == name) else { return 0 };
    let counts = |record: &&Record| {
        record.experiment == plan.experiment
            && record.host == plan.host
            && record.target == target.name
            && record.target_id == target.id
            && matches!(record.outcome, Outcome::Ok(_))
    };
    records.iter().filter(counts).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::judge::Verdict;
    use crate::bench::plan::tests::plan;
    use crate::hash::Digest;
    use crate::record::Mark;
    use crate::record::testing::record;

    /// The base, and targets named by their code.
    fn planned(codes: &[Option<&str>]) -> Plan {
        let mut plan = plan();
        let like = plan.targets[0].clone();
        plan.targets = codes
            .iter()
            .enumerate()
            .map(|(index, code)| {
                let name = format!("t{index}");
                let code_id = code.map(|code| Digest::of(code.as_bytes()));
                let id = Digest::of(name.as_bytes());
                crate::bench::plan::Target { name, id, code_id, ..like.clone() }
            })
            .collect();
        plan
    }

    fn names(plan: &Plan) -> Vec<&str> {
        plan.targets.iter().map(|target| target.name.as_str()).collect()
    }

    fn pairs(shared: &[Shared]) -> Vec<(&str, &str)> {
        shared.iter().map(|it| (it.target.as_str(), it.with.as_str())).collect()
    }

    #[test]
    fn equal_servers_are_measured_once_and_the_base_always() {
        let codes = [Some("a"), None, Some("b"), Some("a"), Some("b"), None, Some("b")];
        let mut plan = planned(&codes);
        let shared = share(&mut plan, &[]);
        assert_eq!(names(&plan), ["t0", "t1", "t2", "t5"]);
        assert_eq!(pairs(&shared), [("t3", "t0"), ("t4", "t2"), ("t6", "t2")]);
        assert_eq!(share(&mut plan, &[]), []);
    }

    #[test]
    fn what_has_runs_goes_on_and_the_base_is_never_replaced() {
        let codes = [Some("a"), Some("b"), Some("b"), Some("a")];
        let measured = |target: &str, host: &str| Record {
            host: host.to_owned(),
            ..record(target, "scan", 1, 10.0)
        };
        let mut plan = planned(&codes);
        let records = [measured("t2", "h"), measured("t3", "h"), measured("t1", "other")];
        let shared = share(&mut plan, &records);
        assert_eq!(names(&plan), ["t0", "t2"]);
        assert_eq!(pairs(&shared), [("t1", "t2"), ("t3", "t0")]);
        // Runs of what the target was before do not count.
        let mut plan = planned(&codes);
        let old = Record { target_id: Digest::of(b"old"), ..measured("t2", "h") };
        share(&mut plan, &[old]);
        assert_eq!(names(&plan), ["t0", "t1"]);
    }

    #[test]
    fn a_marked_build_lends_its_runs_to_no_clean_one() {
        let mut plan = planned(&[Some("a"), Some("a")]);
        let mark = Mark { verdict: Verdict::Mismatch, findings: Vec::new(), count: 1 };
        plan.targets[1].audit = Some(mark);
        assert_eq!(share(&mut plan, &[]), []);
        assert_eq!(names(&plan), ["t0", "t1"]);
    }
}
