//! One call of a webhook, from the API server to one of the processes that serve it and back (K §8.3).

use std::sync::Arc;
use std::time::Duration;

use kube_machinery::api::{Cause, Reason};
use kube_machinery::{ApiError, Status};
use sim_config::time::SimTime;

use super::pool::Connection;
use super::{Denial, FailurePolicy, Handler, Review, SideEffects, Verdict, Webhook};
use crate::cluster::{Cluster, State};
use crate::net::Side;
use crate::object::Obj;
use crate::rt::ProcessId;
use crate::trace::{EventKind, FaultChange};

/// A failure of webhook calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookFailure {
    /// Each call takes this much longer.
    Slow(Duration),
    /// Each call is answered with a denial by mistake.
    Denies,
    /// No call is answered, though the process is alive.
    Silent,
    /// Each call is repeated, with the object that the first one returned.
    Twice,
    /// Calls that need a new connection fail.
    Certificate(Certificate),
}

/// The fault of a webhook server's certificate (K198).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    /// The certificate has expired by the wall clock of the client that connects.
    Expired {
        /// The time of expiry, by a correct clock.
        at: jiff::Timestamp,
    },
    /// The certificate was signed by an authority that the `caBundle` of the webhook does not have yet, or not any more.
    UnknownAuthority,
}

/// A set of webhook calls that fail.
#[derive(Clone, Debug, PartialEq)]
pub struct HookFault {
    /// The fault of the plan that this belongs to.
    pub fault: u32,
    /// The processes that serve the webhooks whose calls fail.
    pub servers: Side,
    /// The probability per call.
    pub chance: f64,
    /// The failure of each call that is hit.
    pub failure: WebhookFailure,
}

/// All failures of one call.
#[derive(Clone, Copy, Default)]
struct WebhookFailures {
    slow: Duration,
    denies: bool,
    silent: bool,
    twice: bool,
}

/// The failure of a call that brought no verdict.
pub(super) enum Failed {
    /// No process listens at the address.
    Refused,
    /// The connection was closed before an answer came.
    Eof,
    /// The host does not know the connection.
    Reset,
    /// The certificate is rejected, for this reason.
    Certificate(String),
    /// The API server's time limit has passed.
    TimedOut,
}

impl Cluster {
    /// Calls one webhook over the network and applies its failure policy. The calls end with the request at the latest.
    pub(super) async fn call_webhook(
        self: &Arc<Self>,
        server: usize,
        hook: &Webhook,
        review: Review,
        deadline: SimTime,
    ) -> Result<Option<Obj>, ApiError> {
        if review.dry && matches!(hook.side_effects, SideEffects::Some | SideEffects::Unknown) {
            let text = format!("admission webhook \"{}\" does not support dry run", hook.name);
            return Err(Status::new(Reason::BadRequest, text).into());
        }
        let again = review.clone();
        let (changed, twice) = self.ask_webhook(server, hook, review, deadline).await;
        let changed = changed?;
        if !twice {
            return Ok(changed);
        }
        let object = changed.clone().or_else(|| again.object.clone());
        let (last, _) = self.ask_webhook(server, hook, Review { object, ..again }, deadline).await;
        Ok(last?.or(changed))
    }

    /// Makes one call. Returns its result for the API server, and whether the call is to be repeated.
    async fn ask_webhook(
        self: &Arc<Self>,
        server: usize,
        hook: &Webhook,
        review: Review,
        deadline: SimTime,
    ) -> (Result<Option<Obj>, ApiError>, bool) {
        let answer: parking_lot::Mutex<(Option<Result<Verdict, Failed>>, bool)> = parking_lot::Mutex::default();
        let limit = hook.timeout.min(deadline - self.rt.now());
        let in_time = self
            .in_time(limit, async {
                let connection = match self.connect_to_webhook(server, hook).await {
                    Ok(connection) => connection,
                    Err(failed) => {
                        answer.lock().0 = Some(Err(failed));
                        return;
                    }
                };
                let failures = self.failures(connection.endpoint);
                answer.lock().1 = failures.twice;
                let verdict = self.exchange(server, hook, &connection, review, failures).await;
                if verdict.is_ok() {
                    self.keep(server, hook, connection);
                }
                answer.lock().0 = Some(verdict);
            })
            .await;
        let (verdict, twice) = answer.into_inner();
        (heed(hook, verdict.filter(|_| in_time).unwrap_or(Err(Failed::TimedOut)), limit), twice)
    }

