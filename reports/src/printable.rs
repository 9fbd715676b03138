//! External text made safe to show: names, values and messages from scenarios, manifests, traces or other results.
//!
//! A terminal obeys escape sequences, a CI runner obeys lines that begin with `::`, a spreadsheet obeys cells that begin with `=`. So every
//! writer shows unprintable characters as `\u{1b}`, including a line break within a name. [`record`] does that to a whole record, before it
//! is written in any form; [`console`] is the last check of output for a terminal. JSON keeps the text unchanged, and escapes characters
//! that could harm a terminal: [`json`].

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Whether a character is not shown itself but changes how others are: control characters, line separators, and marks of the direction of
/// text.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let hides = |c: char| is_unprintable(c) && !is_kept(c);
    if !text.contains(hides) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hides(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// A text on one line, with unprintable characters escaped.
pub fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// A text of several lines, with unprintable characters escaped except line breaks.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\n')
}

/// A record whose strings are all on one line, with unprintable characters escaped. A record without any is returned unchanged.
pub fn record<T: Serialize + DeserializeOwned + Clone>(record: &T) -> Cow<'_, T> {
    seen(record, false)
}

/// Does as [`record`] does, but keeps line breaks in strings: for a page, where a break in a name does no harm.
pub fn paragraphs<T: Serialize + DeserializeOwned + Clone>(record: &T) -> Cow<'_, T> {
    seen(record, true)
}

/// The record is converted to JSON and back, which reaches all strings, whatever its type.
fn seen<T: Serialize + DeserializeOwned + Clone>(record: &T, breaks: bool) -> Cow<'_, T> {
    let json = serde_json::to_string(record).unwrap_or_else(|error| unreachable!("a record is strings and numbers: {error}"));
    match fit(&json, breaks) {
        None => Cow::Borrowed(record),
        Some(json) => match serde_json::from_str(&json) {
            Ok(fit) => Cow::Owned(fit),
            Err(error) => unreachable!("only strings changed: {error}"),
        },
    }
}

/// JSON with unprintable characters in its strings escaped; `None` if there are none.
fn fit(json: &str, breaks: bool) -> Option<String> {
    let is_escape = |escape: &str| match escape.as_bytes()[0] {
        b'n' => !breaks,
        b't' | b'r' | b'b' | b'f' => true,
        b'u' => true,
        _ => false,
    };
    let clean = !json.contains(is_unprintable) && !json.match_indices('\\').any(|(at, _)| is_escape(&json[at + 1..]));
    if clean {
        return None;
    }
    let mut fit = String::with_capacity(json.len() + 64);
    let mut rest = json.chars();
    // A backslash and the code of the character, within a string of JSON.
    let show = |fit: &mut String, code: u32| fit.push_str(&format!("\\\\u{{{code:x}}}"));
    while let Some(c) = rest.next() {
        if c != '\\' {
            if is_unprintable(c) {
                show(&mut fit, u32::from(c))
            } else {
                fit.push(c)
            }
            continue;
        }
        let Some(escape) = rest.next() else { break };
        match escape {
            'n' if breaks => fit.push_str("\\n"),
            'n' => show(&mut fit, 0x0a),
            't' => show(&mut fit, 0x09),
            'r' => show(&mut fit, 0x0d),
            'b' => show(&mut fit, 0x08),
            'f' => show(&mut fit, 0x0c),
            // The writer uses this form for control characters only.
            'u' => {
                let digits: String = rest.by_ref().take(4).collect();
                show(&mut fit, u32::from_str_radix(&digits, 16).unwrap_or_default());
            }
            other => fit.extend(['\\', other]),
        }
    }
    Some(fit)
}

/// The text of JSON with every unprintable character of its strings escaped. Its meaning does not change.
pub fn json(text: &str) -> Cow<'_, str> {
    let hides = |c: char| is_unprintable(c) && c != '\n';
    if !text.contains(hides) {
        return Cow::Borrowed(text);
    }
    let mut json = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hides(c) { json.push_str(&format!("\\u{:04x}", u32::from(c))) } else { json.push(c) }
    }
    Cow::Owned(json)
}

/// A cell of a table. Spreadsheets read a text that begins with one of `=+-@` as a formula: it gets an apostrophe, which marks it as text.
/// Numbers stay unchanged.
pub fn cell(cell: &str) -> Cow<'_, str> {
    let shown = text(cell);
    if is_formula(&shown) { Cow::Owned(format!("'{shown}")) } else { shown }
}

/// Undoes the apostrophe of [`cell`] in front of a text that looks like a formula.
pub fn uncell(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|text| is_formula(text)).unwrap_or(cell)
}

fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err()
}

