//! What the bursts of a point have in common.

use serde::{Deserialize, Serialize};

use crate::Seconds;

/// Where a point stands: `instances` adaptors that allocate one address each from one pool (B §8.1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The panels that show it, joined by `+`: `retries+spread`.
    pub panels: String,
    /// The curve on which it lies: everything but what the axis shows.
    pub series: String,
    /// How many adaptors, each on a host of its own.
    pub instances: u32,
    /// How many addresses the pool has in total.
    pub addresses: u32,
    /// How many of them are taken at the beginning.
    pub taken: u32,
    /// Starts are uniform between the beginning and this.
    #[serde(rename = "spread_s")]
    pub spread: Seconds,
    /// The mean round trip of a read.
    #[serde(rename = "read_s")]
    pub read: Seconds,
    /// The mean round trip of a write.
    #[serde(rename = "write_s")]
    pub write: Seconds,
    /// What an adaptor needs between an answer and the request that follows it.
    #[serde(rename = "think_s")]
    pub think: Seconds,
    /// The mean time to try a VM before its address is handed out; 0 = it is not tried.
    #[serde(rename = "dial_s")]
    pub dial: Seconds,
    /// How a write that met a conflict is tried again: `default-backoff`, `default-retry`, `twelve`, `patient`.
    pub retry: String,
    /// What is written after a conflict: [`DECIDES_AGAIN`] or [`DECIDES_ONCE`].
    pub update: String,
    /// Which free address is taken: `hash` or `first`.
    pub selection: String,
    /// How many requests an adaptor may make: `none`, `client-go`, `drained`.
    pub throttle: String,
}

/// Each attempt reads, decides and writes (`as_documented` of B §0).
pub const DECIDES_AGAIN: &str = "decides-again";
/// What was decided once is written until it is accepted (`as_coded` of B §0).
pub const DECIDES_ONCE: &str = "decides-once";

impl Setting {
    /// From the effect of a read to the effect of the write that uses its version, in seconds: delta of B §8.1.
    pub fn vulnerable_s(&self) -> f64 {
        self.read.as_f64() / 2.0 + self.think.as_f64() + self.write.as_f64() / 2.0
    }

    /// From the first read to the effect of the first write, in seconds: Delta of B §8.1.
    pub fn decided_s(&self) -> f64 {
        1.5 * self.read.as_f64() + self.dial.as_f64() + 2.0 * self.think.as_f64() + self.write.as_f64() / 2.0
    }

    /// The share of the pool that is taken at the beginning.
    pub fn fill(&self) -> f64 {
        if self.addresses == 0 { 0.0 } else { f64::from(self.taken) / f64::from(self.addresses) }
    }

    /// Whether `panel` shows it.
    pub fn is_in(&self, panel: &str) -> bool {
        self.panels.split('+').any(|one| one == panel)
    }

    /// Names the point in a folder: two points of a report never share it.
    pub fn key(&self) -> String {
        let [spread, read, think] = [self.spread, self.read, self.think].map(Seconds::as_micros);
        format!("{}/n{}/a{}/t{}/s{spread}/r{read}/w{think}", self.series, self.instances, self.addresses, self.taken)
    }

    /// Whether an address is there for everybody, so that only conflicts can refuse one.
    pub fn is_roomy(&self) -> bool {
        self.addresses.saturating_sub(self.taken) >= self.instances
    }
}
