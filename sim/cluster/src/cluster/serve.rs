//! An API server at work: the filters, then reads and writes (K §8.1, §8.2).
//!
//! A request that can be answered at once is (the common case: [`State::serve`]). A request that has to wait (for etcd, a cache, a webhook,
//! or because of a fault) continues as a task of the server's process: [`Cluster::serve_slowly`].

use std::sync::Arc;
use std::time::Duration;

use kube_machinery::api::TransportError;
use kube_machinery::{ApiError, Status};
use sim_config::time::SimTime;

use super::commit::{Intent, Transaction};
use super::exchanges::Ticket;
use super::read::{Freshness, get_freshness, plan_list};
use super::request::{ApiReply, ApiRequest, MUTATING_DEADLINE, Op, READ_DEADLINE};
use super::request_point::Disturbance;
use super::server::InjectedFault;
use super::server_error::{deadline_exceeded, etcd_error, failure};
use super::write::not_found;
use super::{Cluster, State, WritePoint};
use crate::net::Block;

pub(super) use super::filter::Asked;

/// A request that a server works on because it has to wait.
pub(super) struct Work {
    /// The exchange of its caller; unset = no caller waits for the result, or hangs up.
    pub ticket: Option<Ticket>,
    pub server: usize,
    /// The deadline: a request that has not been sent to etcd by then never is (K §2.11).
    pub deadline: SimTime,
    pub ending: Ending,
}

/// The outcome of a write that is sent to etcd, and the answer to the API server.
pub(super) enum Ending {
    /// Etcd commits it and answers, if its condition holds.
    Commits,
    /// Etcd answers with an error that does not tell whether it was carried out, and never commits it.
    Fails,
    /// Etcd commits it some time after the server got an error.
    CommitsLate { error: ApiError, after: Duration },
}

/// The result of serving a request.
pub enum Served {
    /// The request is done: there is nothing to wait for, and this is the result.
    Now(Result<ApiReply, ApiError>),
    /// The request has to wait.
    Later(ApiRequest, Option<InjectedFault>),
}

impl State {
    /// Counts a write of its client and returns the crash points that it reaches: before and after its commit.
    pub fn write_points_at(&mut self, request: &ApiRequest) -> (Option<u32>, Option<u32>) {
        if !request.op.verb().is_write() {
            return (None, None);
        }
        let count = self.writes.entry(request.client).or_insert(0);
        *count += 1;
        let count = *count;
        let reached = |point: &&WritePoint| point.client == request.client && point.nth == count;
        let find =
            |after: bool| self.write_points.iter().filter(reached).find(|point| point.after_commit == after).map(|point| point.fault);
        if self.write_points.is_empty() { (None, None) } else { (find(false), find(true)) }
    }

    /// The outcome of a request that `server` has carried out, unless the server crashes before it can answer.
    pub fn unless_crashed(&self, server: usize, result: Result<ApiReply, ApiError>) -> Result<ApiReply, ApiError> {
        if self.pending_server_crashes.contains(&server) { Err(TransportError::Reset.into()) } else { result }
    }

    /// Carries out a write that a server had passed on to etcd, at `proposed`, when it crashed: with the content of that time, and only if
    /// its object is unchanged. No client is answered.
    pub fn commit_for_crashed(
        &mut self,
        cluster: &Cluster,
        server: usize,
        request: ApiRequest,
        proposed: SimTime,
        block: Block,
        now: SimTime,
    ) {
        let permitted = matches!(self.filter(cluster, server, Asked::of(&request), &block, now), Ok(None));
        if !permitted || !request.op.verb().is_write() || self.must_wait(cluster, server, &request, now, now) {
            return;
        }
        let Ok(transaction) = self.transaction(cluster, server, request) else { return };
        let changed = self.store.table(transaction.intent.kind).changed_since(&transaction.key, proposed);
        // A create only requires that there is no object now.
        if transaction.base.is_none() || !changed {
            self.commit_late(cluster, server, transaction, now);
        }
    }

    /// The error of a request that has not reached etcd and never will: its deadline has passed, or its caller has hung up, which the
    /// server notices unless the way to it is cut (K108).
    pub(super) fn is_over(&mut self, ticket: Option<Ticket>, deadline: SimTime, now: SimTime) -> Option<ApiError> {
        if now >= deadline {
            return Some(deadline_exceeded());
        }
        self.has_hung_up(ticket).then(|| TransportError::Reset.into())
    }

    /// Whether the server knows that the caller of an exchange has hung up.
    pub(super) fn has_hung_up(&mut self, ticket: Option<Ticket>) -> bool {
        let Some(exchange) = ticket.and_then(|ticket| self.exchanges.get_mut(ticket)) else { return false };
        let (client, server, hung_up) = (exchange.client, exchange.server, exchange.hung_up);
        hung_up && !self.net.is_cut(client, self.servers[server].process)
    }

