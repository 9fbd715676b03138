//! Several scenarios that take turns, so that what a number of runs finds says something about all of them.

use sim_harness::engine::load::Ready;

/// Scenarios, of which each has its share of the runs: as the numbers of seeds are that they themselves say.
pub(super) struct Rotation {
    scenarios: Vec<Ready>,
}

/// Whose turn it is, and with which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    scenario: usize,
    pub(super) seed: u64,
}

impl Rotation {
    pub(super) fn new(scenarios: Vec<Ready>) -> Self {
        Self { scenarios }
    }

    /// One scenario, whose turn it always is.
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

    /// The name of the scenario whose turn it was; without a turn, that of the only one, or how many there are.
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

    /// The turns, without an end.
    pub(super) fn turns(&self) -> Turns {
        Turns { weights: self.scenarios.iter().map(weight).collect(), taken: vec![0; self.scenarios.len()] }
    }
}

fn weight(ready: &Ready) -> u64 {
    ready.scenario.seeds.max(1)
}

/// The turns of a [`Rotation`], each scenario's in the middle of its share.
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
        // No stretch of five is without the smaller one, and none has it twice in a row.
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
