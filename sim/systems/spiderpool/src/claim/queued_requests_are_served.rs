//! A L7: queued requests are served.

use std::time::Duration;

use super::view::View;
use super::{IpamClaim, told};

/// The waiting time after which a request will not be served any more: its caller waits 100 s in all (A §10), and other requests take a
/// fraction of a second each.
const LONG: Duration = Duration::from_secs(30);

/// Eventually no request has waited for its pools for more than 30 s.
///
/// Broken by a limiter that forgets a request. It does not detect a request that others overtake for less than that.
pub(crate) struct QueuedRequestsAreServed;

impl IpamClaim for QueuedRequestsAreServed {
    fn pending(&self, view: &View) -> Option<String> {
        let waiting = view.agents.waiting().filter(|(_, since)| view.at >= *since + LONG);
        let within_reach = waiting.filter(|(process, _)| !view.out_of_reach.names.contains(&*view.name(*process)));
        told(
            ["request waits for its turn", "requests wait for their turn"],
            within_reach.map(|(process, since)| format!("one of {} since {since}", view.name(process))).collect(),
        )
    }

    fn awaits(&self, view: &View) -> bool {
        view.agents.waiting().next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::on_stage;
    use super::*;
    use crate::workload::IpamNote;
    use kube_sim::trace::ProcessChange;

    #[test]
    fn only_a_long_wait_is_one() {
        on_stage("queued-requests-are-served", |stage| {
            stage.say(stage.agent, IpamNote::Queued { ticket: 7 });
            assert_eq!(stage.pending(), None);
            stage.pass(LONG);
            assert!(stage.pending().unwrap().starts_with("1 request waits for its turn: one of agent-0 since"));
            stage.say(stage.agent, IpamNote::Unqueued { ticket: 7 });
            assert_eq!(stage.pending(), None);
            stage.say(stage.agent, IpamNote::Queued { ticket: 8 });
            stage.pass(LONG);
            stage.process_changes(stage.agent, ProcessChange::Crashed);
            assert_eq!(stage.pending(), None);
        });
    }
}
