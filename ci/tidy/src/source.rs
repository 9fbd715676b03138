//! Rust text cut into code, comments and literals.

use std::ops::Range;

/// The kind of a part of Rust text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything that is neither comment nor string literal.
    Code,
    /// A comment, with its marks; consecutive lines of comments are one part.
    Comment,
    /// A string literal, with its quotes.
    Literal,
}

/// The parts of Rust text, in order and without gaps.
pub fn parts(text: &str) -> Vec<(Part, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut parts: Vec<(Part, Range<usize>)> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let (part, length) = if rest.starts_with("//") {
            (Part::Comment, rest.find('\n').map_or(rest.len(), |newline| newline + 1))
        } else if rest.starts_with("/*") {
            (Part::Comment, rest.find("*/").map_or(rest.len(), |end| end + 2))
        } else if let Some(length) = raw_string(rest).filter(|_| !ends_word(text, at)) {
            (Part::Literal, length)
        } else if rest.starts_with('"') {
            (Part::Literal, string(rest))
        } else if rest.starts_with('\'') {
            (Part::Code, character(rest))
        } else {
            (Part::Code, rest.chars().next().map_or(1, char::len_utf8))
        };
        push(&mut parts, text, part, at..at + length);
        at += length;
    }
    parts
}

/// The code of Rust text, with blanks in place of comments and literals, so that all offsets stay the same.
pub fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for (part, range) in parts(text) {
        match part {
            Part::Code => code.push_str(&text[range]),
            _ => code.extend(text[range].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' })),
        }
    }
    code
}

fn push(parts: &mut Vec<(Part, Range<usize>)>, text: &str, part: Part, range: Range<usize>) {
    // Comments separated only by blanks belong together.
    if part == Part::Comment
        && let [.., (Part::Comment, before), (Part::Code, between)] = &mut parts[..]
        && text[between.clone()].bytes().all(|byte| byte == b' ' || byte == b'\t')
    {
        before.end = range.end;
        parts.pop();
        return;
    }
    match parts.last_mut() {
        Some((last, before)) if *last == part && part != Part::Literal => before.end = range.end,
        _ => parts.push((part, range)),
    }
}

fn ends_word(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '_')
}

fn raw_string(rest: &str) -> Option<usize> {
    let start = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = start.bytes().take_while(|byte| *byte == b'#').count();
    start[hashes..].starts_with('"').then(|| {
        let open = rest.len() - start.len() + hashes + 1;
        let close = format!("\"{}", "#".repeat(hashes));
        rest[open..].find(&close).map_or(rest.len(), |end| open + end + close.len())
    })
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, char) in rest.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a character literal, or of the quote of a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            chars.next();
            chars.find(|(_, char)| *char == '\'').map_or(1, |(at, _)| at + 1)
        }
        Some(_) => chars.next().filter(|(_, char)| *char == '\'').map_or(1, |(at, _)| at + 1),
        None => 1,
    }
}

/// A comment or literal as running text of the same length: line ends, indentation and the marks of comments become blanks.
pub fn running(text: &str) -> String {
    let mut running = String::with_capacity(text.len());
    let mut fresh = true;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\n' => {
                running.push(' ');
                fresh = true;
            }
            // The end of a line within a literal.
            '\\' if chars.peek() == Some(&'\n') => running.push(' '),
            // An escaped line end.
            '\\' if chars.peek() == Some(&'n') => {
                chars.next();
                running.push_str("  ");
            }
            ' ' | '\t' => running.push(' '),
            '/' | '!' | '*' | '#' if fresh => running.push(' '),
            _ => {
                fresh = false;
                running.push(char);
            }
        }
    }
    running
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<(Part, &str)> {
        parts(text).into_iter().map(|(part, range)| (part, &text[range])).collect()
    }

    #[test]
    fn text_is_cut_into_code_comments_and_literals() {
        let text = "let a = \"x // \\\" y\"; // so\n    // it is\nlet b = 'c'; let d: &'a str = r#\"q\"w\"#;\n";
        assert_eq!(
            cut(text),
            [
                (Part::Code, "let a = "),
                (Part::Literal, "\"x // \\\" y\""),
                (Part::Code, "; "),
                (Part::Comment, "// so\n    // it is\n"),
                (Part::Code, "let b = 'c'; let d: &'a str = "),
                (Part::Literal, "r#\"q\"w\"#"),
                (Part::Code, ";\n"),
            ]
        );
        assert_eq!(parts(text).iter().map(|(_, range)| range.len()).sum::<usize>(), text.len());
    }

    #[test]
    fn running_text_keeps_its_places() {
        let text = "/// one\n    /// two (A\n    /// §5.4)";
        let running = running(text);
        assert_eq!(running.len(), text.len());
        assert_eq!(running.split_whitespace().collect::<Vec<_>>(), ["one", "two", "(A", "§5.4)"]);
    }
}
