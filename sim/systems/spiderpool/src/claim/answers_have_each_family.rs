//! A A10: answers have an address of each family that pools were selected for.

use ipam_spiderpool::ranges::IpVersion;

use super::view::{EventMask, Seen, View};
use super::{Answered, Findings, IpamClaim};
use crate::workload::How;

/// An answer with new addresses has one for each NIC and family that pools were selected for; if one of them fails, the request fails (A
/// A12).
///
/// It does not judge repeated or inherited answers: these have the families of the time of their allocation (A §14.29).
pub(crate) struct AnswersHaveEachFamily;

/// The number of occurrences of a family.
fn count(family: IpVersion, families: impl Iterator<Item = IpVersion>) -> usize {
    families.filter(|other| *other == family).count()
}

impl IpamClaim for AnswersHaveEachFamily {
    fn event_mask(&self) -> EventMask {
        EventMask::ANSWER
    }

    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Some(answer) = Answered::of(seen).filter(|answer| answer.how == How::Fresh) else { return };
        let Some(asked) = answer.asked(view) else { return };
        let order = asked.order();
        if order.is_empty() {
            return;
        }
        findings.exercised();
        // Selection may name NICs by their index (A §2.4), so they are only counted.
        let selected = |family| count(family, order.iter().map(|order| order.family));
        let given = |family| count(family, answer.given.iter().map(|given| IpVersion::of(given.address)));
        let lacks = [IpVersion::V4, IpVersion::V6].into_iter().find(|family| given(*family) < selected(*family));
        if let Some(family) = lacks {
            findings.violated(|| {
                vec![
                    format!("{} answers {} of {}", view.name(answer.by), answer.nic, view.pod_of(answer.uid)),
                    format!("it has {} {family} addresses, and {} NICs have {family} pools", given(family), selected(family)),
                ]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;
    use crate::oracle::Opinion;

    const CLAIM: &str = "answers-have-each-family";

    #[test]
    fn a_family_that_was_selected_and_is_not_answered_is_missed() {
        for (given, lacks) in [
            (&[("eth0", "p", "10.0.0.1")][..], false),
            (&[("eth0", "q", "fd00::1")], true),
            (&[("eth0", "p", "10.0.0.1"), ("eth0", "q", "fd00::1")], false),
            (&[], true),
        ] {
            on_stage(CLAIM, |stage| {
                stage.pool("p", &["10.0.0.1-10.0.0.9"]);
                stage.ask("ns/a", "a", "eth0");
                stage.answer("ns/a", "a", "eth0", given);
                assert!(!stage.exercised(), "nothing was selected");
                stage.ask("ns/a", "a", "eth0");
                stage.select("a", Opinion::Agrees, &["p"], 0);
                stage.answer("ns/a", "a", "eth0", given);
                assert_eq!((!stage.excuses().is_empty(), stage.exercised()), (lacks, true), "{given:?}");
            });
        }
    }

    #[test]
    fn what_a_pod_has_already_has_the_families_of_then() {
        on_stage(CLAIM, |stage| {
            stage.pool("p", &["10.0.0.1-10.0.0.9"]);
            stage.ask("ns/a", "a", "eth0");
            stage.select("a", Opinion::Agrees, &["p"], 0);
            stage.answer_existing("ns/a", "a", "eth0", &[("eth0", "q", "fd00::1")]);
            assert_eq!((stage.excuses(), stage.exercised()), (vec![], false));
        });
    }
}
