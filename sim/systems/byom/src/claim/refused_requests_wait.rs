//! B §2.5: processes wait after a refusal, and do not repeat hopeless requests.

use super::view::{Seen, View};
use super::{Findings, PoolClaim};

/// The number of operations of one process, besides its open calls, that may make requests one after the other, each immediately after the
/// previous one was refused and gave up the mutex.
const OTHERS_MAX: u32 = 24;

/// The number of hopeless requests that a process may make without one of its operations ending: comparisons with owners make some, and
/// their end is not noted.
const VERDICTS_MAX: u32 = 8;

/// A process whose requests about the pool fail or lose a race waits before it retries, and an operation whose request is rejected as
/// hopeless (401, 403, 400, 422) ends.
///
/// Not covered: the length of the waits, and requests about other objects.
pub(crate) struct RefusedRequestsWait;

impl PoolClaim for RefusedRequestsWait {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Asks(process) = seen else { return };
        let Some(insistence) = view.processes.get(*process).map(|known| known.insistence) else { return };
        let (at_once, verdicts) = (insistence.at_once, insistence.verdicts);
        if at_once + verdicts > 0 {
            findings.exercised();
        }
        // A call that has waited for the mutex may be refused, and wait for another one.
        if at_once > OTHERS_MAX + 4 * view.ledger.calls(*process) as u32 {
            findings
                .violated(|| vec![format!("{} asks for the pool {at_once} times in a row as soon as it is refused", view.name(*process))]);
        }
        if verdicts > VERDICTS_MAX {
            findings.violated(|| {
                let name = view.name(*process);
                vec![format!("{name} was told {verdicts} times that its requests cannot succeed, ended no operation, and asks again")]
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube_machinery::api::Reason;
    use kube_sim::rt::ProcessId;

    use super::super::testing::{Stage, on_stage};
    use super::*;

    const CLAIM: &str = "refused-requests-wait";

    /// The number of violations when a process makes this many requests, each with this pause after a refusal.
    fn found(times: u32, reason: Reason, pause: Duration, each: impl Fn(&mut Stage, ProcessId, u32)) -> usize {
        let mut found = 0;
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1");
            for number in 0..times + 2 {
                each(stage, adaptor, number);
                stage.wrote(adaptor, reason);
                stage.pass(pause);
            }
            found = stage.excuses().len();
        });
        found
    }

    #[test]
    fn who_is_refused_asks_again_later() {
        assert_eq!(found(OTHERS_MAX, Reason::Conflict, Duration::ZERO, |_, _, _| {}), 1);
        assert_eq!(found(OTHERS_MAX, Reason::Conflict, Duration::from_millis(1), |_, _, _| {}), 0);
        let another_call = |stage: &mut Stage, adaptor, number: u32| stage.ask(adaptor, &number.to_string());
        assert_eq!(found(OTHERS_MAX, Reason::Conflict, Duration::ZERO, another_call), 0);
    }

    #[test]
    fn who_is_told_that_it_is_of_no_use_ends_the_operation() {
        assert_eq!(found(VERDICTS_MAX, Reason::Forbidden, Duration::from_secs(1), |_, _, _| {}), 1);
        assert_eq!(found(VERDICTS_MAX, Reason::Forbidden, Duration::from_secs(1), |stage, adaptor, _| stage.refused(adaptor, "a")), 0);
        assert_eq!(found(VERDICTS_MAX, Reason::ServiceUnavailable, Duration::from_secs(1), |_, _, _| {}), 0);
    }
}
