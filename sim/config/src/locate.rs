//! Where in a TOML file something stands that only shows to be wrong when the whole file is read, and what the command line puts into its place.

use serde::de::DeserializeOwned;

use super::decode::decode;
use super::expected::Language;
use super::node::{Entry, Node, Value};
use super::problem::{Position, Problem, Problems};
use super::toml;

/// `KEY=VALUE` of a command line: a value that replaces one of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// A key of the file, dotted.
    pub key: String,
    /// Its value, as written: TOML, or else text.
    pub value: String,
}

impl Setting {
    /// The argument, which stands for the file in problems with its value.
    fn argument(&self) -> String {
        format!("--set {}={}", self.key, self.value)
    }
}

/// The line of what no file holds: it stands in the argument whose number, from 1 on, is the column.
const OF_ARGUMENT: u32 = 0;

/// A file's name and text, for what only shows when the whole file is read.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file as the user named it.
    pub file: &'a str,
    /// What it holds.
    pub text: &'a str,
    /// What stands for some of its values.
    set: &'a [Setting],
    /// Which row of `[[variant]]` it is read for, whose values come before those of the file as a whole.
    variant: Option<usize>,
}

impl<'a> Source<'a> {
    /// A file.
    pub const fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, set: &[], variant: None }
    }

    /// The same with other values of the command line.
    #[must_use]
    pub const fn with(self, set: &'a [Setting]) -> Self {
        Self { set, ..self }
    }

    /// The same for a row of `[[variant]]`, from 0 on.
    #[must_use]
    pub const fn of_variant(self, variant: Option<usize>) -> Self {
        Self { variant, ..self }
    }

    /// Decodes the file, with what stands for some of its values.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn decode<T: DeserializeOwned>(self) -> Result<T, Problems> {
        let decoded = decode(self.file, &self.tree()?, Language::Toml);
        decoded.map(|decoded| decoded.value).map_err(|problems| {
            let mut placed = Problems::new();
            problems.iter().for_each(|problem| placed.push(self.placed(problem.clone())));
            placed
        })
    }

    /// A problem with the key `key`, which may be dotted: `workload.nodes`. Without a place if it is not there.
    pub fn problem(&self, key: &str, wrong: impl Into<String>, right: impl Into<String>) -> Problem {
        let path: Vec<&str> = key.split('.').collect();
        self.of_entry(&path, |entry| entry.at, wrong.into(), right.into())
    }

    /// The same with a key each part of which may hold dots.
    pub fn problem_of_key(&self, path: &[&str], wrong: impl Into<String>, right: impl Into<String>) -> Problem {
        self.of_entry(path, |entry| entry.at, wrong.into(), right.into())
    }

    /// The same with the value of a key.
    pub fn problem_of_value(&self, path: &[&str], wrong: impl Into<String>, right: impl Into<String>) -> Problem {
        self.of_entry(path, |entry| entry.node.at, wrong.into(), right.into())
    }

    /// A problem with a text value, or with the key of that name.
    pub fn problem_of_text(&self, value: impl std::fmt::Display, wrong: impl Into<String>, right: impl Into<String>) -> Problem {
        let value = value.to_string();
        let found = self.tree().ok().and_then(|tree| {
            let of_variant = self.row(&tree).and_then(|row| text_in(row, &value));
            of_variant.or_else(|| text_in(&tree, &value)).or_else(|| entry_in(&tree, &[&value]).map(|entry| entry.at))
        });
        self.problem_at(found, wrong.into(), right.into())
    }

    /// A problem with a text of row `number` of the list `list`: where the value of `key` is that text or has it in it, or else with the row.
    pub fn problem_of_row(&self, (list, number): (&str, usize), key: &str, text: &str, wrong: String, right: String) -> Problem {
        let found = self.tree().ok().and_then(|tree| {
            let rows = self.row(&tree).and_then(|row| row.get(list)).or_else(|| tree.get(list))?;
            let Value::List(rows) = &rows.value else { return None };
            let row = rows.get(number)?;
            Some(row.get(key).and_then(|value| text_in(value, text)).unwrap_or(row.at))
        });
        self.problem_at(found, wrong, right)
    }

    /// The same wherever in the row the text or number is.
    pub fn problem_in_row(&self, (list, number): (&str, usize), text: &str, wrong: String, right: String) -> Problem {
        let found = self.tree().ok().and_then(|tree| {
            let rows = self.row(&tree).and_then(|row| row.get(list)).or_else(|| tree.get(list))?;
            let Value::List(rows) = &rows.value else { return None };
            let row = rows.get(number)?;
            let key = || entry_in(row, &[text]).map(|entry| entry.at);
            Some(text_in(row, text).or_else(|| number_in(row, text)).or_else(key).unwrap_or(row.at))
        });
        self.problem_at(found, wrong, right)
    }

    fn of_entry(&self, path: &[&str], place: fn(&Entry) -> Position, wrong: String, right: String) -> Problem {
        let found = self.tree().ok().and_then(|tree| {
            let of_variant = self.row(&tree).and_then(|row| entry_at(row, path));
            let found = of_variant.or_else(|| entry_at(&tree, path)).or_else(|| entry_in(&tree, path)).map(place);
            // What is missing is missing from its table.
            let tables = || (1..path.len()).rev().find_map(|length| entry_at(&tree, &path[..length])).map(|entry| entry.at);
            found.or_else(tables)
        });
        self.problem_at(found, wrong, right)
    }

    fn problem_at(&self, at: Option<Position>, wrong: String, right: String) -> Problem {
        self.placed(Problem { file: self.file.to_owned(), at, wrong, right })
    }

    /// A problem with a value of the command line is one of its argument.
    fn placed(&self, problem: Problem) -> Problem {
        match problem.at {
            Some(Position { line: OF_ARGUMENT, column }) => {
                let argument = (column as usize).checked_sub(1).and_then(|number| self.set.get(number));
                let file = argument.map_or(problem.file, Setting::argument);
                Problem { file, at: None, ..problem }
            }
            _ => problem,
        }
    }

    /// The file as a tree, with what stands for some of its values.
    fn tree(&self) -> Result<Node, Problems> {
        let mut root = toml::parse(self.file, self.text)?;
        for (number, setting) in (1..).zip(self.set) {
            let at = Position { line: OF_ARGUMENT, column: number };
            assign(&mut root, setting, at).map_err(|wrong| Problem::of_file(&setting.argument(), wrong, ""))?;
        }
        root.number();
        Ok(root)
    }

    /// The row of `[[variant]]` that the file is read for.
    fn row<'n>(&self, root: &'n Node) -> Option<&'n Node> {
        match &root.get("variant")?.value {
            Value::List(rows) => rows.get(self.variant?),
            _ => None,
        }
    }
}

