//! Modules of a folder that import each other in a circle.
//!
//! The check covers the top modules of each package, and those of every folder of more than [`FEW`]: the files of a small folder are about
//! one thing, and may know each other. An item that a module re-exports belongs to the module below that defines it. Imports by tests do
//! not count.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use regex::Regex;
use serde::Deserialize;

use crate::repository::{File, Finding, Repository};
use crate::source::{self, Part};

/// The table of permitted circles.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circles {
    /// The circles, each with its modules and the reason.
    #[serde(default)]
    pub circle: Vec<Circle>,
}

/// A permitted circle of modules.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circle {
    /// The folder of the package.
    pub package: String,
    /// The module that contains the modules, as `actor::kubelet`; empty = the package itself.
    #[serde(default)]
    pub within: String,
    /// The modules, by name.
    pub modules: BTreeSet<String>,
    /// The reason why they are not separated.
    pub reason: String,
}

/// Reads the table.
///
/// # Errors
///
/// Says what is wrong with the table.
pub fn read(text: &str) -> Result<Circles, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// The number of modules up to which those of a folder may import each other freely.
const FEW: usize = 8;

/// The imports between the modules of a folder, each with its first place.
type Imports = BTreeMap<(String, String), (String, usize)>;

/// The re-exports of a module, each with the module below that defines the item.
type ReExports = BTreeMap<String, String>;

/// The modules of a package, by their paths: `["actor", "kubelet"]`, and the root, which has no segment.
#[derive(Default)]
struct Package<'a> {
    modules: BTreeMap<Vec<&'a str>, &'a File>,
}

/// Circles without a reason, and reasons of circles that do not exist.
pub fn check(repository: &Repository, table: &Circles) -> Vec<Finding> {
    let mut packages: BTreeMap<&str, Package<'_>> = BTreeMap::new();
    for file in repository.files_of(&["rs"]) {
        if let Some((package, path)) = file.path.split_once("/src/")
            && let Some(module) = module_of(path)
        {
            packages.entry(package).or_default().modules.insert(module, file);
        }
    }
    let mut findings = Vec::new();
    let mut needed = vec![false; table.circle.len()];
    for (name, package) in &packages {
        for (within, imports) in package.imports() {
            for circle in circles(&imports) {
                let is_it =
                    |known: &Circle| known.package == *name && known.within == within && known.modules.iter().eq(circle.iter().copied());
                match table.circle.iter().position(is_it) {
                    Some(row) => needed[row] = true,
                    None => findings.push(tell(repository, &place(name, &within), &imports, &circle)),
                }
            }
        }
    }
    let unneeded = table.circle.iter().zip(needed).filter(|(_, needed)| !needed);
    findings.extend(unneeded.map(|(circle, _)| {
        let names = circle.modules.iter().cloned().collect::<Vec<_>>().join(", ");
        let place = place(&circle.package, &circle.within);
        Finding::of_file("ci/tidy/circles.toml", format!("{place}: {names} are no circle; remove the entry"))
    }));
    findings
}

/// The name of a module's folder in a finding.
fn place(package: &str, within: &str) -> String {
    if within.is_empty() { package.to_owned() } else { format!("{package}, {within}") }
}

/// The path of the module in a file under `src`; `None` = programs and tests.
fn module_of(path: &str) -> Option<Vec<&str>> {
    let mut module: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let is_test = path.split(['/', '.']).any(|part| part == "tests" || part == "testing");
    if is_test || matches!(module[0], "main" | "bin") {
        return None;
    }
    if module == ["lib"] || module.last() == Some(&"mod") {
        module.pop();
    }
    Some(module)
}

/// The code of a file, with blanks for everything else, up to its tests.
fn code_of(file: &File) -> String {
    let mut code = String::with_capacity(file.text.len());
    for (part, range) in source::parts(&file.text) {
        match part {
            Part::Code => code.push_str(&file.text[range]),
            _ => code.extend(std::iter::repeat_n(' ', range.len())),
        }
    }
    code.truncate(code.find("#[cfg(test)]\nmod ").unwrap_or(code.len()));
    code
}

