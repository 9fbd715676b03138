//! Who takes part in which election, and how fast.

use std::time::Duration;

use thiserror::Error;

use crate::api::ObjectKey;

/// A try to acquire is followed by a sleep of the retry period and up to this many times more.
pub(super) const JITTER: f64 = 1.2;

/// How a leader renews.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Renewal {
    /// Write over the version it remembers, and read only if that fails (newer client-go).
    #[default]
    WriteFirst,
    /// Read, then write (older client-go).
    ReadFirst,
}

/// Who takes part in which election, and how fast.
#[derive(Clone, Debug, PartialEq)]
pub struct ElectionConfig {
    /// Namespace and name of the Lease that all candidates of the election share.
    pub lease: ObjectKey,
    /// The candidate. No two processes may ever share it, not even one after the other.
    pub identity: String,
    /// How long others wait after the last renewal they saw; written in whole seconds. Default 15 s.
    pub lease_duration: Duration,
    /// How long a leader keeps trying to renew before it gives up. Default 10 s.
    pub renew_deadline: Duration,
    /// The time between tries. Default 2 s.
    pub retry_period: Duration,
    /// How long to wait for one answer of the API server, so that one lost answer costs no leadership. Default 5 s,
    /// half the renew deadline, as in controller-runtime.
    pub request_timeout: Option<Duration>,
    /// Whether to hand the lease back at the end, for a quick successor. Only right if all guarded work has ended
    /// before [`Election::cancel`] is called. Default no.
    pub release_on_cancel: bool,
    /// Whether a leader reads before it writes. Default [`Renewal::WriteFirst`].
    pub renewal: Renewal,
}

/// What is wrong with an [`ElectionConfig`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ElectionConfigError {
    /// An empty holder means that nobody leads.
    #[error("the identity of a candidate must not be empty")]
    NoIdentity,
    /// The record holds whole seconds, and the API server takes no zero.
    #[error("lease duration {0:?} must be at least one second")]
    LeaseTooShort(Duration),
    /// A leader has to give up before others take over.
    #[error("lease duration {lease_duration:?} must be longer than renew deadline {renew_deadline:?}")]
    LeaseNotLongerThanDeadline {
        /// As configured, and not longer than the renew deadline.
        lease_duration: Duration,
        /// As configured: how long a leader tries to renew before it gives up.
        renew_deadline: Duration,
    },
    /// A leader has to get a second try.
    #[error("renew deadline {renew_deadline:?} must be longer than 1.2 times retry period {retry_period:?}")]
    DeadlineNotLongerThanRetry {
        /// As configured, and too short for a second try.
        renew_deadline: Duration,
        /// As configured; its jitter may stretch it by the factor 1.2.
        retry_period: Duration,
    },
    /// Zero would be a busy loop.
    #[error("the retry period must not be zero")]
    NoRetryPeriod,
}

impl ElectionConfig {
    /// The defaults that kube-controller-manager, the scheduler and controller-runtime share.
    pub fn new(lease: ObjectKey, identity: impl Into<String>) -> Self {
        Self {
            lease,
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            request_timeout: Some(Duration::from_secs(5)),
            release_on_cancel: false,
            renewal: Renewal::WriteFirst,
        }
    }

    /// Checks what the algorithm relies on.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self) -> Result<(), ElectionConfigError> {
        let &Self { lease_duration, renew_deadline, retry_period, .. } = self;
        if self.identity.is_empty() {
            return Err(ElectionConfigError::NoIdentity);
        }
        if retry_period.is_zero() {
            return Err(ElectionConfigError::NoRetryPeriod);
        }
        if lease_duration <= renew_deadline {
            return Err(ElectionConfigError::LeaseNotLongerThanDeadline { lease_duration, renew_deadline });
        }
        if renew_deadline <= retry_period.mul_f64(JITTER) {
            return Err(ElectionConfigError::DeadlineNotLongerThanRetry { renew_deadline, retry_period });
        }
        if lease_duration < Duration::from_secs(1) {
            return Err(ElectionConfigError::LeaseTooShort(lease_duration));
        }
        Ok(())
    }
}