    /// Sends a call over a connection and waits for the answer.
    async fn exchange(
        self: &Arc<Self>,
        server: usize,
        hook: &Webhook,
        connection: &Connection,
        review: Review,
        failures: WebhookFailures,
    ) -> Result<Verdict, Failed> {
        let (process, endpoint) = (self.server_process(server), connection.endpoint);
        self.travel(process, endpoint).await;
        let verdict = match hook.service.handler(endpoint, connection.life) {
            Some(handler) => {
                let life = self.rt.incarnation(endpoint);
                let verdict = self.serve_webhook(server, endpoint, handler, review, failures).await;
                verdict.filter(|_| self.rt.incarnation(endpoint) == life).ok_or(Failed::Eof)
            }
            None => Err(Failed::Reset),
        };
        if verdict.is_err() && self.lock().is_dark(self, endpoint) {
            // The host is down, so not even a reset comes back.
            std::future::pending::<()>().await;
        }
        self.travel(endpoint, process).await;
        verdict
    }

    /// Handles a call in a process. `None` = the process died meanwhile.
    async fn serve_webhook(
        self: &Arc<Self>,
        server: usize,
        endpoint: ProcessId,
        handler: Handler,
        review: Review,
        failures: WebhookFailures,
    ) -> Option<Verdict> {
        let delay = {
            let mut state = self.lock();
            let u = state.choices.unit();
            if state.servers[server].degraded { state.degraded_samplers } else { state.samplers }.webhook.sample(u)
        };
        self.rt.sleep(delay + failures.slow).await;
        if failures.silent {
            std::future::pending::<()>().await;
        }
        if failures.denies {
            let message = "the policy that this webhook goes by has expired".to_owned();
            // controller-runtime answers this when a handler denies.
            return Some(Err(Denial { code: 403, reason: Some(Reason::Forbidden), message }));
        }
        self.in_process(endpoint, handler(review)).await
    }

    /// The failures of the next call of `endpoint`.
    fn failures(&self, endpoint: ProcessId) -> WebhookFailures {
        let mut failures = WebhookFailures::default();
        let mut state = self.lock();
        let State { hook_faults, choices, recorder, .. } = &mut *state;
        for fault in hook_faults.iter().filter(|fault| fault.servers.contains(endpoint)) {
            if matches!(fault.failure, WebhookFailure::Certificate(_)) {
                continue;
            }
            if choices.unit() >= fault.chance {
                continue;
            }
            match fault.failure {
                WebhookFailure::Slow(by) => failures.slow += by,
                WebhookFailure::Denies => failures.denies = true,
                WebhookFailure::Silent => failures.silent = true,
                WebhookFailure::Twice => failures.twice = true,
                WebhookFailure::Certificate(_) => {}
            }
            recorder.observe(self.rt.now(), EventKind::Fault { index: fault.fault, change: FaultChange::Fired });
        }
        failures
    }
}

/// The API server's conclusion from the end of a call that had `limit`: the object as the webhook changed it, or the error of the request.
fn heed(hook: &Webhook, verdict: Result<Verdict, Failed>, limit: Duration) -> Result<Option<Obj>, ApiError> {
    match verdict {
        Ok(Ok(changed)) => Ok(changed.filter(|_| hook.mutating)),
        Ok(Err(Denial { code, reason, message })) => {
            let code = if code < 400 { 400 } else { code };
            let (colon, why) = if message.is_empty() { ("", " without explanation") } else { (": ", &*message) };
            let text = ["admission webhook \"", &hook.name, "\" denied the request", colon, why].concat();
            let mut status = Status::new(Reason::Forbidden, text);
            status.reason = reason.unwrap_or(Reason::Unknown);
            status.code = code;
            Err(status.into())
        }
        Err(_) if hook.failure_policy == FailurePolicy::Ignore => Ok(None),
        Err(failed) => {
            let address = hook.url.split('/').nth(2).unwrap_or_default();
            let why = match failed {
                Failed::Refused => format!("dial tcp {address}: connect: connection refused"),
                Failed::Eof => "EOF".to_owned(),
                Failed::Reset => format!("read tcp {address}: read: connection reset by peer"),
                Failed::Certificate(problem) => problem,
                Failed::TimedOut => "context deadline exceeded".to_owned(),
            };
            // The webhook, too, gets the remaining time in whole seconds.
            let seconds = limit.as_micros().div_ceil(1_000_000);
            let post = format!("Post \"{}?timeout={seconds}s\": {why}", hook.url);
            let text = format!("failed calling webhook \"{}\": failed to call webhook: {post}", hook.name);
            let cause = Cause { reason: "".into(), message: text.clone().into(), field: "".into() };
            Err(Status::new(Reason::InternalError, text).cause(cause).into())
        }
    }
}
