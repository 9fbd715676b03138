//! Claims built from closures.

use std::collections::BTreeSet;

use kube_sim::trace::{Event, Interest};

use super::{Claim, Findings};

/// A claim that observes the events of `interest` with `observe`, and reports to the findings.
pub fn observing(interest: Interest, observe: impl FnMut(&Event<'_>, &mut Findings) + Send + 'static) -> Box<dyn Claim> {
    Box::new(Observing { interest, observe })
}

struct Observing<O> {
    interest: Interest,
    observe: O,
}

impl<O: FnMut(&Event<'_>, &mut Findings) + Send> Claim for Observing<O> {
    fn interest(&self) -> Interest {
        self.interest
    }

    fn observe(&mut self, event: &Event<'_>, findings: &mut Findings) {
        (self.observe)(event, findings);
    }
}

/// An `eventually` claim that `missing` becomes empty. `comes` removes entries at events of `interest`; `what` completes the sentence about
/// the entries that are left: `pods have no address`.
pub fn awaiting(
    what: &'static str,
    missing: BTreeSet<String>,
    interest: Interest,
    comes: impl FnMut(&Event<'_>, &mut BTreeSet<String>) + Send + 'static,
) -> Box<dyn Claim> {
    Box::new(Awaiting { what, missing, interest, comes })
}

struct Awaiting<C> {
    what: &'static str,
    missing: BTreeSet<String>,
    interest: Interest,
    comes: C,
}

impl<C: FnMut(&Event<'_>, &mut BTreeSet<String>) + Send> Claim for Awaiting<C> {
    fn interest(&self) -> Interest {
        self.interest
    }

    fn observe(&mut self, event: &Event<'_>, _: &mut Findings) {
        (self.comes)(event, &mut self.missing);
    }

    fn pending(&self) -> Option<String> {
        let first = self.missing.first()?;
        Some(format!("{} {}, the first is {first}", self.missing.len(), self.what))
    }
}

#[cfg(test)]
mod tests {
    use kube_sim::rt::ProcessId;
    use kube_sim::trace::{EventKind, ProcessChange};
    use sim_config::time::SimTime;

    use super::*;

    fn starts(process: u32) -> Event<'static> {
        Event { at: SimTime::ZERO, kind: EventKind::Process { process: ProcessId(process), change: ProcessChange::Started } }
    }

    #[test]
    fn what_is_awaited_is_pending_until_all_of_it_has_come() {
        let missing = ["1", "2"].map(str::to_owned).into();
        let mut claim = awaiting("processes have not started", missing, Interest::PROCESS, |event, missing| {
            if let EventKind::Process { process, .. } = event.kind {
                missing.remove(&process.0.to_string());
            }
        });
        let mut findings = Findings::of_one_claim();
        claim.observe(&starts(1), &mut findings);
        assert_eq!(claim.pending().as_deref(), Some("1 processes have not started, the first is 2"));
        claim.observe(&starts(2), &mut findings);
        assert_eq!(claim.pending(), None);
    }
}
