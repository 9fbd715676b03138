//! Messages from the kubelet's main loop to the work on one pod: only the latest state counts.

use std::future::Future;
use std::sync::Arc;
use std::task::{Poll, Waker};

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

/// The mailbox of one pod UID.
#[derive(Debug, Default)]
pub(super) struct Mail {
    content: Mutex<Content>,
}

#[derive(Debug, Default)]
struct Content {
    pod: Option<Arc<Pod>>,
    gone: bool,
    sandbox_lost: bool,
    /// Whether another client has set the pod to not ready after its kubelet had set it to ready.
    disowned: bool,
    /// The number of messages so far.
    count: u64,
    waker: Option<Waker>,
}

impl Content {
    fn came(&mut self) {
        self.count += 1;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn is_deleted(&self) -> bool {
        self.gone || self.pod.as_ref().is_some_and(|pod| pod.metadata.deletion_timestamp.is_some())
    }

    fn is_doomed(&self) -> bool {
        self.is_deleted() || self.pod.as_ref().is_some_and(|pod| is_terminal(pod))
    }
}

/// Whether the phase of a pod is final (K §5.7).
pub(super) fn is_terminal(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// Whether the condition Ready of a pod holds.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

impl Mail {
    /// The mailbox of a pod that is in the API.
    pub(super) fn of(pod: Arc<Pod>) -> Arc<Self> {
        let mail = Self::default();
        mail.content.lock().pod = Some(pod);
        Arc::new(mail)
    }

    /// The mailbox of a pod that is not in the API: only its sandboxes are known.
    pub(super) fn of_orphan() -> Arc<Self> {
        let mail = Self::default();
        mail.content.lock().gone = true;
        Arc::new(mail)
    }

    /// Posts the latest state of the pod.
    pub(super) fn post(&self, pod: Arc<Pod>) {
        let mut content = self.content.lock();
        let was_ready = content.pod.as_ref().is_some_and(|pod| is_ready(pod));
        content.disowned = (content.disowned || was_ready) && !is_ready(&pod);
        content.pod = Some(pod);
        content.came();
    }

    /// Posts that the pod is not in the API any more. Its last state gives its grace period.
    pub(super) fn post_gone(&self, last: Option<Arc<Pod>>) {
        let mut content = self.content.lock();
        content.gone = true;
        if last.is_some() {
            content.pod = last;
        }
        content.came();
    }

    /// Posts that a sandbox of the pod died.
    pub(super) fn post_lost(&self) {
        let mut content = self.content.lock();
        content.sandbox_lost = true;
        content.came();
    }

    /// The last known state of the pod; `None` for an orphan.
    pub(super) fn pod(&self) -> Option<Arc<Pod>> {
        self.content.lock().pod.clone()
    }

    /// Whether the pod is not in the API any more.
    pub(super) fn is_gone(&self) -> bool {
        self.content.lock().gone
    }

    /// Whether the pod has to stop: it is being deleted, or gone, or another client has set a terminal phase.
    pub(super) fn is_doomed(&self) -> bool {
        self.content.lock().is_doomed()
    }

    /// The number of messages so far.
    pub(super) fn count(&self) -> u64 {
        self.content.lock().count
    }

    /// Completes when a message has arrived since [`Mail::count`] was `seen`. Only one future per mailbox can wait at a time.
    pub(super) fn news(&self, seen: u64) -> impl Future<Output = ()> + Send + '_ {
        self.until(move |content| content.count != seen)
    }

    /// Completes when the pod is being deleted, or gone.
    pub(super) fn deleted(&self) -> impl Future<Output = ()> + Send + '_ {
        self.until(|content| content.is_deleted())
    }

    /// Completes when the pod has to stop.
    pub(super) fn doomed(&self) -> impl Future<Output = ()> + Send + '_ {
        self.until(|content| content.is_doomed())
    }

    /// Completes when the pod has to stop, or if, since this last completed, a sandbox of the pod died or another client set it to not
    /// ready.
    pub(super) fn upset(&self) -> impl Future<Output = ()> + Send + '_ {
        self.until(|content| {
            let (lost, disowned) = (std::mem::take(&mut content.sandbox_lost), std::mem::take(&mut content.disowned));
            lost || disowned || content.is_doomed()
        })
    }

    fn until(&self, mut ready: impl FnMut(&mut Content) -> bool + Send) -> impl Future<Output = ()> + Send {
        std::future::poll_fn(move |cx| {
            let mut content = self.content.lock();
            if ready(&mut content) {
                return Poll::Ready(());
            }
            if !content.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                content.waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
    }
}
