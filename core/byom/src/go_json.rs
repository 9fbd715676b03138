//! JSON strings as Go's encoder writes them: `<`, `>`, `&`, U+2028 and U+2029 are escaped besides what JSON demands.
//!
//! Everything here writes to a [`fmt::Write`], so that the same code makes a text or, through [`Measure`], only measures it.

use std::fmt::{self, Write};

use kube_machinery::word_hash::Measure;

/// The number of bytes that `write` writes, and their hash.
pub(super) fn measure(write: impl FnOnce(&mut Measure) -> fmt::Result) -> Measure {
    let mut measure = Measure::default();
    write(&mut measure).expect("counting does not fail");
    measure
}

/// Writes `text` as a JSON string, with its quotes.
pub(super) fn write_string(out: &mut impl Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    // The common case: names and addresses.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&')) {
        out.write_str(text)?;
        return out.write_char('"');
    }
    let mut plain_from = 0;
    for (at, character) in text.char_indices() {
        let short = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => "",
            _ => continue,
        };
        out.write_str(&text[plain_from..at])?;
        plain_from = at + character.len_utf8();
        if short.is_empty() {
            write!(out, "\\u{:04x}", u32::from(character))?;
        } else {
            out.write_str(short)?;
        }
    }
    out.write_str(&text[plain_from..])?;
    out.write_char('"')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(text: &str) -> String {
        let mut out = String::new();
        write_string(&mut out, text).unwrap();
        out
    }

    #[test]
    fn escapes_what_go_escapes() {
        assert_eq!(encoded("a<b>&\u{2028}\u{2029}"), r#""a\u003cb\u003e\u0026\u2028\u2029""#);
        assert_eq!(encoded("\"\\\u{8}\u{c}\n\r\t\u{0}\u{1f}\u{7f}ä"), "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}ä\"");
    }

    proptest! {
        #[test]
        fn any_string_is_read_back_and_measured(text in any::<String>()) {
            let json = encoded(&text);
            prop_assert_eq!(&serde_json::from_str::<String>(&json).unwrap(), &text);
            prop_assert_eq!(measure(|out| write_string(out, &text)).len, json.len());
        }
    }
}
