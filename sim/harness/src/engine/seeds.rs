//! The selection of seeds: the first one, their number, and the shard of them.

use std::str::FromStr;

use ipam_reports::SeedRange;

use super::Error;

/// The seeds that run of each scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seeds {
    /// The first seed of the sweep, all its shards taken together; the others follow it one by one.
    pub first: u64,
    /// The number of seeds; `None` = as many as the scenario says.
    pub count: Option<u64>,
    /// The shard that this process runs; `None` = all seeds.
    pub shard: Option<Shard>,
}

impl Seeds {
    /// This seed alone, however many the scenario asks for.
    pub fn only(seed: u64) -> Self {
        Self { first: seed, count: Some(1), shard: None }
    }

    /// The seeds to run, where the scenario itself says `default` seeds; with a shard, the part of it. `None` if the shard is empty because
    /// there are more shards than seeds.
    ///
    /// # Errors
    /// Fails if the last seed would exceed `u64::MAX`.
    pub fn range(&self, default: u64) -> Result<Option<SeedRange>, Error> {
        let whole = self.whole(default)?;
        Ok(match self.shard {
            Some(Shard { index, total }) => whole.shard(index, total),
            None => Some(whole),
        })
    }

    /// The seeds of all shards together, where the scenario itself says `default` seeds. `None` if there is only one shard, which is the
    /// whole.
    ///
    /// # Errors
    /// Fails if the last seed would exceed `u64::MAX`.
    pub fn shard_of(&self, default: u64) -> Result<Option<SeedRange>, Error> {
        let whole = self.whole(default)?;
        Ok(self.shard.filter(|shard| shard.total > 1).map(|_| whole))
    }

    fn whole(&self, default: u64) -> Result<SeedRange, Error> {
        let (first, count) = (self.first, self.count.unwrap_or(default));
        SeedRange::new(first, count)
            .ok_or_else(|| Error::usage(format!("there are no {count} seeds from {first} on: the last seed is {}", u64::MAX)))
    }
}

/// One part of a sweep: `2/4` is the second of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1 to `total`.
    pub index: u32,
    /// The number of parts.
    pub total: u32,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(index, total)| Some((index.parse().ok()?, total.parse().ok()?)));
        match parts {
            Some((index, total)) if (1..=total).contains(&index) => Ok(Self { index, total }),
            Some((0, total)) if total > 0 => Err(format!("shards count from 1: the first of {total} is 1/{total}")),
            _ => Err("expected K/N with K from 1 to N, e.g. 2/4".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_those_of_the_scenario_unless_they_are_named() {
        let range = |seeds: Seeds| seeds.range(10).unwrap().map(|range| (range.first, range.last));
        assert_eq!(range(Seeds::default()), Some((0, 9)));
        assert_eq!(range(Seeds { first: 5, count: Some(2), shard: None }), Some((5, 6)));
        assert_eq!(range(Seeds::only(u64::MAX)), Some((u64::MAX, u64::MAX)));
        assert_eq!(range(Seeds { count: Some(1), shard: "2/2".parse().ok(), ..Seeds::default() }), None);
        let error = Seeds { first: u64::MAX, count: Some(2), shard: None }.range(10).unwrap_err();
        assert!(error.to_string().ends_with("the last seed is 18446744073709551615"), "{error}");
    }
}
