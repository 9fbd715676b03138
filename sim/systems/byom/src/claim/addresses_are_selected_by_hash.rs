//! B I15: the address for an ID follows from the list and the ID.

use std::collections::VecDeque;
use std::sync::Arc;

use ipam_byom::{AddressKey, Available, PoolConfig, PoolDocument, select_index};
use kube_machinery::FxHashMap;

use super::view::{Change, Seen, State, View};
use super::{Findings, PoolClaim};
use crate::workload::{PoolNote, short};

/// A call for an address.
struct Call {
    /// The number of the first state that it can have read.
    first: u64,
    /// The number of the state over which its record was written, if it was.
    last: Option<u64>,
}

/// The address that a call is given is the one that the hash of its ID selects in some list that existed between the call and the write of
/// its record, or the next one in that list that can be taken. Each skipped address costs a failed probe, so at most as many are skipped as
/// probes were made besides the successful one.
///
/// Broken by `byom-select-first`. Not covered: calls whose process crashed before the answer, and a choice from an outdated list that
/// happens to be right.
#[derive(Default)]
pub(crate) struct AddressesAreSelectedByHash {
    open: FxHashMap<Arc<str>, Call>,
    /// The states that open calls can have read, the oldest first.
    states: VecDeque<State>,
    /// The number of the first state in `states`.
    first: u64,
    /// Whether a commit was seen. The initial state is known only from the first commit.
    committed: bool,
}

impl AddressesAreSelectedByHash {
    /// The number of the current state, which is kept from now on.
    fn present(&mut self, view: &View) -> u64 {
        if self.states.is_empty() {
            self.states.push_back(view.state.clone());
        }
        self.first + self.states.len() as u64 - 1
    }

    fn commit(&mut self, change: &Change) {
        if !std::mem::replace(&mut self.committed, true) {
            self.states.iter_mut().for_each(|state| *state = change.before.clone());
        }
        if self.open.is_empty() {
            return;
        }
        if self.states.is_empty() {
            self.states.push_back(change.before.clone());
        }
        let written_over = self.first + self.states.len() as u64 - 1;
        for edit in change.records.iter().filter(|edit| edit.added().is_some()) {
            if let Some(call) = self.open.get_mut(&edit.id) {
                call.last = Some(written_over);
            }
        }
        self.states.push_back(change.after.clone());
    }

    /// Forgets the states that no open call can have read.
    fn forget(&mut self) {
        let Some(needed) = self.open.values().map(|call| call.first).min() else {
            self.first += self.states.len() as u64;
            self.states.clear();
            return;
        };
        while self.first < needed {
            self.states.pop_front();
            self.first += 1;
        }
    }
}

impl PoolClaim for AddressesAreSelectedByHash {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        match seen {
            Seen::Commit(change) => self.commit(change),
            Seen::Note(_, PoolNote::Asked { id }) => {
                let first = self.present(view);
                self.open.insert(id.clone(), Call { first, last: None });
            }
            Seen::Note(process, PoolNote::Allocated { id, address, effort, .. }) => {
                let Some(call) = self.open.remove(id) else { return };
                let config = view.processes.configuration(*process).map(|configuration| &configuration.config);
                if let (Some(last), Some(config), true) = (call.last, config, effort.writes > 0) {
                    findings.exercised();
                    let from = usize::try_from(call.first - self.first).unwrap_or(usize::MAX);
                    let to = usize::try_from(last - self.first).unwrap_or(usize::MAX);
                    let lists = || self.states.range(from..=to).rev();
                    let choice =
                        Choice { hash: select_index(1 << 32, id), address: address.key(), skips: effort.probes.saturating_sub(1), config };
                    if !lists().any(|state| choice.hits(state)) && !lists().any(|state| choice.is_possible(state)) {
                        findings.violated(|| choice.story(id, lists(), view));
                    }
                }
                self.forget();
            }
            Seen::Note(_, PoolNote::Refused { id, .. } | PoolNote::Ended { id, .. } | PoolNote::ReleaseBegun { id, .. }) => {
                self.open.remove(id);
                self.forget();
            }
            _ => {}
        }
    }
}

struct Choice<'a> {
    /// The hash of the ID, as a number of 32 bits.
    hash: usize,
    address: &'a AddressKey,
    /// The maximum number of skipped addresses.
    skips: u32,
    config: &'a PoolConfig,
}

