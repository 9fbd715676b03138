//! The setting that the bursts of a point have in common.

use serde::{Deserialize, Serialize};

use crate::Seconds;

/// The system whose processes share a pool.
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
    /// The name of the system in tables.
    pub fn name(self) -> &'static str {
        match self {
            System::Byom => "byom",
            System::Spiderpool => "spiderpool",
        }
    }

    /// The noun for those who share a pool, singular and plural.
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

/// The setting of a point: `instances` adaptors that allocate one address each from one pool (B §8.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The panels that show it, joined by `+`: `retries+spread`.
    pub panels: String,
    /// The curve on which it lies: everything except what the axis shows.
    pub series: String,
    /// The number of adaptors or nodes, each on its own host.
    pub instances: u32,
    /// The total number of addresses in the pool.
    pub addresses: u32,
    /// The number of addresses taken at the beginning.
    pub taken: u32,
    /// The end of the interval over which starts are uniform, from the beginning.
    #[serde(rename = "spread_s")]
    pub spread: Seconds,
    /// The mean round trip of a read.
    #[serde(rename = "read_s")]
    pub read: Seconds,
    /// The mean round trip of a write.
    #[serde(rename = "write_s")]
    pub write: Seconds,
    /// The time that an adaptor needs between an answer and the request that follows it.
    #[serde(rename = "think_s")]
    pub think: Seconds,
    /// The mean time of trying a VM before its address is handed out; 0 = it is not tried.
    #[serde(rename = "dial_s")]
    pub dial: Seconds,
    /// The retry policy after a conflict: `default-backoff`, `default-retry`, `twelve`, `patient`; of agents: `hardened`, `upstream`.
    pub retry: String,
    /// The way in which a write is decided after a conflict: [`DECIDES_AGAIN`] or [`DECIDES_ONCE`].
    pub update: String,
    /// The choice of a free address: `hash` or `first`.
    pub selection: String,
    /// The rate limit of an adaptor's requests: `none`, `client-go`, `drained`; of an agent's: `agent`.
    pub throttle: String,
    /// The system whose processes share the pool. An absent field has the value from before there was a choice.
    #[serde(default, skip_serializing_if = "System::is_byom")]
    pub system: System,
    /// The number of pods that start on each node, each of which asks for one address.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pods: u32,
    /// The number of requests that an API server works on at the same time, while others wait; 0 = no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub width: u32,
    /// The time for which a read keeps a server of a [`width`](Self::width) busy, as a part of its round trip; a write does so one and a
    /// half times as long.
    #[serde(default, rename = "service_s", skip_serializing_if = "Seconds::is_zero")]
    pub service: Seconds,
    /// The start of the first calls of pods on nodes: `kubelets` = after their sandboxes, which take time, `together` = all at the same
    /// instant, `restarted` = the same, at agents whose first call it is, `loops` = one after the other on each node. Empty for adaptors.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub start: String,
    /// The number of pools over which addresses and writers are spread.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub pools: u32,
    /// The mechanism that orders the writers, in place of conflicts alone: `lease`, `allocator`. Empty = none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lock: String,
    /// The faults of its bursts: those of a profile of swarms (`mixed`, `hostile`), or `scenario NAME`. Empty = none.
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
    /// A setting without any calls.
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

/// The beginning of [`Setting::faults`] for the faults of a scenario.
pub const OF_SCENARIO: &str = "scenario ";

/// Each attempt reads, decides and writes (`as_documented` of B §0).
pub const DECIDES_AGAIN: &str = "decides-again";
/// The first decision is written until it is accepted (`as_coded` of B §0).
pub const DECIDES_ONCE: &str = "decides-once";

impl Setting {
    /// The time from the effect of a read to the effect of the write that uses its version, in seconds: delta of B §8.1.
    pub fn vulnerable_s(&self) -> f64 {
        self.read.as_f64() / 2.0 + self.think.as_f64() + self.write.as_f64() / 2.0
    }

    /// The time from the first read to the effect of the first write, in seconds: Delta of B §8.1.
    pub fn decided_s(&self) -> f64 {
        1.5 * self.read.as_f64() + self.dial.as_f64() + 2.0 * self.think.as_f64() + self.write.as_f64() / 2.0
    }

    /// The share of the pool that is taken at the beginning.
    pub fn fill(&self) -> f64 {
        if self.addresses == 0 { 0.0 } else { f64::from(self.taken) / f64::from(self.addresses) }
    }

    /// Whether the point is shown in `panel`.
    pub fn is_in(&self, panel: &str) -> bool {
        self.panels.split('+').any(|one| one == panel)
    }

    /// A name of the point in a folder, unique among the points of a report.
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

    /// Whether the bursts meet faults.
    pub fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// The faults in words: `no faults`, `hostile faults`, `the faults of byom-swarm`.
    pub fn told_faults(&self) -> String {
        match self.faults.strip_prefix(OF_SCENARIO) {
            Some(name) => format!("the faults of {name}"),
            None if self.has_faults() => format!("{} faults", self.faults),
            None => "no faults".to_owned(),
        }
    }

    /// Whether there are enough addresses for all calls, so that only conflicts can refuse one.
    pub fn is_roomy(&self) -> bool {
        self.addresses.saturating_sub(self.taken) >= self.instances * self.pods
    }
}
