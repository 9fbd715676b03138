//! Faults of a plan in words.

use kube_sim::fault::{Fault, ObjectChange, Trigger};
use sim_config::kinds::Kinds;

/// A fault in words: `partition(client-0, apiserver-1) at 3.204 s`, or `… at the 2nd update of pods/default/web-0`.
pub(crate) fn text(fault: &Fault) -> String {
    match fault.kind.begins() {
        Trigger::Request(nth) => format!("{} {nth}", name(fault)),
        Trigger::Window if fault.common.when.is_empty() => format!("{} at {}", name(fault), fault.common.at),
        Trigger::Window => format!("{} at {}", name(fault), ObjectChange::text_of(&fault.common.when)),
    }
}

/// The same without the time: `partition(client-0, apiserver-1)`.
pub(crate) fn name(fault: &Fault) -> String {
    format!("{}{}", fault.kind.kind(), fault.kind.subject())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_the_subject_and_what_the_fault_waits_for() {
        let text = |rows: &str| {
            let row = format!("at = '3s'\n{rows}");
            text(&sim_config::toml::from_str::<Fault>("plan.toml", &row).unwrap_or_else(|problems| panic!("{problems}")))
        };
        assert_eq!(text("kind = 'partition'\nfrom = 'a'\nto = 'b'"), "partition(a, b) at 3.000 s");
        assert_eq!(text("kind = 'compaction'"), "compaction at 3.000 s");
        let crash = "kind = 'crash-at-write'\nprocess = 'a'\nnth = 7\nafter_commit = true\ndown = '1s'";
        assert_eq!(text(crash), "crash-at-write(a) 7");
        let late = "kind = 'change-late'\nprocess = 'a'\nresource = '*'\nnth = 4\nby = '1s'\nwrites = 0";
        assert_eq!(text(late), "change-late(a) 4");
        let request = "kind = 'request-fault'\nprocess = 'a'\nverb = 'get'\nresource = '*'\nnth = 2\neffect = 'late'";
        assert_eq!(text(&format!("{request}\nafter = '1s'\nwrites = 0\nerror = 'reset'\ndown = '1s'")), "request-fault(a) late 2");
        let when = "when = [{ object = 'pods/default/web-0', change = 'updated', nth = 2 }]";
        let host = format!("kind = 'external-host'\naddress = '10.0.0.1'\n{when}");
        assert_eq!(text(&host), "external-host(10.0.0.1) at the 2nd update of pods/default/web-0");
    }
}
