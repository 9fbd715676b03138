//! The values of a TOML file, for itself or for one of its variants and with settings of the command line; and the places of problems that
//! only show when the whole file is read.

use serde::de::DeserializeOwned;

use super::decode::decode;
use super::expected::Language;
use super::merge::{Both, merge};
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
    /// The argument, which replaces the file name in problems with its value.
    fn argument(&self) -> String {
        format!("--set {}={}", self.key, self.value)
    }
}

/// The list of a file's variants.
const VARIANT: &str = "variant";

/// The line of values that no file holds: the column is the number, from 1 on, of the argument with the value.
const OF_ARGUMENT: u32 = 0;

/// The name and text of a file, to locate problems that only show when the whole file is read.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file as the user named it.
    pub file: &'a str,
    /// The whole text of the file: TOML.
    pub text: &'a str,
    /// Settings that replace some of its values.
    set: &'a [Setting],
    /// The row of `[[variant]]` that the file is read for: that row is merged over the rest of the file.
    variant: Option<usize>,
}

impl<'a> Source<'a> {
    /// A file by itself: no value is replaced, and it is read for no row of `[[variant]]`.
    pub const fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, set: &[], variant: None }
    }

    /// The same source with other settings of the command line.
    #[must_use]
    pub const fn with(self, set: &'a [Setting]) -> Self {
        Self { set, ..self }
    }

    /// The same source for a row of `[[variant]]`, from 0 on. Tables of the row and of the file as a whole are merged, key by key; every
    /// other value of the row replaces that of the file, and so does a table of another `kind`. A file without rows stays the same.
    #[must_use]
    pub const fn of_variant(self, variant: Option<usize>) -> Self {
        Self { variant, ..self }
    }

    /// Decodes the file, with its settings.
    ///
    /// # Errors
    /// Returns all problems of the file.
    pub fn decode<T: DeserializeOwned>(self) -> Result<T, Problems> {
        self.decode_in(&toml::parse(self.file, self.text)?, &Problems::new())
    }

    /// Decodes the variants of the file: each row of `[[variant]]` whose number is `wanted`, merged over the rest of the file, or the file
    /// itself if it has no rows. Each comes with the source in which to locate further problems.
    ///
    /// # Errors
    /// Returns all problems of the file as a whole, which has to be a `T` as well, and of the wanted rows. Problems of their shared part
    /// are reported once.
    pub fn decode_each<T: DeserializeOwned>(self, wanted: impl Fn(usize) -> bool) -> Result<Vec<(Self, T)>, Problems> {
        let root = toml::parse(self.file, self.text)?;
        let rows = match root.get(VARIANT).map(|node| &node.value) {
            Some(Value::List(rows)) => rows.len(),
            _ => 0,
        };
        if rows == 0 {
            let own = self.decode_in(&root, &Problems::new())?;
            return Ok(if wanted(0) { vec![(self, own)] } else { Vec::new() });
        }
        // Settings change the variants, not the shared part of the file.
        let shared = self.with(&[]).decode_in::<T>(&root, &Problems::new()).err().unwrap_or_default();
        let mut problems = shared.clone();
        let mut each = Vec::new();
        for number in (0..rows).filter(|number| wanted(*number)) {
            let source = self.of_variant(Some(number));
            match source.decode_in(&root, &shared) {
                Ok(decoded) => each.push((source, decoded)),
                Err(of_row) => problems.merge(&of_row),
            }
        }
        problems.sort();
        problems.or(each)
    }

    /// Decodes the file whose tree is `root`; `shared` are the known problems of the file as a whole.
    fn decode_in<T: DeserializeOwned>(self, root: &Node, shared: &Problems) -> Result<T, Problems> {
        let (tree, both) = self.settled(root)?;
        decode(self.file, &tree, Language::Toml).map(|decoded| decoded.value).map_err(|problems| {
            let mut placed = Problems::new();
            for problem in &problems {
                let mut problem = self.placed(problem.clone());
                // A problem of a merged table that the shared part alone does not have is a problem of the own part.
                if let Some((_, own)) = both.iter().find(|(shared, _)| Some(*shared) == problem.at)
                    && !shared.iter().any(|known| *known == problem)
                {
                    problem.at = Some(*own);
                }
                placed.push(problem);
            }
            placed
        })
    }

    /// A problem with the key `key`, which may be dotted: `workload.nodes`. Without a place if the key is not there.
    pub fn problem(&self, key: &str, wrong: impl Into<String>, right: impl Into<String>) -> Problem {
        let path: Vec<&str> = key.split('.').collect();
        self.of_entry(&path, |entry| entry.at, wrong.into(), right.into())
    }

    /// A problem with a key whose parts may contain dots.
    pub fn problem_of_key(&self, path: &[&str], wrong: impl Into<String>, right: impl Into<String>) -> Problem {
        self.of_entry(path, |entry| entry.at, wrong.into(), right.into())
    }

    /// A problem with the value of a key.
    pub fn problem_of_value(&self, path: &[&str], wrong: impl Into<String>, right: impl Into<String>) -> Problem {
        self.of_entry(path, |entry| entry.node.at, wrong.into(), right.into())
    }

    /// A problem with a text value, or with the key of that name.
    pub fn problem_of_text(&self, value: impl std::fmt::Display, wrong: impl Into<String>, right: impl Into<String>) -> Problem {
        let value = value.to_string();
        let found = self.tree().ok().and_then(|tree| text_in(&tree, &value).or_else(|| entry_in(&tree, &[&value]).map(|entry| entry.at)));
        self.problem_at(found, wrong.into(), right.into())
    }

    /// A problem with a text in row `number` of the list `list`: at the value of `key` if that is the text or contains it, or else at the
    /// row.
    pub fn problem_of_row(&self, (list, number): (&str, usize), key: &str, text: &str, wrong: String, right: String) -> Problem {
        let found = self.tree().ok().and_then(|tree| {
            let Value::List(rows) = &tree.get(list)?.value else { return None };
            let row = rows.get(number)?;
            Some(row.get(key).and_then(|value| text_in(value, text)).unwrap_or(row.at))
        });
        self.problem_at(found, wrong, right)
    }

    /// The same, wherever in the row the text or number is.
    pub fn problem_in_row(&self, (list, number): (&str, usize), text: &str, wrong: String, right: String) -> Problem {
        let found = self.tree().ok().and_then(|tree| {
            let Value::List(rows) = &tree.get(list)?.value else { return None };
            let row = rows.get(number)?;
            let key = || entry_in(row, &[text]).map(|entry| entry.at);
            Some(text_in(row, text).or_else(|| number_in(row, text)).or_else(key).unwrap_or(row.at))
        });
        self.problem_at(found, wrong, right)
    }

    fn of_entry(&self, path: &[&str], place: fn(&Entry) -> Position, wrong: String, right: String) -> Problem {
        let found = self.tree().ok().and_then(|tree| {
            let found = entry_at(&tree, path).or_else(|| entry_in(&tree, path)).map(place);
            // A missing key is located at its table.
            let tables = || (1..path.len()).rev().find_map(|length| entry_at(&tree, &path[..length])).map(|entry| entry.at);
            found.or_else(tables)
        });
        self.problem_at(found, wrong, right)
    }

    fn problem_at(&self, at: Option<Position>, wrong: String, right: String) -> Problem {
        self.placed(Problem { file: self.file.to_owned(), at, wrong, right })
    }

    /// A problem with a value of the command line, located at its argument.
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

    /// The file as a tree, with its variant and its settings.
    fn tree(&self) -> Result<Node, Problems> {
        Ok(self.settled(&toml::parse(self.file, self.text)?)?.0)
    }

    /// The same for the file whose tree is `root`, and the places of merged tables.
    fn settled(&self, root: &Node) -> Result<(Node, Vec<Both>), Problems> {
        let mut both = Vec::new();
        let mut tree = match self.row(root) {
            Some(row) => merge(&shared_by_rows(root), row, &mut both),
            None => root.clone(),
        };
        for (number, setting) in (1..).zip(self.set) {
            let at = Position { line: OF_ARGUMENT, column: number };
            assign(&mut tree, setting, at).map_err(|wrong| Problem::of_file(&setting.argument(), wrong, ""))?;
        }
        tree.number();
        Ok((tree, both))
    }

    /// The row of `[[variant]]` that the file is read for.
    fn row<'n>(&self, root: &'n Node) -> Option<&'n Node> {
        match &root.get(VARIANT)?.value {
            Value::List(rows) => rows.get(self.variant?).filter(|row| matches!(row.value, Value::Table(_))),
            _ => None,
        }
    }
}

