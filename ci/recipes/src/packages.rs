//! Packages in the form that a registry requires.

use regex::Regex;
use tidy::{File, Finding, Repository};
use toml::{Table, Value};

/// The folders of a package that are published, according to `include` of the workspace.
const PUBLISHED: [&str; 2] = ["src", "assets"];

/// Packages that a registry would refuse, or that would not build there.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let Some(workspace) = repository.file("Cargo.toml").and_then(|file| file.text.parse::<Table>().ok()) else {
        return vec![Finding::of_file("Cargo.toml", "is missing, or no TOML")];
    };
    let workspace = workspace.get("workspace").cloned().unwrap_or(Value::Boolean(false));
    let mut findings = versions(&workspace);
    let members = workspace.get("members").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for folder in members {
        let path = format!("{folder}/Cargo.toml");
        let package = repository.file(&path).and_then(|file| file.text.parse::<Table>().ok()?.remove("package"));
        let Some(Value::Table(package)) = package else {
            findings.push(Finding::of_file(&path, "is missing, or has no [package]"));
            continue;
        };
        if package.get("publish") != Some(&Value::Boolean(false)) {
            findings.extend(metadata(repository, folder, &package, &workspace));
            findings.extend(included(repository, folder));
        }
    }
    findings
}

/// Dependencies between packages whose version a registry would not know.
fn versions(workspace: &Value) -> Vec<Finding> {
    let version = workspace.get("package").and_then(|package| package.get("version")).and_then(Value::as_str).unwrap_or_default();
    let wanted = format!("={version}");
    let dependencies = workspace.get("dependencies").and_then(Value::as_table).into_iter().flatten();
    // The packages of `ci` are not published.
    let own = dependencies.filter(|(_, value)| value.get("path").and_then(Value::as_str).is_some_and(|path| !path.starts_with("ci/")));
    let wrong = own.filter(|(_, value)| value.get("version").and_then(Value::as_str) != Some(&wanted));
    wrong.map(|(name, _)| Finding::of_file("Cargo.toml", format!("the dependency `{name}` has to have `version = \"{wanted}\"`"))).collect()
}

/// Checks the metadata that a registry requires of a package, and the files that the licence requires.
fn metadata(repository: &Repository, folder: &str, package: &Table, workspace: &Value) -> Vec<Finding> {
    let path = format!("{folder}/Cargo.toml");
    // Inherited values are in the workspace.
    let of = |key: &str| match package.get(key)? {
        Value::Table(inherited) if inherited.get("workspace") == Some(&Value::Boolean(true)) => workspace.get("package")?.get(key),
        value => Some(value),
    };
    let mut findings = Vec::new();
    let mut wrong = |text: String| findings.push(Finding::of_file(&path, text));
    for key in ["description", "license", "repository", "readme", "keywords", "categories", "include"] {
        match of(key) {
            None => wrong(format!("`{key}` is missing under [package]")),
            Some(Value::Array(list)) if list.is_empty() || list.len() > 5 => wrong(format!("`{key}` has to have one to five entries")),
            Some(_) => {}
        }
    }
    for keyword in of("keywords").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        let is_word = |word: &str| word.starts_with(|char: char| char.is_ascii_alphanumeric()) && word.len() <= 20;
        if !is_word(keyword) || !keyword.chars().all(|char| char.is_ascii_alphanumeric() || "_-+".contains(char)) {
            wrong(format!("the keyword `{keyword}` is refused: at most 20 ASCII letters, digits, `_`, `-`, `+`"));
        }
    }
    if let Some(readme) = of("readme").and_then(Value::as_str)
        && !repository.paths.contains(&normal(&format!("{folder}/{readme}")))
    {
        wrong(format!("`readme` is `{readme}`, which is not there"));
    }
    if !repository.paths.contains(&format!("{folder}/LICENSE")) {
        wrong(format!("{folder}/LICENSE is missing; link it to that of the repository"));
    }
    findings
}

