//! Several scenarios that take turns, so that the number of runs until a find applies to all of them together.

use sim_harness::engine::load::Ready;

/// Scenarios, each with a share of the runs that is proportional to its own number of seeds.
pub(super) struct Rotation {
    scenarios: Vec<Ready>,
}

/// The scenario of a turn, and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    scenario: usize,
    pub(super) seed: u64,
}

impl Rotation {
    pub(super) fn new(scenarios: Vec<Ready>) -> Self {
        Self { scenarios }
    }

    /// A rotation of a single scenario.
    pub(super) fn of_one(ready: Ready) -> Self {
        Self::new(vec![ready])
    }

    pub(super) fn is_empty(&self) -> bool {
        self.scenarios.is_empty()
    }

    /// The scenario of a turn.
    pub(super) fn ready(&self, turn: Turn) -> &Ready {
        &self.scenarios[turn.scenario]
    }

    /// The name of the scenario of a turn; without a turn, that of the only scenario, or the number of scenarios.
    pub(super) fn name(&self, turn: Option<Turn>) -> String {
        match (turn, &*self.scenarios) {
            (Some(turn), _) => self.ready(turn).scenario.name.clone(),
            (None, [only]) => only.scenario.name.clone(),
            (None, all) => format!("none of {}", all.len()),
        }
    }

    #[cfg(test)]
    pub(super) fn has(&self, is: impl Fn(&sim_harness::scenario::Scenario) -> bool) -> bool {
        self.scenarios.iter().any(|ready| is(&ready.scenario))
    }

    /// The endless sequence of turns.
    pub(super) fn turns(&self) -> Turns {
        Turns { weights: self.scenarios.iter().map(weight).collect(), taken: vec![0; self.scenarios.len()] }
    }
}

fn weight(ready: &Ready) -> u64 {
    ready.scenario.seeds.max(1)
}

/// The turns of a [`Rotation`], each of them in the middle of its scenario's share.
pub(super) struct Turns {
    weights: Vec<u64>,
    taken: Vec<u64>,
}

impl Iterator for Turns {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        // Compares (2 taken + 1) / weight without a division.
        let is_at = |one: usize, weight: usize| (u128::from(self.taken[one]) * 2 + 1) * u128::from(self.weights[weight]);
        let scenario = (0..self.weights.len()).min_by(|&one, &other| is_at(one, other).cmp(&is_at(other, one)))?;
        let seed = self.taken[scenario];
        self.taken[scenario] += 1;
        Some(Turn { scenario, seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(weights: &[u64], count: usize) -> Vec<(usize, u64)> {
        let turns = Turns { weights: weights.to_vec(), taken: vec![0; weights.len()] };
        turns.take(count).map(|turn| (turn.scenario, turn.seed)).collect()
    }

    #[test]
    fn one_scenario_has_every_turn() {
        assert_eq!(turns(&[20], 3), [(0, 0), (0, 1), (0, 2)]);
        assert_eq!(turns(&[], 3), []);
    }

    #[test]
    fn scenarios_take_turns_by_their_seeds() {
        assert_eq!(turns(&[1, 1], 4), [(0, 0), (1, 0), (0, 1), (1, 1)]);
        let of_both = turns(&[200, 50], 250);
        assert_eq!(of_both.iter().filter(|(scenario, _)| *scenario == 0).count(), 200);
        // The smaller scenario occurs in every five consecutive turns, and never twice in a row.
        assert!(of_both.windows(5).all(|five| five.iter().any(|(scenario, _)| *scenario == 1)));
        assert!(of_both.windows(2).all(|two| two.iter().any(|(scenario, _)| *scenario == 0)));
    }

    #[test]
    fn no_seed_of_a_scenario_comes_twice() {
        let mut all = turns(&[7, 3, 11], 500);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 500);
    }
}