impl Package<'_> {
    /// The imports of each folder that is checked, by the path of its module.
    fn imports(&self) -> BTreeMap<String, Imports> {
        let codes: BTreeMap<&[&str], String> = self.modules.iter().map(|(module, file)| (module.as_slice(), code_of(file))).collect();
        let re_exports: BTreeMap<&[&str], ReExports> = codes.iter().map(|(module, code)| (*module, re_exports(module, code))).collect();
        let looked_at = self.looked_at();
        let mut folders: BTreeMap<String, Imports> = BTreeMap::new();
        for (module, file) in &self.modules {
            for path in paths(module, &codes[module.as_slice()]) {
                let level = module.iter().zip(&path).take_while(|(own, (other, _))| *own == other).count();
                let (Some(own), Some(&(other, at))) = (module.get(level), path.get(level)) else { continue };
                let other = re_exports.get(&module[..level]).and_then(|of| of.get(other)).map_or(other, String::as_str);
                if *own != other && looked_at.contains(&module[..level]) {
                    let imports = folders.entry(module[..level].join("::")).or_default();
                    imports.entry(((*own).to_owned(), other.to_owned())).or_insert_with(|| (file.path.clone(), at));
                }
            }
        }
        folders
    }

    /// The package itself, and the modules with more than a few modules in them.
    fn looked_at(&self) -> BTreeSet<&[&str]> {
        let mut within: BTreeMap<&[&str], BTreeSet<&str>> = BTreeMap::new();
        for module in self.modules.keys() {
            for (level, below) in module.iter().enumerate() {
                within.entry(&module[..level]).or_default().insert(below);
            }
        }
        within.into_iter().filter(|(folder, below)| folder.is_empty() || below.len() > FEW).map(|(folder, _)| folder).collect()
    }
}

/// The items that a module with this code re-exports from those below it, so that they can be imported from the module, too.
fn re_exports(module: &[&str], code: &str) -> ReExports {
    let statement = Regex::new(r"\b(?:pub(?:\([^)]*\))? )?use ((?:\w+::)+)([^;]*);").expect("a constant");
    let mut found = ReExports::new();
    for statement in statement.captures_iter(code) {
        let mut from: Vec<&str> = statement[1].trim_end_matches("::").split("::").collect();
        if from[0] == "crate" && from[1..].starts_with(module) {
            from.drain(..=module.len());
        } else if from[0] == "self" {
            from.remove(0);
        }
        let Some(below) = from.first().filter(|below| !matches!(**below, "crate" | "super")) else { continue };
        for item in statement[2].split([',', '{', '}']).map(str::trim).filter(|item| !item.is_empty() && !item.ends_with("::")) {
            let name = item.rsplit([':', ' ']).next().unwrap_or(item);
            // A function may have the same name as another module.
            if !code.contains(&format!("mod {name};")) {
                found.insert(name.to_owned(), (*below).to_owned());
            }
        }
    }
    found
}

/// A path as its segments, each with its position.
type Path<'c> = Vec<(&'c str, usize)>;

/// The paths that a module names through its package or its parents, each from the root of the package.
fn paths<'c>(module: &[&'c str], code: &'c str) -> Vec<Path<'c>> {
    let prefix = Regex::new(r"(?:^|[^\w:$])(crate|super)::").expect("a constant");
    let (mut paths, mut at) = (Vec::new(), 0);
    while let Some(found) = prefix.captures_at(code, at) {
        let mut reader = Reader { code, at: found.get(1).expect("the group is not optional").start() };
        let mut trees = Vec::new();
        reader.tree(&mut Vec::new(), &mut trees);
        at = reader.at;
        for segments in trees {
            let mut path: Path<'_> = module.iter().map(|segment| (*segment, at)).collect();
            for segment in segments {
                match segment.0 {
                    "crate" => path.clear(),
                    "super" => drop(path.pop()),
                    "self" => {}
                    _ => path.push(segment),
                }
            }
            paths.push(path);
        }
    }
    paths
}

/// Reads paths with their braces.
struct Reader<'c> {
    code: &'c str,
    at: usize,
}

