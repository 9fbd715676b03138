//! What the bursts of a point have in common.

use serde::{Deserialize, Serialize};

use crate::Seconds;

/// Who shares a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Adaptors of BYOM, each of which asks for one address.
    #[default]
    Byom,
    /// Nodes with an agent of Spiderpool each.
    Spiderpool,
}

impl System {
    /// As a table has it.
    pub fn name(self) -> &'static str {
        match self {
            System::Byom => "byom",
            System::Spiderpool => "spiderpool",
        }
    }

    /// One of those who share a pool, and several.
    pub fn sharers(self) -> (&'static str, &'static str) {
        match self {
            System::Byom => ("adaptor", "adaptors"),
            System::Spiderpool => ("node", "nodes"),
        }
    }

    fn is_byom(&self) -> bool {
        *self == System::Byom
    }
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Where a point stands: `instances` adaptors that allocate one address each from one pool (B §8.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The panels that show it, joined by `+`: `retries+spread`.
    pub panels: String,
    /// The curve on which it lies: everything but what the axis shows.
    pub series: String,
    /// How many adaptors or nodes, each a host of its own.
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
    /// How a write that met a conflict is tried again: `default-backoff`, `default-retry`, `twelve`, `patient`; of agents: `hardened`,
    /// `upstream`.
    pub retry: String,
    /// What is written after a conflict: [`DECIDES_AGAIN`] or [`DECIDES_ONCE`].
    pub update: String,
    /// Which free address is taken: `hash` or `first`.
    pub selection: String,
    /// How many requests an adaptor may make: `none`, `client-go`, `drained`; an agent: `agent`.
    pub throttle: String,
    /// Who shares the pool. What is not said is as it was before there was a choice.
    #[serde(default, skip_serializing_if = "System::is_byom")]
    pub system: System,
    /// How many pods start on each node, each of which asks for one address.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pods: u32,
    /// How many requests an API server works on at a time, so that others wait; 0 = everything at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub width: u32,
    /// For how long a read keeps a server of a [`width`](Self::width) busy, as a part of its round trip; a write does so one and a half
    /// times as long.
    #[serde(default, rename = "service_s", skip_serializing_if = "Seconds::is_zero")]
    pub service: Seconds,
    /// How pods of nodes come to their first call: `kubelets` = after their sandboxes, which take their time, `together` = all at the same
    /// instant, `restarted` = the same, at agents whose first call it is, `loops` = one after the other on each node. Empty for adaptors.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub start: String,
    /// Over how many pools addresses and writers are spread.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pools: u32,
    /// What orders the writers, in place of conflicts alone: `lease`, `allocator`. Empty = nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lock: String,
    /// Which faults its bursts meet: those of a profile of swarms (`mixed`, `hostile`), or `scenario NAME`. Empty = none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub faults: String,
}

/// All pods ask at the same instant.
pub const TOGETHER: &str = "together";
/// All pods ask at the same instant, at agents that have just started: upstream's fill their caches in that call.
pub const RESTARTED: &str = "restarted";
/// Pods ask when their kubelets have made their sandboxes.
pub const BY_KUBELETS: &str = "kubelets";
/// The pods of a node ask one after the other, and are released one after the other.
pub const IN_LOOPS: &str = "loops";

impl Default for Setting {
    /// Nobody asks for anything.
    fn default() -> Self {
        Self {
            panels: String::new(),
            series: String::new(),
            instances: 0,
            addresses: 0,
            taken: 0,
            spread: Seconds::ZERO,
            read: Seconds::ZERO,
            write: Seconds::ZERO,
            think: Seconds::ZERO,
            dial: Seconds::ZERO,
            retry: String::new(),
            update: String::new(),
            selection: String::new(),
            throttle: String::new(),
            system: System::Byom,
            pods: 1,
            width: 0,
            service: Seconds::ZERO,
            start: String::new(),
            pools: 1,
            lock: String::new(),
            faults: String::new(),
        }
    }
}

/// What the faults of a scenario begin with in [`Setting::faults`].
pub const OF_SCENARIO: &str = "scenario ";

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
        let pods = if self.pods == 1 { String::new() } else { format!("/p{}", self.pods) };
        let size = if self.width == 0 { String::new() } else { format!("/q{}x{}", self.width, self.service.as_micros()) };
        let start = match self.start.as_str() {
            TOGETHER => "/together",
            RESTARTED => "/restarted",
            IN_LOOPS => "/loops",
            _ => "",
        };
        let faults = if self.has_faults() { format!("/{}", self.faults.replace(' ', "-")) } else { String::new() };
        let Self { series, instances, addresses, taken, .. } = self;
        format!("{series}/n{instances}/a{addresses}/t{taken}/s{spread}/r{read}/w{think}{pods}{size}{start}{faults}")
    }

    /// Whether its bursts meet faults.
    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Its faults as a sentence says them: `no faults`, `hostile faults`, `the faults of byom-swarm`.
    pub fn told_faults(&self) -> String {
        match self.faults.strip_prefix(OF_SCENARIO) {
            Some(name) => format!("the faults of {name}"),
            None if self.has_faults() => format!("{} faults", self.faults),
            None => "no faults".to_owned(),
        }
    }

    /// Whether an address is there for everybody, so that only conflicts can refuse one.
    pub fn is_roomy(&self) -> bool {
        self.addresses.saturating_sub(self.taken) >= self.instances * self.pods
    }
}
