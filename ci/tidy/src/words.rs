//! Retired words, which must not come back.

use regex::Regex;
use serde::Deserialize;

use crate::repository::{Finding, Repository};
use crate::source::{self, Part};

/// The contents of `words.toml`: all retired words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// The retired words, in the order of the table.
    #[serde(rename = "word")]
    pub words: Vec<Word>,
}

/// A retired word and its replacement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// The retired word: a regular expression, which matches whole words unless it says otherwise.
    pub find: String,
    /// The replacement to write instead.
    pub write: String,
    /// The parts of a file in which it counts.
    #[serde(rename = "in", default)]
    pub scope: Scope,
    /// Only files whose paths match one of these regular expressions; empty = all.
    #[serde(default)]
    pub only: Vec<String>,
    /// Files whose paths match one of these regular expressions may have it.
    #[serde(default)]
    pub except: Vec<String>,
}

/// The parts in which a retired word counts.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Everywhere in the text.
    #[default]
    Everywhere,
    /// In prose: comments and literals of Rust, and all other files.
    Prose,
    /// In names: the code of Rust.
    Names,
    /// In paths of files.
    Paths,
}

/// Reads the table.
///
/// # Errors
///
/// Says what is wrong with the table.
pub fn read(text: &str) -> Result<Words, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// Retired words in the files of the repository.
///
/// # Errors
///
/// Says which regular expression of the table is invalid.
pub fn check(repository: &Repository, words: &Words) -> Result<Vec<Finding>, String> {
    let rules = words.words.iter().map(Rule::of).collect::<Result<Vec<_>, _>>()?;
    let mut findings = Vec::new();
    for rule in rules.iter().filter(|rule| rule.word.scope == Scope::Paths) {
        let found = repository.paths.iter().filter(|path| rule.counts(path)).filter_map(|path| Some((path, rule.find.find(path)?)));
        findings.extend(found.map(|(path, found)| Finding::of_file(path, rule.message(found.as_str()))));
    }
    for file in repository.files_of(&["rs", "toml", "md", "yaml", "yml", "sh", "snap"]) {
        let rules = || rules.iter().filter(|rule| rule.word.scope != Scope::Paths && rule.counts(&file.path));
        let is_rust = file.is(&["rs"]);
        let parts = if is_rust { source::parts(&file.text) } else { vec![(Part::Comment, 0..file.text.len())] };
        for (part, range) in parts {
            for rule in
                rules().filter(|rule| rule.word.scope == Scope::Everywhere || (rule.word.scope == Scope::Names) == (part == Part::Code))
            {
                let found = rule.find.find_iter(&file.text[range.clone()]);
                findings.extend(found.map(|found| file.finding(range.start + found.start(), rule.message(found.as_str()))));
            }
        }
    }
    Ok(findings)
}

/// A retired word with its regular expressions.
struct Rule<'a> {
    word: &'a Word,
    find: Regex,
    only: Vec<Regex>,
    except: Vec<Regex>,
}

impl<'a> Rule<'a> {
    fn of(word: &'a Word) -> Result<Self, String> {
        let pattern = |text: &str| Regex::new(text).map_err(|error| format!("`{text}`: {error}"));
        let all = |texts: &[String]| texts.iter().map(|text| pattern(text)).collect::<Result<Vec<_>, _>>();
        let find = pattern(&format!(r"\b(?:{})\b", word.find))?;
        Ok(Self { word, find, only: all(&word.only)?, except: all(&word.except)? })
    }

    /// Whether the word counts in a file. The tables and tests of this package contain such words.
    fn counts(&self, path: &str) -> bool {
        let is_any = |patterns: &[Regex]| patterns.iter().any(|pattern| pattern.is_match(path));
        !path.starts_with("ci/tidy/") && (self.only.is_empty() || is_any(&self.only)) && !is_any(&self.except)
    }

    fn message(&self, found: &str) -> String {
        format!("`{found}` is retired; write {}", self.word.write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"
        [[word]]
        find = "weathers?"
        write = "`fault profile`"
        in = "prose"
        except = ["^old/"]

        [[word]]
        find = "Grip"
        write = "`Effect`"
        in = "names"

        [[word]]
        find = "grip"
        write = "`effect`"
        in = "paths"
    "#;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let words = read(TABLE).unwrap();
        check(&Repository::of(&[(path, text)]), &words).unwrap().iter().map(Finding::to_string).collect()
    }

    #[test]
    fn retired_words_are_found_where_they_count() {
        assert_eq!(findings("a.rs", "// bad weather\n"), ["a.rs:1:8: `weather` is retired; write `fault profile`"]);
        assert_eq!(findings("a.rs", "struct Grip; // Grip\n"), ["a.rs:1:8: `Grip` is retired; write `Effect`"]);
        assert_eq!(findings("fault/grip.rs", ""), ["fault/grip.rs: `grip` is retired; write `effect`"]);
        assert!(findings("a.rs", "let weather = 1;\n").is_empty(), "a name is no prose");
        assert!(findings("old/a.rs", "// bad weather\n").is_empty(), "an exception");
        assert!(findings("a.md", "The weathercock.\n").is_empty(), "part of a word");
    }

    #[test]
    fn a_table_with_a_mistake_is_refused() {
        assert!(read("[[word]]\nfind = \"x\"\n").unwrap_err().contains("write"));
        let words = read("[[word]]\nfind = \"(\"\nwrite = \"y\"\n").unwrap();
        assert!(check(&Repository::default(), &words).is_err());
    }
}
