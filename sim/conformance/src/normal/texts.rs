//! Names inside texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use sha2::{Digest, Sha256};

use super::times::{TIME, Times};
use super::versions::Ranks;

/// The longest text, in characters, that is kept whole; of a longer one this much is left.
const LONG: usize = 700;
const HEAD: usize = 200;
/// The letters of a generated suffix, and its length.
const ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
/// The longest base of a generated name that is not cut.
const BASE: usize = 58;

macro_rules! regexes {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($pattern).expect("a constant"));)*
    };
}

regexes! {
    UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
    TOO_LARGE = r"(?i)(too large resource version: )(\d+)(?:(, current: )(\d+))?";
    TOO_OLD = r"(?i)(too old resource version: )(\d+)(?:( \()(\d+))?";
    PRECONDITION = r"(?i)(resource ?version in precondition: )(\d+)(?:(, resource ?version in object meta: )(\d+))?";
    THE_PRECONDITION = r"(?i)(resource ?version in the precondition \()(\d+)(?:(\) does not match the resource ?version in record \()(\d+))?";
    RECORD = r"(?i)()()(\) does not match the resource ?version in record \()(\d+)";
    // An object printed inside a text: JSON, JSON inside JSON, YAML, Go.
    PRINTED_VERSION = r#"(?i)(resourceVersion[\\"']*: ?[\\"']*)(\d+)"#;
    MESSAGE_SIZE = r"(larger than max \()(\d{4,})";
    ADDRESS = r"\b0x[0-9a-f]{8,}\b";
    HOST = r"\b\d{1,3}(?:\.\d{1,3}){3}:\d+\b|\[[0-9a-fA-F:]+\]:\d+|\blocalhost:\d+\b";
    GENERATE_NAME = r#""generateName": "([^"]+)""#;
}

/// The names of one case inside texts.
pub(super) struct Texts {
    pub(super) prefix: String,
    pub(super) ranks: Ranks,
    pub(super) times: Times,
    ns: String,
    own_uids: BTreeSet<String>,
    own_hosts: BTreeSet<String>,
    /// The patterns of generated names, by their bases, the longest first.
    generated: Vec<Regex>,
    /// Numbers by first appearance.
    uids: BTreeMap<String, usize>,
    suffixes: BTreeMap<String, usize>,
}

impl Texts {
    pub(super) fn new(source: &str, prefix: &str, ns: &str) -> Self {
        let found = |pattern: &Regex| pattern.find_iter(source).map(|found| found.as_str().to_owned()).collect();
        let base = |found: Captures<'_>| {
            let base = found[1].replace("${prefix}", prefix).replace("${ns}", ns);
            base.chars().take(BASE).collect::<String>()
        };
        let bases: BTreeSet<String> = GENERATE_NAME.captures_iter(source).map(base).collect();
        let mut bases: Vec<String> = bases.into_iter().collect();
        bases.sort_by_key(|base| std::cmp::Reverse(base.chars().count()));
        let generated = bases.iter().map(|base| Regex::new(&format!(r"{}([a-z0-9]{{{SUFFIX}}})\b", regex::escape(base))));
        Self {
            prefix: prefix.to_owned(),
            ranks: Ranks::default(),
            times: Times::new(source),
            ns: ns.to_owned(),
            own_uids: found(&UUID),
            own_hosts: found(&HOST),
            generated: generated.map(|regex| regex.expect("the base is escaped")).collect(),
            uids: BTreeMap::new(),
            suffixes: BTreeMap::new(),
        }
    }

    /// The text with names for all values that differ from run to run.
    pub(super) fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for pattern in [&TOO_LARGE, &TOO_OLD, &PRECONDITION, &THE_PRECONDITION, &RECORD] {
            replace(&mut text, pattern, |found| self.versions(found));
        }
        replace(&mut text, &PRINTED_VERSION, |found| match &found[2] {
            "0" => found[0].to_owned(),
            version => format!("{}{}", &found[1], self.ranks.name(version)),
        });
        replace(&mut text, &ADDRESS, |_| "<address>".to_owned());
        replace(&mut text, &MESSAGE_SIZE, |found| format!("{}<{} thousand>", &found[1], thousands(&found[2])));
        for index in 0..self.generated.len() {
            self.suffixes(&mut text, index);
        }
        replace(&mut text, &UUID, |found| self.uid(&found[0]));
        replace(&mut text, &TIME, |found| self.times.form(&found[0]));
        replace(&mut text, &HOST, |found| {
            let host = &found[0];
            if self.own_hosts.contains(host) { host.to_owned() } else { "<server>".to_owned() }
        });
        cut(text.replace(&self.ns, "<ns>").replace(&self.prefix, "<prefix>"))
    }

    /// `current: N` is the version of the whole server; the version of an object is one of the case's own.
    fn versions(&self, found: &Captures<'_>) -> String {
        let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
        let (first, number, second, other) = (part(1), part(2), part(3), part(4));
        if other.is_empty() {
            return format!("{first}{}", self.ranks.name(number));
        }
        if number.is_empty() {
            return format!("{second}{}", self.ranks.name(other));
        }
        let other = if first.to_lowercase().contains("precondition") { self.ranks.name(other) } else { "<rv>".to_owned() };
        format!("{first}{}{second}{other}", self.ranks.name(number))
    }

    fn uid(&mut self, uid: &str) -> String {
        if self.own_uids.contains(uid) {
            return uid.to_owned();
        }
        let next = self.uids.len() + 1;
        format!("uid{}", self.uids.entry(uid.to_owned()).or_insert(next))
    }

    /// Names the random suffixes of generated names that stand alone: in `a-b-xxxxx`, nothing was generated from `b-`.
    fn suffixes(&mut self, text: &mut String, index: usize) {
        let is_inner = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
        let (mut out, mut done, mut from) = (String::new(), 0, 0);
        while let Some(found) = self.generated[index].captures_at(text, from) {
            let (whole, letters) = (found.get_match(), &found[1]);
            let (before, after) = (text[..whole.start()].chars().next_back(), text[whole.end()..].chars().next());
            if before.is_some_and(is_inner) || after == Some('-') {
                from = whole.start() + text[whole.start()..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            let next = self.suffixes.len() + 1;
            let number = *self.suffixes.entry(letters.to_owned()).or_insert(next);
            let strange = if letters.chars().all(|char| ALPHABET.contains(char)) { "" } else { " outside the alphabet" };
            out.push_str(&text[done..whole.end() - SUFFIX]);
            let _ = write!(out, "<suffix{number}{strange}>");
            (done, from) = (whole.end(), whole.end());
        }
        out.push_str(&text[done..]);
        *text = out;
    }
}

fn replace(text: &mut String, pattern: &Regex, by: impl FnMut(&Captures<'_>) -> String) {
    if let std::borrow::Cow::Owned(replaced) = pattern.replace_all(text, by) {
        *text = replaced;
    }
}

/// A number without its last three digits.
fn thousands(digits: &str) -> &str {
    let digits = digits.trim_start_matches('0');
    match digits.len().saturating_sub(3) {
        0 => "0",
        end => &digits[..end],
    }
}

fn cut(text: String) -> String {
    let length = text.chars().count();
    if length <= LONG {
        return text;
    }
    let digest: String = Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let head: String = text.chars().take(HEAD).collect();
    format!("{head}<{length} characters, sha256 {digest}>")
}
