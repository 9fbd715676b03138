//! B I4: writes by processes of the pool are well-formed.

use std::net::IpAddr;

use super::view::{RecordEdit, Seen, View};
use super::{Findings, PoolClaim};
use crate::workload::{PoolNote, short};

/// A process of the pool writes both containers, each record under its own allocation ID, with the name of a node, and addresses in
/// canonical spelling. Existing records and entries that it leaves alone are not checked; but every address that it returns is. A write
/// that keeps the text, such as one that only labels the object, keeps its meaning.
///
/// Broken by `byom-null-map`, `byom-textual-addresses` and `byom-lenient-settings` (a blank node name). A list that is `null` is not
/// distinguished from an empty one: no writer makes it.
pub(crate) struct PoolDocumentIsWellFormed;

impl PoolClaim for PoolDocumentIsWellFormed {
    fn observe(&mut self, seen: &Seen<'_>, view: &View, findings: &mut Findings) {
        if let Seen::Note(process, PoolNote::Allocated { id, address, .. }) = seen
            && !is_canonical(address)
        {
            let (name, id) = (view.name(*process), short(id));
            findings.violated(|| vec![format!("{name} gives `{address}` to {id}, which is no address in canonical spelling")]);
        }
        let Seen::Commit(change) = seen else { return };
        if change.reads_differently {
            findings.violated(|| vec!["the same text reads differently than before".to_owned(), view.story_of_write(change)]);
        }
        let Some(document) = change.written() else { return };
        findings.exercised();
        if document.allocated.is_null() {
            findings.violated(|| vec!["allocatedIPs is null".to_owned(), view.story_of_write(change)]);
        }
        for edit in &change.records {
            if let Some(problem) = problem(edit) {
                findings.violated(|| vec![format!("the record under {} {problem}", short(&edit.id)), view.story_of_write(change)]);
            }
        }
        for address in change.gained.iter().filter(|address| !is_canonical(address)) {
            findings.violated(|| {
                vec![format!("the list gains `{address}`, which is no address in canonical spelling"), view.story_of_write(change)]
            });
        }
    }
}

/// Whether an address is in canonical spelling. Implemented independently of the system under test, which could not detect its own
/// mistakes.
fn is_canonical(address: &ipam_byom::Address) -> bool {
    let text = address.text();
    let (plain, zone) = text.split_once('%').map_or((text, None), |(plain, zone)| (plain, Some(zone)));
    match plain.parse() {
        Ok(IpAddr::V4(ip)) => zone.is_none() && ip.to_string() == plain,
        // An IPv4-mapped address must be written as its IPv4 address.
        Ok(IpAddr::V6(ip)) => zone != Some("") && ip.to_ipv4_mapped().is_none() && ip.to_string() == plain,
        Err(_) => false,
    }
}

/// The problem of a changed record, if there is one.
fn problem(edit: &RecordEdit) -> Option<String> {
    let record = edit.after.as_ref()?;
    if record.allocation_id != edit.id {
        return Some(format!("is that of {}", record.allocation_id));
    }
    if record.node_name.is_empty() {
        return Some("names no node".to_owned());
    }
    (!is_canonical(&record.ip)).then(|| format!("has `{}`, which is no address in canonical spelling", record.ip))
}

#[cfg(test)]
mod tests {
    use ipam_byom::{Address, Allocations, IpAllocation};

    use super::super::testing::{on_stage, record};
    use super::is_canonical;

    #[test]
    fn each_kind_of_disorder_is_a_violation() {
        let disorders: [fn(&mut ipam_byom::PoolDocument); 6] = [
            |document| document.allocated = Allocations::null(),
            |document| drop(document.allocated.insert("a".into(), record("b", "10.0.0.1"))),
            |document| drop(document.allocated.insert("a".into(), record("a", "::ffff:10.0.0.1"))),
            |document| drop(document.allocated.insert("a".into(), record("a", "vm"))),
            |document| drop(document.allocated.insert("a".into(), IpAllocation { node_name: "".into(), ..record("a", "10.0.0.1") })),
            |document| document.available.push(Address::new("2001:DB8::1")),
        ];
        for (number, disorder) in disorders.into_iter().enumerate() {
            for (writer, findings) in [("kubectl", 0), ("adaptor-0", 1)] {
                on_stage("pool-document-is-well-formed", |stage| {
                    let adaptor = stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2");
                    let person = stage.process("kubectl");
                    stage.allocate(adaptor, "x", "10.0.0.2");
                    assert_eq!(stage.excuses(), []);
                    stage.edit(if writer == "kubectl" { person } else { adaptor }, disorder);
                    assert_eq!(stage.excuses().len(), findings, "disorder {number} by {writer}");
                });
            }
        }
    }

    #[test]
    fn a_text_that_stays_says_the_same() {
        on_stage("pool-document-is-well-formed", |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2"), stage.process("kubectl"));
            stage.allocate(adaptor, "a", "10.0.0.1");
            stage.touch(person);
            stage.touch(person);
            stage.allocate(adaptor, "b", "10.0.0.2");
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn what_somebody_outside_left_is_not_held_against_the_next_writer() {
        on_stage("pool-document-is-well-formed", |stage| {
            let (adaptor, person) = (stage.adaptor("adaptor-0", "10.0.0.1,10.0.0.2"), stage.process("kubectl"));
            stage.edit(person, |document| drop(document.allocated.insert("old".into(), record("older", "::ffff:10.0.0.7"))));
            stage.allocate(adaptor, "x", "10.0.0.2");
            assert_eq!(stage.excuses(), []);
        });
    }

    #[test]
    fn an_address_has_one_canonical_spelling() {
        for text in ["10.0.0.1", "2001:db8::1", "fe80::1%eth0"] {
            assert!(is_canonical(&Address::new(text)), "{text}");
        }
        for text in ["10.0.0.01", "10.0.0.1?", "10.0.0.1%eth0", "::ffff:10.0.0.1", "2001:DB8::1", "2001:db8:0::1", "fe80::1%", ""] {
            assert!(!is_canonical(&Address::new(text)), "{text}");
        }
    }
}