impl<'c> Reader<'c> {
    fn blanks(&mut self) {
        self.at += self.code[self.at..].len() - self.code[self.at..].trim_start().len();
    }

    fn takes(&mut self, text: &str) -> bool {
        let found = self.code[self.at..].starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn word(&mut self) -> Option<(&'c str, usize)> {
        let rest = &self.code[self.at..];
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let place = self.at;
        self.at += length;
        (length > 0).then(|| (&rest[..length], place))
    }

    /// A path after `before`, or all the paths in its braces.
    fn tree(&mut self, before: &mut Path<'c>, found: &mut Vec<Path<'c>>) {
        let kept = before.len();
        loop {
            if self.takes("{") {
                loop {
                    self.blanks();
                    if self.takes("}") || self.at == self.code.len() {
                        break;
                    }
                    let start = self.at;
                    self.tree(before, found);
                    // ` as other` and commas.
                    let rest = &self.code[self.at..];
                    self.at += rest.find([',', '{', '}']).unwrap_or(rest.len());
                    self.takes(",");
                    if self.at == start {
                        self.at += 1;
                    }
                }
                break;
            }
            if let Some(word) = self.word() {
                before.push(word);
            }
            let is_path = self.code[self.at..].starts_with("::")
                && self.code[self.at + 2..].starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '{');
            if is_path {
                self.at += 2;
                continue;
            }
            found.push(before.clone());
            break;
        }
        before.truncate(kept);
    }
}

fn circles(imports: &Imports) -> Vec<BTreeSet<&String>> {
    let graph: DiGraphMap<&String, ()> = imports.keys().map(|(from, to)| (from, to)).collect();
    tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1).map(|circle| circle.into_iter().collect()).collect()
}

