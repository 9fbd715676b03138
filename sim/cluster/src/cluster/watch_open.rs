//! The request that opens a watch (K §2.3).

use std::sync::Arc;
use std::time::Duration;

use kube_machinery::ApiError;
use kube_machinery::api::{TransportError, Verb, WatchOptions};
use sim_config::draw::unit;
use sim_config::time::SimTime;

use super::client::SimClient;
use super::connection::{Attached, Message};
use super::read::{invalid_options, malformed, too_large};
use super::request_point::Disturbance;
use super::serve::Asked;
use super::wait::until;
use super::watch::Start;
use super::watch_stream::AnyWatch;
use super::write::bad_request;
use crate::kinds::KindId;
use crate::net::{Block, high};
use crate::rt::ProcessState;
use crate::selector::Selector;
use crate::trace::record::Part;
use crate::trace::{EventKind, Outcome};

/// The shortest life of a watch without `timeoutSeconds`; the longest is twice that (K §2.5).
const WATCH_LIFE_MIN: Duration = Duration::from_secs(30 * 60);

impl SimClient {
    /// Opens a watch on objects of a type that is known only by its registration.
    ///
    /// # Errors
    /// The error of the server, or of the way there and back.
    pub async fn watch_any(&self, kind: KindId, namespace: Option<Arc<str>>, options: WatchOptions) -> Result<AnyWatch, ApiError> {
        let cluster = &self.cluster;
        let call = cluster.next_call();
        let attached = self.attach();
        {
            let mut state = cluster.lock();
            state.tell(self.process, cluster.rt.now());
            let server = state.servers[attached.server].process;
            let event = EventKind::Request { client: self.process, server, verb: Verb::Watch, kind, key: None };
            state.recorder.observe_of(Part::of(call), cluster.rt.now(), event);
            state.count_watch(self.process, kind, call, cluster.rt.now());
        }
        let result = self.open(attached, kind, namespace, &options, call).await;
        if let Err(ApiError::Transport(error)) = &result {
            self.reconnect(attached.breaks, *error);
        }
        let event = EventKind::Answer { client: self.process, verb: Verb::Watch, kind, key: None, outcome: Outcome::of(&result) };
        {
            let mut state = cluster.lock();
            state.tell(self.process, cluster.rt.now());
            state.recorder.observe_of(Part::of(call), cluster.rt.now(), event);
        }
        Ok(AnyWatch::new(self.clone(), kind, attached.breaks, result?))
    }

    /// Opens a watch, with the checks of K §2.3.
    async fn open(
        &self,
        attached: Attached,
        kind: KindId,
        namespace: Option<Arc<str>>,
        options: &WatchOptions,
        call: u64,
    ) -> Result<usize, ApiError> {
        let cluster = &self.cluster;
        let server = attached.server;
        let to = cluster.server_process(server);
        let since = cluster.rt.now();
        let (after, block) = loop {
            let sent = self.transmit(&mut cluster.lock(), server);
            match sent {
                Ok((after, _, block)) => break (after, block),
                Err(obstacle) => {
                    if let Some(error) = self.wait_for_way(Message::Request, obstacle, since, SimTime::NEVER, attached).await {
                        return Err(error.into());
                    }
                }
            }
        };
        let lost = |disturbance| if let Disturbance::Lost(silence) = disturbance { Some(silence) } else { None };
        let (processing, lost) = {
            let mut state = cluster.lock();
            (state.samplers.processing.sample(high(block[2])), state.struck(call, cluster.rt.now(), lost))
        };
        if let Some(silence) = lost {
            cluster.rt.sleep(after + silence).await;
            return Err(TransportError::Reset.into());
        }
        cluster.rt.sleep(after + processing).await;
        if cluster.rt.state(to) == ProcessState::Paused {
            // The request is not accepted before the server resumes, and until then pings are not answered.
            let goes_on = async {
                cluster.in_process(to, Box::pin(async {})).await;
            };
            let dead_at = if self.transport().pings() { self.transport().dead_at(cluster.rt.now()) } else { SimTime::NEVER };
            if !until(cluster.rt.sleep_until(dead_at), goes_on, dead_at).await {
                return Err(self.transport().lost().into());
            }
        }
        if !cluster.lock().servers[server].up {
            cluster.rt.sleep(after).await;
            return Err(TransportError::Refused.into());
        }
        let incarnation = cluster.rt.incarnation(to);
        let size = cluster.lock().size;
        if let Some(size) = size {
            cluster.open_with(size, server, high(block[2])).await;
            self.still_runs(server, incarnation)?;
        }
        let opened = self.accept(server, incarnation, kind, namespace, (options, call), &block).await;
        if let Err(ApiError::Status(_) | ApiError::Plain { .. }) = &opened {
            self.hear_from(server, attached).await?;
        }
        opened
    }

