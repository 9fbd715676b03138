//! The informer for traced events, which lives only while this replica leads (G §1.1).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::mpsc;

use super::caches::Caches;
use super::event::Event;
use super::observer::{Observer, ScanCause, Step};
use super::process::Reclaim;
use super::row::Row;
use crate::leadership::Leadership;
use kube_machinery::client::Client;
use kube_machinery::env::Env;
use kube_machinery::informer::{Informer, InformerOptions, Notification};
use kube_machinery::race::{Either, race};

/// An event that could not be judged, in the form in which it is judged again: without the state before it.
#[derive(Clone, Debug)]
enum Again {
    Added(Arc<Pod>),
    Deleted(Arc<Pod>),
}

impl Again {
    fn of(notification: &Notification<Pod>) -> Self {
        match notification {
            Notification::Added { object, .. } | Notification::Updated { new: object, .. } => Self::Added(object.clone()),
            Notification::Deleted { object } | Notification::DeletedFinalStateUnknown { object, .. } => Self::Deleted(object.clone()),
        }
    }

    fn event(&self) -> Event<'_> {
        match self {
            Self::Added(pod) => Event::Added(pod),
            Self::Deleted(pod) => Event::Deleted(pod),
        }
    }
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Whether the same event may be judged differently later.
fn may_pass(row: Row) -> bool {
    !matches!(row, Row::TerminatingNoGrace | Row::EndedNoFinish | Row::EndedNoGrace)
}

impl<C: Client, V: Env, K: Caches, O: Observer> Reclaim<C, V, K, O> {
    /// Runs an informer while this replica leads, and a scan at the beginning of each term; never ends.
    pub(super) async fn pod_events(&self, leadership: &Leadership, signal: &mpsc::Sender<ScanCause>) {
        let policy = &self.config.policy.reclaim;
        let polls = policy.leader_flag_polled;
        loop {
            if polls {
                self.poll_until(leadership, true).await;
            }
            let term = leadership.gained().await;
            self.observer.observe(Step::LeadershipGained { term });
            let options = InformerOptions { patience: self.config.settings.list_timeout, ..InformerOptions::default() };
            let informer = Informer::<Pod, V>::start(self.raw.clone(), self.env.clone(), options);
            let lost = async { if polls { self.poll_until(leadership, false).await } else { leadership.lost(term).await } };
            let work = async {
                if !policy.no_scan_on_takeover {
                    let _ = signal.send(ScanCause::Takeover).await;
                }
            };
            let work = async {
                let handle = self.handle(leadership, &informer);
                // Upstream's signal waits for room; events are handled concurrently.
                race(handle, async {
                    work.await;
                    std::future::pending::<()>().await;
                })
                .await;
            };
            race(lost, work).await;
            informer.stop();
            self.observer.observe(Step::LeadershipLost { term });
            if !policy.ex_leader_goes_on {
                self.forget_all();
            }
        }
    }

    /// Handles events one after the other. Those that could not be judged are judged again after each gap of the trace worker.
    async fn handle(&self, leadership: &Leadership, informer: &Informer<Pod, V>) {
        let retries = !self.config.policy.reclaim.event_lost_on_error;
        let gap = self.config.settings.trace_gap;
        let mut notifications = informer.subscribe();
        let mut again: BTreeMap<String, Again> = BTreeMap::new();
        let mut next_retry = self.env.monotonic() + gap;
        loop {
            let notification = if again.is_empty() {
                next_retry = self.env.monotonic() + gap;
                notifications.next().await
            } else {
                let pause = self.env.sleep(next_retry.saturating_sub(self.env.monotonic()));
                match race(pause, notifications.next()).await {
                    Either::Right(notification) => notification,
                    Either::Left(()) => {
                        self.retry(leadership, &mut again).await;
                        next_retry = self.env.monotonic() + gap;
                        continue;
                    }
                }
            };
            let Some(notification) = notification else { return };
            // After a gap the two may be different pods of one name (K148): then the first is gone.
            if let Notification::Updated { old, new } = &notification
                && retries
                && uid(old) != uid(new)
            {
                self.note(leadership, Again::Deleted(old.clone()), &mut again).await;
                self.note(leadership, Again::Added(new.clone()), &mut again).await;
                continue;
            }
            let event = match &notification {
                Notification::Added { object, .. } => Event::Added(object),
                Notification::Updated { old, new } => Event::Updated { old, new },
                Notification::Deleted { object } => Event::Deleted(object),
                Notification::DeletedFinalStateUnknown { object, .. } => Event::Tombstone(object),
            };
            let pod = event.pod();
            // An event that waits to be judged again is judged on the latest state instead.
            if again.contains_key(uid(pod)) {
                let latest = Again::of(&notification);
                self.note(leadership, latest, &mut again).await;
                continue;
            }
            if let Err(row) = self.take_event(leadership, &event).await
                && retries
                && may_pass(row)
            {
                again.insert(uid(pod).to_owned(), Again::of(&notification));
            }
        }
    }

    async fn note(&self, leadership: &Leadership, latest: Again, again: &mut BTreeMap<String, Again>) {
        let key = uid(latest.event().pod()).to_owned();
        match self.take_event(leadership, &latest.event()).await {
            Err(row) if may_pass(row) => drop(again.insert(key, latest)),
            _ => drop(again.remove(&key)),
        }
    }

    async fn retry(&self, leadership: &Leadership, again: &mut BTreeMap<String, Again>) {
        for event in std::mem::take(again).into_values() {
            self.note(leadership, event, again).await;
        }
    }
}
