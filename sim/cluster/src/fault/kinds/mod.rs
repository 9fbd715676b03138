//! The kinds of faults: a file for each, or for those that share one mechanism, and a line in the list below.
//!
//! A file declares the parameters of its fault ([`parameters!`](super::parameters)) and implements [`Inject`]. The list turns it into the
//! form that a scenario reads, the form in a plan, a row of `list faults`, and a fault that swarms draw.

mod api_server_crash;
mod api_server_freeze;
mod api_server_slow;
mod cache_lag;
mod change_late;
mod clock_drift;
mod clock_offset;
mod cni;
mod compaction;
mod conflicting_writer;
mod crash;
mod discovery_fails;
mod etcd;
mod etcd_cut;
mod etcd_restored;
mod event_lost;
mod external_host;
mod forbidden;
mod foreign_finalizer;
mod history_lost;
mod host_down;
mod leader_flaps;
mod links;
mod node_deleted;
mod node_out_of_service;
mod pause;
mod priorities;
mod reconnect;
mod request_fault;
mod requests;
mod revision_jump;
mod sandbox_lost;
mod unauthorized;
mod watch_closed;
mod watch_lag;
mod webhook_certificate;
mod webhooks;

use std::sync::Arc;

use sim_config::draw::Draw;
use sim_config::time::Span;
use sim_config::{Problems, Source, kinds};

use super::drawn::{Aim, Drawn};
use super::effect::{ActiveEffect, Inject, Injection};
use super::parameters::{all_exist, exists};
use super::subject::Subject;
use super::timing::{Lasts, Trigger};
use super::{Blocks, FaultInfo, Inventory, Parameters, Target, Targeting};
use crate::cluster::Cluster;

pub use conflicting_writer::WriterMode;
pub use foreign_finalizer::FOREIGN_FINALIZER;
pub use request_fault::{RequestEffect, RequestVerb};
pub use webhook_certificate::CertificateProblem;