    /// Checks that the server is in the life in which it took the request. One that crashed while the request waited answers nothing:
    /// neither an error, nor a stream, which would miss whatever happened while the server was down (K §9.2 B7).
    fn still_runs(&self, server: usize, incarnation: u32) -> Result<(), ApiError> {
        let cluster = &self.cluster;
        let runs = cluster.lock().servers[server].up && cluster.rt.incarnation(cluster.server_process(server)) == incarnation;
        if runs { Ok(()) } else { Err(TransportError::Reset.into()) }
    }

    /// Handles the request for a watch on the server.
    async fn accept(
        &self,
        server: usize,
        incarnation: u32,
        kind: KindId,
        namespace: Option<Arc<str>>,
        (options, sent): (&WatchOptions, u64),
        block: &Block,
    ) -> Result<usize, ApiError> {
        let cluster = &self.cluster;
        let def = cluster.registry.get(kind);
        let asked = Asked {
            client: self.process,
            kind,
            verb: Verb::Watch,
            key: None,
            namespace: namespace.as_deref(),
            subresource: None,
            call: None,
            sent,
        };
        cluster.lock().filter(cluster, server, asked, block, cluster.rt.now())?;
        let selector = Selector::parse(def, options.label_selector.as_deref(), options.field_selector.as_deref());
        let selector = selector.map_err(|message| ApiError::Status(bad_request(message)))?;
        let from = self.watch_start(server, incarnation, kind, options).await;
        self.still_runs(server, incarnation)?;
        let from = from?;
        // A time-out of 0 counts as unset (K §2.5).
        let life = match options.timeout_seconds.filter(|&seconds| seconds > 0) {
            Some(seconds) => Duration::from_secs(u64::from(seconds)),
            None => WATCH_LIFE_MIN + WATCH_LIFE_MIN.mul_f64(unit(block[3])),
        };
        let mut state = cluster.lock();
        let now = cluster.rt.now();
        Ok(state.open_watch(&cluster.rt, &cluster.registry, self.process, server, kind, namespace, selector, options, from, life, now))
    }

    /// The start of the stream: after a revision, or with the cache's state.
    async fn watch_start(&self, server: usize, incarnation: u32, kind: KindId, options: &WatchOptions) -> Result<Start, ApiError> {
        let cluster = &self.cluster;
        let invalid = |field, message| ApiError::Status(invalid_options(field, message));
        let not_older = options.resource_version_match == Some(kube_machinery::api::VersionMatch::NotOlderThan);
        if options.send_initial_events && !cluster.lock().knobs.watch_list {
            return Err(invalid(
                "sendInitialEvents",
                "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
            ));
        }
        if options.send_initial_events && !not_older {
            return Err(invalid(
                "resourceVersionMatch",
                "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if !options.send_initial_events && options.resource_version_match.is_some() {
            return Err(invalid(
                "resourceVersionMatch",
                "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        {
            let (state, now) = (cluster.lock(), cluster.rt.now());
            if !state.is_ready(server, kind, now) {
                return Err(ApiError::Status(state.unready(server, now)));
            }
        }
        let version = options.resource_version.as_deref().filter(|version| !version.is_empty());
        let revision = match version {
            None | Some("0") => 0,
            Some(text) => text.parse().map_err(|_| ApiError::Status(malformed(text)))?,
        };
        if !options.send_initial_events {
            return Ok(if revision > 0 { Start::After(revision) } else { Start::State });
        }
        let wanted = if version.is_none() {
            // At least as new as the request: only etcd can tell which revision that is (K057).
            cluster.read_etcd(server).await?;
            cluster.store(|store| store.revision())
        } else {
            revision
        };
        let give_up = cluster.rt.now() + Duration::from_secs(3);
        loop {
            self.still_runs(server, incarnation)?;
            let now = cluster.rt.now();
            let reaches = cluster.lock().cache_reaches(server, kind, wanted, now);
            match reaches {
                Some(at) if at <= now => {
                    cluster.lock().servers[server].caches[usize::from(kind.0)].advance(wanted);
                    return Ok(Start::State);
                }
                _ if now >= give_up => {
                    let current = cluster.lock().servers[server].caches[usize::from(kind.0)].visible(now);
                    return Ok(Start::Refused(too_large(wanted, current)));
                }
                Some(at) => cluster.rt.sleep_until(at.min(give_up)).await,
                None => cluster.rt.sleep_until((now + Duration::from_millis(100)).min(give_up)).await,
            }
        }
    }
}
