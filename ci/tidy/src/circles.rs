//! Modules of a package that import each other in a circle.
//!
//! Only the top modules are looked at: files of one folder are about one thing, and may know each other. What the root re-exports belongs
//! to the module that has it. What tests import does not count.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use regex::Regex;
use serde::Deserialize;

use crate::repository::{File, Finding, Repository};
use crate::source::{self, Part};

/// Circles that are there for a reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circles {
    /// Each with the modules that take part and the reason.
    #[serde(default)]
    pub circle: Vec<Circle>,
}

/// A circle that is there for a reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Circle {
    /// The folder of the package.
    pub package: String,
    /// The modules, by name.
    pub modules: BTreeSet<String>,
    /// Why they are not cut apart.
    pub reason: String,
}

/// Reads the table.
///
/// # Errors
///
/// Says what is wrong with it.
pub fn read(text: &str) -> Result<Circles, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// Which module imports which, and where it does first.
type Imports = BTreeMap<(String, String), (String, usize)>;

/// What the root of a package re-exports, and the module that has it.
type ReExports = BTreeMap<String, String>;

/// Circles without a reason, and reasons of circles that are not there.
pub fn check(repository: &Repository, table: &Circles) -> Vec<Finding> {
    let mut packages: BTreeMap<&str, Imports> = BTreeMap::new();
    let mut roots: BTreeMap<&str, ReExports> = BTreeMap::new();
    for file in repository.files_of(&["rs"]) {
        let Some((package, path)) = file.path.split_once("/src/") else { continue };
        let root = roots.entry(package).or_insert_with(|| {
            repository.file(&format!("{package}/src/lib.rs")).map(|file| re_exports(&code_of(file))).unwrap_or_default()
        });
        add_imports(file, path, root, packages.entry(package).or_default());
    }
    let mut findings = Vec::new();
    let mut needed = vec![false; table.circle.len()];
    for (package, imports) in &packages {
        for circle in circles(imports) {
            let reason = table.circle.iter().position(|known| known.package == *package && known.modules.iter().eq(circle.iter().copied()));
            match reason {
                Some(row) => needed[row] = true,
                None => findings.push(tell(repository, package, imports, &circle)),
            }
        }
    }
    let unneeded = table.circle.iter().zip(needed).filter(|(_, needed)| !needed);
    findings.extend(unneeded.map(|(circle, _)| {
        let names = circle.modules.iter().cloned().collect::<Vec<_>>().join(", ");
        Finding::of_file("ci/tidy/circles.toml", format!("{}: {names} are no circle; remove the entry", circle.package))
    }));
    findings
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

/// What a root with this code imports of its modules, so that it is to be had of the root, too.
fn re_exports(code: &str) -> ReExports {
    let statement = Regex::new(r"\b(?:pub(?:\([^)]*\))? )?use (?:crate::|self::)?(\w+)::([^;]*);").expect("a constant");
    let mut found = ReExports::new();
    for statement in statement.captures_iter(code) {
        let module = &statement[1];
        for item in statement[2].split([',', '{', '}']).map(str::trim).filter(|item| !item.is_empty() && !item.ends_with("::")) {
            let name = item.rsplit([':', ' ']).next().unwrap_or(item);
            // A function may be called as another module is.
            if !code.contains(&format!("mod {name};")) {
                found.insert(name.to_owned(), module.to_owned());
            }
        }
    }
    found
}

/// What a file imports of other top modules of its package.
fn add_imports(file: &File, path: &str, root: &ReExports, imports: &mut Imports) {
    let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
    let is_test = path.split(['/', '.']).any(|part| part == "tests" || part == "testing");
    if is_test || matches!(module, "lib" | "main" | "bin") {
        return;
    }
    let code = code_of(file);
    // From a module n levels deep, n times `super` is the crate, too.
    let depth = path.trim_end_matches(".rs").split('/').filter(|part| *part != "mod").count();
    let prefix = format!(r"\b(?:crate::|(?:super::){{{depth}}})");
    let single = Regex::new(&format!(r"{prefix}(\w+)")).expect("a constant");
    let several = Regex::new(&format!(r"{prefix}\{{([^;]*)\}}")).expect("a constant");
    let first = Regex::new(r"(?:^|,)\s*(\w+)").expect("a constant");
    // What stands in braces within braces is of the name before them.
    let nested = Regex::new(r"::\{[^{}]*\}").expect("a constant");
    let names = single.captures_iter(&code).map(|found| found.get(1).expect("the group is not optional"));
    let grouped = several.captures_iter(&code).flat_map(|found| {
        let list = found.get(1).expect("the group is not optional");
        let outer = nested.replace_all(list.as_str(), |inner: &regex::Captures<'_>| " ".repeat(inner[0].len())).into_owned();
        let names = first.captures_iter(&outer).map(|name| name.get(1).expect("the group is not optional").range());
        names.map(|name| (&list.as_str()[name.clone()], list.start() + name.start)).collect::<Vec<_>>()
    });
    for (name, at) in names.map(|name| (name.as_str(), name.start())).chain(grouped) {
        let of = root.get(name).map_or(name, String::as_str);
        if of != module {
            imports.entry((module.to_owned(), of.to_owned())).or_insert_with(|| (file.path.clone(), at));
        }
    }
}

fn circles(imports: &Imports) -> Vec<BTreeSet<&String>> {
    let graph: DiGraphMap<&String, ()> = imports.keys().map(|(from, to)| (from, to)).collect();
    tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1).map(|circle| circle.into_iter().collect()).collect()
}

fn tell(repository: &Repository, package: &str, imports: &Imports, circle: &BTreeSet<&String>) -> Finding {
    let within = imports.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
    let told: Vec<String> = within.clone().map(|((from, to), (path, _))| format!("{from} imports {to} ({path})")).collect();
    let message = format!(
        "modules of {package} import each other in a circle: {}; move what they share below both, or \
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
    fn a_reason_is_for_a_circle_that_is_there() {
        let table = "[[circle]]\npackage = 'p'\nmodules = ['a', 'b']\nreason = 'one noun'\n";
        assert_eq!(findings(table, &CIRCLE), [""; 0]);
        assert_eq!(findings(table, &CIRCLE[..2]), ["ci/tidy/circles.toml: p: a, b are no circle; remove the entry"]);
    }
}
