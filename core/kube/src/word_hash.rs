//! A small hash over words, for comparing contents: the same on every platform, in every build and every release.
//!
//! Not for hash tables, and not resistant to deliberate collisions.

use std::hash::{Hash, Hasher};
use std::{fmt, io};

/// A hash under construction. Each step costs a multiplication per eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordHash(u64);

impl Default for WordHash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl WordHash {
    /// The hash of no input.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number to the hash.
    #[must_use]
    pub fn word(self, word: u64) -> Self {
        Self((self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Adds bytes and their length.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let hash = words.iter().fold(self, |hash, word| hash.word(u64::from_le_bytes(*word)));
        hash.word(rest_of(bytes)).word(bytes.len() as u64)
    }

    /// Adds a text and its length.
    #[must_use]
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Adds an optional text. A missing one differs from an empty one.
    #[must_use]
    pub fn option(self, text: Option<&str>) -> Self {
        text.map_or_else(|| self.word(u64::MAX), |text| self.text(text))
    }

    /// Adds several texts and their number.
    #[must_use]
    pub fn texts<'a>(self, texts: impl IntoIterator<Item = &'a str>) -> Self {
        let (count, hash) = texts.into_iter().fold((0, self), |(count, hash), text| (count + 1, hash.text(text)));
        hash.word(count)
    }

    /// The hash. Its bits are mixed well enough for sums of several hashes to be useful.
    pub fn finish(self) -> u64 {
        let mut hash = self.0;
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ hash >> 31
    }
}

/// The bytes after the last whole eight, as the lowest of a word; 0 if there are none. Read from overlapping parts, because a copy of a few
/// bytes costs more than the rest of a short hash.
pub fn rest_of(bytes: &[u8]) -> u64 {
    let rest = bytes.len() % 8;
    if rest == 0 {
        return 0;
    }
    if let Some(last) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*last) >> (64 - 8 * rest);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (8 * (rest - 4));
    }
    let byte = |at: usize| u64::from(bytes[at]) << (8 * at);
    byte(0) | byte(rest / 2) | byte(rest - 1)
}

/// The hash of a value by its [`Hash`] implementation, beginning with `kind`, which distinguishes values of different types.
pub fn of(kind: &str, value: &impl Hash) -> u64 {
    let mut hash = WordHash::new().text(kind);
    value.hash(&mut hash);
    Hasher::finish(&hash)
}

/// Numbers are hashed as words whatever their width, so that `usize` is the same on every platform.
impl Hasher for WordHash {
    fn finish(&self) -> u64 {
        Self::finish(*self)
    }

    fn write(&mut self, bytes: &[u8]) {
        *self = self.bytes(bytes);
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(word.into());
    }

    fn write_u16(&mut self, word: u16) {
        self.write_u64(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        *self = self.word(word);
    }

    fn write_u128(&mut self, word: u128) {
        self.write_u64((word >> 64) as u64);
        self.write_u64(word as u64);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

/// Counts and hashes the bytes written to it. The hash also depends on how they are split into pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measure {
    /// The number of bytes written.
    pub len: usize,
    hash: WordHash,
}

impl Measure {
    /// The hash of the bytes written.
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }
}

impl fmt::Write for Measure {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.len += text.len();
        self.hash = self.hash.text(text);
        Ok(())
    }
}

impl io::Write for Measure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.len += bytes.len();
        self.hash = self.hash.bytes(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_texts_end_counts() {
        let of = |texts: &[&str]| WordHash::new().texts(texts.iter().copied()).finish();
        let all = [of(&[]), of(&[""]), of(&["", ""]), of(&["ab", "c"]), of(&["a", "bc"]), of(&["abc"]), of(&["abc\0"]), of(&["12345678"])];
        for (index, hash) in all.iter().enumerate() {
            assert!(!all[..index].contains(hash), "{index}");
        }
        let option = |text| WordHash::new().option(text).finish();
        assert_ne!(option(None), option(Some("")));
    }

    #[test]
    fn the_rest_of_bytes_is_what_whole_words_leave() {
        let all: Vec<u8> = (1..=40).collect();
        for bytes in (0..=all.len()).map(|len| &all[..len]) {
            let mut rest = [0; 8];
            rest[..bytes.len() % 8].copy_from_slice(bytes.as_chunks::<8>().1);
            assert_eq!(rest_of(bytes), u64::from_le_bytes(rest), "{bytes:?}");
        }
    }

    #[test]
    fn the_hash_is_that_of_every_release() {
        assert_eq!(WordHash::new().finish(), 0xf52a_15e9_a9b5_e89b);
        assert_eq!(WordHash::new().word(1).text("allocation-state").finish(), 0xee93_51fc_e0ac_b311);
        assert_eq!(of("pool", &(1_usize, "ready", [1_u8, 2], None::<u16>)), 0x16c3_c3d7_ea5c_599a);
    }

    #[test]
    fn what_a_value_has_and_of_which_kind_it_is_counts_and_how_wide_its_numbers_are_does_not() {
        assert_eq!(of("pool", &7_usize), of("pool", &7_u32));
        let all = [
            of("pool", &7_u32),
            of("pod", &7_u32),
            of("pool", &8_u32),
            of("pool", &(7_u32, false)),
            of("pool", &1_u128),
            of("pool", &(1_u128 << 64)),
        ];
        for (index, hash) in all.iter().enumerate() {
            assert!(!all[..index].contains(hash), "{index}");
        }
    }
}
