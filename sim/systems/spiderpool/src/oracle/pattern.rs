//! A second implementation of name patterns (A §2.3, §14.9): `*`, `?`, classes and `\`, without paths.

/// One part of a pattern.
enum Part {
    /// Any text, including the empty one.
    Star,
    /// Any one character at all.
    Any,
    /// A character within these ranges or, if negated, outside all of them.
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// Whether the name of a pool, which contains no slash, matches a pattern.
pub(super) fn matches(pattern: &str, name: &str) -> Result<bool, ()> {
    let name: Vec<char> = name.chars().collect();
    // The lengths of the prefixes of the name that the parts so far match.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for part in parts(pattern)? {
        let mut next = vec![false; name.len() + 1];
        for (end, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
            match &part {
                Part::Star => next[end..].fill(true),
                Part::Any if end < name.len() => next[end + 1] = true,
                Part::Class { negated, ranges } if end < name.len() => {
                    let among = ranges.iter().any(|(low, high)| (*low..=*high).contains(&name[end]));
                    next[end + 1] |= among != *negated;
                }
                _ => {}
            }
        }
        reached = next;
    }
    Ok(reached[name.len()])
}

/// The parts of a pattern. `Err`: a class is empty or unclosed, a range lacks an end, or nothing follows a `\`.
fn parts(pattern: &str) -> Result<Vec<Part>, ()> {
    let mut parts = Vec::new();
    let mut rest = pattern.chars().peekable();
    while let Some(character) = rest.next() {
        parts.push(match character {
            '*' => Part::Star,
            '?' => Part::Any,
            '[' => {
                let negated = rest.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                let end = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| match rest.next().ok_or(())? {
                    '-' | ']' => Err(()),
                    '\\' => rest.next().ok_or(()),
                    character => Ok(character),
                };
                while ranges.is_empty() || rest.peek() != Some(&']') {
                    let low = end(&mut rest)?;
                    let high = if rest.next_if_eq(&'-').is_some() { end(&mut rest)? } else { low };
                    ranges.push((low, high));
                }
                rest.next();
                Part::Class { negated, ranges }
            }
            '\\' => {
                let literal = rest.next().ok_or(())?;
                Part::Class { negated: false, ranges: vec![(literal, literal)] }
            }
            literal => Part::Class { negated: false, ranges: vec![(literal, literal)] },
        });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use ipam_spiderpool::wildcard_match;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_part_stands_for_what_it_says() {
        for (pattern, name, expected) in [
            ("v4-*", "v4-0", Ok(true)),
            ("v4-*", "v4-", Ok(true)),
            ("v4-?", "v4-", Ok(false)),
            ("v4-[^0]", "v4-1", Ok(true)),
            ("v4-[^0]", "v4-0", Ok(false)),
            ("v4-[0-2]", "v4-2", Ok(true)),
            ("v4-[*1]", "v4-0", Ok(false)),
            (r"v4-\*", "v4-0", Ok(false)),
            ("*4*0", "v4-0", Ok(true)),
            ("v[]-*", "v4-0", Err(())),
            ("v[0-", "v4-0", Err(())),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn who_can_read_a_pattern_reads_the_same(pattern in r"(v|4|-|0|1|\*|\?|\[\^?[01]-?[01]?\]|\\\*){0,6}", name in "[v4*01-]{0,5}") {
            if let Ok(expected) = matches(&pattern, &name) {
                prop_assert_eq!(wildcard_match(&pattern, &name).ok(), Some(expected), "{} {}", pattern, name);
            }
        }
    }
}
