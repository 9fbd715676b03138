//! The settings of an agent (A §10).

use std::sync::Arc;
use std::time::Duration;

use crate::Policy;
use crate::select::{BadSetting, Settings, TopController};
use crate::validity::{Keeper, Kept};
use kube_machinery::retry::{Backoff, Jitter};

/// The settings of an agent: those that it reads from the ConfigMap `spiderpool-conf` and its environment, and the constants of upstream's
/// code. The defaults are those of A §10.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// The settings of selection.
    pub select: Settings,
    /// `enableStatefulSet`: pods of StatefulSets keep their addresses.
    pub enable_stateful_set: bool,
    /// `enableKubevirtStaticIP`: VMs keep their addresses.
    pub enable_kubevirt_static_ip: bool,
    /// `SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS`: conflicting addresses of stateless pods are released.
    pub release_conflict_ips: bool,
    /// `enableIPConflictDetection`: the plugin checks whether another host answers on an address before it is used. The agent tells it to.
    pub enable_ip_conflict_detection: bool,
    /// `enableGatewayDetection`: the plugin checks whether the gateway answers. The agent tells it to.
    pub enable_gateway_detection: bool,
    /// `SPIDERPOOL_WAIT_SUBNET_POOL_TIME_IN_SECOND`: the pause before auto pools are looked up again.
    pub subnet_pool_wait: Duration,
    /// `SPIDERPOOL_WAIT_SUBNET_POOL_MAX_RETRIES`: the number of look-ups.
    pub subnet_pool_retries: u32,
    /// The retry policy for writes of pools. [`AgentSettings::RETRY`], unless another one is to be tried out.
    pub retry: Backoff,
    /// The timeout for one answer of the API server, so that one lost answer does not fail the operation. Default 5 s; upstream waits for
    /// as long as the operation may take.
    pub request_timeout: Option<Duration>,
    /// The timeout for the answer to an informer's list, without which the agent serves nobody, and for a watch to open. Default 60 s, when
    /// the API server itself gives up (`--request-timeout`, K §2.11); upstream waits as long as the connection lasts.
    pub list_timeout: Option<Duration>,
    /// The time limit of an operation whose caller sets no deadline. Default 100 s, the plugin's timeout; upstream `None`.
    pub operation_timeout: Option<Duration>,
    /// The time limit, after the caller's deadline, of a roll-back or of settling a write whose answer was lost. Default 10 s.
    pub clean_up_timeout: Duration,
    /// The time after its sender gave up during which a write may still be carried out. Default 40 s (K §2.13: 34 s).
    pub late_commit: Duration,
    /// `SPIDERPOOL_LIMITER_MAX_QUEUE_SIZE`: the number of requests that may wait for pools; with 0 all are refused. Default 1000, a
    /// constant in upstream's code (`MaxQueueSize`).
    pub queue_length: usize,
}

impl AgentSettings {
    /// Upstream's retry policy: 5 attempts with 10, 15, 22.5 and 33.75 ms and up to 10 % between them.
    pub const RETRY: Backoff =
        Backoff { steps: 5, base: Duration::from_millis(10), factor: 1.5, cap: Duration::MAX, jitter: Jitter::Added(0.1) };

    /// The names of all settings that can be set by name: selection's, and those of the agent alone.
    pub const NAMES: [&'static str; Settings::NAMES.len() + 9] = {
        let mut names = [""; Settings::NAMES.len() + 9];
        let mut at = 0;
        while at < Settings::NAMES.len() {
            names[at] = Settings::NAMES[at];
            at += 1;
        }
        names[at] = "enableStatefulSet";
        names[at + 1] = "enableKubevirtStaticIP";
        names[at + 2] = "SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS";
        names[at + 3] = "enableReleaseConflictIPsForStateless";
        names[at + 4] = "SPIDERPOOL_WAIT_SUBNET_POOL_TIME_IN_SECOND";
        names[at + 5] = "SPIDERPOOL_WAIT_SUBNET_POOL_MAX_RETRIES";
        names[at + 6] = "enableIPConflictDetection";
        names[at + 7] = "enableGatewayDetection";
        names[at + 8] = "SPIDERPOOL_LIMITER_MAX_QUEUE_SIZE";
        names
    };