    /// Answers a request, or finds that it has to wait. `asked_at`: the time at which etcd was asked, if it was.
    pub fn serve(
        &mut self,
        cluster: &Cluster,
        server: usize,
        request: ApiRequest,
        block: Block,
        asked_at: SimTime,
        now: SimTime,
    ) -> Served {
        let injected = match self.filter(cluster, server, Asked::of(&request), &block, now) {
            Ok(injected) => injected,
            Err(error) => return Served::Now(Err(error)),
        };
        // Webhooks are called before etcd fails, and their side effects remain (K §3.4).
        if injected == Some(InjectedFault::FailBeforeCommit) && !self.is_hooked(&request) {
            return Served::Now(Err(etcd_error("etcdserver: request timed out")));
        }
        if let Some(answer) = self.stale_answer(cluster, server, &request, now) {
            return Served::Now(answer);
        }
        if injected.is_some() || self.servers[server].paused || self.must_wait(cluster, server, &request, asked_at, now) {
            return Served::Later(request, injected);
        }
        Served::Now(self.answer(cluster, server, request, asked_at, now))
    }

    /// The answer of a cache that lacks the last changes, if that fault hits this request. Only reads that accept any state of a cache can
    /// be stale.
    fn stale_answer(&mut self, cluster: &Cluster, server: usize, request: &ApiRequest, now: SimTime) -> Option<Result<ApiReply, ApiError>> {
        let Some(Disturbance::Stale { changes }) = self.disturbance(request.call) else { return None };
        let kind = request.kind;
        let def = cluster.registry.get(kind);
        let plan = match &request.op {
            Op::List { options, .. } => Some(plan_list(def, options).ok()?),
            _ => None,
        };
        let (freshness, key) = match &request.op {
            Op::Get { key, resource_version } => (get_freshness(resource_version.as_deref()).ok()?, Some(key)),
            _ => (plan.as_ref()?.freshness.clone(), None),
        };
        if freshness != Freshness::Any || self.servers.len() < 2 || !self.is_ready(server, kind, now) {
            return None;
        }
        let visible = self.servers[server].caches[usize::from(kind.0)].visible(now);
        let log = self.store.table(kind).changes_after(self.store.compacted()).rev();
        let seen = log.filter(|change| change.revision <= visible && key.is_none_or(|key| *key == change.key));
        let past = seen.take(changes.max(1) as usize).last()?.revision - 1;
        self.struck(request.call, now, Some)?;
        let answer = match (key, plan) {
            (Some(key), _) => self.store.table(kind).get_at(key, past).cloned().ok_or_else(|| not_found(def, key)).map(ApiReply::Object),
            (None, Some(mut plan)) => {
                plan.freshness = Freshness::Exact(past);
                self.list(server, kind, request.op.list_namespace(), &plan, def, now)
            }
            (None, None) => return None,
        };
        Some(answer.map_err(ApiError::Status))
    }

    /// Whether a request needs something that is not available yet.
    fn must_wait(&mut self, cluster: &Cluster, server: usize, request: &ApiRequest, asked_at: SimTime, now: SimTime) -> bool {
        let kind = request.kind;
        let ready = self.is_ready(server, kind, now);
        match &request.op {
            Op::Get { resource_version, .. } => match get_freshness(resource_version.as_deref()) {
                Ok(Freshness::AtLeast(revision)) if ready => self.cache_reaches(server, kind, revision, now) != Some(now),
                Ok(Freshness::Any) if ready => false,
                _ => !self.reaches_etcd(server),
            },
            Op::List { options, .. } => match plan_list(cluster.registry.get(kind), options) {
                Ok(plan) => match plan.freshness {
                    Freshness::AtLeast(revision) => ready && self.cache_reaches(server, kind, revision, now) != Some(now),
                    Freshness::Any => false,
                    Freshness::Exact(revision) if self.has_snapshot(server, kind, revision, now) => {
                        self.cache_reaches(server, kind, revision, now) != Some(now)
                    }
                    Freshness::Exact(_) => !self.reaches_etcd(server),
                    Freshness::Latest => {
                        !self.reaches_etcd(server)
                            || ready && self.knobs.consistent_list_from_cache && self.consistent(server, kind, asked_at, now).is_none()
                    }
                },
                Err(_) => false,
            },
            // It consists of several writes.
            Op::Evict { .. } => true,
            _ => !self.reaches_etcd(server) || self.is_hooked(request),
        }
    }

    /// Answers a request whose needs are met, without webhooks.
    fn answer(
        &mut self,
        cluster: &Cluster,
        server: usize,
        request: ApiRequest,
        asked_at: SimTime,
        now: SimTime,
    ) -> Result<ApiReply, ApiError> {
        let def = cluster.registry.get(request.kind);
        let boxed = |status: Box<Status>| ApiError::Status(status);
        match request.op {
            Op::Get { key, resource_version } => {
                let freshness = get_freshness(resource_version.as_deref()).map_err(boxed)?;
                self.get(def, server, request.kind, &key, &freshness, now).map(ApiReply::Object).map_err(boxed)
            }
            Op::List { namespace, options } => {
                let plan = plan_list(def, &options).map_err(boxed)?.asked_at(asked_at);
                self.list(server, request.kind, namespace.as_ref(), &plan, def, now).map_err(boxed)
            }
            _ => {
                // The body is moved, not shared: it can be changed in place.
                let intent = Intent::of(&request);
                let loaded = self.load(cluster, server, request).map_err(boxed)?;
                let (key, step) = self.prepare(cluster, server, intent, loaded).map_err(boxed)?;
                self.carry_out(cluster, server, intent, key, step, now).map_err(boxed)
            }
        }
    }
}