fn tell(repository: &Repository, place: &str, imports: &Imports, circle: &BTreeSet<&String>) -> Finding {
    let within = imports.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
    let told: Vec<String> = within.clone().map(|((from, to), (path, _))| format!("{from} imports {to} ({path})")).collect();
    let message = format!(
        "modules of {place} import each other in a circle: {}; move what they share below both, or \
         state a reason in ci/tidy/circles.toml",
        told.join(", ")
    );
    let (_, (path, at)) = within.min_by_key(|((from, to), _)| (from, to)).expect("a circle has imports");
    match repository.file(path) {
        Some(file) => file.finding(*at, message),
        None => Finding::of_file(path, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(table: &str, files: &[(&str, &str)]) -> Vec<String> {
        check(&Repository::of(files), &read(table).unwrap()).iter().map(Finding::to_string).collect()
    }

    const CIRCLE: [(&str, &str); 3] = [
        ("p/src/lib.rs", "mod a; mod b;"),
        ("p/src/a.rs", "//! See crate::c.\nuse crate::b::B;\n"),
        ("p/src/b/mod.rs", "use crate::{c::C, a};\n"),
    ];

    #[test]
    fn a_circle_is_found_where_it_begins() {
        let found = findings("", &CIRCLE);
        assert_eq!(
            found,
            ["p/src/a.rs:2:12: modules of p import each other in a circle: a imports b (p/src/a.rs), b imports a (p/src/b/mod.rs); \
              move what they share below both, or state a reason in ci/tidy/circles.toml"]
        );
    }

    #[test]
    fn imports_of_tests_and_from_lower_modules_are_none() {
        let tests = "use crate::b::B;\n#[cfg(test)]\nmod tests {\n    use crate::c::C;\n}\n";
        assert_eq!(findings("", &[("p/src/a.rs", tests), ("p/src/b.rs", ""), ("p/src/c.rs", "use crate::a::A;\n")]), [""; 0]);
        assert_eq!(findings("", &[("p/src/a/mod.rs", "use crate::b::B;\n"), ("p/src/b/tests.rs", "use crate::a::A;\n")]), [""; 0]);
    }

    #[test]
    fn an_import_by_way_of_the_parent_is_one() {
        let files = [("p/src/a.rs", "use super::b::B;\n"), ("p/src/b/mod.rs", "mod d;\n"), ("p/src/b/d.rs", "use super::super::a::A;\n")];
        assert_eq!(findings("", &files).len(), 1);
        let own = [("p/src/a.rs", "use super::b::B;\n"), ("p/src/b/mod.rs", "mod a;\n"), ("p/src/b/d.rs", "use super::a::A;\n")];
        assert_eq!(findings("", &own), [""; 0], "the module of its own folder is another one");
    }

    #[test]
    fn what_the_root_re_exports_is_of_the_module_that_has_it() {
        let root = "mod a;\nmod b;\npub use a::{A, deep::{C, D as E}};\npub(crate) use crate::b::B;\n";
        let files = [("p/src/lib.rs", root), ("p/src/a.rs", "use crate::B;\n"), ("p/src/b.rs", "use crate::{E, names};\n")];
        assert_eq!(findings("", &files).len(), 1);
        let one_way = [("p/src/lib.rs", root), ("p/src/a.rs", "use crate::B;\n"), ("p/src/b.rs", "use crate::D;\n")];
        assert_eq!(findings("", &one_way), [""; 0], "it is called E there");
        let namesake = "mod a;\nmod b;\nmod c;\npub use a::c;\n";
        let files = [("p/src/lib.rs", namesake), ("p/src/a.rs", "use crate::b::B;\n"), ("p/src/b.rs", "use crate::c::{C, a};\n")];
        assert_eq!(findings("", &files), [""; 0], "the module c, and not the function of a");
        let nested = [("p/src/lib.rs", root), ("p/src/a.rs", "use crate::b;\n"), ("p/src/b.rs", "use crate::{x::{P, A}, y};\n")];
        assert_eq!(findings("", &nested), [""; 0], "the A of x");
    }

    #[test]
    fn the_modules_of_a_large_folder_are_looked_at_too() {
        let few = [("p/src/m/a.rs", "use crate::m::{x::X, b::{c::C, B as D}};\n"), ("p/src/m/b/mod.rs", "pub use super::a::A;\n")];
        assert_eq!(findings("", &few), [""; 0], "a few are about one thing");
        let more = ["1", "2", "3", "4", "5", "6", "7"].map(|name| (format!("p/src/m/n{name}.rs"), String::new()));
        let large: Vec<(&str, &str)> = few.into_iter().chain(more.iter().map(|(path, text)| (path.as_str(), text.as_str()))).collect();
        let found = findings("", &large);
        let circle = "modules of p, m import each other in a circle: a imports b (p/src/m/a.rs), b imports a (p/src/m/b/mod.rs)";
        assert!(found.len() == 1 && found[0].starts_with(&format!("p/src/m/a.rs:1:22: {circle}")), "{found:?}");
        let table = "[[circle]]\npackage = 'p'\nwithin = 'm'\nmodules = ['a', 'b']\nreason = 'one noun'\n";
        assert_eq!(findings(table, &large), [""; 0]);
        assert_eq!(findings(table, &few), ["ci/tidy/circles.toml: p, m: a, b are no circle; remove the entry"]);
    }

    #[test]
    fn what_a_module_re_exports_is_of_the_one_below_it() {
        let mut files: Vec<(String, String)> = (0..9).map(|n| (format!("p/src/m/n{n}.rs"), String::new())).collect();
        files[0].1 = "use super::One;\n".to_owned();
        files[1].1 = "use super::super::m::n0::Zero;\nfn f(_: &super::n2::Two) {}\n".to_owned();
        files.push(("p/src/m/mod.rs".to_owned(), "mod n1;\npub use n1::One;\n".to_owned()));
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let found = findings("", &files);
        assert!(found.len() == 1 && found[0].contains("n0 imports n1 (p/src/m/n0.rs), n1 imports n0 (p/src/m/n1.rs); move"), "{found:?}");
    }

    #[test]
    fn a_reason_is_for_a_circle_that_is_there() {
        let table = "[[circle]]\npackage = 'p'\nmodules = ['a', 'b']\nreason = 'one noun'\n";
        assert_eq!(findings(table, &CIRCLE), [""; 0]);
        assert_eq!(findings(table, &CIRCLE[..2]), ["ci/tidy/circles.toml: p: a, b are no circle; remove the entry"]);
    }
}
