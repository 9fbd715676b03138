//! Faults whose targets fit the workload: processes that exist, resources that are used, objects that somebody works on.

use kube_sim::fault::{FaultDraft, Target};
use sim_config::Choice;
use sim_config::draw::Draw;

use crate::workload::Stake;

/// The API servers.
const SERVERS: &str = "apiserver-*";

/// The fault of `kind` with targets that fit; `None` if the workload has nothing that it could be about.
pub fn fitted(kind: &str, stake: &Stake, draw: &mut Draw) -> Option<FaultDraft> {
    let mut draft = FaultDraft::of(kind)?;
    // The same numbers whatever the kind.
    let (link, half, resource, object) = (Link::draw(stake, draw), draw.u64() >> 63 == 0, draw.u64(), draw.u64());
    let pick = |names: &[String], word: u64| {
        (!names.is_empty()).then(|| names[sim_config::draw::below(word, names.len() as u64) as usize].clone())
    };
    // Half of the time one resource, or everything.
    let resource = if half { None } else { pick(&stake.resources, resource) };
    let resource = Choice::Is(resource.unwrap_or_else(|| "*".to_owned()));
    let one = |names: &[String]| (!names.is_empty()).then(|| target(&format!("one:{}", names.join(","))));
    let (process, host, kubelet) = (one(&stake.processes), one(&stake.hosts), one(&stake.kubelets));
    match &mut draft {
        FaultDraft::Partition(draft) => (draft.from, draft.to) = link.sides(),
        FaultDraft::OneWayPartition(draft) => (draft.from, draft.to) = link.sides(),
        FaultDraft::Hold(draft) => (draft.from, draft.to) = link.sides(),
        FaultDraft::Loss(draft) if half => (draft.from, draft.to) = link.sides(),
        FaultDraft::Duplication(draft) if half => (draft.from, draft.to) = link.sides(),
        FaultDraft::Reordering(draft) if half => (draft.from, draft.to) = link.sides(),
        FaultDraft::Delay(draft) => (draft.from, draft.to) = link.sides(),
        FaultDraft::DegradedLink(draft) if half => (draft.from, draft.to) = link.sides(),
        FaultDraft::Crash(draft) => draft.process = process?,
        FaultDraft::CrashAtWrite(draft) => draft.process = process?,
        FaultDraft::Pause(draft) => draft.process = process?,
        FaultDraft::HostDown(draft) => draft.host = host?,
        FaultDraft::ClockOffset(draft) => draft.host = host?,
        FaultDraft::ClockDrift(draft) => draft.host = host?,
        FaultDraft::Reconnect(draft) => draft.process = process?,
        FaultDraft::Forbidden(draft) => (draft.client, draft.resource) = (process?, resource),
        FaultDraft::TooManyRequests(draft) if half => draft.client = process?,
        FaultDraft::ServerError(draft) if half => draft.client = process?,
        FaultDraft::Unavailable(draft) if half => draft.client = process?,
        FaultDraft::LostReply(draft) => draft.client = if half { process? } else { target("*") },
        FaultDraft::LateCommit(draft) if half => draft.client = process?,
        FaultDraft::DuplicateRequest(draft) if half => draft.client = process?,
        FaultDraft::ApiServerFreeze(draft) => draft.resource = resource,
        FaultDraft::WatchClosed(draft) => draft.resource = resource,
        FaultDraft::WatchLag(draft) => draft.resource = resource,
        FaultDraft::CacheLag(draft) => (draft.process, draft.resource) = (process?, resource),
        // Only who starts while it lasts meets it: of a hundred plans it would do nothing in most.
        FaultDraft::DiscoveryFails(_) => return None,
        FaultDraft::HistoryLost(draft) => draft.resource = resource,
        FaultDraft::ConflictingWriter(draft) => draft.object = Choice::Is(pick(&stake.objects, object)?),
        FaultDraft::SandboxLost(draft) => draft.process = kubelet?,
        FaultDraft::CniDelLost(draft) => draft.process = kubelet?,
        FaultDraft::CniDelLate(draft) => draft.process = kubelet?,
        FaultDraft::CniDelRepeated(draft) => draft.process = kubelet?,
        FaultDraft::CniAddSlow(draft) => draft.process = kubelet?,
        FaultDraft::CniPluginKilled(draft) => draft.process = kubelet?,
        FaultDraft::NodeDeleted(draft) => draft.node = one(&stake.nodes)?,
        FaultDraft::NodeOutOfService(draft) => draft.node = one(&stake.nodes)?,
        FaultDraft::LeaderFlaps(draft) => draft.lease = Choice::Is(pick(&stake.leases, object)?),
        FaultDraft::WebhookSlow(draft) => draft.process = one(&stake.webhooks)?,
        FaultDraft::WebhookDenies(draft) => draft.process = one(&stake.webhooks)?,
        FaultDraft::WebhookDown(draft) => draft.process = one(&stake.webhooks)?,
        FaultDraft::WebhookTwice(draft) => draft.process = one(&stake.webhooks)?,
        FaultDraft::ExternalHost(draft) => draft.address = Choice::Is(pick(&stake.addresses, object)?),
        _ => {}
    }
    Some(draft)
}

fn target(text: &str) -> Choice<Target> {
    Choice::Is(Target::from_text(text))
}

/// From whom to whom messages go.
struct Link {
    from: String,
    to: String,
}

impl Link {
    /// Between some processes and the API servers or what else they talk to, in either direction.
    fn draw(stake: &Stake, draw: &mut Draw) -> Self {
        let (few, whom, back) = (draw.u64(), draw.u64(), draw.u64() >> 63 == 0);
        let few = if few >> 63 == 0 { "one:" } else { "some:" };
        let us = if stake.processes.is_empty() { "*".to_owned() } else { format!("{few}{}", stake.processes.join(",")) };
        let mut others = vec![SERVERS.to_owned(), format!("one:{SERVERS}")];
        others.extend(stake.peers.iter().cloned());
        let them = others.swap_remove(sim_config::draw::below(whom, others.len() as u64) as usize);
        if back { Self { from: them, to: us } } else { Self { from: us, to: them } }
    }

    fn sides(&self) -> (Choice<Target>, Choice<Target>) {
        (target(&self.from), target(&self.to))
    }
}