/// Files that code includes at compile time and that are missing in its package.
fn included(repository: &Repository, folder: &str) -> Vec<Finding> {
    let include = Regex::new(r#"include(?:_str|_bytes)?!\(\s*"([^"]+)""#).expect("a constant");
    let source = format!("{folder}/src/");
    let mut findings = Vec::new();
    for file in repository.files_of(&["rs"]).filter(|file| file.path.starts_with(&source)) {
        for found in include.captures_iter(&file.text) {
            let name = found.get(1).expect("it has a group");
            let path = normal(&format!("{}/../{}", file.path, name.as_str()));
            if !repository.paths.contains(&path) {
                findings.push(file.finding(name.start(), format!("there is no `{path}`")));
            } else if !PUBLISHED.iter().any(|part| path.starts_with(&format!("{folder}/{part}/"))) {
                findings.push(outside(file, name.start(), &path, folder));
            }
        }
    }
    findings
}

fn outside(file: &File, at: usize, path: &str, folder: &str) -> Finding {
    file.finding(at, format!("`{path}` is not part of the package; link it into {folder}/assets and include it from there"))
}

/// A path without `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "[workspace]\nmembers = [\"a/b\"]\n[workspace.package]\nversion = \"1.2.3\"\nlicense = \"Apache-2.0\"\n\
                             [workspace.dependencies]\nb = { path = \"a/b\", version = \"=1.2.3\" }\n";
    const PACKAGE: &str = "[package]\nname = \"b\"\ndescription = \"B\"\nlicense.workspace = true\n\
                           repository = \"r\"\nreadme = \"../R.md\"\n\
                           keywords = [\"k\"]\ncategories = [\"c\"]\ninclude = [\"/src\"]\n";
    const CODE: &str = "const A: &str = include_str!(\"../assets/x.toml\");\n";

    fn findings(workspace: &str, package: &str, code: &str) -> Vec<String> {
        let files = [
            ("Cargo.toml", workspace),
            ("a/b/Cargo.toml", package),
            ("a/b/src/lib.rs", code),
            ("a/b/assets/x.toml", ""),
            ("a/b/LICENSE", ""),
            ("a/R.md", ""),
            ("s/x.toml", ""),
        ];
        check(&Repository::of(&files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn what_a_registry_refuses_is_found() {
        assert_eq!(findings(WORKSPACE, PACKAGE, CODE), [""; 0]);
        let loose = WORKSPACE.replace(", version = \"=1.2.3\"", "");
        assert_eq!(findings(&loose, PACKAGE, CODE), ["Cargo.toml: the dependency `b` has to have `version = \"=1.2.3\"`"]);
        assert_eq!(findings(&WORKSPACE.replace("=1.2.3", "=1.2.2"), PACKAGE, CODE).len(), 1, "another version");
        let bare = PACKAGE.replace("repository = \"r\"\n", "");
        assert_eq!(findings(WORKSPACE, &bare, CODE), ["a/b/Cargo.toml: `repository` is missing under [package]"]);
        assert!(findings(WORKSPACE, &bare.replace("[package]", "[package]\npublish = false"), CODE).is_empty());
        assert_eq!(findings(&WORKSPACE.replace("license", "licence"), PACKAGE, CODE).len(), 1, "inherited from nowhere");
        assert_eq!(findings(WORKSPACE, &PACKAGE.replace("\"k\"", "\"two words\""), CODE).len(), 1);
        assert_eq!(findings(WORKSPACE, &PACKAGE.replace("R.md", "S.md"), CODE).len(), 1);
    }

    #[test]
    fn what_is_included_from_outside_is_found() {
        let outside = CODE.replace("../assets", "../../../s");
        let message = "a/b/src/lib.rs:1:31: `s/x.toml` is not part of the package; link it into a/b/assets and include it from there";
        assert_eq!(findings(WORKSPACE, PACKAGE, &outside), [message]);
        assert_eq!(
            findings(WORKSPACE, PACKAGE, &CODE.replace("x.toml", "y.toml")),
            ["a/b/src/lib.rs:1:31: there is no `a/b/assets/y.toml`"]
        );
    }
}
