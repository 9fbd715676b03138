//! The settings of reclaim (G §2).

use std::time::Duration;

use jiff::SignedDuration;

use crate::Policy;
use crate::ipam::AgentSettings;
use crate::select::BadSetting;
use crate::validity::Kept;
use kube_machinery::retry::Backoff;

/// The settings of reclaim and of the election that it depends on, and the constants of upstream's code. Names are those of G §2.1 and
/// §2.2.
///
/// Upstream reads whole seconds and accepts any number. Here a pause of 0 lasts [`LEAST_PAUSE`](Self::LEAST_PAUSE), so that a loop without
/// rest still lets time pass; a negative number on which upstream panics is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct ReclaimSettings {
    /// `SPIDERPOOL_GC_IP_ENABLED`: whether anything runs at all. Default yes.
    pub enabled: bool,
    /// `SPIDERPOOL_GC_TERMINATING_POD_IP_ENABLED`: the only switch of older versions, which overrides the two that follow. Upstream no
    /// longer reads it (DC-3). Default yes.
    pub terminating: bool,
    /// `SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_READY_NODE_ENABLED`: whether an existing Terminating, Succeeded or Failed pod gives up
    /// its addresses on a node that is ready. Default yes.
    pub on_ready_node: bool,
    /// `SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_NOT_READY_NODE_ENABLED`: the same on a node that is not ready. Default yes.
    pub on_not_ready_node: bool,
    /// `SPIDERPOOL_GC_ENABLE_STATELESS_RUNNING_POD_ON_EMPTY_POD_STATUS_IPS`: whether a scan releases a running pod's addresses if its
    /// status names none. Default no.
    pub running_without_ips: bool,
    /// `SPIDERPOOL_GC_IP_WORKER_NUM`: the number of executors. Default 3; with 0 no traced pod is released.
    pub workers: usize,
    /// `SPIDERPOOL_GC_CHANNEL_BUFFER`: the number of entries that may wait for an executor. Default 5000; 0 counts as 1.
    pub channel: usize,
    /// `SPIDERPOOL_GC_MAX_PODENTRY_DB_CAP`: the maximum number of traced pods. Default 100 000; with 0 none is traced.
    pub database: usize,
    /// `SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION`: the time from the end of a scan to the next. Default 600 s.
    pub interval: Duration,
    /// `SPIDERPOOL_GC_TRACE_POD_GAP_DURATION`: the time between two passes of the trace worker. Default 5 s.
    pub trace_gap: Duration,
    /// `SPIDERPOOL_GC_SIGNAL_TIMEOUT_DURATION`: the time that an entry waits for room in the channel. Default 3 s.
    pub signal_timeout: Duration,
    /// `SPIDERPOOL_GC_HTTP_REQUEST_TIME_GAP`: the pause after a requested scan. Default 1 s.
    pub signal_gap: Duration,
    /// `SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY`: added to every deadline; a negative value shortens the grace period. Default 0 s.
    pub grace_delay: SignedDuration,
    /// `SPIDERPOOL_GC_PODENTRY_MAX_RETRIES`: the number of retries of a traced pod's release. Default 5.
    pub max_retries: u32,
    /// `enableStatefulSet`: pods of StatefulSets keep their addresses. Default yes.
    pub enable_stateful_set: bool,
    /// `enableKubevirtStaticIP`: VMs keep their addresses. Default yes.
    pub enable_kubevirt_static_ip: bool,
    /// `enableCleanOutdatedEndpoint`: endpoints that no record leads to are swept as upstream does it (G C8). The hardened form always
    /// sweeps them, in a safe way. Default no.
    pub clean_outdated_endpoints: bool,
    /// `SPIDERPOOL_LEADER_DURATION`. Default 15 s.
    pub lease_duration: Duration,
    /// `SPIDERPOOL_LEADER_RENEW_DEADLINE`. Default 10 s.
    pub renew_deadline: Duration,
    /// `SPIDERPOOL_LEADER_RETRY_PERIOD`. Default 2 s.
    pub retry_period: Duration,
    /// `SPIDERPOOL_LEADER_RETRY_GAP`: the pause before standing for election again, and between two checks of who leads. Default 1 s.
    pub leader_poll: Duration,
    /// The retry policy for writes of pools after a conflict. Default [`AgentSettings::RETRY`].
    pub retry: Backoff,
    /// The timeout for one answer of the API server. Default 5 s; upstream has none.
    pub request_timeout: Option<Duration>,
    /// The timeout for the answer to an informer's list, and for a watch to open. Default 60 s, when the API server itself gives up
    /// (`--request-timeout`, K §2.11); upstream waits as long as the connection lasts.
    pub list_timeout: Option<Duration>,
    /// `SPIDERPOOL_LIMITER_MAX_QUEUE_SIZE`: the number of releases that may wait for pools; with 0 all are refused. Default 1000, a
    /// constant in upstream's code (`MaxQueueSize`).
    pub queue_length: usize,
}

