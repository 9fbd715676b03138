//! Wildcards in pool names (A §2.3, §14.9), matched as Go's library matches paths.

use thiserror::Error;

/// A pattern with an unterminated or empty class, an unterminated range, or nothing after its last `\`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("syntax error in the wildcard pattern")]
pub struct BadPattern;

/// Whether `name` matches `pattern`: `*` is any run without `/`, `?` one character but `/`, `[a-c]` and `[^a-c]` are classes (`!` does not
/// negate), `\` escapes the next character.
///
/// # Errors
/// The pattern is bad. As in Go, the part after the first `*` that cannot match is not checked.
pub fn wildcard_match(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    let (mut pattern, mut name) = (pattern.as_bytes(), name.as_bytes());
    while !pattern.is_empty() {
        let (star, chunk, rest) = next_chunk(pattern);
        if star && chunk.is_empty() {
            return Ok(!name.contains(&b'/'));
        }
        // The last chunk has to reach the end of the name.
        let fits = |from| Ok(match_chunk(chunk, from)?.filter(|left| left.is_empty() || !rest.is_empty()));
        let mut left = fits(name)?;
        if star {
            let mut from = name;
            while let (None, [byte, next @ ..]) = (left, from)
                && *byte != b'/'
            {
                left = fits(next)?;
                from = next;
            }
        }
        match left {
            Some(left) => (pattern, name) = (rest, left),
            None => return Ok(false),
        }
    }
    Ok(name.is_empty())
}

/// Splits a pattern into whether it begins with stars, the text up to the next star, and the rest.
fn next_chunk(pattern: &[u8]) -> (bool, &[u8], &[u8]) {
    let stars = pattern.iter().take_while(|byte| **byte == b'*').count();
    let pattern = &pattern[stars..];
    let (mut in_class, mut end) = (false, 0);
    while let Some(byte) = pattern.get(end) {
        match byte {
            b'\\' if end + 1 < pattern.len() => end += 1,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'*' if !in_class => break,
            _ => {}
        }
        end += 1;
    }
    (stars > 0, &pattern[..end], &pattern[end..])
}

/// The rest of `text` after the part that matches the whole of `chunk`. The chunk is always read to its end, because a bad one is an error.
fn match_chunk<'a>(mut chunk: &[u8], text: &'a [u8]) -> Result<Option<&'a [u8]>, BadPattern> {
    let mut text = Some(text);
    while let Some((first, rest)) = chunk.split_first() {
        text = text.filter(|text| !text.is_empty());
        chunk = match first {
            b'[' => {
                let character = text.map(decode);
                let (holds, rest) = read_class(rest, character.map(|(character, _)| character))?;
                text = text.zip(character).filter(|_| holds).map(|(text, (_, length))| &text[length..]);
                rest
            }
            b'?' => {
                text = text.filter(|text| text[0] != b'/').map(|text| &text[decode(text).1..]);
                rest
            }
            b'\\' => {
                let (literal, rest) = rest.split_first().ok_or(BadPattern)?;
                text = text.and_then(|text| text.strip_prefix(&[*literal]));
                rest
            }
            literal => {
                text = text.and_then(|text| text.strip_prefix(&[*literal]));
                rest
            }
        };
    }
    Ok(text)
}

/// Reads a class after its `[`: whether it holds a character, and the text after its `]`. The class is always read to its end.
fn read_class(chunk: &[u8], character: Option<u32>) -> Result<(bool, &[u8]), BadPattern> {
    let (negated, mut chunk) = chunk.strip_prefix(b"^").map_or((false, chunk), |rest| (true, rest));
    let (mut is_empty, mut among) = (true, false);
    loop {
        match chunk.strip_prefix(b"]") {
            Some(rest) if !is_empty => return Ok((character.is_some() && among != negated, rest)),
            _ => {}
        }
        let (low, rest) = read_end(chunk)?;
        let (high, rest) = rest.strip_prefix(b"-").map_or(Ok((low, rest)), read_end)?;
        among |= character.is_some_and(|character| (low..=high).contains(&character));
        (is_empty, chunk) = (false, rest);
    }
}

/// Reads a character of a class, and returns the text after it, which is at least a `]`.
fn read_end(chunk: &[u8]) -> Result<(u32, &[u8]), BadPattern> {
    let chunk = match chunk.first() {
        None | Some(b'-' | b']') => return Err(BadPattern),
        Some(b'\\') => &chunk[1..],
        Some(_) => chunk,
    };
    if chunk.is_empty() {
        return Err(BadPattern);
    }
    let (character, length) = decode(chunk);
    let rest = &chunk[length..];
    if rest.is_empty() { Err(BadPattern) } else { Ok((character, rest)) }
}

/// The first character of a text that is not empty, and its length; a byte that starts no character is U+FFFD, as in Go.
fn decode(text: &[u8]) -> (u32, usize) {
    let whole = (1..=text.len().min(4)).find_map(|length| std::str::from_utf8(&text[..length]).ok()?.chars().next());
    whole.map_or((char::REPLACEMENT_CHARACTER.into(), 1), |character| (character.into(), character.len_utf8()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_go() {
        for (pattern, name, expected) in [
            ("", "", Ok(true)),
            ("*", "web", Ok(true)),
            ("*", "a/b", Ok(false)),
            ("a*b*c", "aXbYbZc", Ok(true)),
            ("a*b", "a/b", Ok(false)),
            ("w?b", "wäb", Ok(true)),
            ("a?b", "a/b", Ok(false)),
            ("[ä-ü]x", "öx", Ok(true)),
            ("[^w]*", "web", Ok(false)),
            ("[!w]*", "web", Ok(true)),
            ("[\\]]x", "]x", Ok(true)),
            ("[]x]", "]", Err(BadPattern)),
            ("[-a]", "a", Err(BadPattern)),
            ("[a-]", "a", Err(BadPattern)),
            ("[a", "b", Err(BadPattern)),
            ("a\\", "a", Err(BadPattern)),
            ("b\\", "a", Err(BadPattern)),
            ("\\*", "*", Ok(true)),
            ("a*[", "b", Ok(false)),
            ("a*[", "ab", Err(BadPattern)),
        ] {
            assert_eq!(wildcard_match(pattern, name), expected, "{pattern} {name}");
        }
    }

    /// Matches stars, question marks and literals only, by the definition.
    fn plain(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|length| plain(rest, &name[length..])),
            Some((byte, rest)) => name.first().is_some_and(|first| *byte == b'?' || byte == first) && plain(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn stars_and_question_marks_agree_with_their_definition(pattern in "[ab*?]{0,7}", name in "[ab]{0,7}") {
            prop_assert_eq!(wildcard_match(&pattern, &name), Ok(plain(pattern.as_bytes(), name.as_bytes())));
        }
    }
}
