//! Ranges of the seeds that a result covers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The seeds from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeedRange {
    /// The smallest seed, which is included.
    pub first: u64,
    /// The largest seed, which is included; never below `first`.
    pub last: u64,
}

impl SeedRange {
    /// `count` seeds from `first` on; `None` when `count` is 0 or the range would pass the largest seed.
    pub fn new(first: u64, count: u64) -> Option<Self> {
        first.checked_add(count.checked_sub(1)?).map(|last| Self { first, last })
    }

    /// The number of these seeds.
    pub fn count(self) -> u128 {
        u128::from(self.last) - u128::from(self.first) + 1
    }

    /// The part of shard `index` (from 1) out of `total`: one contiguous block, sizes differing by at most one seed,
    /// the larger ones first. `None` when there are more shards than seeds and this one stays empty.
    ///
    /// # Panics
    ///
    /// When `index` is not in `1..=total`.
    pub fn shard(self, index: u32, total: u32) -> Option<Self> {
        assert!((1..=total).contains(&index), "shard {index} of {total} does not exist");
        let (index, total) = (u128::from(index - 1), u128::from(total));
        let (size, larger) = (self.count() / total, self.count() % total);
        let skipped = index * size + index.min(larger);
        let count = size + u128::from(index < larger);
        if count == 0 {
            return None;
        }
        let first = u128::from(self.first) + skipped;
        // Both ends lie within `self`, so they fit.
        Some(Self { first: first as u64, last: (first + count - 1) as u64 })
    }
}

impl fmt::Display for SeedRange {
    /// Formats the range as `7`, or `0 to 99`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{} to {}", self.first, self.last) }
    }
}

/// Adds one seed to ranges in normal form; seeds that are already present stay. Cheap when seeds come in order.
pub(crate) fn insert(ranges: &mut Vec<SeedRange>, seed: u64) {
    match ranges.last_mut() {
        Some(last) if last.last.checked_add(1) == Some(seed) => last.last = seed,
        Some(last) if seed <= last.last => {
            ranges.push(SeedRange { first: seed, last: seed });
            normalize(ranges);
        }
        _ => ranges.push(SeedRange { first: seed, last: seed }),
    }
}

/// Adds a range to ranges in normal form; seeds that are already present stay. Cheap when ranges come in order.
pub(crate) fn insert_range(ranges: &mut Vec<SeedRange>, range: SeedRange) {
    let comes_last = ranges.last().is_none_or(|last| last.last.checked_add(1).is_some_and(|next| next < range.first));
    ranges.push(range);
    if !comes_last {
        normalize(ranges);
    }
}

/// Keeps only the first `count` seeds of ranges in normal form. Truncating the parts of a union first does not change the truncated union.
pub(crate) fn keep_first(ranges: &mut Vec<SeedRange>, count: usize) {
    let mut left = count as u128;
    ranges.retain_mut(|range| {
        let kept = range.count().min(left);
        left -= kept;
        if kept > 0 {
            // At least one seed of the range is kept, and at most all of them.
            range.last = (u128::from(range.first) + kept - 1) as u64;
        }
        kept > 0
    });
}

/// Brings ranges into normal form: ascending, neighbours joined.
pub(crate) fn normalize(ranges: &mut Vec<SeedRange>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let touches = kept.last.checked_add(1).is_none_or(|after| next.first <= after);
        if touches {
            kept.last = kept.last.max(next.last);
        }
        touches
    });
}

/// The seeds that lie between ranges in normal form, but in none of them.
pub fn gaps(ranges: &[SeedRange]) -> Vec<SeedRange> {
    ranges.windows(2).map(|pair| SeedRange { first: pair[0].last + 1, last: pair[1].first - 1 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_seed_of_all_is_a_seed() {
        assert_eq!(SeedRange::new(u64::MAX, 1), Some(SeedRange { first: u64::MAX, last: u64::MAX }));
        assert_eq!(SeedRange::new(u64::MAX, 2), None);
        assert_eq!(SeedRange::new(5, 0), None);
    }

    proptest! {
        #[test]
        fn the_first_seeds_of_a_whole_are_those_of_its_parts(
            seeds in proptest::collection::vec((0..90u64, any::<bool>()), 0..70),
            count in 0..40usize,
        ) {
            let ranges = |seeds: &mut dyn Iterator<Item = u64>| {
                let mut ranges = seeds.fold(Vec::new(), |mut ranges, seed| { insert(&mut ranges, seed); ranges });
                keep_first(&mut ranges, count);
                ranges
            };
            let whole = ranges(&mut seeds.iter().map(|(seed, _)| *seed));
            let mut joined = ranges(&mut seeds.iter().filter(|(_, here)| *here).map(|(seed, _)| *seed));
            for range in ranges(&mut seeds.iter().filter(|(_, here)| !here).map(|(seed, _)| *seed)) {
                insert_range(&mut joined, range);
            }
            keep_first(&mut joined, count);
            prop_assert_eq!(joined, whole);
        }

        #[test]
        fn shards_cut_a_range_into_even_blocks(first: u64, count in 1..5_000u64, total in 1..40u32) {
            let Some(whole) = SeedRange::new(first, count) else { return Ok(()) };
            let blocks: Vec<_> = (1..=total).filter_map(|index| whole.shard(index, total)).collect();
            let sizes: Vec<_> = blocks.iter().map(|block| block.count()).collect();
            prop_assert_eq!(sizes.iter().sum::<u128>(), u128::from(count));
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            let mut joined = blocks;
            prop_assert!(joined.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
            normalize(&mut joined);
            prop_assert_eq!(joined, vec![whole]);
        }

        #[test]
        fn the_order_of_seeds_does_not_matter(mut seeds in proptest::collection::vec(0..60u64, 0..60)) {
            let ranges = |seeds: &[u64]| seeds.iter().fold(Vec::new(), |mut ranges, &seed| { insert(&mut ranges, seed); ranges });
            let shuffled = ranges(&seeds);
            seeds.sort_unstable();
            seeds.dedup();
            prop_assert_eq!(&shuffled, &ranges(&seeds));
            prop_assert_eq!(shuffled.iter().map(|range| range.count()).sum::<u128>(), seeds.len() as u128);
            prop_assert!(gaps(&shuffled).iter().all(|gap| gap.first <= gap.last));
        }
    }
}
