//! Patterns for names of pools: Go's path matching, as upstream uses it (A §2.3, §14.9).

use thiserror::Error;

/// The pattern is malformed, as far as the matcher had to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("syntax error in pattern")]
pub struct BadPattern;

/// Whether an element of a list of pools is a pattern: `*`, `?`, or both `[` and `]` occur.
pub fn is_wildcard(element: &str) -> bool {
    element.contains(['*', '?']) || (element.contains('[') && element.contains(']'))
}

/// Whether `pattern` matches the whole of `name`.
///
/// `*` is any text without `/`, `?` any one character but `/`; `[a-c]` is one of a class, `[^a-c]` one of no class;
/// `\` takes the special meaning from the next character.
///
/// # Errors
/// The pattern is malformed. What follows the part (up to the next `*`) that does not match is not looked at.
pub fn matches(mut pattern: &str, mut name: &str) -> Result<bool, BadPattern> {
    'pattern: while !pattern.is_empty() {
        let (star, chunk, rest) = split_chunk(pattern);
        pattern = rest;
        if star && chunk.is_empty() {
            return Ok(!name.contains('/'));
        }
        // The last chunk has to take the whole name.
        let enough = |left: &str| left.is_empty() || !rest.is_empty();
        if let Some(left) = match_chunk(chunk, name)?.filter(|left| enough(left)) {
            name = left;
            continue;
        }
        if star {
            for (at, skipped) in name.char_indices() {
                if skipped == '/' {
                    break;
                }
                if let Some(left) = match_chunk(chunk, &name[at + skipped.len_utf8()..])?.filter(|left| enough(left)) {
                    name = left;
                    continue 'pattern;
                }
            }
        }
        return Ok(false);
    }
    Ok(name.is_empty())
}

/// Leading stars, the text up to the next star, and the rest.
fn split_chunk(pattern: &str) -> (bool, &str, &str) {
    let chunk = pattern.trim_start_matches('*');
    let star = chunk.len() < pattern.len();
    let (mut in_class, mut escaped) = (false, false);
    for (at, byte) in chunk.bytes().enumerate() {
        if escaped {
            escaped = false;
            continue;
        }
        match byte {
            b'\\' => escaped = true,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'*' if !in_class => return (star, &chunk[..at], &chunk[at..]),
            _ => {}
        }
    }
    (star, chunk, "")
}

/// What is left of `text` after `chunk`, if it starts with a match. The chunk is read to its end in any case.
fn match_chunk<'a>(chunk: &str, text: &'a str) -> Result<Option<&'a str>, BadPattern> {
    let (mut chunk, mut text) = (chunk.chars(), Some(text.chars()));
    while let Some(first) = chunk.next() {
        // After a mismatch the text is no longer read, only the pattern is checked.
        let found = text.as_mut().and_then(Iterator::next);
        let fits = match first {
            '[' => match_class(&mut chunk, found)?,
            '?' => found.is_some_and(|found| found != '/'),
            '\\' => found == Some(chunk.next().ok_or(BadPattern)?),
            literal => found == Some(literal),
        };
        if !fits || found.is_none() {
            text = None;
        }
    }
    Ok(text.map(|text| text.as_str()))
}

/// Reads a class after its `[`; whether `found` is what it asks for.
fn match_class(chunk: &mut std::str::Chars<'_>, found: Option<char>) -> Result<bool, BadPattern> {
    let next_is = |chunk: &std::str::Chars<'_>, wanted| chunk.as_str().starts_with(wanted);
    let negated = next_is(chunk, '^');
    if negated {
        chunk.next();
    }
    let (mut inside, mut ranges) = (false, 0);
    while ranges == 0 || !next_is(chunk, ']') {
        let low = class_character(chunk)?;
        let high = if next_is(chunk, '-') {
            chunk.next();
            class_character(chunk)?
        } else {
            low
        };
        inside |= found.is_some_and(|found| (low..=high).contains(&found));
        ranges += 1;
    }
    chunk.next();
    Ok(inside != negated)
}

/// One end of a range in a class. Something has to follow it, at least the `]`.
fn class_character(chunk: &mut std::str::Chars<'_>) -> Result<char, BadPattern> {
    let character = match chunk.next() {
        None | Some('-' | ']') => return Err(BadPattern),
        Some('\\') => chunk.next().ok_or(BadPattern)?,
        Some(character) => character,
    };
    if chunk.as_str().is_empty() { Err(BadPattern) } else { Ok(character) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_go_does() {
        for (pattern, name, expected) in [
            ("*", "p4", Ok(true)),
            ("*", "a/b", Ok(false)),
            ("?", "default", Ok(false)),
            ("web-*", "web-4-a", Ok(true)),
            ("*-4-?", "app-4-c", Ok(true)),
            ("*a", "aba", Ok(true)),
            ("web-4-[a-c]", "web-4-b", Ok(true)),
            ("web-4-[a-c]", "web-6-b", Ok(false)),
            ("[!w]*", "db-4-a", Ok(false)),
            ("[^w]*", "db-4-a", Ok(true)),
            ("[^w]*", "w", Ok(false)),
            ("[^w]", "", Ok(false)),
            ("web-4-[b-a]", "web-4-a", Ok(false)),
            ("w**4*a", "web-4-a", Ok(true)),
            ("\\web-*", "web-4-a", Ok(true)),
            ("\\*", "*", Ok(true)),
            ("[\\]]", "]", Ok(true)),
            ("w]eb", "w]eb", Ok(true)),
            ("{web,db}-*", "web-4-a", Ok(false)),
            ("", "", Ok(true)),
            ("", "a", Ok(false)),
            ("[-a]*", "web", Err(BadPattern)),
            ("web-4-a\\", "db", Err(BadPattern)),
            ("[w", "pool", Err(BadPattern)),
            ("[]a]", "a", Err(BadPattern)),
            ("[[]]][", "a", Err(BadPattern)),
            // Not reached, so not looked at.
            ("web-4-*[", "db-4-a", Ok(false)),
            ("web-4-*[", "web-4-a", Err(BadPattern)),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn an_escape_alone_is_no_wildcard() {
        assert!(["a*", "?", "[a]", "]["].into_iter().all(is_wildcard));
        assert!(!["pool", "a\\b", "[a", "a]", ""].into_iter().any(is_wildcard));
    }
}
