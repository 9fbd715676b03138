//! Named deviations: what the system under test can be told to do differently, one switch each.
//!
//! A deviation shows that the claims find what they are there for, and lets upstream's behaviour be run as it is.

use std::fmt;

use clap::ValueEnum;
use ipam_core::byom::Policy;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// A deviation.
#[derive(Clone, Copy, Debug)]
pub struct Deviation {
    /// Its public name.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// Whether upstream behaves like this.
    pub upstream: bool,
    /// How it is found.
    pub how: How,
}

/// How a deviation is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A claim is violated.
    Claim,
    /// A process panics.
    Crash,
    /// A statistic moves.
    Figure,
    /// By itself nothing is wrong with it; it belongs to the control group.
    Control,
    /// It does no harm that a claim could see by itself: tests of the code compare both behaviours.
    Test,
}

impl How {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            How::Claim => "claim",
            How::Crash => "crash",
            How::Figure => "figure",
            How::Control => "control",
            How::Test => "test",
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The counter's clients decide on what they read first and only refresh the version when they retry.
pub const COUNTER_DECIDES_ONCE: &str = "counter-decides-once";

/// The deviations that are not switches of the pool.
const OTHERS: [Deviation; 1] = [Deviation {
    name: COUNTER_DECIDES_ONCE,
    about: "clients of the counter decide on their first read; a retry only refreshes the resourceVersion",
    upstream: false,
    how: How::Claim,
}];

/// What each switch of [`ipam_core::byom::Policy`] does. Which switches there are is told there, and a switch that has no row
/// here does not compile.
const POOL_ABOUT: &[(&str, &str)] = &[
    (
        "byom-decide-once",
        "allocate and release decide on their first read; a retry only refreshes the resourceVersion and overwrites (B §1.5)",
    ),
    ("byom-recover-decide-once", "recovery decides on its first read and overwrites what was written since (B L5)"),
    ("byom-create-race-fails", "whoever comes second in creating the ConfigMap fails at once (B W2)"),
    ("byom-four-attempts", "a write is tried four times with 10 % jitter, and only after conflicts (B §2.5)"),
    ("byom-rollback-on-callers-deadline", "the clean-up after a failed start ends with its caller's time (B W7)"),
    ("byom-release-by-address", "a delete names the address, boots the VM and only then asks who holds it (B W8, W9)"),
    ("byom-free-before-reboot", "an address is available again while its VM still goes down (B W13)"),
    ("byom-full-pool-restart", "with a full pool a pod's predecessor does not give up its address first (B W14)"),
    ("byom-reset-after-read-error", "recovery writes a fresh state after any error while reading (B W16, W17)"),
    ("byom-range-limit-zero", "ranges in VM_POOL_IPS contribute no address (B §4.4)"),
    ("byom-foreign-address-returned", "an address that left the configuration is offered again when it is released"),
    ("byom-textual-addresses", "two spellings of one address count as two (B W21)"),
    ("byom-null-map", "a document without allocatedIPs is taken as it is, and crashes the next allocate (B W18)"),
    ("byom-probe-in-critical-section", "the readiness probe runs under the mutex, for as long as it takes (B W22)"),
    ("byom-dead-vm-not-skipped", "a dead VM fails the allocate that chose it (B W15)"),
    ("byom-leaks-kept", "records are never compared with live owners (B W3, W5, W6)"),
    ("byom-finalizer-by-pod-name", "the finalizer of the PeerPod of a pod's successor is removed (B W11)"),
    ("byom-empty-id-counts-as-deleted", "deleting an instance without an ID counts as a delete that was done (B W12)"),
    ("byom-missing-map-is-empty-pool", "a ConfigMap that is gone is taken for a pool without allocations (B W19)"),
    ("byom-select-first", "every allocate takes the first address of the list instead of hashing its ID (B §8.4)"),
    ("byom-lenient-settings", "a bad entry in VM_POOL_IPS empties the pool without a word, and a blank NODE_NAME is a name (B §4.1, §4.4)"),
    ("byom-namespace-not-written", "records have no field podNamespace (B §6), so that a pod's predecessor cannot be told"),
    ("byom-owner-recorded-late", "the PeerPod is written after the user data was sent, and nobody looks whether it was (B S1, W5, W6)"),
    ("byom-unfenced-vms", "VMs take user data and reboots whatever allocation they are held under"),
    ("byom-owner-by-pod-name", "the owner of a PeerPod is whichever Pod has the name when it is written (B S1)"),
    ("byom-stop-on-callers-deadline", "the release of StopVM ends with its caller, who may wait for one second only (B W26)"),
    ("byom-stop-overlooks-start", "StopVM of a sandbox that is being started releases what is known so far, and the start goes on (B X3)"),
    ("byom-controller-trusts-cache", "the PeerPod controller releases and deletes what its cache shows, without looking again (B P1, P2)"),
    ("byom-younger-peer-pod-wins", "of two PeerPods of a Pod the one that was created first is deleted (B P1)"),
    ("byom-controller-configuration-frozen", "the PeerPod controller keeps the configuration of its first release (B P0, W20)"),
];

/// The switches of the pool that no claim finds by themselves.
const FOUND_OTHERWISE: &[(&str, How)] = &[
    ("byom-null-map", How::Crash),
    ("byom-four-attempts", How::Figure),
    ("byom-select-first", How::Control),
    ("byom-lenient-settings", How::Test),
    ("byom-owner-by-pod-name", How::Test),
    ("byom-stop-on-callers-deadline", How::Test),
    ("byom-stop-overlooks-start", How::Test),
    ("byom-controller-trusts-cache", How::Test),
    ("byom-younger-peer-pod-wins", How::Test),
    ("byom-controller-configuration-frozen", How::Test),
];

const ALL_LEN: usize = OTHERS.len() + Policy::DEVIATIONS.len();

/// Every deviation.
pub const ALL: &[Deviation] = &{
    let mut all = [OTHERS[0]; ALL_LEN];
    let mut index = 0;
    while index < Policy::DEVIATIONS.len() {
        let switch = &Policy::DEVIATIONS[index];
        all[OTHERS.len() + index] =
            Deviation { name: switch.name, about: about(switch.name), upstream: switch.upstream, how: how(switch.name) };
        index += 1;
    }
    all
};

/// The sentence about a switch of the pool.
const fn about(name: &str) -> &'static str {
    let mut row = 0;
    while row < POOL_ABOUT.len() {
        if same(POOL_ABOUT[row].0.as_bytes(), name.as_bytes()) {
            return POOL_ABOUT[row].1;
        }
        row += 1;
    }
    panic!("a switch of the pool's policy has no row in POOL_ABOUT")
}