impl ReclaimSettings {
    /// The shortest pause between two turns of a loop, used where a setting says 0 or less.
    pub const LEAST_PAUSE: Duration = Duration::from_millis(1);

    /// The names of all settings that can be set by name.
    pub const NAMES: [&'static str; 22] = [
        "SPIDERPOOL_GC_IP_ENABLED",
        "SPIDERPOOL_GC_TERMINATING_POD_IP_ENABLED",
        "SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_READY_NODE_ENABLED",
        "SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_NOT_READY_NODE_ENABLED",
        "SPIDERPOOL_GC_ENABLE_STATELESS_RUNNING_POD_ON_EMPTY_POD_STATUS_IPS",
        "SPIDERPOOL_GC_IP_WORKER_NUM",
        "SPIDERPOOL_GC_CHANNEL_BUFFER",
        "SPIDERPOOL_GC_MAX_PODENTRY_DB_CAP",
        "SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION",
        "SPIDERPOOL_GC_TRACE_POD_GAP_DURATION",
        "SPIDERPOOL_GC_SIGNAL_TIMEOUT_DURATION",
        "SPIDERPOOL_GC_HTTP_REQUEST_TIME_GAP",
        "SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY",
        "SPIDERPOOL_GC_PODENTRY_MAX_RETRIES",
        "SPIDERPOOL_LEADER_DURATION",
        "SPIDERPOOL_LEADER_RENEW_DEADLINE",
        "SPIDERPOOL_LEADER_RETRY_PERIOD",
        "SPIDERPOOL_LEADER_RETRY_GAP",
        "SPIDERPOOL_LIMITER_MAX_QUEUE_SIZE",
        "enableKubevirtStaticIP",
        "enableStatefulSet",
        "enableCleanOutdatedEndpoint",
    ];

    /// The defaults that go with a policy.
    pub fn new(policy: &Policy) -> Self {
        Self {
            enabled: true,
            terminating: true,
            on_ready_node: true,
            on_not_ready_node: true,
            running_without_ips: false,
            workers: 3,
            channel: 5000,
            database: 100_000,
            interval: Duration::from_secs(600),
            trace_gap: Duration::from_secs(5),
            signal_timeout: Duration::from_secs(3),
            signal_gap: Duration::from_secs(1),
            grace_delay: SignedDuration::ZERO,
            max_retries: 5,
            enable_stateful_set: true,
            enable_kubevirt_static_ip: true,
            clean_outdated_endpoints: false,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            leader_poll: Duration::from_secs(1),
            retry: AgentSettings::RETRY,
            request_timeout: (!policy.waits_without_end).then_some(Duration::from_secs(5)),
            list_timeout: policy.server_timeout(),
            queue_length: 1000,
        }
    }

