//! B I2: an address occurs only once.

use ipam_byom::{Address, AddressKey, PoolDocument};

use super::view::{Change, Seen, View, places};
use super::{Findings, PoolClaim};
use crate::workload::short;

/// In every document committed by a process of the pool, each address, in any spelling, occurs at most once in the list and the records
/// together. Parts that the commit did not change are not checked: an outside writer may have damaged them.
///
/// A rebuilt document is checked as a whole, so it must not have the records of both a released allocation and its successor.
///
/// Broken by `byom-textual-addresses`. Not covered: lost updates, because each document is made from one consistent one.
pub(crate) struct PoolDocumentIsAPartition;

impl PoolClaim for PoolDocumentIsAPartition {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        let Seen::Commit(change) = seen else { return };
        let Some(document) = change.written() else { return };
        let recorded = change.records.iter().filter_map(|edit| {
            let after = edit.after.as_ref()?;
            (edit.before.as_ref().map(|before| before.ip.key()) != Some(after.ip.key())).then_some(&after.ip)
        });
        let mut told: Vec<&AddressKey> = Vec::new();
        for address in recorded.chain(&change.gained) {
            findings.exercised();
            let (listed, records) = places(document, address.key());
            if listed + records > 1 && !told.contains(&address.key()) {
                told.push(address.key());
                findings.violated(|| story(view, change, document, address, listed));
            }
        }
    }
}

fn story(view: &View, change: &Change, document: &PoolDocument, address: &Address, listed: usize) -> Vec<String> {
    let records: Vec<_> = document.allocated.of_address(address.key()).collect();
    let held: Vec<_> = records.iter().map(|(id, record)| format!("{id} (as {})", record.ip, id = short(id))).collect();
    let held = if held.is_empty() { "no record".to_owned() } else { format!("the records of {}", held.join(", ")) };
    let mut lines =
        vec![format!("{address} is {listed} times in the list of available addresses and in {held}"), view.story_of_write(change)];
    lines.extend(records.iter().map(|(id, _)| view.story_of(id)));
    lines
}

#[cfg(test)]
mod tests {
    use super::super::testing::{on_stage, record};
    use super::*;

    #[test]
    fn a_recorded_address_in_the_list_is_a_violation_in_any_spelling() {
        on_stage("pool-document-is-a-partition", |stage| {
            let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
            stage.allocate(adaptor, "a", "10.0.0.1");
            assert_eq!(stage.excuses(), []);
            stage.edit(adaptor, |document| document.available.push(Address::new("::ffff:10.0.0.1")));
            assert_eq!(stage.excuses(), [None]);
            assert_eq!(
                stage.detail()[0],
                "::ffff:10.0.0.1 is 1 times in the list of available addresses and in the records of a (as 10.0.0.1)"
            );
        });
    }

    #[test]
    fn what_somebody_outside_doubled_is_not_held_against_the_next_writer() {
        on_stage("pool-document-is-a-partition", |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2"), stage.process("kubectl"));
            stage.edit(person, |document| document.available.push(Address::new("10.0.0.2")));
            stage.allocate(adaptor, "a", "10.0.0.1");
            assert_eq!(stage.excuses(), []);
            stage.edit(adaptor, |document| drop(document.allocated.insert("b".into(), record("b", "10.0.0.1"))));
            assert_eq!(stage.excuses(), [None]);
        });
    }
}
