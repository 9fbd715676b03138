//! The shards of a whole that a result covers.

use serde::{Deserialize, Serialize};

/// Some shards of a whole. A result without this mark is a whole, or was made before there was such a mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shards {
    /// The number of shards into which the whole was cut.
    pub total: u32,
    /// The shards in the result, ascending, from 1 to `total`.
    pub present: Vec<u32>,
}

/// The reason why shards are not parts of one whole. Numbers are positions in the merged list, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardsError {
    /// Two results were cut differently.
    Totals([(usize, u32); 2]),
    /// Two results are, or contain, the same shard.
    Twice {
        /// The number of the shard, from 1.
        index: u32,
        /// The two results, the earlier one first.
        results: [usize; 2],
    },
}

impl Shards {
    /// Shard `index` of `total`; `None` where there is only one, which is the whole.
    pub fn one(index: u32, total: u32) -> Option<Self> {
        (total > 1).then(|| Self { total, present: vec![index] })
    }

    /// The number of missing shards.
    pub fn missing_total(&self) -> u32 {
        self.total.saturating_sub(u32::try_from(self.present.len()).unwrap_or(u32::MAX))
    }

    /// The shards that are missing, ascending.
    pub fn missing(&self) -> impl Iterator<Item = u32> {
        (1..=self.total).filter(|index| self.present.binary_search(index).is_err())
    }

    /// The shards of several results together; `None` when none is missing, or when a result has no mark, so that this is unknown.
    pub(crate) fn join<'a>(results: impl IntoIterator<Item = Option<&'a Shards>>) -> Result<Option<Shards>, ShardsError> {
        let mut known: Vec<(u32, usize)> = Vec::new();
        let mut total: Option<(usize, u32)> = None;
        let mut unmarked = false;
        for (result, shards) in results.into_iter().enumerate() {
            let Some(shards) = shards else {
                unmarked = true;
                continue;
            };
            let first = *total.get_or_insert((result, shards.total));
            if first.1 != shards.total {
                return Err(ShardsError::Totals([first, (result, shards.total)]));
            }
            known.extend(shards.present.iter().map(|&index| (index, result)));
        }
        known.sort_unstable();
        if let Some(pair) = known.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(ShardsError::Twice { index: pair[0].0, results: [pair[0].1, pair[1].1] });
        }
        let joined = total.map(|(_, total)| Shards { total, present: known.into_iter().map(|(index, _)| index).collect() });
        Ok(joined.filter(|shards| !unmarked && shards.missing_total() > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(total: u32, present: &[u32]) -> Option<Shards> {
        Some(Shards { total, present: present.to_vec() })
    }

    fn join(results: &[Option<Shards>]) -> Result<Option<Shards>, ShardsError> {
        Shards::join(results.iter().map(Option::as_ref))
    }

    #[test]
    fn missing_shards_are_known_also_at_the_ends() {
        let joined = join(&[shards(4, &[3]), shards(4, &[2])]).unwrap().unwrap();
        assert_eq!((joined.missing_total(), joined.missing().collect::<Vec<_>>()), (2, vec![1, 4]));
        assert_eq!(join(&[Some(joined), shards(4, &[1]), shards(4, &[4])]), Ok(None), "all four are the whole");
    }

    #[test]
    fn a_single_shard_is_the_whole() {
        assert_eq!((Shards::one(1, 1), Shards::one(2, 3)), (None, shards(3, &[2])));
    }

    #[test]
    fn a_result_without_a_mark_leaves_it_open_what_is_missing() {
        assert_eq!(join(&[shards(4, &[3]), None]), Ok(None));
        assert_eq!(join(&[None, None]), Ok(None));
    }

    #[test]
    fn shards_of_different_wholes_do_not_fit() {
        assert_eq!(join(&[None, shards(4, &[3]), shards(5, &[2])]), Err(ShardsError::Totals([(1, 4), (2, 5)])));
        assert_eq!(join(&[shards(4, &[3]), shards(4, &[1, 3])]), Err(ShardsError::Twice { index: 3, results: [0, 1] }));
    }
}
