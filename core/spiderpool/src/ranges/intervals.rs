//! Sets of numbers, as a list of intervals.

/// A set of numbers. Its size in memory is the number of gaps in it, whatever its content.
///
/// [`contains`](Self::contains) and [`first_absent_from`](Self::first_absent_from) are O(log n) in the number of
/// intervals; set operations are O(n log n).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    /// First and last number of each run, ascending; neither overlapping nor adjacent.
    runs: Vec<(u128, u128)>,
}

impl Intervals {
    /// The numbers from `first` to `last`; none if `first` is above `last`.
    pub fn between(first: u128, last: u128) -> Self {
        Self { runs: if first <= last { vec![(first, last)] } else { Vec::new() } }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// First and last number of each run, ascending. Runs are maximal.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = (u128, u128)> + ExactSizeIterator {
        self.runs.iter().copied()
    }

    /// The number of elements, at most `u128::MAX`, which also stands for one more.
    pub fn count(&self) -> u128 {
        self.runs().fold(0, |sum: u128, (first, last)| sum.saturating_add((last - first).saturating_add(1)))
    }

    /// Whether the set holds `number`.
    pub fn contains(&self, number: u128) -> bool {
        self.run_from(number).is_some_and(|(first, _)| first <= number)
    }

    /// Whether the set holds every number of `other`.
    pub fn contains_all(&self, other: &Self) -> bool {
        other.runs().all(|(low, high)| self.run_from(low).is_some_and(|(first, last)| first <= low && high <= last))
    }

    /// The lowest number from `number` on that is not in the set; `None` if it holds all up to `u128::MAX`.
    pub fn first_absent_from(&self, number: u128) -> Option<u128> {
        match self.run_from(number) {
            Some((first, last)) if first <= number => last.checked_add(1),
            _ => Some(number),
        }
    }

    /// The number with `index` lower ones in the set.
    pub fn nth(&self, index: u128) -> Option<u128> {
        let mut left = index;
        for (first, last) in self.runs() {
            if left <= last - first {
                return Some(first + left);
            }
            left -= last - first + 1;
        }
        None
    }

    /// The numbers one by one, ascending; there may be up to 2^128 of them.
    pub fn iter(&self) -> impl Iterator<Item = u128> {
        self.runs().flat_map(|(first, last)| first..=last)
    }

    /// The numbers in either set.
    pub fn union(&self, other: &Self) -> Self {
        self.runs().chain(other.runs()).collect()
    }

    /// The numbers in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let parts = |(low, high): (u128, u128)| {
            other.runs_from(low).take_while(move |(first, _)| *first <= high).map(move |(first, last)| (first.max(low), last.min(high)))
        };
        Self { runs: self.runs().flat_map(parts).collect() }
    }

    /// The first run of the numbers in both sets, without building the intersection.
    pub fn first_shared(&self, other: &Self) -> Option<(u128, u128)> {
        let part = |(low, high): (u128, u128)| {
            let (first, last) = other.run_from(low).filter(|(first, _)| *first <= high)?;
            Some((first.max(low), last.min(high)))
        };
        self.runs().find_map(part)
    }

    /// The numbers in this set only.
    pub fn difference(&self, other: &Self) -> Self {
        let mut runs = Vec::new();
        for (low, high) in self.runs() {
            let mut from = Some(low);
            for (first, last) in other.runs_from(low).take_while(|(first, _)| *first <= high) {
                if let Some(from) = from.filter(|from| *from < first) {
                    runs.push((from, first - 1));
                }
                from = last.checked_add(1);
            }
            if let Some(from) = from.filter(|from| *from <= high) {
                runs.push((from, high));
            }
        }
        Self { runs }
    }

    /// The first run that ends at `number` or above.
    fn run_from(&self, number: u128) -> Option<(u128, u128)> {
        self.runs_from(number).next()
    }

    /// The runs that end at `number` or above.
    fn runs_from(&self, number: u128) -> impl Iterator<Item = (u128, u128)> {
        let from = self.runs.partition_point(|(_, last)| *last < number);
        self.runs[from..].iter().copied()
    }
}

/// Builds a set from pairs of first and last, in any order; a pair with `first` above `last` holds nothing.
impl FromIterator<(u128, u128)> for Intervals {
    fn from_iter<I: IntoIterator<Item = (u128, u128)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().filter(|(first, last)| first <= last).collect();
        pairs.sort_unstable();
        let mut runs: Vec<(u128, u128)> = Vec::with_capacity(pairs.len());
        for (first, last) in pairs {
            match runs.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => runs.push((first, last)),
            }
        }
        Self { runs }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Numbers near both ends, so that runs meet the ends and each other.
    fn numbers() -> impl Strategy<Value = u128> {
        prop_oneof![0u128..24, (0u128..24).prop_map(|below| u128::MAX - below)]
    }

    fn pairs() -> impl Strategy<Value = Vec<(u128, u128)>> {
        prop::collection::vec((numbers(), 0u128..6).prop_map(|(first, more)| (first, first.saturating_add(more))), 0..8)
    }

    fn plain(pairs: &[(u128, u128)]) -> BTreeSet<u128> {
        pairs.iter().flat_map(|(first, last)| *first..=*last).collect()
    }

    fn check(set: &Intervals, oracle: &BTreeSet<u128>) -> Result<(), TestCaseError> {
        prop_assert!(set.iter().eq(oracle.iter().copied()));
        prop_assert_eq!(set.count(), oracle.len() as u128);
        prop_assert_eq!(set.is_empty(), oracle.is_empty());
        // Runs are maximal, so equal sets are equal values.
        let runs: Vec<_> = set.runs().collect();
        prop_assert!(runs.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        Ok(())
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(a in pairs(), b in pairs(), probe in numbers(), index in 0usize..40) {
            let (x, y) = (a.iter().copied().collect::<Intervals>(), b.iter().copied().collect::<Intervals>());
            let (p, q) = (plain(&a), plain(&b));
            check(&x, &p)?;
            check(&x.union(&y), &(&p | &q))?;
            check(&x.intersection(&y), &(&p & &q))?;
            check(&x.difference(&y), &(&p - &q))?;
            prop_assert_eq!(x.contains(probe), p.contains(&probe));
            prop_assert_eq!(x.contains_all(&y), p.is_superset(&q));
            prop_assert!(x.contains_all(&x.intersection(&y)));
            prop_assert_eq!(x.first_shared(&y), x.intersection(&y).runs().next());
            prop_assert_eq!(x.nth(index as u128), p.iter().nth(index).copied());
            let absent = (probe..=u128::MAX).take(64).find(|number| !p.contains(number));
            prop_assert_eq!(x.first_absent_from(probe), absent);
        }
    }

    #[test]
    fn all_numbers_are_one_run() {
        let all = Intervals::between(0, u128::MAX);
        assert_eq!((all.runs().len(), all.count(), all.first_absent_from(7)), (1, u128::MAX, None));
        assert_eq!(all.nth(u128::MAX), Some(u128::MAX));
        let rest = all.difference(&Intervals::between(5, 5));
        assert_eq!(rest.runs().collect::<Vec<_>>(), [(0, 4), (6, u128::MAX)]);
        assert_eq!((rest.count(), rest.nth(u128::MAX)), (u128::MAX, None));
        assert_eq!(rest.union(&Intervals::between(5, 5)), all);
        assert!(Intervals::between(1, 0).is_empty());
    }
}
