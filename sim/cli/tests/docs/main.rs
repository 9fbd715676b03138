//! The documents as their readers meet them: console blocks show real output, generated tables are up to date, and the examples of `--help`
//! are commands that work.
//!
//! The program's current output is written into the documents by
//!
//! ```text
//! UPDATE_DOCS=1 cargo test -p ipam-sim --test docs
//! ```
//!
//! | variable | use |
//! |---|---|
//! | `UPDATE_DOCS=1` | rewrites blocks and tables instead of comparing them |
//! | `DOCS_PAGE=tour` | only pages whose path contains this |
//! | `DOCS_TIMES=1` | says how long each command took (with `--nocapture`) |
//! | `DOCS_SLOW=1` | runs blocks that are marked as slow, too; for a release build |
#![cfg(unix)]

mod figures;
mod help;
mod page;
mod sandbox;
mod tables;

use std::path::{Path, PathBuf};
use std::time::Instant;

use page::{Page, Run};
use sandbox::Sandbox;

/// The root of the checkout.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// Compares output with a document. `...` on a separate line stands for any lines, `[..]` for any text.
fn compare(place: &str, actual: &str, expected: &str) -> Result<(), String> {
    let compared = snapbox::Assert::new().normalize_paths(false).try_eq(Some(&place), actual.into(), expected.into());
    compared.map_err(|error| error.to_string())
}

/// Every Markdown file that can hold console blocks, in a fixed order.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "ci/README.md"].map(PathBuf::from).to_vec();
    let mut folders = vec![PathBuf::from("docs"), PathBuf::from("scenarios")];
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(root().join(&folder)).unwrap().map(|entry| folder.join(entry.unwrap().file_name())).collect();
        entries.sort();
        for path in entries {
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    let only = std::env::var("DOCS_PAGE").unwrap_or_default();
    pages.retain(|path| path.to_string_lossy().contains(&only));
    pages
}

/// Whether a command ended as none in a document should: with bad input, with a bug, or because the shell cannot run it. The documents show
/// bad input with `check`.
fn is_refused(command: &str, code: Option<i32>) -> bool {
    match code {
        Some(2) => !command.contains(" check "),
        Some(70 | 101 | 126 | 127) | None => true,
        _ => false,
    }
}

#[test]
fn console_blocks_print_what_they_say() {
    let mut wrong = Vec::new();
    for path in pages() {
        let file = root().join(&path);
        let text = std::fs::read_to_string(&file).unwrap();
        let mut page = Page::read(&text).unwrap_or_else(|problem| panic!("{}:{problem}", path.display()));
        if page.blocks.iter().all(|block| block.steps.is_empty()) {
            continue;
        }
        // A page is read from its beginning: later blocks use files of earlier ones, and none of other pages.
        let sandbox = Sandbox::new(&path.display().to_string().replace('/', "-"));
        for block in &mut page.blocks {
            let runs = match block.run {
                Run::Always => true,
                Run::Slow => is_set("DOCS_SLOW"),
                Run::Never => false,
            };
            for step in block.steps.iter_mut().filter(|_| runs) {
                let began = Instant::now();
                let (code, printed) = sandbox.run(&step.command);
                if is_set("DOCS_TIMES") {
                    eprintln!("{:>6} ms  {}:{}  {}", began.elapsed().as_millis(), path.display(), step.line, step.command);
                }
                let place = format!("{}:{}", path.display(), step.line);
                if is_refused(&step.command, code) {
                    wrong.push(format!("{place}: `{}` ends with {code:?}\n{printed}", step.command));
                } else if let Err(difference) = compare(&place, &figures::masked(&printed), &figures::masked(&step.output)) {
                    if is_set("UPDATE_DOCS") {
                        step.output = page::told_anew(&step.output, &printed);
                    } else {
                        wrong.push(format!("{place}: `{}`\n{difference}", step.command));
                    }
                }
            }
        }
        if is_set("UPDATE_DOCS") {
            std::fs::write(file, page.text()).unwrap();
        }
    }
    let how = "UPDATE_DOCS=1 cargo test -p ipam-sim --test docs";
    assert!(wrong.is_empty(), "{} console blocks print something else; `{how}` rewrites them\n\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn examples_of_scenarios_are_scenarios() {
    let text = std::fs::read_to_string(root().join("docs/scenarios.md")).unwrap();
    let examples: Vec<&str> = text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let (whole, parts) = examples.split_first().unwrap();
    let sandbox = Sandbox::new("scenarios");
    let check = |example: &str| {
        std::fs::write(sandbox.path("target/example.toml"), example).unwrap();
        let (code, printed) = sandbox.run("ipam-sim check target/example.toml");
        assert_eq!(code, Some(0), "{printed}\n{example}");
    };
    check(whole);
    // A variant belongs to the pool's scenarios, and a console block runs it.
    for part in parts.iter().filter(|part| !part.contains("[[variant]]")) {
        check(&format!("{whole}\n{part}"));
    }
}

#[test]
fn the_readme_stays_a_signpost() {
    let lines = std::fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 130, "README.md has {lines} lines; what is more than 130 belongs into docs/");
}
