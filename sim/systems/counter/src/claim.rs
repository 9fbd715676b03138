//! Claims about the counter (see [`crate::workload`]).

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_machinery::FxHashMap;
use kube_sim::kinds::Served;
use sim_harness::prelude::*;

use crate::Operation;
use crate::workload::{CounterNote, is_counter, value_of};

/// The claims, in the order of listings.
pub(crate) const CLAIMS: &[ClaimDef] = &[
    ClaimDef::always("no-increment-is-lost", "no two increments are acknowledged with the same value", no_increment_is_lost).citing("K070"),
    ClaimDef::always("counter-never-goes-back", "no committed write of the counter lowers its value", |context| {
        counter_never_goes_back(context.rt.clone(), Reader::new(context.registry))
    })
    .citing("K070"),
    ClaimDef::eventually(
        "every-increment-ends",
        "every increment of the plan has come to an end: acknowledged, or left open by a crash or a lost answer",
        |context| Box::new(EveryIncrementEnds::new(context)),
    ),
];

/// The excuse for a run in which an outside writer writes the counter without regard to its version.
pub(crate) const OUTSIDE_WRITER: &str = "outside-writer";

/// No two increments are acknowledged with the same value.
fn no_increment_is_lost(context: &Context<'_>) -> Box<dyn Claim> {
    let (rt, reader) = (context.rt.clone(), Reader::new(context.registry));
    let mut acknowledged: FxHashMap<u64, (ProcessId, SimTime)> = FxHashMap::default();
    // An outside writer lowered the counter: values up to this one may occur again.
    let mut lowered_from = 0;
    observing(Interest::NOTE.and(Interest::COMMIT), move |event, findings| {
        // Almost every write is a client's, and reading a value costs more than checking the writer.
        if let EventKind::Commit { client, key, before, after, .. } = event.kind
            && is_counter(key)
            && is_outsider(&rt, client)
        {
            let before = reader.value(before);
            if before > reader.value(after) {
                lowered_from = lowered_from.max(before);
            }
        }
        let Some((process, &CounterNote::Counted { value })) = event.note_of() else { return };
        findings.exercised();
        let Some((first, since)) = acknowledged.insert(value, (process, event.at)) else { return };
        let detail = || {
            vec![format!(
                "value {value} was acknowledged to {} at {since} and to {} at {}: one of the two increments is lost",
                rt.process_name(first),
                rt.process_name(process),
                event.at
            )]
        };
        if value <= lowered_from {
            findings.violated_with(OUTSIDE_WRITER, detail);
        } else {
            findings.violated(detail);
        }
    })
}

/// Reads the counter's object in whichever form the cluster stores ConfigMaps.
struct Reader(Served<ConfigMap>);

impl Reader {
    fn new(registry: &Registry) -> Self {
        Self(registry.served())
    }

    /// The value of the counter's object; a missing object counts as 0.
    fn value(&self, object: Option<&Obj>) -> u64 {
        object.map_or(0, |object| value_of(&self.0.typed(object.clone())))
    }
}

/// Whether a write came from a process that is not one of the counter's clients.
fn is_outsider(rt: &Rt, process: ProcessId) -> bool {
    !rt.process_name(process).starts_with("client-")
}

/// No committed write of the counter lowers its value.
fn counter_never_goes_back(rt: Rt, reader: Reader) -> Box<dyn Claim> {
    // The last written value, even from before a deletion, which must not hide that a re-creation lowers the value. Later writes are
    // compared with the lowered value, so only the write that lowered it is blamed.
    let mut last = 0;
    observing(Interest::COMMIT, move |event, findings| {
        let EventKind::Commit { client, key, after: Some(after), revision, .. } = event.kind else { return };
        if !is_counter(key) {
            return;
        }
        let value = reader.value(Some(after));
        findings.exercised();
        if value < last {
            let detail = || {
                vec![format!("{} wrote {value} at revision {revision} although the counter had been at {last}", rt.process_name(client))]
            };
            if is_outsider(&rt, client) {
                findings.violated_with(OUTSIDE_WRITER, detail);
            } else {
                findings.violated(detail);
            }
        }
        last = value;
    })
}

/// Every increment of the plan has come to an end.
pub(super) struct EveryIncrementEnds {
    rt: Rt,
    /// Clients that are permanently down or partitioned: their increments are not waited for.
    lost: BTreeSet<String>,
    planned: usize,
    ended: usize,
}

impl EveryIncrementEnds {
    pub(super) fn new(context: &Context<'_>) -> Self {
        let planned = context.awaited_ops::<Operation>().count();
        Self { rt: context.rt.clone(), lost: context.out_of_reach.names.clone(), planned, ended: 0 }
    }
}

impl Claim for EveryIncrementEnds {
    fn interest(&self) -> Interest {
        Interest::NOTE
    }

    fn observe(&mut self, event: &Event<'_>, _: &mut Findings) {
        if let Some((process, CounterNote::Counted { .. } | CounterNote::LeftOpen)) = event.note_of()
            && (self.lost.is_empty() || !self.lost.contains(&*self.rt.process_name(process)))
        {
            self.ended += 1;
        }
    }

    fn pending(&self) -> Option<String> {
        let missing = self.planned - self.ended.min(self.planned);
        (missing > 0).then(|| format!("{missing} of {} increments have not come to an end", self.planned))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube_machinery::api::Verb;

    use super::*;
    use crate::workload::{counter_key, initial};
    use kube_sim::kinds::{self, KindId};

    #[test]
    fn clients_that_go_on_from_what_an_outsider_lowered_are_not_blamed() {
        kube_sim::rt::run(1, async |rt| {
            let process = |name: &str| rt.add_process(rt.add_host(name), name);
            let (client, outsider) = (process("client-0"), process("conflicting-writer-0"));
            let mut claim = counter_never_goes_back(rt.clone(), Reader::new(&Registry::new(kinds::all([]))));
            let mut findings = Findings::of_one_claim();
            let key = counter_key();
            for (revision, (writer, value)) in (2..).zip([(client, 9), (outsider, 3), (client, 4), (client, 5)]) {
                let mut object = initial();
                object.data = Some([("value".to_owned(), value.to_string())].into());
                let object: Obj = Arc::new(object);
                let kind = EventKind::Commit {
                    client: writer,
                    server: outsider,
                    verb: Verb::Update,
                    kind: KindId(0),
                    key: &key,
                    revision,
                    before: None,
                    after: Some(&object),
                    content: 0,
                };
                claim.observe(&Event { at: SimTime::ZERO, kind }, &mut findings);
            }
            assert_eq!(findings.excuses(), [Some(OUTSIDE_WRITER)]);
        });
    }
}