/// How a switch of the pool is found: by a claim, unless there is a row that says otherwise.
const fn how(name: &str) -> How {
    let mut row = 0;
    while row < FOUND_OTHERWISE.len() {
        if same(FOUND_OTHERWISE[row].0.as_bytes(), name.as_bytes()) {
            return FOUND_OTHERWISE[row].1;
        }
        row += 1;
    }
    How::Claim
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut index = 0;
    while index < a.len() && index < b.len() && a[index] == b[index] {
        index += 1;
    }
    a.len() == b.len() && index == a.len()
}

/// Which behaviour of the systems under test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Every known hazard mended.
    #[value(help = None)]
    Hardened,
    /// As upstream is today.
    #[value(help = None)]
    Upstream,
}

/// The deviations that upstream has.
pub fn upstream() -> impl Iterator<Item = DeviationName> {
    ALL.iter().filter(|deviation| deviation.upstream).filter_map(|deviation| DeviationName::new(deviation.name))
}

/// The name of a deviation that exists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct DeviationName(String);

impl DeviationName {
    /// The deviation called `name`, if there is one.
    pub fn new(name: &str) -> Option<Self> {
        ALL.iter().any(|deviation| deviation.name == name).then(|| Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DeviationName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|deviation| deviation.name).collect();
            serde::de::Error::custom(format!("there is no deviation `{name}`; there are {}", known.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_row_is_about_a_switch() {
        let names: BTreeSet<&str> = ALL.iter().map(|deviation| deviation.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(ALL.len() > POOL_ABOUT.len());
        for (name, about) in POOL_ABOUT {
            assert!(Policy::hardened().switch(name).is_some(), "{name} is no switch of the policy");
            assert!(ALL.iter().any(|deviation| deviation.name == *name && deviation.about == *about));
        }
        for (name, how) in FOUND_OTHERWISE {
            assert!(ALL.iter().any(|deviation| deviation.name == *name && deviation.how == *how), "{name} is no deviation");
        }
    }
}
