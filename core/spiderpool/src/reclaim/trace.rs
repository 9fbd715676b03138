//! The trace worker and the executors: from a deadline to a release (G §1.4, §3.2, §4.1).

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::mpsc;

use super::caches::{Caches, cached_node};
use super::database::Applied;
use super::entry::{Fired, PodEntry, Term, Tracing};
use super::error::ReclaimError;
use super::event::ended;
use super::observer::{Dropped, Observer, Releaser, Step};
use super::process::Reclaim;
use super::row::Row;
use super::settle::Suspect;
use crate::ipam::uid_of;
use crate::leadership::Leadership;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::race::{Either, race};

/// The action of the trace worker on an entry whose deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Firing {
    /// Send it to an executor.
    Enqueue(Row),
    /// Send it to an executor, and remove it at once.
    DropAndEnqueue(Row),
    /// Keep it in the database, and check it again in the next turn.
    Hold(Row),
}

/// The outcome of an executor's work on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Executed {
    /// Released, or there was nothing to release.
    Done(Row),
    /// There is nothing to do any more.
    Moot(Row),
    /// The time has not come yet.
    Held(Row),
}

/// The outcome of a row of a record's table for a pod whose deadline has passed and that keeps its addresses.
fn without_release(row: Row) -> Executed {
    match row {
        Row::GraceOverOff
        | Row::GraceNodeUnknown
        | Row::GraceReturned
        | Row::GraceWithin
        | Row::EndedWithin
        | Row::MayStillRun
        | Row::PodUnreadable
        | Row::EndpointUnreadable
        | Row::NameUnreadable
        | Row::SetOfEndpointUnreadable
        | Row::VmOfEndpointUnreadable
        | Row::GraceOverUnreadable
        | Row::EndedUnreadable
        | Row::OtherPodUnreadable
        | Row::NodeUnreadable
        | Row::NoIpsUnreadable
        | Row::EndpointOwnerUnreadable => Executed::Held(row),
        row => Executed::Moot(row),
    }
}

impl<C: Client, V: Env, K: Caches, O: Observer> Reclaim<C, V, K, O> {
    /// Adds an entry to the database.
    pub(super) fn enter(&self, entry: PodEntry) {
        let applied = self.database.lock().unwrap().apply(entry.clone());
        match applied {
            Applied::Made => self.observer.observe(Step::EntryMade { entry: &entry, replaced: None }),
            Applied::Replaced(old) => self.observer.observe(Step::EntryMade { entry: &entry, replaced: Some(&*old) }),
            Applied::Full => self.observer.observe(Step::DatabaseFull { entry: &entry }),
            Applied::Unchanged => {}
        }
    }

    fn drop_entry(&self, entry: &PodEntry, why: Dropped) {
        let dropped = self.database.lock().unwrap().remove(entry);
        if let Some(entry) = dropped {
            self.observer.observe(Step::EntryDropped { entry: &entry, why });
        }
    }

    /// Removes all entries of a term that is over.
    pub(super) fn forget_all(&self) {
        let dropped = self.database.lock().unwrap().clear();
        for entry in &dropped {
            self.observer.observe(Step::EntryDropped { entry, why: Dropped::NotLeading });
        }
    }

    /// TD-2 to TD-5, on the state of the caches.
    fn fire(&self, entry: &PodEntry) -> Firing {
        let policy = &self.config.policy.reclaim;
        let Ok(pod) = self.caches.pod(entry.pod.as_str()) else { return Firing::Hold(Row::TracePodUnreadable) };
        let Some(pod) = pod else { return Firing::Enqueue(Row::TraceDue) };
        let no_ips = pod.status.as_ref().and_then(|status| status.pod_ips.as_ref()).is_none_or(Vec::is_empty);
        if policy.empty_pod_ips_means_gone && no_ips {
            return Firing::DropAndEnqueue(Row::TraceNoIps);
        }
        let is_same = pod.metadata.uid.as_deref() == Some(&*entry.uid);
        if !policy.node_judged_once && is_same && !entry.node.is_empty() {
            // The executor reads the API server; this is avoided as long as the cache shows that it may not act.
            let state = cached_node(&self.caches, &entry.node);
            if state.permits(&self.config.settings) != Some(true) {
                return Firing::Hold(Row::TraceNodeOff);
            }
        }
        Firing::Enqueue(Row::TraceDue)
    }

    /// One pass of the trace worker over the database (G T1 to T5); returns whether a scan is due for entries that did not fit.
    pub(super) async fn trace(&self, leadership: &Leadership, channel: &mpsc::Sender<Fired>) -> bool {
        let policy = &self.config.policy.reclaim;
        let due = self.database.lock().unwrap().due(self.env.wall());
        for entry in due {
            if !policy.ex_leader_goes_on && !leadership.is_leading() {
                break;
            }
            let row = match self.fire(&entry) {
                Firing::Hold(row) => {
                    self.observer.observe(Step::EntryHeld { entry: &entry, row });
                    continue;
                }
                Firing::Enqueue(row) => row,
                Firing::DropAndEnqueue(row) => {
                    self.drop_entry(&entry, Dropped::Moot);
                    row
                }
            };
            self.observer.observe(Step::EntryFired { entry: &entry, row });
            self.database.lock().unwrap().set_in_hand(&entry, true);
            let fired = Fired { entry: entry.clone(), term: leadership.term() };
            let timeout = self.env.sleep(self.config.settings.signal_timeout);
            match race(channel.send(fired), timeout).await {
                Either::Left(_) => {}
                Either::Right(()) => {
                    self.database.lock().unwrap().set_in_hand(&entry, false);
                    self.observer.observe(Step::ChannelFull { entry: &entry });
                }
            }
        }
        !policy.full_database_drops_newest && self.database.lock().unwrap().take_missed(self.env.wall())
    }

