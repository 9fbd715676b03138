//! The coverage of `run --exhaustive`: every placement of a few disturbances at the requests of a plan.

use serde::{Deserialize, Serialize};

use crate::finding::tally;

/// The placements of up to a number of disturbances in the plans of some seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placements {
    /// The largest number of disturbances in a placement.
    pub disturbances: u32,
    /// Whether every placement was tried. Otherwise time was up, or the user stopped it.
    pub complete: bool,
    /// The numbers of the parts of the placements; empty = all. A part has its share of the first disturbances, and all placements that
    /// extend these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<u32>,
    /// The placements of no, of one, of two disturbances and so on, as far as the search came.
    pub levels: Vec<Level>,
    /// The placements by the effect of their last disturbance; by name.
    pub effects: Vec<EffectCount>,
}

/// The placements of one number of disturbances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// The number of disturbances in each placement.
    pub disturbances: u32,
    /// The number of these placements.
    pub placements: u64,
    /// The number of placements that were tried.
    pub tried: u64,
    /// The number of these whose run an earlier one had given; placements that extend them were not tried again.
    pub equivalent: u64,
    /// The number of these that violated a claim without an excuse; they were not extended.
    pub violated: u64,
}

/// The placements that end with one effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EffectCount {
    /// The effect on the request, as a plan writes it.
    pub effect: String,
    /// The number of placements that were tried.
    pub tried: u64,
    /// The number of these that violated a claim without an excuse.
    pub violated: u64,
}

impl Placements {
    /// The number of placements that were tried, with any number of disturbances.
    pub fn tried(&self) -> u64 {
        self.levels.iter().map(|level| level.tried).fold(0, u64::saturating_add)
    }

    /// The number of these whose run an earlier one had given.
    pub fn equivalent(&self) -> u64 {
        self.levels.iter().map(|level| level.equivalent).fold(0, u64::saturating_add)
    }

    /// Counts a placement that was tried and ends with `effect`.
    pub fn count(&mut self, effect: &str, violated: bool) {
        let position = self.effects.binary_search_by(|known| known.effect.as_str().cmp(effect));
        let at = position.unwrap_or_else(|at| {
            self.effects.insert(at, EffectCount { effect: effect.to_owned(), ..EffectCount::default() });
            at
        });
        self.effects[at].tried += 1;
        self.effects[at].violated += u64::from(violated);
    }

    /// Whether `other` holds another part of the same placements.
    pub fn is_apart_from(&self, other: &Self) -> bool {
        !self.parts.is_empty() && !other.parts.is_empty() && self.parts.iter().all(|part| !other.parts.contains(part))
    }

    /// Adds the placements of another shard to those of this one, where either has any.
    pub fn join_parts(one: &mut Option<Self>, other: Option<Self>) {
        match (one, other) {
            (Some(one), Some(other)) => one.join(other),
            (one @ None, other) => *one = other,
            (Some(_), None) => {}
        }
    }

    /// Adds the placements of another shard; the sum is complete only if both are.
    pub fn join(&mut self, other: Self) {
        self.disturbances = self.disturbances.max(other.disturbances);
        self.complete &= other.complete;
        self.parts.extend(other.parts);
        self.parts.sort_unstable();
        for level in other.levels {
            match self.levels.iter_mut().find(|known| known.disturbances == level.disturbances) {
                Some(known) => {
                    tally(&mut known.placements, level.placements);
                    tally(&mut known.tried, level.tried);
                    tally(&mut known.equivalent, level.equivalent);
                    tally(&mut known.violated, level.violated);
                }
                None => self.levels.push(level),
            }
        }
        self.levels.sort_by_key(|level| level.disturbances);
        for effect in other.effects {
            match self.effects.iter_mut().find(|known| known.effect == effect.effect) {
                Some(known) => {
                    tally(&mut known.tried, effect.tried);
                    tally(&mut known.violated, effect.violated);
                }
                None => self.effects.push(effect),
            }
        }
        self.effects.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u32, tried: u64) -> Placements {
        let level = Level { disturbances: 1, placements: 4, tried, equivalent: 1, violated: 0 };
        let mut part = Placements { disturbances: 1, complete: tried == 4, parts: vec![number], levels: vec![level], effects: vec![] };
        part.count("stale", false);
        part.count("late", number == 2);
        part
    }

    #[test]
    fn parts_add_up_and_are_complete_only_together() {
        let (mut whole, rest) = (part(2, 4), part(1, 4));
        assert!(whole.is_apart_from(&rest) && !whole.is_apart_from(&part(2, 4)));
        whole.join(rest);
        assert_eq!((whole.tried(), whole.equivalent(), whole.complete, &whole.parts[..]), (8, 2, true, &[1, 2][..]));
        assert_eq!(whole.effects[0], EffectCount { effect: "late".to_owned(), tried: 2, violated: 1 });
        whole.join(part(3, 2));
        assert!(!whole.complete);
    }
}
