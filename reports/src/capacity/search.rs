//! Search for the largest or smallest number for which a condition holds.

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// The condition holds for the largest number of the range.
    All(u32),
    /// The condition holds for this number and not for the next.
    UpTo(u32),
    /// The condition does not hold for the smallest number of the range.
    None(u32),
}

/// Returns the largest number from `least` to `most` for which `holds`, assuming that what holds for a number holds for smaller ones. The
/// two numbers between which it changes have both been tried.
///
/// # Errors
/// The error of `holds`, at once.
pub fn largest<E>(least: u32, most: u32, mut holds: impl FnMut(u32) -> Result<bool, E>) -> Result<Capacity, E> {
    if !holds(least)? {
        return Ok(Capacity::None(least));
    }
    // Doubling first: numbers that are far too large take longest to try.
    let (mut fine, mut bad) = (least, None);
    while bad.is_none() && fine < most {
        let next = fine.saturating_mul(2).min(most);
        if holds(next)? { fine = next } else { bad = Some(next) }
    }
    let Some(mut bad) = bad else { return Ok(Capacity::All(most)) };
    while bad - fine > 1 {
        let middle = fine + (bad - fine) / 2;
        if holds(middle)? { fine = middle } else { bad = middle }
    }
    Ok(Capacity::UpTo(fine))
}

/// Two numbers between which the condition changes, and between which nothing was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The largest number tried for which the condition holds.
    pub fine: u32,
    /// The smallest number tried for which it does not hold.
    pub bad: u32,
}

/// Returns what [`largest`] found, from the numbers that it tried and whether the condition held for them. `None` if there are none.
///
/// # Errors
/// The search was not finished.
pub fn known(tried: impl IntoIterator<Item = (u32, bool)>) -> Result<Option<Capacity>, Open> {
    let (mut fine, mut bad): (Option<u32>, Option<u32>) = (None, None);
    for (number, holds) in tried {
        if holds {
            fine = fine.max(Some(number));
        } else {
            bad = Some(bad.map_or(number, |bad| bad.min(number)));
        }
    }
    match (fine, bad) {
        (None, None) => Ok(None),
        (Some(fine), None) => Ok(Some(Capacity::All(fine))),
        (None, Some(bad)) => Ok(Some(Capacity::None(bad))),
        (Some(fine), Some(bad)) if bad <= fine + 1 => Ok(Some(Capacity::UpTo(bad - 1))),
        (Some(fine), Some(bad)) => Err(Open { fine, bad }),
    }
}

/// Returns the smallest number from `least` to `most` for which `holds`, assuming that what holds for a number holds for larger ones;
/// `None` if it holds for none of them. `guess` is tried first. The number and the one below it have both been tried, unless it is `least`.
///
/// # Errors
/// The error of `holds`, at once.
pub fn smallest<E>(least: u32, most: u32, guess: u32, mut holds: impl FnMut(u32) -> Result<bool, E>) -> Result<Option<u32>, E> {
    let guess = guess.clamp(least, most);
    // The bounds are `i64`, so that the smallest number has one below it.
    let (mut bad, mut fine) = (i64::from(least) - 1, None);
    if holds(guess)? {
        fine = Some(guess)
    } else {
        bad = i64::from(guess)
    }
    if fine.is_none() && guess < most && holds(most)? {
        fine = Some(most);
    }
    let Some(mut fine) = fine else { return Ok(None) };
    // Steps that double: a good guess is near, and numbers that are far too small take longest to try.
    let mut step = 1;
    while i64::from(fine) - bad > 1 {
        let middle = (i64::from(fine) - step).max(bad + (i64::from(fine) - bad) / 2) as u32;
        if holds(middle)? {
            fine = middle
        } else {
            bad = i64::from(middle)
        }
        step *= 2;
    }
    Ok(Some(fine))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the search with a scan of every number.
        #[test]
        fn the_search_finds_what_a_scan_finds(least in 1u32..50, more in 0u32..300, limit in 0u32..400) {
            let most = least + more;
            let mut tried = Vec::new();
            let found = largest(least, most, |number| { tried.push(number); Ok::<_, Infallible>(number <= limit) }).unwrap();
            let scanned = (least..=most).filter(|number| *number <= limit).max();
            let expected = match scanned {
                None => Capacity::None(least),
                Some(number) if number == most => Capacity::All(most),
                Some(number) => Capacity::UpTo(number),
            };
            prop_assert_eq!(found, expected);
            prop_assert_eq!(known(tried.iter().map(|number| (*number, *number <= limit))), Ok(Some(expected)));
            prop_assert!(tried.len() <= 22 && tried.iter().all(|number| (least..=most).contains(number)));
            if let Capacity::UpTo(number) = found {
                prop_assert!(tried.contains(&number) && tried.contains(&(number + 1)));
            }
        }
    }

    proptest! {
        /// Compares the search with a scan of every number.
        #[test]
        fn the_smallest_is_what_a_scan_finds(least in 1u32..50, more in 0u32..300, guess in 0u32..400, limit in 0u32..400) {
            let most = least + more;
            let mut tried = Vec::new();
            let found = smallest(least, most, guess, |number| { tried.push(number); Ok::<_, Infallible>(number >= limit) }).unwrap();
            prop_assert_eq!(found, (least..=most).find(|number| *number >= limit));
            prop_assert!(tried.len() <= 20 && tried.iter().all(|number| (least..=most).contains(number)));
            if let Some(number) = found {
                prop_assert!(tried.contains(&number) && (number == least || tried.contains(&(number - 1))));
            }
        }
    }

    #[test]
    fn what_was_not_tried_to_the_end_is_open() {
        assert_eq!(known([(2, true), (4, true), (16, false), (8, false)]), Err(Open { fine: 4, bad: 8 }));
        assert_eq!(known([]), Ok(None));
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(largest(1, 100, |number| if number < 8 { Ok(true) } else { Err(number) }), Err(8));
    }
}