/// Replaces one value. What reads as a TOML value is one; everything else is text.
fn assign(root: &mut Node, Setting { key, value }: &Setting, at: Position) -> Result<(), String> {
    let parsed = toml::parse("", &format!("value = {value}")).ok().and_then(|parsed| parsed.get("value").cloned());
    let mut node = parsed.unwrap_or_else(|| Node::new(at, Value::String(value.clone())));
    node.move_to(at);
    let mut path: Vec<&str> = key.split('.').collect();
    let last = path.pop().unwrap_or_default();
    let mut inside = root;
    for part in path {
        let entries = inside.entries_mut().ok_or_else(|| format!("{key} lies within no table"))?;
        let number = entries.iter().position(|entry| entry.key == part).unwrap_or_else(|| {
            entries.push(Entry { key: part.to_owned(), at, node: Node::new(at, Value::Table(Vec::new())) });
            entries.len() - 1
        });
        inside = &mut entries[number].node;
        if inside.entries_mut().is_none() {
            return Err(format!("`{part}` is not a table"));
        }
    }
    let entries = inside.entries_mut().ok_or_else(|| format!("{key} lies within no table"))?;
    let entry = Entry { key: last.to_owned(), at, node };
    match entries.iter_mut().find(|known| known.key == last) {
        Some(known) => *known = entry,
        None => entries.push(entry),
    }
    Ok(())
}

/// Where a number stands that is written so.
fn number_in(node: &Node, text: &str) -> Option<Position> {
    match &node.value {
        Value::Integer(number) if number.to_string() == text => Some(node.at),
        _ => node.children().find_map(|(_, child)| number_in(child, text)),
    }
}

/// The entry of a path from `node` on.
fn entry_at<'n>(node: &'n Node, path: &[&str]) -> Option<&'n Entry> {
    let (first, rest) = path.split_first()?;
    let entry = node.entry(first)?;
    if rest.is_empty() { Some(entry) } else { entry_at(&entry.node, rest) }
}

