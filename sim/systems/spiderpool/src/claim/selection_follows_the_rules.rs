//! A S7: selection follows the rules.

use super::view::{EventMask, Seen, View};
use super::{Findings, IpamClaim};
use crate::oracle::Opinion;

/// The selection of an agent equals that of the oracle for the same objects: the same pools, the same reasons, the same error.
///
/// Broken by `upstream-ranges`, `wildcard-duplicates-fail`, `multus-always-resolved`, `static-reuse-skips-filter` and
/// `static-reuse-before-gating`. It does not detect changes between the selection and the write (A W15).
pub(crate) struct SelectionFollowsTheRules;

impl IpamClaim for SelectionFollowsTheRules {
    fn event_mask(&self) -> EventMask {
        EventMask::CHOICE
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Selected { by, uid, nic, opinion, .. } = seen else { return };
        findings.exercised();
        if let Opinion::Differs(why) = opinion {
            findings.violated(|| vec![format!("{} selects pools for {nic} of {}", view.name(*by), view.pod_of(uid)), why.to_string()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;
    use super::*;

    #[test]
    fn an_other_choice_is_a_violation_and_an_other_order_is_one_of_the_other_claim() {
        let opinions = [Opinion::Agrees, Opinion::OtherOrder("why".into()), Opinion::Differs("why".into())];
        for (claim, wrong) in [("selection-follows-the-rules", 2), ("better-pools-come-first", 1)] {
            on_stage(claim, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.pool("q", &["10.0.0.1-10.0.0.9"]);
                for (at, opinion) in opinions.iter().enumerate() {
                    stage.select("a", opinion.clone(), &["p", "q"], 0);
                    assert_eq!(stage.excuses().len(), usize::from(at >= wrong), "{claim} {opinion:?}");
                }
                assert!(!stage.detail()[1].is_empty());
                assert!(stage.exercised());
            });
        }
    }
}