    /// Runs one executor for ever.
    pub(super) async fn executor(&self, leadership: &Leadership, channel: &tokio::sync::Mutex<mpsc::Receiver<Fired>>) {
        loop {
            let fired = channel.lock().await.recv().await;
            let Some(fired) = fired else { return };
            self.see_to(leadership, &fired).await;
        }
    }

    pub(super) async fn see_to(&self, leadership: &Leadership, Fired { entry, term }: &Fired) {
        let policy = &self.config.policy.reclaim;
        let allowed = || policy.ex_leader_goes_on || leadership.leads_in(*term);
        let result = if allowed() { self.execute(entry, &allowed).await } else { Err(ReclaimError::NotLeading) };
        match result {
            Ok(executed) => {
                let (Executed::Done(row) | Executed::Moot(row) | Executed::Held(row)) = executed;
                self.observer.observe(Step::Executed { entry, row });
                match executed {
                    Executed::Done(_) => self.drop_entry(entry, Dropped::Done),
                    Executed::Moot(_) => self.drop_entry(entry, Dropped::Moot),
                    Executed::Held(row) => {
                        self.database.lock().unwrap().set_in_hand(entry, false);
                        self.observer.observe(Step::EntryHeld { entry, row });
                    }
                }
            }
            Err(ReclaimError::NotLeading) => self.drop_entry(entry, Dropped::NotLeading),
            Err(_) => {
                let now = self.env.wall();
                let again = entry.requeues < self.config.settings.max_retries;
                if !again || !self.database.lock().unwrap().requeue(entry, now) {
                    if !policy.event_lost_on_error {
                        self.database.lock().unwrap().miss(now);
                    }
                    self.drop_entry(entry, Dropped::GivenUp);
                }
            }
        }
    }

    async fn execute(&self, entry: &PodEntry, allowed: &(impl Fn() -> bool + Sync)) -> Result<Executed, ReclaimError> {
        let policy = &self.config.policy.reclaim;
        let mut endpoint = None;
        if policy.trace_needs_endpoint {
            match self.endpoint_of(entry)? {
                Ok(found) => endpoint = Some(found),
                Err(row) => return Ok(Executed::Moot(row)),
            }
        }
        if policy.deadline_not_confirmed {
            return self.release_unconfirmed(entry, endpoint, allowed).await.map(Executed::Done);
        }
        let (key, uid) = (entry.key.clone(), entry.uid.clone());
        // A DEL that did its work leaves nothing to read from the API server. What a cache does not show yet is left to a scan.
        let cached = self.caches.endpoint(key.as_str());
        if cached.is_ok_and(|endpoint| endpoint.is_none_or(|endpoint| uid_of(&endpoint) != &*uid)) && self.strays(&key, &uid).is_empty() {
            return Ok(Executed::Moot(Row::NoEndpoint));
        }
        // The pod is read with its endpoint, unless that has another name.
        if key != entry.pod {
            let pod = self.get::<Pod>(&entry.pod).await.map_err(|error| ReclaimError::Reading { what: "Pod", error })?;
            if let Some(pod) = pod.filter(|pod| pod.metadata.uid.as_deref() == Some(&*entry.uid))
                && let Some(executed) = self.still_there(entry, &pod).await?
            {
                return Ok(executed);
            }
        }
        // The traced events and the cache come by separate watches: the cache can learn late, or never, how a pod ended.
        let (due, over) = (Some(entry.term.stop), entry.tracing == Tracing::Deleted);
        let suspect = Suspect { by: Releaser::Trace, records: vec![], cached: None, key, uid, due, whole: true, over };
        let verdict = self.settle(&suspect, true, allowed).await?;
        Ok(if verdict.keeps_all() { without_release(verdict.row) } else { Executed::Done(verdict.row) })
    }

    /// The outcome for a pod that still exists when its deadline has passed; `None` = go on.
    async fn still_there(&self, entry: &PodEntry, pod: &Pod) -> Result<Option<Executed>, ReclaimError> {
        let (settings, policy) = (&self.config.settings, &self.config.policy);
        let stop = if ended(pod).is_some() {
            Term::of_ended(pod, settings, policy).map_or(entry.term.stop, |term| term.stop)
        } else if pod.metadata.deletion_timestamp.is_some() {
            Term::of_terminating(pod, settings, policy).map_or(entry.term.stop, |term| term.stop)
        } else {
            return Ok(Some(Executed::Moot(Row::NothingNew)));
        };
        if self.env.wall() <= stop {
            return Ok(Some(Executed::Held(Row::GraceWithin)));
        }
        if !policy.reclaim.node_judged_once && self.confirmed_node(pod).await?.permits(settings) != Some(true) {
            return Ok(Some(Executed::Held(Row::TraceNodeOff)));
        }
        Ok(None)
    }
}