macro_rules! faults {
    ( $( $name:literal => $module:ident::$Fault:ident ),+ $(,)? ) => {
        $( pub use $module::$Fault; )+

        kinds! {
            /// A fault with every value drawn.
            pub enum FaultKind { $(
                #[doc = concat!("See [`", stringify!($Fault), "`].")]
                #[schemars(description = <$Fault as Parameters>::DOCUMENTATION.trim())]
                $name => $Fault($Fault)
            ),+ }
        }

        kinds! {
            /// A fault whose values may be open.
            pub enum FaultDraft { $(
                #[doc = concat!("See [`", stringify!($Fault), "`].")]
                #[schemars(description = <$Fault as Parameters>::DOCUMENTATION.trim())]
                $name => $Fault(<$Fault as Parameters>::Draft)
            ),+ }
        }

        impl FaultDraft {
            /// The draft of `kind` with targets that fit a workload; `None` if the workload has nothing that the fault could affect, or
            /// swarms only draw the kind with parameters that they state.
            pub fn targeting(kind: &str, targeting: &Targeting<'_>) -> Option<Self> {
                match kind {
                    $( $name => {
                        let aim: Aim<<$Fault as Parameters>::Draft> = <$Fault as Inject>::DRAWN.aim()?;
                        aim(targeting).map(FaultDraft::$Fault)
                    } )+
                    _ => None,
                }
            }

            /// The trigger that starts it.
            pub fn begins(&self) -> Trigger<()> {
                match self { $( FaultDraft::$Fault(_) => <$Fault as Inject>::BEGINS.map(|_| ()) ),+ }
            }

            /// Draws every open value. `names`: the processes and hosts of the drawn cluster.
            pub fn draw(&self, draw: &mut Draw, names: &[String]) -> FaultKind {
                match self { $( FaultDraft::$Fault(draft) => FaultKind::$Fault(<$Fault as Parameters>::draw(draft, draw, names)) ),+ }
            }

            /// The problems with the values that can be drawn, with which the fault would do nothing.
            pub fn problems(&self, source: Source<'_>, inventory: &Inventory<'_>) -> Problems {
                match self { $( FaultDraft::$Fault(draft) => {
                    let mut invalid = <$Fault as Parameters>::invalid_of(draft, $name, inventory);
                    let targets = <$Fault as Parameters>::targets_of(draft);
                    invalid.extend(targets.iter().filter_map(|target| all_exist($name, target, inventory)));
                    problems_of(source, invalid)
                } ),+ }
            }
        }

        impl FaultKind {
            /// The problems with the values: processes, hosts and resources that the cluster does not have, a write that never comes.
            pub fn problems(&self, source: Source<'_>, inventory: &Inventory<'_>) -> Problems {
                match self { $( FaultKind::$Fault(fault) => {
                    let mut invalid = fault.invalid($name, inventory);
                    invalid.extend(fault.targets().iter().filter_map(|target| exists($name, target, inventory)));
                    problems_of(source, invalid)
                } ),+ }
            }

            /// The processes and hosts that it names.
            pub fn targets(&self) -> Vec<Target> {
                match self { $( FaultKind::$Fault(fault) => fault.targets() ),+ }
            }

            /// Variants of the fault with one value simpler: the shorter, rarer, smaller or more exact first. `names`: the processes and
            /// hosts of the cluster. Repeated simplification always ends.
            pub fn simpler(&self, names: &[String]) -> Vec<FaultKind> {
                match self { $( FaultKind::$Fault(fault) => fault.simpler(names).into_iter().map(FaultKind::$Fault).collect() ),+ }
            }

            /// Replaces the name of every process and host by the result of `rename`, where it stands as a name and not as a pattern.
            pub fn rename(&mut self, rename: &dyn Fn(&str) -> String) {
                match self { $( FaultKind::$Fault(fault) => fault.rename(rename) ),+ }
            }

            /// The subject that texts name besides its kind.
            pub fn subject(&self) -> Subject {
                match self { $( FaultKind::$Fault(fault) => fault.subject() ),+ }
            }

            /// The way swarms draw faults of `kind`; `None` = there is no such kind.
            pub fn drawn(kind: &str) -> Option<Drawn<()>> {
                match kind {
                    $( $name => Some(<$Fault as Inject>::DRAWN.map(|_| ())), )+
                    _ => None,
                }
            }

            /// Whether it is instantaneous, so that it has no duration.
            pub fn is_instant(&self) -> bool {
                match self { $( FaultKind::$Fault(_) => !matches!(<$Fault as Inject>::LASTS, Lasts::Window) ),+ }
            }

            /// The time for which an instantaneous fault leaves something down, if it does.
            pub fn recovers_after(&self) -> Option<Span> {
                match self { $( FaultKind::$Fault(fault) => <$Fault as Inject>::LASTS.recovers_after(fault) ),+ }
            }

            /// The messages and actions that it blocks while it lasts.
            pub fn blocks(&self) -> Blocks {
                match self { $( FaultKind::$Fault(fault) => fault.blocks() ),+ }
            }

            /// The trigger that starts it, with the number of the request if it is a request.
            pub fn begins(&self) -> Trigger<u32> {
                match self { $( FaultKind::$Fault(fault) => <$Fault as Inject>::BEGINS.map(|wait| (wait.nth)(fault)) ),+ }
            }

            /// Prepares the fault with number `index` when a run begins; one that begins with a request waits for it from then on.
            pub(super) fn arm(&self, index: u32, cluster: &Arc<Cluster>) {
                match self { $( FaultKind::$Fault(fault) => {
                    fault.prepare(cluster);
                    if let Trigger::Request(wait) = <$Fault as Inject>::BEGINS {
                        (wait.arm)(fault, index, cluster);
                    }
                } ),+ }
            }

            pub(super) fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
                match self { $( FaultKind::$Fault(fault) => fault.inject(injection) ),+ }
            }
        }

        /// Every kind of fault, in the order of the list.
        pub fn vocabulary() -> Vec<FaultInfo> {
            vec![ $( FaultInfo {
                name: $name,
                about: <$Fault as Parameters>::DOCUMENTATION.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned(),
                event: <$Fault as Inject>::EVENT,
                parameters: <$Fault as Parameters>::defaults(),
                instant: !matches!(<$Fault as Inject>::LASTS, Lasts::Window),
            } ),+ ]
        }
    };
}

