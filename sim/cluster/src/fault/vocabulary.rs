//! The fault vocabulary: every kind with its parameters, their default ranges, and the real event it stands for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::draw::Draw;
use sim_config::time::Span;
use sim_config::{Choice, Probability, kinds};

use super::{FaultInfo, Resolve, Target, WriterMode};
use crate::cluster::server::Failure;

fn default_text<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).map_or_else(|_| String::new(), |value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

macro_rules! faults {
    ( $(
        $(#[doc = $doc:literal])+
        $name:literal $when:ident => $Variant:ident / $Draft:ident { $( $(#[doc = $field_doc:literal])+ $field:ident: $Type:ty = $default:expr ),* $(,)? }
        stands for $event:literal;
    )+ ) => {
        $(
            $(#[doc = $doc])+
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields)]
            pub struct $Variant { $( $(#[doc = $field_doc])+ pub $field: $Type ),* }

            $(#[doc = $doc])+
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[serde(deny_unknown_fields, default)]
            pub struct $Draft { $( $(#[doc = $field_doc])+ pub $field: Choice<$Type> ),* }

            impl Default for $Draft {
                fn default() -> Self {
                    Self { $( $field: $default ),* }
                }
            }

            impl $Draft {
                #[allow(unused_variables, reason = "a fault without parameters draws nothing")]
                fn draw(&self, draw: &mut Draw, names: &[String]) -> $Variant {
                    $Variant { $( $field: { let drawn = self.$field.draw(draw); drawn.resolve(draw, names) } ),* }
                }
            }
        )+

        kinds! {
            /// A fault with every value drawn.
            pub enum FaultKind { $( $(#[doc = $doc])+ $name => $Variant($Variant) ),+ }
        }

        kinds! {
            /// A fault of which values may be open.
            pub enum FaultDraft { $( $(#[doc = $doc])+ $name => $Variant($Draft) ),+ }
        }

        impl FaultDraft {
            /// The processes and hosts that it may name.
            #[allow(unused_variables, reason = "a fault without parameters names nobody")]
            pub(super) fn targets(&self) -> Vec<Target> {
                match self { $( FaultDraft::$Variant(draft) => {
                    let named: Vec<Vec<Target>> = vec![ $( draft.$field.written().into_iter().filter_map(Resolve::target).collect() ),* ];
                    named.concat()
                } ),+ }
            }

            /// Draws every open value. `names`: the processes and hosts of the drawn cluster.
            pub fn draw(&self, draw: &mut Draw, names: &[String]) -> FaultKind {
                match self { $( FaultDraft::$Variant(draft) => FaultKind::$Variant(draft.draw(draw, names)) ),+ }
            }
        }

        impl FaultKind {
            /// The processes and hosts that it names.
            #[allow(unused_variables, reason = "a fault without parameters names nobody")]
            pub fn targets(&self) -> Vec<Target> {
                match self { $( FaultKind::$Variant(fault) => {
                    let named: Vec<Option<Target>> = vec![ $( Resolve::target(&fault.$field) ),* ];
                    named.into_iter().flatten().collect()
                } ),+ }
            }

            /// The same fault with one value simpler: the shorter, rarer, smaller or more exact first. `names`: the processes and hosts of
            /// the cluster. Following any of them again and again comes to an end.
            #[allow(unused_variables, reason = "a fault without parameters is as simple as it gets")]
            pub fn simpler(&self, names: &[String]) -> Vec<FaultKind> {
                match self { $( FaultKind::$Variant(fault) => {
                    let variants: Vec<Vec<FaultKind>> = vec![ $(
                        Resolve::simpler(&fault.$field, names)
                            .into_iter()
                            .map(|value| {
                                let mut simpler = fault.clone();
                                simpler.$field = value;
                                FaultKind::$Variant(simpler)
                            })
                            .collect()
                    ),* ];
                    variants.concat()
                } ),+ }
            }

            /// Names every process and host by what `rename` makes of its name, where it is named as such and not by a pattern.
            #[allow(unused_variables, reason = "a fault without parameters names nobody")]
            pub fn rename(&mut self, rename: &dyn Fn(&str) -> String) {
                match self { $( FaultKind::$Variant(fault) => { $( Resolve::rename(&mut fault.$field, rename); )* } ),+ }
            }

            /// Whether it is over at once, so that it has no end.
            pub fn is_instant(&self) -> bool {
                match self { $( FaultKind::$Variant(_) => faults!(@instant $when) ),+ }
            }
        }

        /// The whole vocabulary.
        pub fn vocabulary() -> Vec<FaultInfo> {
            vec![ $( FaultInfo {
                name: $name,
                about: concat!($($doc, "\n"),+).lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned(),
                event: $event,
                parameters: { let draft = $Draft::default(); let _ = &draft; vec![ $( (stringify!($field), default_text(&draft.$field)) ),* ] },
                instant: faults!(@instant $when),
            } ),+ ]
        }
    };
    (@instant instant) => { true };
    (@instant lasting) => { false };
}

fn any() -> Choice<Target> {
    Choice::Is(Target::any())
}

fn target(text: &str) -> Choice<Target> {
    Choice::Is(Target::from_text(text))
}

fn between(low: Span, high: Span) -> Choice<Span> {
    Choice::Between(low, high)
}

fn chance(low: f64, high: f64) -> Choice<Probability> {
    let probability = |value| Probability::new(value).unwrap_or(Probability::NEVER);
    Choice::Between(probability(low), probability(high))
}

fn every_resource() -> Choice<String> {
    Choice::Is("*".to_owned())
}

faults! {
    // ------------------------------------------------------------------------------------------------------ links
    /// Nothing gets from one side to the other, in either direction.
    "partition" lasting => Partition / PartitionDraft {
        /// One side.
        from: Target = target("some:*"),
        /// The other side.
        to: Target = any(),
    } stands for "a network partition between processes while the machines are fine (K §9.2 C12, D3)";

    /// Nothing gets from `from` to `to`; the other direction works.
    "one-way-partition" lasting => OneWayPartition / OneWayPartitionDraft {
        /// Senders.
        from: Target = target("one:*"),
        /// Receivers.
        to: Target = any(),
    } stands for "an asymmetric route or a half-dead NAT entry: requests arrive and answers do not, or the reverse (K §9.2 B5)";

    /// Some messages are lost; a lost request or answer ends its connection.
    "loss" lasting => Loss / LossDraft {
        /// Senders.
        from: Target = any(),
        /// Receivers.
        to: Target = any(),
        /// The probability per message.
        chance: Probability = chance(0.001, 0.1),
    } stands for "connections that are reset by a load balancer or an overloaded node (K §9.2 A1, A2)";

    /// Some messages arrive twice.
    "duplication" lasting => Duplication / DuplicationDraft {
        /// Senders.
        from: Target = any(),
        /// Receivers.
        to: Target = any(),
        /// The probability per message.
        chance: Probability = chance(0.001, 0.1),
        /// Between the two arrivals.
        gap: Span = between(Span::millis(1), Span::secs(30)),
    } stands for "a proxy or a client library that sends a request again (K §9.2 A4, K §2.13)";

    /// Some messages are delayed so that later ones overtake them.
    "reordering" lasting => Reordering / ReorderingDraft {
        /// Senders.
        from: Target = any(),
        /// Receivers.
        to: Target = any(),
        /// The probability per message.
        chance: Probability = chance(0.01, 0.5),
        /// The longest additional delay.
        by: Span = between(Span::millis(1), Span::secs(1)),
    } stands for "requests of one client that overtake each other on a multiplexed connection (K §9.2 A7)";

    /// Every message takes longer.
    "delay" lasting => Delay / DelayDraft {
        /// Senders.
        from: Target = any(),
        /// Receivers.
        to: Target = any(),
        /// How much longer.
        by: Span = between(Span::millis(1), Span::secs(5)),
    } stands for "a congested or distant network path (K §9.2 A5)";

    /// The links are in their degraded class.
    "degraded-link" lasting => DegradedLink / DegradedLinkDraft {
        /// Senders.
        from: Target = any(),
        /// Receivers.
        to: Target = any(),
    } stands for "a bad network path that comes and goes (K §11.2, degraded column)";

    /// Messages are held back and go on when the fault ends.
    "hold" lasting => Hold / HoldDraft {
        /// Senders.
        from: Target = target("one:*"),
        /// Receivers.
        to: Target = any(),
    } stands for "a blocked queue or a frozen proxy that loses nothing (K §9.1, unobserved state)";

    // -------------------------------------------------------------------------------------------------- processes
    /// A process loses its memory and starts again after `down`.
    "crash" instant => Crash / CrashDraft {
        /// Which.
        process: Target = target("one:*"),
        /// How long it is down.
        down: Span = between(Span::millis(100), Span::secs(60)),
    } stands for "a crash, an OOM kill or a restart of a container (K §9.2 C1)";

    /// A process crashes at its n-th API write, before its commit or right after it and before the answer.
    "crash-at-write" instant => CrashAtWrite / CrashAtWriteDraft {
        /// Which.
        process: Target = target("one:*"),
        /// Which of its writes, counting from 1 over the whole run.
        nth: u32 = Choice::Between(1, 20),
        /// After the commit instead of before it.
        after_commit: bool = Choice::OneOf(vec![false, true]),
        /// How long it is down.
        down: Span = between(Span::millis(100), Span::secs(10)),
    } stands for "a crash in the middle of a change that takes several writes (K §9.1, intermediate state)";

    /// A process stands still and goes on with its memory.
    "pause" lasting => Pause / PauseDraft {
        /// Which.
        process: Target = target("one:*"),
    } stands for "a garbage collection, SIGSTOP, CPU starvation or a migration of the machine (K §9.2 C2)";

    /// A host with all its processes goes down and comes back.
    "host-down" lasting => HostDown / HostDownDraft {
        /// Which host.
        host: Target = target("one:*"),
    } stands for "a power loss or a reboot (K §9.2 D1)";

    /// Whoever holds a lease is cut off from everybody again and again.
    "leader-flaps" lasting => LeaderFlaps / LeaderFlapsDraft {
        /// The lease, as `leases/NAMESPACE/NAME`.
        lease: String = Choice::Is("leases/kube-system/spiderpool-controller-leader".to_owned()),
        /// How long each time.
        cut: Span = between(Span::secs(1), Span::secs(20)),
        /// From the end of one time to the next.
        every: Span = between(Span::secs(1), Span::secs(30)),
    } stands for "a leader on a bad link, whose successors fare no better (K §4.6, K143)";

    // ------------------------------------------------------------------------------------------------------ nodes
    /// The sandbox of a running pod dies; the pod gets another one.
    "sandbox-lost" instant => SandboxLost / SandboxLostDraft {
        /// On the node of which kubelet.
        process: Target = target("one:kubelet-*"),
        /// Which of its sandboxes, counted from 1 in the order of their age and round again.
        nth: u32 = Choice::Between(1, 100),
    } stands for "an OOM kill or a crash of the sandbox's container (K §5.4, K §9.2 D13)";

    /// Some CNI DELs never take place although the runtime believes it.
    "cni-del-lost" lasting => CniDelLost / CniDelLostDraft {
        /// On the node of which kubelet.
        process: Target = target("one:kubelet-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
    } stands for "a runtime that lost its state or forgets a failed clean-up (K §5.2, K §9.2 D14)";

    /// Some CNI DELs take place later; the runtime goes on as if they were done.
    "cni-del-late" lasting => CniDelLate / CniDelLateDraft {
        /// On the node of which kubelet.
        process: Target = target("one:kubelet-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
        /// How much later.
        by: Span = between(Span::secs(1), Span::secs(120)),
    } stands for "a DEL that was queued or retried and arrives after the ADD of a successor (K §5.3, K §9.2 D11)";

    /// Some CNI DELs are repeated after they succeeded.
    "cni-del-repeated" lasting => CniDelRepeated / CniDelRepeatedDraft {
        /// On the node of which kubelet.
        process: Target = target("one:kubelet-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
        /// How often.
        times: u32 = Choice::Between(1, 3),
        /// Between two of them.
        every: Span = between(Span::secs(1), Span::secs(60)),
    } stands for "the garbage collection of sandboxes, which stops again what was stopped (K §5.4, K §9.2 D10)";

    /// The answers to some CNI ADDs reach the runtime late.
    "cni-add-slow" lasting => CniAddSlow / CniAddSlowDraft {
        /// On the node of which kubelet.
        process: Target = target("one:kubelet-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
        /// How much later.
        by: Span = between(Span::secs(1), Span::secs(300)),
    } stands for "a slow plugin, up to and over the limit of the kubelet (K §5.1, K §9.2 D8, D9)";

    /// Some CNI plugins are killed in the middle of an ADD; their daemon goes on with it.
    "cni-plugin-killed" lasting => CniPluginKilled / CniPluginKilledDraft {
        /// On the node of which kubelet.
        process: Target = target("one:kubelet-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
        /// How long after it was called.
        after: Span = between(Span::millis(1), Span::secs(1)),
    } stands for "a plugin that dies after the address was allocated and before the result is printed (K §5.3, K §9.2 D8)";

    /// A host outside the cluster uses an address.
    "external-host" lasting => ExternalHost / ExternalHostDraft {
        /// Which address.
        address: String = Choice::Is("10.0.0.1".to_owned()),
    } stands for "a machine with a hand-made address, or a second cluster on the same subnet (K §9.2 E14, A §5.1 P6)";

    /// Somebody deletes a Node; its kubelet does not register again before the fault ends.
    "node-deleted" lasting => NodeDeleted / NodeDeletedDraft {
        /// Which, by its host.
        node: Target = target("one:node-*"),
    } stands for "an autoscaler or a person that removes a Node while its machine runs (K §6.3, K §6.5)";

    /// A machine goes down, and somebody says so by the out-of-service taint; both end together.
    "node-out-of-service" lasting => NodeOutOfService / NodeOutOfServiceDraft {
        /// Which, by its host.
        node: Target = target("one:node-*"),
        /// How long after that the taint comes.
        after: Span = between(Span::secs(10), Span::secs(120)),
    } stands for "a machine that died and was fenced by an operator (K §6.3, KEP-2268)";

    // ------------------------------------------------------------------------------------------------ API servers
    /// An API server crashes: answers are lost, watches break, its caches start again without history.
    "api-server-crash" lasting => ApiServerCrash / ApiServerCrashDraft {
        /// Which.
        server: Target = target("one:apiserver-*"),
        /// How long after the restart its caches answer 429.
        initializing: Span = between(Span::millis(100), Span::secs(30)),
    } stands for "a crash or an upgrade of an API server (K §9.2 B7)";

    /// The watch caches of an API server stand still: stale cached reads and silent watches; nothing is lost.
    "api-server-freeze" lasting => ApiServerFreeze / ApiServerFreezeDraft {
        /// Which.
        server: Target = target("one:apiserver-*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource(),
    } stands for "a stale watch cache: clients of one API server see the past without any error (K §9.2 B1)";

    /// Every step of an API server takes as long as under overload.
    "api-server-slow" lasting => ApiServerSlow / ApiServerSlowDraft {
        /// Which.
        server: Target = target("one:apiserver-*"),
    } stands for "an overloaded API server (K §9.2 A5, B16)";

    /// Some requests are refused with 429 and are not executed.
    "too-many-requests" lasting => TooManyRequests / TooManyRequestsDraft {
        /// On which servers.
        server: Target = target("apiserver-*"),
        /// Whose requests.
        client: Target = any(),
        /// The probability per request.
        chance: Probability = chance(0.01, 0.5),
        /// The header `Retry-After`, in seconds.
        retry_after: u32 = Choice::Between(1, 5),
    } stands for "priority and fairness or the in-flight limit (K §9.2 A6)";

    /// Some requests fail with etcd's raw 500 before anything is written.
    "server-error" lasting => ServerError / ServerErrorDraft {
        /// On which servers.
        server: Target = target("apiserver-*"),
        /// Whose requests.
        client: Target = any(),
        /// The probability per request.
        chance: Probability = chance(0.001, 0.2),
    } stands for "a burst of 500 during an etcd restart (K §9.2 A1)";

    /// Some requests are refused with 503 by a server that shuts down.
    "unavailable" lasting => Unavailable / UnavailableDraft {
        /// On which servers.
        server: Target = target("one:apiserver-*"),
        /// Whose requests.
        client: Target = any(),
        /// The probability per request.
        chance: Probability = chance(0.01, 1.0),
    } stands for "the shutdown of an API server (K §2.11)";

    /// Some writes are committed and then end with an error.
    "lost-reply" lasting => LostReply / LostReplyDraft {
        /// On which servers.
        server: Target = target("apiserver-*"),
        /// Whose requests.
        client: Target = any(),
        /// The probability per write.
        chance: Probability = chance(0.001, 0.1),
        /// What the caller gets.
        error: Failure = Choice::OneOf(vec![Failure::EtcdTimeout, Failure::LeaderChanged, Failure::Timeout, Failure::ServerTimeout, Failure::Reset]),
        /// How long after the commit.
        after: Span = between(Span::millis(1), Span::secs(34)),
    } stands for "a write that was applied although the caller saw an error (K §9.2 A2, A8)";

    /// Some writes end with an error and are committed later.
    "late-commit" lasting => LateCommit / LateCommitDraft {
        /// On which servers.
        server: Target = target("apiserver-*"),
        /// Whose requests.
        client: Target = any(),
        /// The probability per write.
        chance: Probability = chance(0.001, 0.1),
        /// What the caller gets.
        error: Failure = Choice::OneOf(vec![Failure::Timeout, Failure::EtcdTimeout, Failure::Reset]),
        /// How long after the error.
        after: Span = between(Span::millis(1), Span::secs(34)),
    } stands for "a worker of the API server that outlives the request (K §9.2 A3)";

    /// Some writes are executed twice; the caller gets the second answer.
    "duplicate-request" lasting => DuplicateRequest / DuplicateRequestDraft {
        /// On which servers.
        server: Target = target("apiserver-*"),
        /// Whose requests.
        client: Target = any(),
        /// The probability per write.
        chance: Probability = chance(0.001, 0.05),
        /// Between the two executions.
        gap: Span = between(Span::millis(1), Span::secs(30)),
    } stands for "a proxy that retries a write (K §2.13, executed twice)";

    /// Requests are refused with 403.
    "forbidden" lasting => Forbidden / ForbiddenDraft {
        /// Whose requests.
        client: Target = target("one:*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource(),
    } stands for "a broken role binding or a rotated token (K §9.2 A11)";

    // ---------------------------------------------------------------------------------------------------- watches
    /// Watches end cleanly and can be resumed.
    "watch-closed" instant => WatchClosed / WatchClosedDraft {
        /// On which servers.
        server: Target = target("apiserver-*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource(),
    } stands for "a time-out of the server or a load balancer (K §9.2 B3)";

    /// Changes reach a server's watch caches late.
    "watch-lag" lasting => WatchLag / WatchLagDraft {
        /// On which servers.
        server: Target = target("one:apiserver-*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource(),
        /// How much later.
        by: Span = between(Span::millis(1), Span::secs(30)),
    } stands for "overload or a slow consumer (K §9.2 B2)";

    /// Changes reach the caches of one process late.
    "cache-lag" lasting => CacheLag / CacheLagDraft {
        /// Whose caches.
        process: Target = target("one:*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource(),
        /// How much later.
        by: Span = between(Span::millis(1), Span::secs(30)),
    } stands for "an informer that falls behind: a busy process, a slow connection (K §4.2, A §11.4)";

    /// Who starts meanwhile cannot find out about types, and the first reads of his caches fail. It is about replicas that reclaim.
    "discovery-fails" lasting => DiscoveryFails / DiscoveryFailsDraft {
        /// Whose caches.
        process: Target = target("spiderpool-controller-*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource(),
    } stands for "a 503 where a cache begins with a type at its first use and asks what it is (K §9.2 A1, G §1.5, G §7)";

    /// A server forgets its history: watches end, older versions get 410.
    "history-lost" instant => HistoryLost / HistoryLostDraft {
        /// On which servers.
        server: Target = target("one:apiserver-*"),
        /// The plural of the type, or `*`.
        resource: String = every_resource(),
    } stands for "a watch cache that starts again, which forces clients to list (K §9.2 B4)";

    /// A client's connection breaks and it goes on with another server, whose caches may be older.
    "reconnect" instant => Reconnect / ReconnectDraft {
        /// Whose connection.
        process: Target = target("one:*"),
        /// To which server.
        server: Target = target("one:apiserver-*"),
    } stands for "a load balancer that moves a client, the time-travel half of a stale read (K §9.2 B6, KK#59848)";

    // ------------------------------------------------------------------------------------------------------- etcd
    /// etcd stands still: writes and quorum reads wait.
    "etcd-pause" lasting => EtcdPause / EtcdPauseDraft {} stands for "a stalled disk (K §9.2 B11)";

    /// etcd elects a leader: writes wait, some end with `leader changed` although they commit.
    "etcd-election" lasting => EtcdElection / EtcdElectionDraft {} stands for "the crash of etcd's leader; 1 to 4 s are usual (K §9.2 B8)";

    /// etcd has no majority: writes and quorum reads fail, some writes commit when it is back.
    "etcd-no-quorum" lasting => EtcdNoQuorum / EtcdNoQuorumDraft {} stands for "the loss of two of three etcd members (K §9.2 B9)";

    /// Every step of etcd takes as long as on an overloaded disk.
    "etcd-slow" lasting => EtcdSlow / EtcdSlowDraft {} stands for "disk contention (K §9.2 B11)";

    /// One API server cannot reach etcd: its writes hang and its caches stand still.
    "etcd-cut" lasting => EtcdCut / EtcdCutDraft {
        /// Which server.
        server: Target = target("one:apiserver-*"),
    } stands for "a partition between one API server and etcd (K §9.2 B10)";

    /// What could be read exactly until now cannot be any more.
    "compaction" instant => Compaction / CompactionDraft {} stands for "etcd's compaction, every 5 minutes (K §9.2 B12)";

    /// Revisions are taken by things outside the model.
    "revision-jump" instant => RevisionJump / RevisionJumpDraft {
        /// How many.
        by: u32 = Choice::Between(1, 100_000),
    } stands for "leases, events and other clusters' tenants (K §9.2 B19)";

    // --------------------------------------------------------------------------------------------------- webhooks
    /// Some calls of webhooks take longer, up to and over their time-out.
    "webhook-slow" lasting => WebhookSlow / WebhookSlowDraft {
        /// Which processes that serve webhooks.
        process: Target = target("one:spiderpool-controller-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
        /// How much longer.
        by: Span = between(Span::millis(100), Span::secs(15)),
    } stands for "a webhook server that is throttled or waits for a slow API server (K §8.3, K125)";

    /// Some calls of webhooks are answered with a denial by mistake.
    "webhook-denies" lasting => WebhookDenies / WebhookDeniesDraft {
        /// Which processes that serve webhooks.
        process: Target = target("one:spiderpool-controller-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
    } stands for "a policy that has expired, or a replica with an old configuration (K §8.3, K122)";

    /// The webhook servers of processes do not answer, though the processes live.
    "webhook-down" lasting => WebhookDown / WebhookDownDraft {
        /// Which processes that serve webhooks.
        process: Target = target("one:spiderpool-controller-*"),
    } stands for "a deadlocked server whose readiness probe asks another port (K §8.3, K121)";

    /// Some webhooks are called once more for one request, with what the first call made.
    "webhook-twice" lasting => WebhookTwice / WebhookTwiceDraft {
        /// Which processes that serve webhooks.
        process: Target = target("one:spiderpool-controller-*"),
        /// The probability per call.
        chance: Probability = chance(0.1, 1.0),
    } stands for "a reinvocation or a repeated HTTP request; webhooks have to be idempotent (K §8.3, K120)";

    // ----------------------------------------------------------------------------------------------------- clocks
    /// The wall clock of a host jumps, and back when the fault ends.
    "clock-offset" lasting => ClockOffset / ClockOffsetDraft {
        /// Which host.
        host: Target = target("one:*"),
        /// By how many milliseconds; negative = back.
        by_ms: i64 = Choice::Between(-5_000, 5_000),
    } stands for "clock skew or a step by NTP (K §9.2 F1, F2)";

    /// The clocks of a host run at another rate.
    "clock-drift" lasting => ClockDrift / ClockDriftDraft {
        /// Which host.
        host: Target = target("one:*"),
        /// How much faster, in parts per million; negative = slower.
        ppm: i64 = Choice::Between(-500_000, 1_000_000),
    } stands for "a bad oscillator or a virtual machine that loses ticks (K §9.2 F3)";

    // ------------------------------------------------------------------------------------------------- other people
    /// Somebody else writes the object again and again.
    "conflicting-writer" lasting => ConflictingWriter / ConflictingWriterDraft {
        /// The object, as `PLURAL/NAMESPACE/NAME` or `PLURAL/NAME`; a star ends the name of the first one that begins so.
        object: String = Choice::Is("configmaps/default/counter".to_owned()),
        /// What it does.
        mode: WriterMode = Choice::Is(WriterMode::Touch),
        /// Whether it names the version that it read; without one its PUT always wins.
        with_version: bool = Choice::Is(true),
        /// Between two writes.
        every: Span = between(Span::millis(1), Span::secs(1)),
    } stands for "another controller, a user or a backup tool on the same object (K §9.2 A9, E10)";
}

impl FaultDraft {
    /// The draft of `kind` with every parameter at its default.
    pub fn of(kind: &str) -> Option<Self> {
        serde_json::from_value(serde_json::json!({ "kind": kind })).ok()
    }
}
