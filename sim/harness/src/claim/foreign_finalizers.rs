//! The claim about finalizers of other controllers, which the system must not remove.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_sim::fault::FOREIGN_FINALIZER;
use kube_sim::object::Obj;
use kube_sim::rt::ProcessId;
use kube_sim::trace::{EventKind, Interest};

use super::{Claim, Context, observing};

/// Only the controller that added a finalizer of the fault `foreign-finalizer` removes it from an object (K012). Judged at each write of
/// another process to an object that has it.
pub(super) fn foreign_finalizers_stay(context: &Context<'_>) -> Box<dyn Claim> {
    let rt = context.rt.clone();
    named(move |process| rt.process_name(process))
}

/// The claim, with the names of processes from `name`.
fn named(name: impl Fn(ProcessId) -> Arc<str> + Send + 'static) -> Box<dyn Claim> {
    // By finalizer: each controller has its own, for all objects.
    let mut put_by: BTreeMap<String, ProcessId> = BTreeMap::new();
    observing(Interest::COMMIT, move |event, findings| {
        let EventKind::Commit { client, key, before, after, .. } = event.kind else { return };
        for finalizer in foreign(after) {
            if !put_by.contains_key(finalizer) {
                put_by.insert(finalizer.clone(), client);
            }
        }
        for finalizer in foreign(before).filter(|&finalizer| put_by.get(finalizer) != Some(&client)) {
            findings.exercised();
            if !foreign(after).any(|kept| kept == finalizer) {
                let whose = put_by.get(finalizer).map_or_else(|| "another controller".into(), |&controller| name(controller));
                findings.violated(|| vec![format!("{} removes {finalizer} from {key}, which {whose} has added", name(client))]);
            }
        }
    })
}

/// The finalizers of such faults that an object has.
fn foreign(object: Option<&Obj>) -> impl Iterator<Item = &String> {
    let finalizers = object.into_iter().flat_map(|object| object.meta().finalizers.iter().flatten());
    finalizers.filter(|finalizer| finalizer.starts_with(FOREIGN_FINALIZER))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube_machinery::ObjectKey;
    use kube_machinery::api::Verb;
    use kube_sim::kinds::KindId;
    use kube_sim::trace::Event;
    use sim_config::time::SimTime;

    use super::*;
    use crate::claim::Findings;

    fn with(finalizers: &[&str]) -> Obj {
        let finalizers = Some(finalizers.iter().map(|&name| name.to_owned()).collect());
        Arc::new(ConfigMap { metadata: ObjectMeta { finalizers, ..ObjectMeta::default() }, ..ConfigMap::default() })
    }

    /// A write: its process, and the finalizers of the object before and after it (`None` = it is gone).
    type Write<'a> = (u32, &'a [&'a str], Option<&'a [&'a str]>);

    /// The number of violations of the claim by these writes.
    fn violations(writes: &[Write<'_>]) -> usize {
        let mut claim = named(|process| process.0.to_string().into());
        let mut findings = Findings::of_one_claim();
        for &(client, before, after) in writes {
            let (key, before, after) = (ObjectKey::namespaced("default", "web"), with(before), after.map(with));
            let (client, server, before, after) = (ProcessId(client), ProcessId(9), Some(&before), after.as_ref());
            let kind = EventKind::Commit {
                client,
                server,
                verb: Verb::Update,
                kind: KindId(0),
                key: &key,
                revision: 1,
                before,
                after,
                content: 0,
            };
            claim.observe(&Event { at: SimTime::ZERO, kind }, &mut findings);
        }
        findings.excuses().len()
    }

    #[test]
    fn only_the_controller_that_put_a_finalizer_on_takes_it_off() {
        let (own, both, foreign): (&[&str], &[&str], &[&str]) = (&["own"], &["own", "example.com/keep-7"], &["example.com/keep-7"]);
        let put = (1, own, Some(both));
        assert_eq!(violations(&[put, (2, both, Some(foreign)), (1, foreign, None)]), 0);
        assert_eq!(violations(&[put, (2, both, Some(own))]), 1);
        assert_eq!(violations(&[put, (2, both, None)]), 1, "with it the object goes");
        assert_eq!(violations(&[(2, own, None)]), 0, "it has none");
        let two: &[&str] = &["example.com/keep-7", "example.com/keep-8"];
        assert_eq!(violations(&[(1, own, Some(foreign)), (3, foreign, Some(two)), (1, two, Some(&["example.com/keep-8"]))]), 0);
    }
}