impl Cluster {
    /// Serves a request that has to wait. Ends with the exchange done, and perhaps a commit after that.
    pub async fn serve_slowly(self: Arc<Self>, ticket: Ticket, server: usize, request: ApiRequest, injected: Option<InjectedFault>) {
        let def = self.registry.get(request.kind);
        let verb = request.op.verb();
        let deadline = self.rt.now() + if verb.is_write() { MUTATING_DEADLINE } else { READ_DEADLINE };
        // The reply waits no longer than this; the work goes on (K §2.11).
        let cluster = self.clone();
        self.rt.at(deadline, move || cluster.lock().complete(ticket, Err(deadline_exceeded()), deadline));
        let mut work = Work { ticket: Some(ticket), server, deadline, ending: Ending::Commits };
        match injected {
            Some(InjectedFault::Slow { by }) => self.rt.sleep(by).await,
            Some(InjectedFault::CommitLate { error, after }) => {
                work.ending = Ending::CommitsLate { error: failure(error, verb, def), after }
            }
            Some(InjectedFault::FailBeforeCommit) => work.ending = Ending::Fails,
            Some(InjectedFault::Twice { gap }) => {
                // The first answer is lost on its way, the request is sent again, and the first execution does not notice when the caller
                // hangs up.
                work.ticket = None;
                drop(self.work(&work, request.clone()).await);
                self.rt.sleep(gap).await;
                work.deadline = self.rt.now() + MUTATING_DEADLINE;
            }
            _ => {}
        }
        let result = self.work(&work, request).await;
        match injected {
            Some(InjectedFault::LoseReply { error, after }) => {
                self.rt.sleep(after).await;
                self.lock().finish(&self, server, ticket, Err(failure(error, verb, def)), self.rt.now());
            }
            _ => {
                let mut state = self.lock();
                let result = state.unless_crashed(server, result);
                state.finish(&self, server, ticket, result, self.rt.now());
            }
        }
        self.crash_pending_servers();
    }

    /// Waits until the request can be answered, and answers it.
    pub(super) async fn work(self: &Arc<Self>, work: &Work, request: ApiRequest) -> Result<ApiReply, ApiError> {
        let (server, asked_at) = (work.server, self.rt.now());
        let def = self.registry.get(request.kind);
        match &request.op {
            Op::Get { resource_version, .. } => {
                let freshness = get_freshness(resource_version.as_deref()).map_err(ApiError::Status)?;
                self.wait_for(server, request.kind, &freshness).await?;
            }
            Op::List { options, .. } => {
                let plan = plan_list(def, options).map_err(ApiError::Status)?;
                self.wait_for(server, request.kind, &plan.freshness).await?;
            }
            Op::Evict { .. } => return self.evict(work, request).await,
            _ => {
                let hooked = self.lock().is_hooked(&request);
                if hooked {
                    return self.write_with_admission(work, &request).await;
                }
                let ready = |state: &mut State| state.transaction(self, server, request.clone()).ok();
                if let Some(error) = self.wait_to_write(work, ready).await {
                    return Err(error);
                }
                let mut state = self.lock();
                let now = self.rt.now();
                if let Some(error) = state.is_over(work.ticket, work.deadline, now) {
                    return Err(error);
                }
                if let Ending::CommitsLate { .. } = work.ending {
                    let transaction = state.transaction(self, server, request).map_err(ApiError::Status)?;
                    drop(state);
                    return Err(self.send_without_answer(work, transaction));
                }
                return state.answer(self, server, request, now, now);
            }
        }
        let mut state = self.lock();
        let now = self.rt.now();
        state.answer(self, server, request, asked_at, now)
    }

    /// Sends a transaction to etcd whose answer is an error, and which commits after that, even if the server dies before.
    pub(super) fn send_without_answer(self: &Arc<Self>, work: &Work, transaction: Transaction) -> ApiError {
        let Ending::CommitsLate { error, after } = &work.ending else { unreachable!("it commits late") };
        let (cluster, server, at) = (self.clone(), work.server, self.rt.now() + *after);
        self.rt.at(at, move || cluster.lock().commit_late(&cluster, server, transaction, at));
        error.clone()
    }

    /// Carries out the crashes that were decided while the lock was held.
    pub fn crash_pending_servers(self: &Arc<Self>) {
        let pending = std::mem::take(&mut self.lock().pending_server_crashes);
        for server in pending {
            self.crash_server(server);
        }
    }
}
