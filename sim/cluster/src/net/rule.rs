//! The effects of faults on links.

use std::time::Duration;

use crate::rt::ProcessId;

/// A set of processes, as one side of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// Every process, including those that are added later.
    Any,
    /// These processes and no others; none if the list is empty.
    Only(Vec<ProcessId>),
}

impl Side {
    /// Whether `process` is in the set.
    pub fn contains(&self, process: ProcessId) -> bool {
        match self {
            Side::Any => true,
            Side::Only(some) => some.contains(&process),
        }
    }
}

/// The effect of a rule on the messages of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// Nothing gets through: messages are lost, and sent again until the rule is gone.
    Cut,
    /// Messages wait on the way, and arrive when the rule is gone.
    Hold,
    /// A message is lost with this probability each time it is sent.
    Loss(f64),
    /// A message arrives twice with this probability, the second time after `gap`.
    Duplicate {
        /// The probability per message, from 0 to 1; of several rules of a link the largest counts.
        chance: f64,
        /// The time between the two arrivals.
        gap: Duration,
    },
    /// A message is delayed by up to `by` more with this probability, so that later ones overtake it.
    Reorder {
        /// The probability per message, from 0 to 1; of several rules of a link the largest counts.
        chance: f64,
        /// The longest additional delay.
        by: Duration,
    },
    /// Every message takes this much longer.
    Slower(Duration),
    /// The link is in its degraded class.
    Degraded,
}

/// An effect on every link from one set of processes to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The processes that send the messages to which the rule applies.
    pub from: Side,
    /// The processes that receive these messages; their answers are messages of another link.
    pub to: Side,
    /// The effect on these messages while the rule exists.
    pub effect: Effect,
}

/// The number of an active rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(pub(super) u64);
