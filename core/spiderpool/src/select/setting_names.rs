//! Names of settings that selection does not use (A §10; `spiderpool-conf` as the chart writes it).
//!
//! A settings file is written for a whole cluster, so a name that matters elsewhere is no mistake in it. Only the type of its value is
//! checked here.

use super::annotation::go_bool;

/// The type of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingType {
    /// True or false, as Go reads it.
    Truth,
    /// A whole number from 0 on.
    Number,
    /// Any text, the empty one included.
    Text,
    /// A table of further settings, none of which concerns addresses.
    Table,
}

impl SettingType {
    /// The description of a value of this type, for messages.
    pub fn wanted(self) -> &'static str {
        match self {
            Self::Truth => "true or false",
            Self::Number => "a number from 0 on",
            Self::Text => "a text",
            Self::Table => "a table",
        }
    }

    /// Whether the text is such a value.
    pub fn takes(self, value: &str) -> bool {
        match self {
            Self::Truth => go_bool(value).is_some(),
            Self::Number => value.parse::<u64>().is_ok(),
            Self::Text => true,
            Self::Table => false,
        }
    }
}

use SettingType::{Number, Table, Text, Truth};

/// Names that other parts of Spiderpool use, with the types of their values.
pub const ELSEWHERE: &[(&str, SettingType)] = &[
    ("enableStatefulSet", Truth),
    ("enableKubevirtStaticIP", Truth),
    ("enableCleanOutdatedEndpoint", Truth),
    ("enableIPConflictDetection", Truth),
    ("enableGatewayDetection", Truth),
    ("enableValidatingResourcesDeletedWebhook", Truth),
    ("clusterSubnetAutoPoolDefaultRedundantIPNumber", Number),
    ("clusterSubnetDefaultFlexibleIPNumber", Number),
    ("ipamUnixSocketPath", Text),
    ("tuneSysctlConfig", Truth),
    ("podResourceInject", Table),
    ("iaasNetworkProvider", Table),
    ("SPIDERPOOL_UPDATE_CR_MAX_RETRIES", Number),
    ("SPIDERPOOL_WORKLOADENDPOINT_MAX_HISTORY_RECORDS", Number),
    ("SPIDERPOOL_WAIT_SUBNET_POOL_TIME_IN_SECOND", Number),
    ("SPIDERPOOL_WAIT_SUBNET_POOL_MAX_RETRIES", Number),
    ("SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS", Truth),
    ("SPIDERPOOL_LEADER_DURATION", Number),
    ("SPIDERPOOL_LEADER_RENEW_DEADLINE", Number),
    ("SPIDERPOOL_LEADER_RETRY_PERIOD", Number),
    ("SPIDERPOOL_LEADER_RETRY_GAP", Number),
    ("SPIDERPOOL_LIMITER_MAX_QUEUE_SIZE", Number),
    ("SPIDERPOOL_SUBNET_INFORMER_RESYNC_PERIOD", Number),
    ("SPIDERPOOL_SUBNET_INFORMER_WORKERS", Number),
    ("SPIDERPOOL_SUBNET_INFORMER_MAX_WORKQUEUE_LENGTH", Number),
    ("SPIDERPOOL_SUBNET_APPLICATION_CONTROLLER_WORKERS", Number),
    ("SPIDERPOOL_IPPOOL_INFORMER_RESYNC_PERIOD", Number),
    ("SPIDERPOOL_IPPOOL_INFORMER_WORKERS", Number),
    ("SPIDERPOOL_AUTO_IPPOOL_HANDLER_MAX_WORKQUEUE_LENGTH", Number),
    ("SPIDERPOOL_WORKQUEUE_MAX_RETRIES", Number),
    ("SPIDERPOOL_WORKQUEUE_RETRY_DELAY_DURATION", Number),
    ("SPIDERPOOL_GC_IP_ENABLED", Truth),
    ("SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION", Number),
    ("SPIDERPOOL_GC_TRACE_POD_GAP_DURATION", Number),
    ("SPIDERPOOL_GC_IP_WORKER_NUM", Number),
    ("SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY", Number),
    ("SPIDERPOOL_GC_PODENTRY_MAX_RETRIES", Number),
    ("SPIDERPOOL_GC_TERMINATING_POD_IP_ENABLED", Truth),
    ("SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_READY_NODE_ENABLED", Truth),
    ("SPIDERPOOL_GC_STATELESS_TERMINATING_POD_ON_NOT_READY_NODE_ENABLED", Truth),
    ("SPIDERPOOL_GC_ENABLE_STATELESS_RUNNING_POD_ON_EMPTY_POD_STATUS_IPS", Truth),
];

/// The type of a setting that is used elsewhere; `None` if there is none of this name.
pub fn type_elsewhere(name: &str) -> Option<SettingType> {
    ELSEWHERE.iter().find(|(known, _)| *known == name).map(|(_, of)| *of)
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    #[test]
    fn names_are_unique_and_not_those_of_selection() {
        for (at, (name, _)) in ELSEWHERE.iter().enumerate() {
            assert!(ELSEWHERE[..at].iter().all(|(other, _)| other != name), "{name} is there twice");
            assert!(!Settings::NAMES.contains(name), "{name} is used by selection");
        }
    }

    #[test]
    fn values_have_the_type_of_their_setting() {
        assert_eq!(Settings::default().set("SPIDERPOOL_GC_IP_ENABLED", "T"), Ok(true));
        assert_eq!(Settings::default().set("SPIDERPOOL_GC_IP_ENABLED", "on").unwrap_err().wanted, "true or false");
        assert_eq!(Settings::default().set("SPIDERPOOL_LEADER_DURATION", "15").map(|_| type_elsewhere("x")), Ok(None));
        assert!(Settings::default().set("SPIDERPOOL_LEADER_DURATION", "15s").is_err());
        assert!(Settings::default().set("podResourceInject", "x").is_err());
    }
}
