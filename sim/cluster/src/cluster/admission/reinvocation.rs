//! Reinvocation: the mutating webhooks that are called again because another one changed the object after them (K194).

use std::collections::BTreeSet;

use super::{ReinvocationPolicy, Webhook};

/// The state of the webhooks of one request, by their numbers.
#[derive(Default)]
pub(super) struct Reinvocation {
    /// Whether this is the second round, which is the last one.
    second: bool,
    /// Whether any webhook has changed the object.
    changed: bool,
    /// The webhooks that may be called again and were called since the last change.
    asked: BTreeSet<usize>,
    /// The webhooks that are called again.
    again: BTreeSet<usize>,
}

impl Reinvocation {
    /// Whether a webhook is called in this round. The second round calls no webhook for the first time.
    pub(super) fn asks(&self, number: usize) -> bool {
        !self.second || self.again.contains(&number)
    }

    /// Records the call of a webhook, which has changed the object or not. A change makes those called before be called again, and in the
    /// second round those behind it, too.
    pub(super) fn was_asked(&mut self, number: usize, hook: &Webhook, changed: bool) {
        if changed {
            self.again.append(&mut self.asked);
            self.changed = true;
        }
        if hook.reinvocation_policy == ReinvocationPolicy::IfNeeded {
            self.asked.insert(number);
        }
    }

    /// Ends a round. Returns whether there is another one.
    pub(super) fn begins_again(&mut self) -> bool {
        let again = self.changed && !self.second;
        self.second = true;
        again
    }
}