faults! {
    // The network.
    "partition" => links::Partition,
    "one-way-partition" => links::OneWayPartition,
    "loss" => links::Loss,
    "duplication" => links::Duplication,
    "reordering" => links::Reordering,
    "delay" => links::Delay,
    "degraded-link" => links::DegradedLink,
    "hold" => links::Hold,
    // Processes and hosts.
    "crash" => crash::Crash,
    "crash-at-write" => crash::CrashAtWrite,
    "pause" => pause::Pause,
    "host-down" => host_down::HostDown,
    "leader-flaps" => leader_flaps::LeaderFlaps,
    "priorities" => priorities::Priorities,
    // Nodes.
    "sandbox-lost" => sandbox_lost::SandboxLost,
    "cni-del-lost" => cni::CniDelLost,
    "cni-del-late" => cni::CniDelLate,
    "cni-del-repeated" => cni::CniDelRepeated,
    "cni-add-slow" => cni::CniAddSlow,
    "cni-plugin-killed" => cni::CniPluginKilled,
    "external-host" => external_host::ExternalHost,
    "node-deleted" => node_deleted::NodeDeleted,
    "node-out-of-service" => node_out_of_service::NodeOutOfService,
    // API servers.
    "api-server-crash" => api_server_crash::ApiServerCrash,
    "api-server-freeze" => api_server_freeze::ApiServerFreeze,
    "event-lost" => event_lost::EventLost,
    "api-server-slow" => api_server_slow::ApiServerSlow,
    "too-many-requests" => requests::TooManyRequests,
    "server-error" => requests::ServerError,
    "unavailable" => requests::Unavailable,
    "lost-reply" => requests::LostReply,
    "late-commit" => requests::LateCommit,
    "duplicate-request" => requests::DuplicateRequest,
    "request-fault" => request_fault::RequestFault,
    "forbidden" => forbidden::Forbidden,
    "unauthorized" => unauthorized::Unauthorized,
    // Watches and caches.
    "watch-closed" => watch_closed::WatchClosed,
    "watch-lag" => watch_lag::WatchLag,
    "cache-lag" => cache_lag::CacheLag,
    "change-late" => change_late::ChangeLate,
    "discovery-fails" => discovery_fails::DiscoveryFails,
    "history-lost" => history_lost::HistoryLost,
    "reconnect" => reconnect::Reconnect,
    // etcd.
    "etcd-pause" => etcd::EtcdPause,
    "etcd-election" => etcd::EtcdElection,
    "etcd-no-quorum" => etcd::EtcdNoQuorum,
    "etcd-slow" => etcd::EtcdSlow,
    "etcd-out-of-space" => etcd::EtcdOutOfSpace,
    "etcd-cut" => etcd_cut::EtcdCut,
    "etcd-restored" => etcd_restored::EtcdRestored,
    "compaction" => compaction::Compaction,
    "revision-jump" => revision_jump::RevisionJump,
    // Webhooks.
    "webhook-slow" => webhooks::WebhookSlow,
    "webhook-denies" => webhooks::WebhookDenies,
    "webhook-down" => webhooks::WebhookDown,
    "webhook-twice" => webhooks::WebhookTwice,
    "webhook-certificate" => webhook_certificate::WebhookCertificate,
    // Clocks.
    "clock-offset" => clock_offset::ClockOffset,
    "clock-drift" => clock_drift::ClockDrift,
    // Other writers.
    "conflicting-writer" => conflicting_writer::ConflictingWriter,
    "foreign-finalizer" => foreign_finalizer::ForeignFinalizer,
}

fn problems_of(source: Source<'_>, invalid: Vec<super::Invalid>) -> Problems {
    let mut problems = Problems::new();
    invalid.into_iter().for_each(|invalid| problems.push(invalid.problem(source)));
    problems
}

impl FaultDraft {
    /// The draft of `kind` with every parameter at its default.
    pub fn of(kind: &str) -> Option<Self> {
        serde_json::from_value(serde_json::json!({ "kind": kind })).ok()
    }
}
