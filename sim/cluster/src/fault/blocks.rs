//! The messages and actions that a fault blocks: one description, from which suppressed heartbeats of nodes ([`crate::cluster::clear`]),
//! lasting losses and the bounds of claims are derived.

use std::sync::Arc;

use super::Target;
use crate::cluster::{Cluster, Obstruction};
use crate::kinds::KindId;
use crate::net::Side;

/// The things that a fault blocks, delays, refuses or hides while it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Nothing between API servers and their clients: the fault is about sandboxes, plugins, addresses or Node objects.
    Nothing,
    /// All actions of these processes, or of those on these hosts: they are down or paused.
    Processes(Target),
    /// Messages between the two sides.
    Links {
        /// The first side; the senders, unless messages go `both_ways`.
        from: Target,
        /// The second side; the receivers, unless messages go `both_ways`.
        to: Target,
        /// Whether everything in both directions is cut, so that the first side is alone. Otherwise some messages of one direction are
        /// affected.
        both_ways: bool,
    },
    /// All messages of the current holder of a lease, for a while, again and again.
    Leader,
    /// Requests, which fail with an error.
    Requests {
        /// The processes whose requests fail.
        clients: Target,
        /// The plural of the type that they are about, or `*`.
        resource: String,
        /// Whether all of them fail; otherwise the next try of the same request may succeed.
        all: bool,
    },
    /// Writes, which are executed once more or later than their callers know.
    LateWrites {
        /// The processes whose writes are executed late or again.
        clients: Target,
    },
    /// Requests, which their servers may execute later than they arrive.
    LateRequests {
        /// The processes whose requests may wait.
        clients: Target,
        /// The plural of the type that they are about, or `*`.
        resource: String,
    },
    /// Changes on their way into the watch caches of API servers.
    ServerCaches {
        /// The API servers whose watch caches lag.
        servers: Target,
        /// The plural of the type, or `*`.
        resource: String,
    },
    /// Changes on their way to the watches of clients.
    ClientCaches {
        /// The processes whose watches lag.
        clients: Target,
        /// The plural of the type, or `*`.
        resource: String,
    },
    /// Every request to these API servers: each of their steps takes longer, or waits for etcd.
    Servers(Target),
    /// Every request that needs etcd.
    Etcd,
    /// The first discovery of a type by a cache; a cache that has started does not ask again.
    Discovery {
        /// The plural of the type, or `*`.
        resource: String,
    },
    /// Nothing that lasts: watches end or older states become unreadable, and clients resume or list.
    History,
    /// Calls of admission webhooks.
    Admission,
    /// The clocks of some hosts: wall clocks jump, or clocks run at another rate.
    Clocks,
    /// Writes of one object with optimistic locking, as another client writes it.
    Object,
}

impl Blocks {
    /// The processes that it disables entirely: they are down, paused or isolated.
    pub fn victims(&self) -> Option<&Target> {
        match self {
            Blocks::Processes(target) | Blocks::Links { from: target, both_ways: true, .. } => Some(target),
            _ => None,
        }
    }

    /// The part of it that `cluster` cannot derive from its state. A cluster knows which processes run, how fast their clocks run, which
    /// rules its network has, and which webhooks have to be called.
    pub(super) fn obstruction(&self, cluster: &Arc<Cluster>) -> Option<Obstruction> {
        let of = |clients: Side, kinds: Option<KindId>| Obstruction { clients, kinds: kinds.into_iter().collect() };
        match self {
            Blocks::Requests { clients, resource, .. } | Blocks::LateRequests { clients, resource } => {
                Some(of(clients.side(&cluster.rt), resource_kind(cluster, resource)?))
            }
            Blocks::LateWrites { clients } => Some(of(clients.side(&cluster.rt), None)),
            Blocks::ClientCaches { clients, resource } => {
                Some(of(Side::Only(clients.processes(&cluster.rt)), resource_kind(cluster, resource)?))
            }
            // Any client may be connected to these servers.
            Blocks::ServerCaches { servers, resource } => {
                let kinds = resource_kind(cluster, resource)?;
                (!servers.servers(cluster).is_empty()).then(|| of(Side::Any, kinds))
            }
            Blocks::Servers(servers) => (!servers.servers(cluster).is_empty()).then(|| of(Side::Any, None)),
            Blocks::Etcd => Some(of(Side::Any, None)),
            Blocks::Nothing
            | Blocks::Processes(_)
            | Blocks::Links { .. }
            | Blocks::Leader
            | Blocks::Discovery { .. }
            | Blocks::History
            | Blocks::Admission
            | Blocks::Clocks
            | Blocks::Object => None,
        }
    }
}