/// The part that all rows of `[[variant]]` share. The rows are not copied first: a file may have a hundred of them.
fn shared_by_rows(root: &Node) -> Node {
    let Value::Table(entries) = &root.value else { return root.clone() };
    let entries = entries.iter().filter(|entry| entry.key != VARIANT).cloned().collect();
    Node::new(root.at, Value::Table(entries))
}

/// Replaces one value. A text that parses as a TOML value is one; everything else is a string.
fn assign(root: &mut Node, Setting { key, value }: &Setting, at: Position) -> Result<(), String> {
    let parsed = toml::parse("", &format!("value = {value}")).ok().and_then(|parsed| parsed.get("value").cloned());
    let mut node = parsed.unwrap_or_else(|| Node::new(at, Value::String(value.clone())));
    node.move_to(at);
    let mut path: Vec<&str> = key.split('.').collect();
    if path.first() == Some(&VARIANT) {
        return Err("a value is set in every variant, and none of them by itself; --variant chooses one".to_owned());
    }
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

/// The place of an integer that is written as `text`.
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

/// The first entry, of those at the least depth, that the path leads to.
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

/// The place of this text as a value.
fn text_in(node: &Node, text: &str) -> Option<Position> {
    if node.as_str() == Some(text) {
        return Some(node.at);
    }
    node.children().find_map(|(_, child)| text_in(child, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "why = 'how many nodes are there?' # nodes\nnodes_of = 1\n[workload]\nkind = 'nodes'\n\
                        nodes = 3\nsettings = { a = 'no' }\n\
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

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        name: String,
        cluster: Cluster,
        #[serde(default)]
        variant: Vec<Row>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Cluster {
        nodes: u32,
        #[serde(default)]
        tags: Vec<String>,
        delay: Delay,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    enum Delay {
        Always(u32),
        Between { low: u32, high: u32 },
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Row {
        name: String,
    }

    const FILE: &str = "name = 'f'\n[cluster]\nnodes = 2\ntags = ['a']\ndelay = { between = { low = 1, high = 5 } }\n";

    fn each(text: &str) -> Result<Vec<File>, String> {
        let each = Source::new("f.toml", text).decode_each(|_| true).map_err(|problems| problems.to_string())?;
        Ok(each.into_iter().map(|(_, file)| file).collect())
    }

    #[test]
    fn a_variant_is_laid_over_the_file() {
        let rows = "[[variant]]\nname = 'a'\ncluster = { nodes = 3 }\n[[variant]]\nname = 'b'\n\
                    [variant.cluster]\ntags = []\ndelay.between.low = 4\n\
                    [[variant]]\nname = 'c'\ncluster.delay.always = 7\n";
        let file = |name: &str, nodes, tags: &[&str], delay| File {
            name: name.to_owned(),
            cluster: Cluster { nodes, tags: tags.iter().map(|&tag| tag.to_owned()).collect(), delay },
            variant: Vec::new(),
        };
        let expected = [
            file("a", 3, &["a"], Delay::Between { low: 1, high: 5 }),
            file("b", 2, &[], Delay::Between { low: 4, high: 5 }),
            file("c", 2, &["a"], Delay::Always(7)),
        ];
        assert_eq!(each(&format!("{FILE}{rows}")).unwrap(), expected);
        assert_eq!(each(FILE).unwrap(), [file("f", 2, &["a"], Delay::Between { low: 1, high: 5 })]);
    }

    #[test]
    fn what_is_wrong_with_a_variant_stands_where_it_is_written() {
        let rows = "[[variant]]\nname = 'a'\ncluster = { nodez = 3, nodes = 'x' }\n[[variant]]\nname = 'b'\n\
                    [[variant]]\nname = 'c'\n[variant.cluster]\ndelay.between.lov = 1\n\
                    [[variant]]\nname = 'd'\ncluster.delay = { always = 1, between = { low = 2 } }\n";
        insta::assert_snapshot!(each(&format!("{FILE}{rows}")).unwrap_err(), @r#"
        f.toml:8:13: unknown key `nodez`; did you mean `nodes`?
        f.toml:8:32: `cluster.nodes` is the string "x"; expected a whole number from 0 to 4294967295
        f.toml:14:15: unknown key `lov`; did you mean `low`?
        f.toml:17:17: `cluster.delay` is a table; expected one of `always`, `between`
        "#);
    }

    #[test]
    fn what_is_wrong_with_what_variants_share_is_told_once() {
        let rows = "[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\ncluster = { tags = [] }\n[[variant]]\ncluster = { nodes = 5 }\n";
        let text = FILE.replace("tags", "tagz").replace("nodes = 2\n", "") + rows;
        insta::assert_snapshot!(each(&text).unwrap_err(), @r"
        f.toml:2:1: missing key `nodes` in `cluster`
        f.toml:3:1: unknown key `tagz`; did you mean `tags`?
        f.toml:10:1: missing key `name` in `variant[2]`
        ");
    }

    #[test]
    fn a_setting_is_one_of_every_wanted_variant() {
        let text = format!("{FILE}[[variant]]\nname = 'a'\ncluster = {{ nodes = 3 }}\n[[variant]]\nname = 'b'\n");
        let given = |key: &str| [Setting { key: key.to_owned(), value: "9".to_owned() }];
        let read = |given: &[Setting], wanted: &dyn Fn(usize) -> bool| {
            let each = Source::new("f.toml", &text).with(given).decode_each::<File>(wanted).map_err(|problems| problems.to_string())?;
            Ok(each.into_iter().map(|(_, file)| (file.name, file.cluster.nodes)).collect::<Vec<_>>())
        };
        assert_eq!(read(&given("cluster.nodes"), &|_| true).unwrap(), [("a".to_owned(), 9), ("b".to_owned(), 9)]);
        assert_eq!(read(&given("cluster.nodes"), &|number| number == 1).unwrap(), [("b".to_owned(), 9)]);
        assert_eq!(
            read(&given("cluster.nodez"), &|_| true),
            Err("--set cluster.nodez=9: unknown key `nodez`; did you mean `nodes`?".to_owned())
        );
        let of_rows = "--set variant=9: a value is set in every variant, and none of them by itself; --variant chooses one";
        assert_eq!(read(&given("variant"), &|_| true), Err(of_rows.to_owned()));
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
