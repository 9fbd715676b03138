//! The plans that a search keeps because each reached something that no run before it had.

use std::collections::BTreeMap;

use sim_config::draw::{Draw, below};

use super::edit::Individual;

/// A plan that was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The number of its run within the search, from 0 on.
    pub number: u64,
    /// The plan that ran, and may be edited.
    pub individual: Individual,
    /// The run whose plan was edited; `None` = a seed drew the plan.
    pub parent: Option<u64>,
    /// The edits that were made to that plan.
    pub edits: Vec<String>,
    /// The numbers of its features, ascending.
    pub features: Vec<u32>,
    /// The numbers of those features that no run before it had.
    pub kept_for: Vec<u32>,
    /// The number of plans that were made from it.
    pub chosen: u32,
}

/// A feature, and the number of runs that had it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its text, as in [`crate::feature`].
    pub text: String,
    /// The number of runs that had it.
    pub hits: u32,
}

/// The plans that a search keeps, and the features that it has reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Corpus {
    /// The kept plans, in the order in which they ran.
    pub entries: Vec<Entry>,
    /// The features, in the order in which they were reached first.
    pub features: Vec<Known>,
    /// The number of each feature.
    numbers: BTreeMap<String, u32>,
}

/// The energy that a feature of only one run adds to its plan; one that a thousand runs had adds a thousandth.
const RARE: u64 = 1 << 20;

impl Corpus {
    /// The corpus of an earlier search.
    pub fn new(entries: Vec<Entry>, features: Vec<Known>) -> Self {
        let numbers = (0..).zip(&features).map(|(number, known)| (known.text.clone(), number)).collect();
        Self { entries, features, numbers }
    }

    /// Counts the features of a run. Returns their numbers, and the numbers of the new ones.
    pub fn count(&mut self, features: &[String]) -> (Vec<u32>, Vec<u32>) {
        let mut new = Vec::new();
        let mut numbers: Vec<u32> = Vec::with_capacity(features.len());
        for feature in features {
            let number = match self.numbers.get(feature) {
                Some(number) => *number,
                None => {
                    let number = self.features.len() as u32;
                    self.numbers.insert(feature.clone(), number);
                    self.features.push(Known { text: feature.clone(), hits: 0 });
                    new.push(number);
                    number
                }
            };
            let hits = &mut self.features[number as usize].hits;
            *hits = hits.saturating_add(1);
            numbers.push(number);
        }
        numbers.sort_unstable();
        (numbers, new)
    }

    /// Whether a feature was reached.
    pub fn has(&self, feature: &str) -> bool {
        self.numbers.contains_key(feature)
    }

    /// The weight of each plan in the choice: the rarer its features, and the less often it was chosen before, the greater.
    pub fn energies(&self) -> Energies {
        let mut sum = 0u64;
        let of = |entry: &Entry| {
            let rarity: u64 = entry.features.iter().map(|&number| RARE / u64::from(self.features[number as usize].hits.max(1))).sum();
            rarity / (1 + u64::from(entry.chosen)) + 1
        };
        let sums = self.entries.iter().map(|entry| {
            sum = sum.saturating_add(of(entry));
            sum
        });
        Energies(sums.collect())
    }

    /// Equal weights for all plans.
    pub fn equal_energies(&self) -> Energies {
        Energies((1..=self.entries.len() as u64).collect())
    }
}

/// The weights of the plans of a corpus, added up.
pub struct Energies(Vec<u64>);

impl Energies {
    /// The index of a drawn plan; `None` = there is none.
    pub fn pick(&self, draw: &mut Draw) -> Option<usize> {
        let word = draw.u64();
        let number = below(word, *self.0.last()?);
        Some(self.0.partition_point(|sum| *sum <= number))
    }
}
