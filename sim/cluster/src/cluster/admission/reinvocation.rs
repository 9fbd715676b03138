//! Which mutating webhooks are asked again because another one changed the object after them (K194).

use std::collections::BTreeSet;

use super::{ReinvocationPolicy, Webhook};

/// What is known of the webhooks of one request, by their numbers.
#[derive(Default)]
pub(super) struct Reinvocation {
    /// Whether this is the second round, which is the last one.
    second: bool,
    /// Whether any webhook has changed the object.
    changed: bool,
    /// Those that may be asked again and were asked since the last change.
    asked: BTreeSet<usize>,
    /// Those that are asked again.
    again: BTreeSet<usize>,
}

impl Reinvocation {
    /// Whether a webhook is asked in this round. The second asks no webhook for the first time.
    pub(super) fn asks(&self, number: usize) -> bool {
        !self.second || self.again.contains(&number)
    }

    /// A webhook was asked, and has changed the object or not. A change is news to those that were asked before, in the second round to
    /// those behind it, too.
    pub(super) fn was_asked(&mut self, number: usize, hook: &Webhook, changed: bool) {
        if changed {
            self.again.append(&mut self.asked);
            self.changed = true;
        }
        if hook.reinvocation_policy == ReinvocationPolicy::IfNeeded {
            self.asked.insert(number);
        }
    }

    /// A round is over. Whether there is another one.
    pub(super) fn begins_again(&mut self) -> bool {
        let again = self.changed && !self.second;
        self.second = true;
        again
    }
}