impl Choice<'_> {
    fn start(&self, list: &Available) -> usize {
        if list.len() <= 1 { 0 } else { self.hash % list.len() }
    }

    /// Whether the hash selects the address in a document.
    fn hits(&self, state: &State) -> bool {
        let Some(document) = state.document() else { return false };
        document.available.get(self.start(&document.available)).is_some_and(|address| address.key() == self.address)
    }

    /// Whether the address follows the selected one, after addresses that cannot be taken or were skipped. If there is no document,
    /// upstream chooses from the configured addresses.
    fn is_possible(&self, state: &State) -> bool {
        match state {
            State::Missing => self.is_near(&PoolDocument { available: self.config.pool().clone(), ..PoolDocument::default() }),
            State::Unreadable => false,
            State::Document(document) => self.is_near(document),
        }
    }

    fn is_near(&self, document: &PoolDocument) -> bool {
        let list = &document.available;
        let start = self.start(list);
        let can_be_taken =
            |key: &AddressKey| key.is_address() && self.config.contains(key) && document.allocated.of_address(key).next().is_none();
        let mut skipped = 0;
        for address in (start..list.len()).chain(0..start).filter_map(|index| list.get(index)) {
            if address.key() == self.address {
                return true;
            }
            skipped += u32::from(can_be_taken(address.key()));
            if skipped > self.skips {
                return false;
            }
        }
        false
    }

    fn story<'s>(&self, id: &str, states: impl Iterator<Item = &'s State>, view: &View) -> Vec<String> {
        let selected = states.filter_map(State::document).map(|document| {
            let list = &document.available;
            let address = list.get(self.start(list)).map_or("nothing".to_owned(), |address| address.to_string());
            format!("{address} in version {} (index {} of {})", document.version, self.start(list), list.len())
        });
        let selected: Vec<String> = selected.take(5).collect();
        vec![
            format!("the hash of {id} selects {}; it can have skipped {}", selected.join(", "), self.skips, id = short(id)),
            view.story_of(id),
        ]
    }
}

#[cfg(test)]
mod tests {
    use ipam_byom::Effort;

    use super::super::testing::{on_stage, take};

    const CLAIM: &str = "addresses-are-selected-by-hash";
    const POOL: &str = "192.168.3.10-192.168.3.15";

    fn probed(probes: u32) -> Effort {
        Effort { writes: 1, probes, ..Effort::default() }
    }

    #[test]
    fn the_addresses_of_the_reference_hold_and_others_do_not() {
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", POOL);
            stage.edit(adaptor, |_| {});
            for (pod, last) in (1..=5).zip([13, 12, 11, 15, 10]) {
                stage.allocate(adaptor, &format!("pod-{pod}"), &format!("192.168.3.{last}"));
            }
            assert_eq!(stage.excuses(), []);
        });
        on_stage(CLAIM, |stage| {
            let adaptor = stage.adaptor("adaptor-0", POOL);
            stage.edit(adaptor, |_| {});
            stage.allocate(adaptor, "pod-1", "192.168.3.10");
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(stage.detail()[0], "the hash of pod-1 selects 192.168.3.13 in version 2 (index 3 of 6); it can have skipped 0");
        });
    }

    #[test]
    fn the_next_one_is_taken_after_a_failed_probe() {
        for (probes, findings) in [(1, 1), (2, 0)] {
            on_stage(CLAIM, |stage| {
                let adaptor = stage.adaptor("adaptor-0", POOL);
                stage.edit(adaptor, |_| {});
                stage.ask(adaptor, "pod-1");
                stage.edit(adaptor, |document| take(document, "pod-1", "192.168.3.14"));
                stage.allocated_with(adaptor, "pod-1", "192.168.3.14", probed(probes));
                assert_eq!(stage.excuses().len(), findings);
            });
        }
    }

    #[test]
    fn a_choice_from_any_list_since_the_call_is_right_and_from_an_older_one_wrong() {
        for (early, findings) in [(true, 0), (false, 1)] {
            on_stage(CLAIM, |stage| {
                let adaptor = stage.adaptor("adaptor-0", POOL);
                stage.edit(adaptor, |_| {});
                stage.ask(adaptor, "witness");
                if early {
                    stage.ask(adaptor, "pod-1");
                }
                stage.edit(adaptor, |document| take(document, "x", "192.168.3.10"));
                if !early {
                    stage.ask(adaptor, "pod-1");
                }
                stage.edit(adaptor, |document| take(document, "pod-1", "192.168.3.13"));
                stage.allocated_with(adaptor, "pod-1", "192.168.3.13", probed(1));
                assert_eq!(stage.excuses().len(), findings);
            });
        }
    }
}
