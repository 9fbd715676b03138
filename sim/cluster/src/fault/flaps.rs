//! A leader that is cut off again and again for a short while, whoever it is by then (K §4.6, K143).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube_machinery::ObjectKey;

use super::LeaderFlaps;
use super::writer::parse_object;
use crate::cluster::Fabric;
use crate::net::{Effect, Rule, RuleId, Side};
use crate::rt::ProcessId;

/// Lets go of the links when the fault ends in the middle of a cut.
struct Cut<'a> {
    fabric: &'a Fabric,
    rules: [RuleId; 2],
}

impl<'a> Cut<'a> {
    fn of(fabric: &'a Fabric, process: ProcessId) -> Self {
        let only = || Side::Only(vec![process]);
        let rules = fabric.network(|net| {
            let mut cut = |from, to| net.add(Rule { from, to, effect: Effect::Cut });
            [cut(only(), Side::Any), cut(Side::Any, only())]
        });
        Self { fabric, rules }
    }
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        self.fabric.network(|net| self.rules.into_iter().for_each(|rule| net.remove(rule)));
    }
}

/// The key of the lease that `text` names.
///
/// # Errors
/// A sentence that says what would be right.
pub(super) fn lease_key(text: &str) -> Result<ObjectKey, String> {
    match parse_object(text)? {
        ("leases", key) => Ok(key),
        _ => Err(format!("`{text}` is no lease: leases/NAMESPACE/NAME is")),
    }
}

/// Makes a process that cuts leaders off for the fault with this number from its start. It is not started.
pub(super) fn hire(fabric: &Arc<Fabric>, index: u32, fault: &LeaderFlaps) -> ProcessId {
    let rt = &fabric.rt;
    let name = format!("leader-flaps-{index}");
    let process = rt.find_process(&name).unwrap_or_else(|| rt.add_process(rt.add_host(&name), &name));
    let (shared, fault) = (Arc::downgrade(fabric), fault.clone());
    rt.set_main(process, move |_| {
        let (fabric, fault) = (shared.upgrade(), fault.clone());
        async move {
            let (Some(fabric), Ok(key)) = (fabric, lease_key(&fault.lease)) else { return };
            loop {
                if let Some(leader) = holder(&fabric, &key) {
                    let _cut = Cut::of(&fabric, leader);
                    fabric.rt.sleep(fault.cut.0).await;
                }
                // Where nothing takes time, time must pass all the same.
                fabric.rt.sleep(fault.every.0.max(Duration::from_micros(1))).await;
            }
        }
    });
    process
}

/// The process that holds a lease: candidates call themselves as their processes are called.
fn holder(fabric: &Fabric, key: &ObjectKey) -> Option<ProcessId> {
    let kind = fabric.registry.id::<Lease>();
    let name = fabric.store(|store| {
        let lease: &Lease = store.table(kind).get(key)?.as_any().downcast_ref()?;
        lease.spec.as_ref()?.holder_identity.clone()
    })?;
    fabric.rt.find_process(&name)
}