/// The type with this plural: `Some(None)` = every type (`*`); `None` = a type that this cluster does not serve.
pub(super) fn resource_kind(cluster: &Cluster, plural: &str) -> Option<Option<KindId>> {
    if plural == "*" {
        return Some(None);
    }
    cluster.registry.iter().find(|(_, def)| def.plural == plural).map(|(kind, _)| Some(kind))
}

/// The watch caches of a resource on some servers.
pub(super) fn server_caches(cluster: &Cluster, servers: &Target, plural: &str) -> Vec<(usize, KindId)> {
    let Some(wanted) = resource_kind(cluster, plural) else { return Vec::new() };
    let kinds = || cluster.registry.iter().map(|(kind, _)| kind).filter(move |kind| wanted.is_none_or(|wanted| wanted == *kind));
    servers.servers(cluster).into_iter().flat_map(|server| kinds().map(move |kind| (server, kind))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::{ConfigMap, Node};

    use super::*;
    use crate::fault::{CacheLag, Fault, FaultDraft, FaultKind, Faults, Forbidden, WatchLag, Window, vocabulary};
    use crate::testbed::Testbed;
    use sim_config::draw::{Concern, Draw};
    use sim_config::time::Span;

    const SECOND: Duration = Duration::from_secs(1);

    /// Starts a fault that lasts for `lasts`.
    fn strike(bed: &Testbed, kind: FaultKind, lasts: Duration) {
        let at = bed.rt.now() + Duration::from_millis(1);
        let fault = Fault { common: Window::new(at, Some(Span(lasts))), kind };
        Faults::schedule(&bed.cluster, &[fault], at + 1_000 * SECOND);
    }

    /// One fault of each kind, about all processes if it may be, otherwise about a drawn one.
    fn kinds(bed: &Testbed, seed: u64) -> Vec<FaultKind> {
        let processes = bed.rt.processes().into_iter();
        let names: Vec<String> = processes.map(|process| bed.rt.process_name(process).to_string()).collect();
        let mut draw = Draw::new(seed, Concern::Faults, 0);
        vocabulary().iter().map(|info| FaultDraft::of(info.name).unwrap().draw(&mut draw, &names)).collect()
    }

    #[test]
    fn what_faults_declare_is_what_the_cluster_shows_at_every_moment() {
        let mut blocked = 0;
        for seed in 0..4 {
            blocked += Testbed::run(seed, async move |bed| {
                let clients = ["kubelet", "other"].map(|name| bed.client(name).process());
                let kinds_of_heartbeats = [bed.kind::<Node>(), bed.kind::<Lease>()];
                let mut blocked = 0;
                for kind in kinds(&bed, seed) {
                    strike(&bed, kind.clone(), 2 * SECOND);
                    for moment in 0..40 {
                        bed.wait(SECOND / 10).await;
                        for client in clients {
                            let clear = bed.cluster.is_clear(client, &kinds_of_heartbeats);
                            assert_eq!(clear, bed.cluster.looks_clear(client, &kinds_of_heartbeats), "{kind:?} after {moment}00 ms");
                            blocked += u32::from(!clear);
                        }
                    }
                    // Effects that take long to recover from must not reach the next fault.
                    bed.wait(200 * SECOND).await;
                }
                blocked
            });
        }
        assert!(blocked > 1_000, "{blocked}");
    }

    #[test]
    fn what_is_about_others_is_none_of_its_business() {
        Testbed::run(1, async |bed| {
            let (me, other) = (bed.client("kubelet").process(), bed.client("other").process());
            let (kinds, maps) = ([bed.kind::<Node>(), bed.kind::<Lease>()], [bed.kind::<ConfigMap>()]);
            let (others, everybody) = (Target::from_text("other"), Target::from_text("apiserver-*"));
            let (all, config_maps) = ("*".to_owned(), "configmaps".to_owned());
            let forbidden = FaultKind::Forbidden(Forbidden { client: others.clone(), resource: all.clone() });
            let lag = FaultKind::WatchLag(WatchLag { server: everybody, resource: config_maps, by: Span::secs(1) });
            strike(&bed, forbidden, SECOND);
            strike(&bed, lag, SECOND);
            bed.wait(SECOND / 2).await;
            assert!(bed.cluster.is_clear(me, &kinds) && !bed.cluster.is_clear(me, &maps) && !bed.cluster.is_clear(other, &kinds));
            bed.wait(SECOND).await;
            assert!(bed.cluster.is_clear(me, &maps) && bed.cluster.is_clear(other, &kinds));
            let unserved = FaultKind::CacheLag(CacheLag { process: others.clone(), resource: "unheard".to_owned(), by: Span::secs(1) });
            let none = FaultKind::CacheLag(CacheLag { process: others, resource: all, by: Span(Duration::ZERO) });
            strike(&bed, unserved, SECOND);
            strike(&bed, none, SECOND);
            bed.wait(SECOND / 2).await;
            assert!(bed.cluster.is_clear(other, &kinds));
        });
    }
}