/// The first entry, of those that lie least deep, from which the path leads on.
fn entry_in<'n>(root: &'n Node, path: &[&str]) -> Option<&'n Entry> {
    let mut level = vec![root];
    while !level.is_empty() {
        if let Some(entry) = level.iter().find_map(|node| entry_at(node, path)) {
            return Some(entry);
        }
        level = level.into_iter().flat_map(|node| node.children().map(|(_, child)| child)).collect();
    }
    None
}

/// Where this text is a value.
fn text_in(node: &Node, text: &str) -> Option<Position> {
    if node.as_str() == Some(text) {
        return Some(node.at);
    }
    node.children().find_map(|(_, child)| text_in(child, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "why = 'how many nodes are there?' # nodes\nnodes_of = 1\n[workload]\nkind = 'nodes'\nnodes = 3\nsettings = { a = 'no' }\n\
                        [[variant]]\nname = 'v'\nworkload = { nodes = 7 }\n";

    fn source() -> Source<'static> {
        Source::new("s.toml", TEXT)
    }

    #[test]
    fn a_key_is_found_where_it_is_one() {
        assert_eq!(source().problem("workload.nodes", "w", "").to_string(), "s.toml:5:1: w");
        assert_eq!(source().problem("nodes", "w", "").to_string(), "s.toml:5:1: w");
        assert_eq!(source().of_variant(Some(0)).problem("workload.nodes", "w", "").to_string(), "s.toml:9:14: w");
        assert_eq!(source().problem_of_key(&["workload", "settings", "a"], "w", "").to_string(), "s.toml:6:14: w");
        assert_eq!(source().problem_of_value(&["workload", "settings", "a"], "w", "").to_string(), "s.toml:6:18: w");
        assert_eq!(source().problem("nowhere", "w", "r").to_string(), "s.toml: w; r");
    }

    #[test]
    fn a_text_is_found_where_it_is_a_value_or_else_a_key() {
        assert_eq!(source().problem_of_text("nodes", "w", "").to_string(), "s.toml:4:8: w");
        assert_eq!(source().problem_of_text("settings", "w", "").to_string(), "s.toml:6:1: w");
    }

    #[test]
    fn a_text_is_found_in_its_row() {
        let text = "name = 'a'\n[[op]]\napp = 'a'\n[[op]]\napp = 'b'\nnodes = ['x', 'a']\n[[variant]]\nop = [{ app = 'a' }]\n";
        let source = Source::new("s.toml", text);
        let of_row = |source: Source<'_>, row, key| source.problem_of_row(("op", row), key, "a", "w".to_owned(), String::new()).to_string();
        assert_eq!(of_row(source, 0, "app"), "s.toml:3:7: w");
        assert_eq!(of_row(source, 1, "nodes"), "s.toml:6:15: w");
        assert_eq!(of_row(source, 1, "app"), "s.toml:4:1: w");
        assert_eq!(of_row(source.of_variant(Some(0)), 0, "app"), "s.toml:8:15: w");
        assert_eq!(of_row(source, 2, "app"), "s.toml: w");
    }

    #[test]
    fn what_the_command_line_says_is_its_own() {
        let set = |key: &str, value: &str| Setting { key: key.to_owned(), value: value.to_owned() };
        let given = [set("workload.nodes", "x"), set("new.deep", "{ a = [1] }")];
        let source = source().with(&given);
        assert_eq!(source.problem("workload.nodes", "w", "r").to_string(), "--set workload.nodes=x: w; r");
        assert_eq!(source.problem_of_text("x", "w", "").to_string(), "--set workload.nodes=x: w");
        assert_eq!(source.problem("workload.kind", "w", "").to_string(), "s.toml:4:1: w");
        assert_eq!(source.problem("new.deep.a", "w", "").to_string(), "--set new.deep={ a = [1] }: w");
        let read: serde_json::Value = source.decode().unwrap();
        assert_eq!((&read["workload"]["nodes"], &read["new"]["deep"]["a"][0]), (&"x".into(), &1.into()));
        let within = [set("workload.kind.deep", "1")];
        let error = Source::new("s.toml", TEXT).with(&within).decode::<serde_json::Value>().unwrap_err();
        assert_eq!(error.to_string(), "--set workload.kind.deep=1: `kind` is not a table");
    }
}