    /// The defaults that go with a policy.
    pub fn new(policy: &Policy) -> Self {
        let upstream = policy.waits_without_end;
        Self {
            select: Settings::default(),
            enable_stateful_set: true,
            enable_kubevirt_static_ip: true,
            release_conflict_ips: true,
            enable_ip_conflict_detection: false,
            enable_gateway_detection: false,
            subnet_pool_wait: Duration::from_secs(2),
            subnet_pool_retries: 25,
            retry: Self::RETRY,
            request_timeout: (!upstream).then_some(Duration::from_secs(5)),
            list_timeout: policy.server_timeout(),
            operation_timeout: (!upstream).then_some(Duration::from_secs(100)),
            clean_up_timeout: Duration::from_secs(10),
            late_commit: Duration::from_secs(40),
            queue_length: 1000,
        }
    }

    /// The kinds of pods whose addresses outlive them.
    pub(super) fn kept(&self) -> Kept {
        Kept { stateful_sets: self.enable_stateful_set, vms: self.enable_kubevirt_static_ip }
    }

    /// The keeper of the addresses of a pod with this controller (A §6.1).
    pub fn keeper(&self, controller: &TopController) -> Keeper {
        Keeper::of(controller, self.kept())
    }

    /// Sets one of [`NAMES`](Self::NAMES) from text. Returns whether there is a setting of this name.
    ///
    /// # Errors
    /// The value is invalid for this setting.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, BadSetting> {
        let bad = |wanted| BadSetting { name: name.to_owned(), value: value.to_owned(), wanted };
        let truth = || crate::select::truth(value).ok_or_else(|| bad("true or false"));
        let number = || value.parse::<u32>().map_err(|_| bad("a number from 0 on"));
        match name {
            "enableStatefulSet" => self.enable_stateful_set = truth()?,
            "enableKubevirtStaticIP" => self.enable_kubevirt_static_ip = truth()?,
            // The second is the name of upstream's field, which recorded flows use.
            "SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS" | "enableReleaseConflictIPsForStateless" => self.release_conflict_ips = truth()?,
            "enableIPConflictDetection" => self.enable_ip_conflict_detection = truth()?,
            "enableGatewayDetection" => self.enable_gateway_detection = truth()?,
            "SPIDERPOOL_WAIT_SUBNET_POOL_TIME_IN_SECOND" => self.subnet_pool_wait = Duration::from_secs(number()?.into()),
            "SPIDERPOOL_LIMITER_MAX_QUEUE_SIZE" => self.queue_length = usize::try_from(number()?).map_err(|_| bad("a number from 0 on"))?,
            "SPIDERPOOL_WAIT_SUBNET_POOL_MAX_RETRIES" => self.subnet_pool_retries = number()?,
            _ => return self.select.set(name, value),
        }
        Ok(true)
    }
}

/// The configuration of an agent: the node that it serves, and its settings.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The name of the node that it serves; a pod that names another node is on that one.
    pub node: Arc<str>,
    /// The settings from the ConfigMap and the environment, and the constants of upstream's code.
    pub settings: AgentSettings,
    /// The mutations that are on.
    pub policy: Policy,
}

impl AgentConfig {
    /// The defaults for a policy.
    pub fn new(node: impl Into<Arc<str>>, policy: Policy) -> Self {
        Self { node: node.into(), settings: AgentSettings::new(&policy), policy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_sets_something_and_nothing_else_is_a_name() {
        let default = AgentSettings::new(&Policy::hardened());
        for name in AgentSettings::NAMES {
            let changed = ["false", "true", "7", "other"].into_iter().any(|value| {
                let mut settings = default.clone();
                settings.set(name, value) == Ok(true) && settings != default
            });
            assert!(changed, "{name}");
        }
        assert_eq!(default.clone().set("enableNothing", "true"), Ok(false));
        assert_eq!(default.clone().set("enableStatefulSet", "yes").unwrap_err().wanted, "true or false");
    }
}
