//! Bursts of allocations from one pool: the allocations per second, and the cost of one in a small and in a large pool.

use std::hint::black_box;
use std::sync::LazyLock;

use sim_byom::workload::burst::{BurstDraft, RetryName};
use sim_config as input;
use sim_config::Choice;
use sim_harness::scenario::Scenario;
use sim_harness::system::RunOptions;
use sim_harness::world::{Stage, run};

/// The cluster of B §8.1, and 64 adaptors that start at once.
static SCENARIO: LazyLock<Scenario> = LazyLock::new(|| {
    let text = include_str!("../../../../scenarios/capacity/pool-simultaneous.toml");
    input::toml::from_str("pool-simultaneous.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
});

fn scenario(draft: BurstDraft) -> Scenario {
    Scenario { workload: draft.into(), ..SCENARIO.clone() }
}

/// Runs bursts of one kind.
pub(crate) struct Bursts {
    scenario: Scenario,
    stage: Stage,
}

impl Bursts {
    /// Bursts of 64 adaptors with this retry policy.
    pub(crate) fn of_64(retry: RetryName) -> Self {
        let draft = BurstDraft { instances: Choice::Is(64), retry: Choice::Is(retry), probes: Choice::Is(false), ..BurstDraft::default() };
        Self { scenario: scenario(draft), stage: Stage::new(Vec::new()) }
    }

    /// One adaptor that makes `allocations` allocations from a pool of `addresses` addresses, one after the other: only the pool matters.
    pub(crate) fn in_a_row(addresses: u32, allocations: u32) -> Self {
        let draft = BurstDraft {
            instances: Choice::Is(1),
            allocations: Choice::Is(allocations),
            addresses: Some(Choice::Is(addresses)),
            probes: Choice::Is(false),
            ..BurstDraft::default()
        };
        Self { scenario: scenario(draft), stage: Stage::new(Vec::new()) }
    }

    /// Runs the bursts of some seeds; returns the number of calls that received an address.
    pub(crate) fn run(&self, seeds: std::ops::Range<u64>) -> u64 {
        let allocated = |seed| {
            let outcome = run(&self.scenario.draw(seed), &self.stage, RunOptions::default());
            black_box(outcome.digest);
            outcome.figures.pool.map_or(0, |pool| pool.counts.allocated)
        };
        seeds.map(allocated).sum()
    }
}
