//! The configuration of an election: the candidate, the Lease and the timing.

use std::time::Duration;

use thiserror::Error;

use crate::api::ObjectKey;

/// The jitter of the sleep after an attempt to acquire: the retry period and up to this many times more.
pub(super) const JITTER: f64 = 1.2;

/// A leader's way of renewing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Renewal {
    /// Write over the version it remembers, and read only if that fails (newer client-go).
    #[default]
    WriteFirst,
    /// Read, then write (older client-go).
    ReadFirst,
}

/// The configuration of one candidate of an election.
#[derive(Clone, Debug, PartialEq)]
pub struct ElectionConfig {
    /// Namespace and name of the Lease that all candidates of the election share.
    pub lease: ObjectKey,
    /// The candidate's name. No two processes may ever share it, not even one after the other.
    pub identity: String,
    /// The time that others wait after the last renewal they saw; written in whole seconds. Default 15 s.
    pub lease_duration: Duration,
    /// The time for which a leader keeps trying to renew before it gives up. Default 10 s.
    pub renew_deadline: Duration,
    /// The time between attempts. Default 2 s.
    pub retry_period: Duration,
    /// The timeout of one request to the API server, so that one lost answer does not cost the leadership. Default 5 s, half the renew
    /// deadline, as in controller-runtime.
    pub request_timeout: Option<Duration>,
    /// Whether to release the lease at the end, for a quick successor. Safe only if all guarded work has ended before [`Election::cancel`]
    /// is called. Default no.
    pub release_on_cancel: bool,
    /// A leader's way of renewing: with or without a read before the write. Default [`Renewal::WriteFirst`].
    pub renewal: Renewal,
}

/// A rule that an [`ElectionConfig`] breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ElectionConfigError {
    /// The identity is empty: an empty holder means that there is no leader.
    #[error("the identity of a candidate must not be empty")]
    NoIdentity,
    /// The record holds whole seconds, and the API server rejects zero.
    #[error("lease duration {0:?} must be at least one second")]
    LeaseTooShort(Duration),
    /// A leader must give up before others take over.
    #[error("lease duration {lease_duration:?} must be longer than renew deadline {renew_deadline:?}")]
    LeaseNotLongerThanDeadline {
        /// The configured value, which is not longer than the renew deadline.
        lease_duration: Duration,
        /// The configured time for which a leader tries to renew before it gives up.
        renew_deadline: Duration,
    },
    /// A leader must have time for a second attempt.
    #[error("renew deadline {renew_deadline:?} must be longer than 1.2 times retry period {retry_period:?}")]
    DeadlineNotLongerThanRetry {
        /// The configured value, which is too short for a second attempt.
        renew_deadline: Duration,
        /// The configured value; its jitter may stretch it by the factor 1.2.
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

    /// Checks the rules that the algorithm relies on.
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
