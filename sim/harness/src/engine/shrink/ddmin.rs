//! Delta debugging over lists and numbers: finds small inputs that still fail, by repeated tests.
//!
//! The order of the tests depends on nothing but their results, so that equal tests give equal results. Nothing is assumed of a test: if it
//! is not monotone, the result still fails, but something smaller may fail, too.

/// The longest list of which [`ddmin`] also tries to leave out two items at once.
const PAIRS_MAX: usize = 16;

/// The smallest sublist found for which `fails` is true, in the order of `items`. It must be true for `items` itself, which is not tested.
///
/// Half of the list is left out at a time, then a quarter, and at last single items, until no single item can be left out. Of short lists
/// no two items can be left out either: an item that undoes another one often goes only together with it.
pub(super) fn ddmin<T: Clone>(items: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    if items.is_empty() || fails(&[]) {
        return Vec::new();
    }
    let mut left = items.to_vec();
    let mut chunk = left.len().div_ceil(2);
    // The empty list was tested: a single item has to stay.
    while left.len() > 1 {
        let before = left.len();
        let mut at = 0;
        while at < left.len() && left.len() > 1 {
            let without = [&left[..at], &left[(at + chunk).min(left.len())..]].concat();
            if !without.is_empty() && fails(&without) {
                left = without;
            } else {
                at += chunk;
            }
        }
        let removed = left.len() < before;
        if chunk > 1 {
            chunk = chunk.div_ceil(2).min(left.len().div_ceil(2));
        } else if !removed && !leave_out_two(&mut left, &mut fails) {
            break;
        }
    }
    left
}

/// Leaves out the first two items without which `fails` is still true. Returns whether there were any.
fn leave_out_two<T: Clone>(left: &mut Vec<T>, fails: &mut impl FnMut(&[T]) -> bool) -> bool {
    if left.len() > PAIRS_MAX {
        return false;
    }
    let pairs = (0..left.len()).flat_map(|first| (first + 1..left.len()).map(move |second| (first, second)));
    for (first, second) in pairs {
        let mut without = left.clone();
        without.remove(second);
        without.remove(first);
        if !without.is_empty() && fails(&without) {
            *left = without;
            return true;
        }
    }
    false
}

/// A number from `floor` to `value` for which `fails` is true, by bisection; it must be true for `value` itself, which is not tested. The
/// result is within an eighth of a number for which `fails` is false, and has few digits if possible.
pub(super) fn lower(value: u64, floor: u64, mut fails: impl FnMut(u64) -> bool) -> u64 {
    if value <= floor || fails(floor) {
        return value.min(floor);
    }
    let (mut holds, mut high) = (floor, value);
    while high - holds > (high / 8).max(1) {
        let middle = round(holds + (high - holds) / 2, holds);
        if fails(middle) {
            high = middle;
        } else {
            holds = middle;
        }
    }
    high
}

/// `number` rounded to as few digits as keep it above `above`.
fn round(number: u64, above: u64) -> u64 {
    let mut unit = 10u64.pow(number.checked_ilog10().unwrap_or(0));
    while number / unit * unit <= above && unit > 1 {
        unit /= 10;
    }
    number / unit * unit
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    /// Every sublist of the numbers from 0, as a set of bits.
    fn items(set: u32) -> Vec<u32> {
        (0..32).filter(|item| set >> item & 1 == 1).collect()
    }

    fn set(items: &[u32]) -> u32 {
        items.iter().map(|item| 1 << item).sum()
    }

    #[test]
    fn what_fails_for_itself_shrinks_to_nothing() {
        assert_eq!(ddmin(&[1, 2, 3], |_| true), [0; 0]);
    }

    #[test]
    fn two_needles_are_found_in_a_large_haystack_with_few_questions() {
        let asked = Cell::new(0);
        let haystack: Vec<u32> = (0..1_000).collect();
        let found = ddmin(&haystack, |items| {
            asked.set(asked.get() + 1);
            items.contains(&17) && items.contains(&803)
        });
        assert_eq!(found, [17, 803]);
        assert!(asked.get() < 80, "{} questions", asked.get());
    }

    #[test]
    fn items_that_only_go_together_are_left_out_together() {
        // 3 undoes 2, so that one of them alone spoils it.
        let fails = |items: &[u32]| items.contains(&1) && items.contains(&2) == items.contains(&3);
        assert_eq!(ddmin(&[1, 2, 3, 4], fails), [1]);
    }

    #[test]
    fn a_number_comes_close_to_where_it_stops_failing() {
        assert_eq!(lower(1_000_000, 0, |_| true), 0);
        assert_eq!(lower(5, 5, |_| false), 5);
        assert_eq!(lower(10, 1, |number| number >= 4), 4);
        let found = lower(90_000_000, 0, |number| number >= 4_100_000);
        assert!((4_100_000..4_700_000).contains(&found), "{found}");
        assert_eq!(found % 100_000, 0, "{found} has few digits");
    }

    proptest! {
        /// Fails as soon as one of some sets is included: the result is one of the minimal ones that brute force finds.
        #[test]
        fn a_monotone_test_gives_a_minimal_set(length in 1u32..11, needles in prop::collection::vec(1u32..1 << 11, 1..5)) {
            let all = (1 << length) - 1;
            let fails = |candidate: u32| needles.iter().any(|needle| candidate & needle == needle & all);
            let minimal: Vec<u32> = (0..=all)
                .filter(|&candidate| fails(candidate) && !(0..candidate).any(|smaller| smaller & candidate == smaller && fails(smaller)))
                .collect();
            let found = set(&ddmin(&items(all), |candidate| fails(set(candidate))));
            prop_assert!(minimal.contains(&found), "{found:b} is none of {minimal:?}");
        }

        /// Any test at all: the result fails, and leaving out one item or two makes it pass, by brute force.
        #[test]
        fn any_test_gives_a_set_from_which_nothing_can_be_left_out(
            length in 1u32..9,
            answers in prop::collection::vec(any::<bool>(), 256),
        ) {
            let all = (1u32 << length) - 1;
            let fails = |candidate: u32| candidate == all || answers[candidate as usize];
            let found = set(&ddmin(&items(all), |candidate| fails(set(candidate))));
            prop_assert!(fails(found) && found & all == found);
            prop_assert!(found == 0 || !fails(0));
            for first in items(found) {
                for second in items(found) {
                    prop_assert!(!fails(found & !(1 << first | 1 << second)), "{found:b} without {first} and {second}");
                }
            }
        }

        /// Equal tests get equal inputs.
        #[test]
        fn questions_follow_from_answers(answers in prop::collection::vec(any::<bool>(), 256)) {
            let asked = || {
                let mut asked = Vec::new();
                let found = ddmin(&items(255), |candidate| { asked.push(set(candidate)); answers[set(candidate) as usize] });
                (found, asked)
            };
            prop_assert_eq!(asked(), asked());
        }

        #[test]
        fn a_lowered_number_fails_and_stays_in_its_bounds(floor in 0u64..1_000, above in 0u64..1_000_000, threshold in 0u64..2_000_000) {
            let value = floor + above;
            let fails = |number: u64| number == value || number >= threshold;
            let mut outside = false;
            let found = lower(value, floor, |number| { outside |= !(floor..value).contains(&number); fails(number) });
            prop_assert!(fails(found) && (floor..=value).contains(&found) && !outside);
            prop_assert!(threshold > value || found <= threshold.max(floor) + (threshold / 7).max(1), "{found} for {threshold}");
        }
    }
}
