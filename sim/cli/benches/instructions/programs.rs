//! The programs whose instructions are counted.

use super::STEEPEST;

/// A scenario, and the settings that differ from its file.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The path of the scenario in the repository.
    pub(crate) scenario: &'static str,
    /// The settings on the command line, each as `field=value`.
    pub(crate) settings: Vec<String>,
}

/// A scenario as a constant: its path and its settings.
type Set = (&'static str, &'static [&'static str]);

impl Program {
    /// A run whose largest part is the start of the process.
    pub(crate) const SHORTEST: Program = Program { scenario: "scenarios/smoke/counter-calm.toml", settings: Vec::new() };

    pub(crate) fn of((scenario, settings): Set) -> Self {
        Self { scenario, settings: settings.iter().map(|&setting| setting.to_owned()).collect() }
    }
}

const LIVES: &str = "scenarios/capacity/spiderpool-lives.toml";

/// The cost of one seed: the name of the figure, the scenario, the number of seeds counted, and the number of units per seed.
pub(crate) const SEEDS: &[(&str, Set, u64, u64)] = &[
    ("a seed of 3 agents and 200 pods", (LIVES, &[]), 3, 1),
    ("a seed of overlap", ("scenarios/chaos/overlap.toml", &[]), 5, 1),
    ("a seed of spiderpool-swarm", ("scenarios/chaos/spiderpool-swarm.toml", &[]), 10, 1),
    ("a seed of reclaim-swarm", ("scenarios/chaos/reclaim-swarm.toml", &[]), 10, 1),
    ("a seed of subnets-swarm", ("scenarios/chaos/subnets-swarm.toml", &[]), 10, 1),
    ("a seed of byom-contention", ("scenarios/chaos/byom-contention.toml", &[]), 10, 1),
    ("a seed of a burst of 64 adaptors", ("scenarios/smoke/byom-burst.toml", &["workload.instances=64", "workload.allocations=1"]), 5, 1),
    ("an increment by 4 clients", ("scenarios/smoke/counter-calm.toml", &["workload.clients=4", "workload.increments=50"]), 5, 4 * 50),
    ("an increment by 32 clients", ("scenarios/smoke/counter-calm.toml", &["workload.clients=32", "workload.increments=50"]), 5, 32 * 50),
];

/// The growth of the cost of one seed.
pub(crate) struct Growth {
    /// The name of the parameter that grows, and of those that stay constant.
    pub(crate) name: &'static str,
    /// The sizes at which the cost is counted.
    pub(crate) sizes: &'static [u64],
    /// The highest exponent between two sizes.
    pub(crate) steepest: f64,
    settings: fn(u64) -> Vec<String>,
}

impl Growth {
    pub(crate) fn program(&self, size: u64) -> Program {
        Program { scenario: LIVES, settings: (self.settings)(size) }
    }
}

/// Settings for this many pods. They arrive at the rate of the scenario, 200 a minute, so that more pods take longer.
fn pods(count: u64) -> Vec<String> {
    let arrival = count * 3 / 10;
    vec![
        format!("workload.apps={count}"),
        "workload.addresses=8192".to_owned(),
        format!("workload.arrival=\"0s..{arrival}s\""),
        format!("phases.safety=\"{}s\"", arrival + 60),
    ]
}

pub(crate) const GROWTHS: &[Growth] = &[
    Growth { name: "pods one after the other", sizes: &[100, 400, 1_600, 6_400], steepest: STEEPEST, settings: pods },
    Growth {
        name: "pods within a minute",
        sizes: &[100, 400, 1_600],
        steepest: STEEPEST,
        settings: |count| vec![format!("workload.apps={count}"), "workload.addresses=8192".to_owned()],
    },
    Growth {
        name: "nodes, with 200 pods",
        sizes: &[10, 100, 1_000],
        steepest: STEEPEST,
        settings: |count| vec![format!("workload.nodes={count}")],
    },
    // Each node is notified of each pod, so that part of the cost is the product of both numbers; it is the smaller part up to some hundred
    // nodes.
    Growth {
        name: "nodes with ten pods each",
        sizes: &[10, 40, 160],
        steepest: 1.5,
        settings: |count| [pods(count * 10), vec![format!("workload.nodes={count}")]].concat(),
    },
];
