//! Wildcards of a shell.

/// A pattern: `*` is any text, `?` any character, `[a-z]` one of these, `[!a-z]` another one. `.` and `/` are ordinary characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Char(char),
    /// Ranges, both ends included, and whether the character must be outside of them.
    Of(Vec<(char, char)>, bool),
}

impl Glob {
    pub(crate) fn new(pattern: &str) -> Self {
        let chars: Vec<char> = pattern.chars().collect();
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(&char) = chars.get(at) {
            at += 1;
            parts.push(match char {
                '*' => Part::Any,
                '?' => Part::One,
                '[' => match set(&chars[at..]) {
                    Some((part, length)) => {
                        at += length;
                        part
                    }
                    None => Part::Char('['),
                },
                other => Part::Char(other),
            });
        }
        Self { parts }
    }

    /// Whether the pattern matches the whole text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut part, mut at) = (0, 0);
        // The place of the last `*`, and its reach so far: a longer reach is tried if the rest fails.
        let mut star = None;
        loop {
            match (self.parts.get(part), text.get(at)) {
                (None, None) => return true,
                (Some(Part::Any), _) => {
                    part += 1;
                    star = Some((part, at));
                    continue;
                }
                (Some(one), Some(&char)) if one.takes(char) => {
                    (part, at) = (part + 1, at + 1);
                    continue;
                }
                _ => {}
            }
            match star {
                Some((after, reach)) if reach < text.len() => {
                    star = Some((after, reach + 1));
                    (part, at) = (after, reach + 1);
                }
                _ => return false,
            }
        }
    }
}

impl Part {
    fn takes(&self, char: char) -> bool {
        match self {
            Part::Any => false,
            Part::One => true,
            Part::Char(own) => *own == char,
            Part::Of(ranges, outside) => ranges.iter().any(|&(first, last)| (first..=last).contains(&char)) != *outside,
        }
    }
}

/// The set that begins after a `[`, and its length with the `]`; `None` if that is missing.
fn set(chars: &[char]) -> Option<(Part, usize)> {
    let outside = chars.first() == Some(&'!');
    let start = usize::from(outside);
    // A `]` that comes first belongs to the set.
    let end = start + 1 + chars.get(start + 1..)?.iter().position(|&char| char == ']')?;
    let (mut ranges, mut at) = (Vec::new(), start);
    while at < end {
        if at + 2 < end && chars[at + 1] == '-' {
            ranges.push((chars[at], chars[at + 2]));
            at += 3;
        } else {
            ranges.push((chars[at], chars[at]));
            at += 1;
        }
    }
    Some((Part::Of(ranges, outside), end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_those_of_a_shell() {
        for (pattern, text, expected) in [
            ("body.metadata.*", "body.metadata.labels.a", true),
            ("body.metadata.*", "body.metadata", false),
            ("K06?-*", "K060-existing", true),
            ("K06?-*", "K0600-existing", false),
            ("*.a.*.b", "x.a.y.a.b", true),
            ("*.a.*.b", "x.a.b", false),
            ("", "", true),
            ("*", "", true),
            ("a[0-9]c", "a5c", true),
            ("a[!0-9]c", "a5c", false),
            ("a[!0-9]c", "abc", true),
            ("a[]x]c", "a]c", true),
            ("a[c", "a[c", true),
            ("Body", "body", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }
}
