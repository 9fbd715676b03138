//! Bytes of a named input, and where in its text an offset is.

use std::io::Read;
use std::path::Path;

use super::problem::{Position, Problem};

/// What stands for standard input on the command line.
const STANDARD_INPUT: &str = "-";

/// The name of an input in messages.
pub fn name(path: &Path) -> String {
    if path.as_os_str() == STANDARD_INPUT { "standard input".to_owned() } else { path.display().to_string() }
}

/// Reads a file, or standard input for `-`.
pub fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let outcome = if path.as_os_str() == STANDARD_INPUT {
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    outcome.map_err(|error| unreadable(path, &error))
}

/// The problem of a path that the operating system does not let us read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    // The number that `io::Error` appends helps nobody.
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    Problem::of_file(&name(path), format!("cannot be read: {}", text.to_lowercase()), "")
}

/// The text of an input.
pub fn text<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, Problem> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let good = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
        let byte = bytes[error.valid_up_to()];
        Problem::at(
            file,
            Lines::new(good).position(good.len()),
            format!("the byte {byte:#04x} is not UTF-8"),
            "save the file as UTF-8 text",
        )
    })
}

/// Finds the line and column of an offset.
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    /// The position of the character at byte `offset`; the end of the text for anything beyond it.
    pub(super) fn position(&self, offset: usize) -> Position {
        let offset = (0..=offset.min(self.text.len())).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0);
        let line = self.starts.partition_point(|&start| start <= offset);
        let column = self.text[self.starts[line - 1]..offset].chars().count() + 1;
        Position { line: saturate(line), column: saturate(column) }
    }
}

/// What is wrong with a text that should be JSON; nothing if it is.
pub fn not_json(file: &str, text: &str) -> Option<Problem> {
    let error = serde_json::from_str::<serde::de::IgnoredAny>(text).err()?;
    let at = Position { line: saturate(error.line().max(1)), column: saturate(error.column().max(1)) };
    let message = error.to_string();
    let wrong = message.split(" at line ").next().unwrap_or_default();
    Some(Problem::at(file, at, format!("not JSON: {wrong}"), ""))
}

/// A count as it is kept in a position.
pub(super) fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