    /// Sets one of [`NAMES`](Self::NAMES) from text. Returns whether there is a setting of this name.
    ///
    /// # Errors
    /// The value is invalid for this setting.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, BadSetting> {
        let bad = |wanted| BadSetting { name: name.to_owned(), value: value.to_owned(), wanted };
        let truth = || crate::select::truth(value).ok_or_else(|| bad("true or false"));
        let number = || value.parse::<i64>().map_err(|_| bad("a number"));
        let count = || number().and_then(|number| usize::try_from(number).map_err(|_| bad("a number from 0 on")));
        let pause = || number().map(|seconds| Duration::from_secs(seconds.max(0).unsigned_abs()).max(Self::LEAST_PAUSE));
        match name {
            "SPIDERPOOL_GC_IP_ENABLED" => self.enabled = truth()?,
            "SPIDERPOOL_GC_TERMINATING_POD_IP_ENABLED" => self.terminating = truth()?,
            "SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_READY_NODE_ENABLED" => self.on_ready_node = truth()?,
            "SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_NOT_READY_NODE_ENABLED" => self.on_not_ready_node = truth()?,
            "SPIDERPOOL_GC_ENABLE_STATELESS_RUNNING_POD_ON_EMPTY_POD_STATUS_IPS" => self.running_without_ips = truth()?,
            "SPIDERPOOL_GC_IP_WORKER_NUM" => self.workers = usize::try_from(number()?.max(0)).map_err(|_| bad("a number"))?,
            "SPIDERPOOL_LIMITER_MAX_QUEUE_SIZE" => self.queue_length = count()?,
            "SPIDERPOOL_GC_CHANNEL_BUFFER" => self.channel = count()?,
            "SPIDERPOOL_GC_MAX_PODENTRY_DB_CAP" => self.database = usize::try_from(number()?.max(0)).map_err(|_| bad("a number"))?,
            "SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION" => self.interval = pause()?,
            "SPIDERPOOL_GC_TRACE_POD_GAP_DURATION" => self.trace_gap = pause()?,
            "SPIDERPOOL_GC_SIGNAL_TIMEOUT_DURATION" => self.signal_timeout = pause()?,
            "SPIDERPOOL_GC_HTTP_REQUEST_TIME_GAP" => self.signal_gap = pause()?,
            "SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY" => self.grace_delay = SignedDuration::from_secs(number()?),
            "SPIDERPOOL_GC_PODENTRY_MAX_RETRIES" => self.max_retries = u32::try_from(number()?.max(0)).map_err(|_| bad("a number"))?,
            "SPIDERPOOL_LEADER_DURATION" => self.lease_duration = pause()?,
            "SPIDERPOOL_LEADER_RENEW_DEADLINE" => self.renew_deadline = pause()?,
            "SPIDERPOOL_LEADER_RETRY_PERIOD" => self.retry_period = pause()?,
            "SPIDERPOOL_LEADER_RETRY_GAP" => self.leader_poll = pause()?,
            "enableStatefulSet" => self.enable_stateful_set = truth()?,
            "enableKubevirtStaticIP" => self.enable_kubevirt_static_ip = truth()?,
            "enableCleanOutdatedEndpoint" => self.clean_outdated_endpoints = truth()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The kinds of pods whose addresses outlive them.
    pub(super) fn kept(&self) -> Kept {
        Kept { stateful_sets: self.enable_stateful_set, vms: self.enable_kubevirt_static_ip }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_sets_something_and_nothing_else_is_a_name() {
        let default = ReclaimSettings::new(&Policy::hardened());
        for name in ReclaimSettings::NAMES {
            let changed = ["false", "true", "7", "other"].into_iter().any(|value| {
                let mut settings = default.clone();
                settings.set(name, value) == Ok(true) && settings != default
            });
            assert!(changed, "{name}");
            assert!(default.clone().set(name, "other").is_err(), "{name}");
        }
        assert_eq!(default.clone().set("SPIDERPOOL_GC_NOTHING", "true"), Ok(false));
    }

    #[test]
    fn odd_numbers_do_what_upstream_does_with_them_or_are_refused() {
        let mut settings = ReclaimSettings::new(&Policy::upstream());
        for (name, value) in [
            ("SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION", "-1"),
            ("SPIDERPOOL_GC_TRACE_POD_GAP_DURATION", "0"),
            ("SPIDERPOOL_GC_IP_WORKER_NUM", "-3"),
            ("SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY", "-5"),
            ("SPIDERPOOL_GC_PODENTRY_MAX_RETRIES", "-1"),
        ] {
            assert_eq!(settings.set(name, value), Ok(true), "{name}");
        }
        assert_eq!((settings.interval, settings.trace_gap), (ReclaimSettings::LEAST_PAUSE, ReclaimSettings::LEAST_PAUSE));
        assert_eq!((settings.workers, settings.max_retries, settings.grace_delay.as_secs()), (0, 0, -5));
        assert!(settings.set("SPIDERPOOL_GC_CHANNEL_BUFFER", "-1").is_err());
        assert!(settings.set("SPIDERPOOL_GC_IP_ENABLED", "").is_err(), "an empty value ends the process");
    }
}
