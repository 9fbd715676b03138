//! Bytes of a named input, and the places of offsets in its text.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::problem::{Position, Problem};

/// The name of standard input on the command line.
pub const STANDARD_INPUT: &str = "-";

/// The name of an input in messages.
pub fn name(path: &Path) -> String {
    if path.as_os_str() == STANDARD_INPUT { "standard input".to_owned() } else { path.display().to_string() }
}

/// The largest size of a file: the pods of a cluster with tens of thousands of them take less. A larger one is a mistake, such as a device
/// or a wrong file, and would only fill the memory.
pub const SIZE_MAX: u64 = 256 << 20;

/// Reads a file, or standard input for `-`, of at most [`SIZE_MAX`] bytes.
pub fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    read_within(path, SIZE_MAX)
}

/// Reads a file, or standard input for `-`, of at most `max` bytes.
fn read_within(path: &Path, max: u64) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    // One more byte shows that a file is too large.
    let outcome = if path.as_os_str() == STANDARD_INPUT {
        // Standard input can be read again, like a file.
        static READ: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = std::io::stdin().lock().take(max + 1).read_to_end(&mut read);
        bytes.clone_from(&read);
        outcome.map(|_| read.len())
    } else {
        std::fs::File::open(path).and_then(|file| {
            let size = file.metadata()?.len();
            if size > max { Ok(usize::MAX) } else { file.take(max + 1).read_to_end(&mut bytes) }
        })
    };
    let size = outcome.map_err(|error| unreadable(path, &error))?;
    if size as u64 > max {
        let wrong = format!("is larger than {} MiB, and no input is", max >> 20);
        return Err(Problem::of_file(&name(path), wrong, "split it, or leave out what is not asked about"));
    }
    Ok(bytes)
}

/// The entries of a folder, by name. An unreadable folder is a problem: as an empty one it would let a gate pass.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>, Problem> {
    let listed = std::fs::read_dir(folder).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    let mut entries: Vec<PathBuf> = listed.map_err(|error| unreadable(folder, &error))?;
    entries.sort();
    Ok(entries)
}

/// The problem of a path that the operating system refuses to read.
fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
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

/// The problem of a text that should be JSON; `None` if it is JSON.
pub fn not_json(file: &str, text: &str) -> Option<Problem> {
    let error = serde_json::from_str::<serde::de::IgnoredAny>(text).err()?;
    let at = Position { line: saturate(error.line().max(1)), column: saturate(error.column().max(1)) };
    let message = error.to_string();
    let wrong = message.split(" at line ").next().unwrap_or_default();
    Some(Problem::at(file, at, format!("not JSON: {wrong}"), ""))
}

/// The position of the end of a text.
pub fn end(text: &str) -> Position {
    Lines::new(text).position(text.len())
}

/// A count as a position stores it.
pub(super) fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_read_is_not_empty() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        assert!(entries(&folder).unwrap().contains(&folder.join("source.rs")));
        let refused = entries(&folder.join("source.rs")).unwrap_err();
        assert_eq!(refused.wrong, "cannot be read: not a directory");
    }

    #[test]
    fn a_file_over_the_limit_is_refused_without_being_read() {
        let folder = testkit::Folder::new("large");
        let file = folder.0.join("large");
        let large = std::fs::File::create(&file).unwrap();
        large.set_len(SIZE_MAX + 1).unwrap();
        let refused = read(&file).unwrap_err();
        assert_eq!(refused.wrong, "is larger than 256 MiB, and no input is");
        large.set_len(3 << 20).unwrap();
        assert_eq!(read(&file).unwrap().len(), 3 << 20);
    }

    #[cfg(unix)]
    #[test]
    fn what_never_ends_is_refused_too() {
        assert_eq!(read_within(Path::new("/dev/zero"), 1 << 20).unwrap_err().wrong, "is larger than 1 MiB, and no input is");
    }
}
