//! The completed indexes of an Indexed Job, as its status writes them: `1,3-5,7`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Reads a list of indexes; invalid parts are left out.
pub(super) fn parse(text: &str) -> BTreeSet<i32> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<i32>(), last.trim().parse::<i32>()) {
            indexes.extend(first..=last);
        }
    }
    indexes
}

/// Writes a list of indexes; three or more in a row become a range.
pub(super) fn print(indexes: &BTreeSet<i32>) -> String {
    let mut text = String::new();
    let mut rest = indexes.iter().copied().peekable();
    while let Some(first) = rest.next() {
        let mut last = first;
        while let Some(next) = rest.next_if(|next| *next == last + 1) {
            last = next;
        }
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match last - first {
            0 => write!(text, "{comma}{first}"),
            1 => write!(text, "{comma}{first},{last}"),
            _ => write!(text, "{comma}{first}-{last}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_of_three_are_written_as_ranges() {
        assert_eq!(print(&parse("7,1,3-5,8")), "1,3-5,7,8");
        assert_eq!(print(&parse("")), "");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(indexes in proptest::collection::btree_set(0..40i32, 0..40)) {
            prop_assert_eq!(parse(&print(&indexes)), indexes);
        }
    }
}