/// Output for a terminal: nothing unprintable except line breaks and, with `color`, colour codes; and no line that a runner of GitHub
/// Actions would obey as a command (`::error …::`).
pub fn console(text: &str, color: bool) -> Cow<'_, str> {
    let hides = |c: char| is_unprintable(c) && c != '\n';
    if !text.contains(hides) && !text.lines().any(is_command) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        if is_command(line) {
            let start = line.len() - line.trim_start().len();
            shown.push_str(&line[..start]);
            shown.push_str("\\u{3a}");
            rest = &line[start + 1..];
        }
        while let Some(at) = rest.find(hides) {
            shown.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(end) = color.then(|| color_code(rest)).flatten() {
                shown.push_str(&rest[..end]);
                rest = &rest[end..];
            } else if let Some(c) = rest.chars().next() {
                shown.extend(c.escape_unicode());
                rest = &rest[c.len_utf8()..];
            }
        }
        shown.push_str(rest);
    }
    Cow::Owned(shown)
}

/// Whether a runner of GitHub Actions obeys a line, with any white space before it. No IP address looks like that.
fn is_command(line: &str) -> bool {
    let command = line.trim_start().strip_prefix("::").filter(|command| command.starts_with(|c: char| c.is_ascii_alphabetic()));
    command.is_some_and(|command| command.contains("::"))
}

/// The length of the colour code with which a text begins.
fn color_code(text: &str) -> Option<usize> {
    let code = text.strip_prefix("\u{1b}[")?;
    let end = code.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    code[end..].starts_with('m').then_some("\u{1b}[".len() + end + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    const HOSTILE: &str = "a\u{1b}[31m\u{7}\n::error file=x::y\r\t\u{9b}2J\u{202e}\u{7f}";

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Named {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        other: Option<String>,
        number: u128,
    }

    fn named(name: &str) -> Named {
        Named { name: name.to_owned(), other: None, number: u128::MAX }
    }

    #[test]
    fn what_is_not_printable_is_shown_by_its_number() {
        assert_eq!(text(HOSTILE), r"a\u{1b}[31m\u{7}\u{a}::error file=x::y\u{d}\u{9}\u{9b}2J\u{202e}\u{7f}");
        assert_eq!(lines("a\nb\u{1b}"), "a\nb\\u{1b}");
        assert!(matches!(text("größe µ ✅ 10.0.0.1"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_record_is_as_fit_as_its_strings() {
        assert!(matches!(record(&named("a \"quoted\" \\ name")), Cow::Borrowed(_)));
        assert_eq!(record(&named(HOSTILE)).name, text(HOSTILE));
        assert_eq!(paragraphs(&named("a\nb\u{8}")).name, "a\nb\\u{8}");
        assert_eq!(record(&named("\u{0}\\n\n")).name, r"\u{0}\n\u{a}");
    }

    #[test]
    fn colours_of_the_program_stay_and_nothing_else_does() {
        let painted = "\u{1b}[1m\u{1b}[31mFAIL\u{1b}[0m x\u{1b}[2J\u{1b}]0;t\u{7}\n";
        assert_eq!(console(painted, true), "\u{1b}[1m\u{1b}[31mFAIL\u{1b}[0m x\\u{1b}[2J\\u{1b}]0;t\\u{7}\n");
        assert!(!console(painted, false).contains('\u{1b}'));
        assert_eq!(console("a\n  ::error file=x::y\n::1 is an address\n", true), "a\n  \\u{3a}:error file=x::y\n::1 is an address\n");
    }

    #[test]
    fn formulas_are_told_from_numbers_and_come_back() {
        for (plain, in_table) in
            [("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"), ("@a", "'@a"), ("-1.5", "-1.5"), ("+a", "'+a"), ("'a", "'a")]
        {
            assert_eq!((cell(plain), uncell(in_table)), (in_table.into(), plain));
        }
    }

    proptest! {
        #[test]
        fn nothing_unprintable_is_left_and_what_was_printable_stays(name in any::<String>(), other in any::<Option<String>>()) {
            let named = Named { name, other, number: 7 };
            let seen = record(&named);
            for (before, after) in [Some(&named.name), named.other.as_ref()].into_iter().zip([Some(&seen.name), seen.other.as_ref()]) {
                prop_assert_eq!(before.is_some(), after.is_some());
                if let Some((before, after)) = before.zip(after) {
                    prop_assert!(!after.contains(is_unprintable), "{after:?}");
                    prop_assert_eq!(after.as_str(), &*text(before));
                }
            }
        }

        #[test]
        fn json_says_the_same_without_a_raw_control(name in any::<String>()) {
            let named = named(&name);
            let text = serde_json::to_string(&named).unwrap();
            let text = json(&text);
            prop_assert!(!text.contains(is_unprintable), "{text:?}");
            prop_assert_eq!(serde_json::from_str::<Named>(&text).unwrap(), named);
        }
    }
}
