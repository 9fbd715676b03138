//! The copy of the workspace with all mutants behind switches, and the program built from it.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use ignore::WalkBuilder;

use crate::instrument;
use crate::site::Site;

/// The code appended to the copy of `core/kube`: the switches.
const RUNTIME: &str = include_str!("runtime.rs");
/// The placeholder for the number of mutants in [`RUNTIME`].
const COUNT: &str = "MUTANT_COUNT";
/// The file that [`RUNTIME`] is added to.
const HOLDER: &str = "core/kube/src/lib.rs";

/// All places in `core` where a mistake can be made, file by file.
pub(crate) fn sites(root: &Path) -> Result<Vec<Site>, Box<dyn Error>> {
    let mut sites = Vec::new();
    for file in files(&root.join("core"))? {
        let name = name(root, &file);
        if is_logic(&name) {
            sites.extend(instrument::sites(&name, &fs::read_to_string(&file)?).map_err(|error| format!("{name}: {error}"))?);
        }
    }
    Ok(sites)
}

/// Writes the copy, with these mutants, below `out`, and builds the program. Unchanged files are not written again, so that nothing is
/// rebuilt needlessly.
pub(crate) fn build(root: &Path, out: &Path, mutants: &[Site]) -> Result<PathBuf, Box<dyn Error>> {
    let tree = out.join("tree");
    let mut left = mutants.iter().collect::<Vec<_>>();
    for file in files(root)? {
        let name = name(root, &file);
        let mut text = fs::read(&file)?;
        if is_logic(&name) {
            let source = String::from_utf8(text)?;
            let chosen: BTreeMap<usize, usize> = instrument::sites(&name, &source)?
                .iter()
                .enumerate()
                .filter_map(|(position, site)| mutants.iter().position(|mutant| mutant == site).map(|number| (position, number)))
                .collect();
            left.retain(|mutant| mutant.file != name);
            text = if chosen.is_empty() { source } else { instrument::with_switches(&name, &source, &chosen)? }.into_bytes();
        }
        if name.starts_with("core/") && name.ends_with("/src/lib.rs") {
            // Mutants add redundant parentheses, which must not cause warnings.
            text.splice(0..0, *b"#![allow(warnings)]\n");
        }
        if name == HOLDER {
            text.extend_from_slice(RUNTIME.replace(COUNT, &mutants.len().to_string()).as_bytes());
        }
        put(&tree.join(&name), &text)?;
    }
    if let Some(mutant) = left.first() {
        return Err(format!("{}: there is no such file to make a mutant in", mutant.file).into());
    }
    let target = out.join("build");
    let built = Command::new("cargo")
        .args(["build", "--release", "--package", "ipam-sim"])
        .current_dir(&tree)
        .env("CARGO_TARGET_DIR", &target)
        .status()?;
    if built.success() { Ok(target.join("release/ipam-sim")) } else { Err("the copy with the mutants does not build".into()) }
}

/// Whether sweeps exercise a file: it is neither a test nor used only by tests.
fn is_logic(name: &str) -> bool {
    let of_tests = |part: &str| part.contains("tests") || part.starts_with("test") || part.starts_with("vectors");
    name.starts_with("core/") && name.contains("/src/") && name.ends_with(".rs") && !name.split('/').any(of_tests)
}

/// The files of the workspace that are not ignored, in the order of their names.
fn files(root: &Path) -> Result<Vec<PathBuf>, ignore::Error> {
    let walk =
        WalkBuilder::new(root).hidden(false).filter_entry(|entry| entry.file_name() != ".git" && entry.file_name() != "target").build();
    let mut files = Vec::new();
    for entry in walk {
        let entry = entry?;
        // A symbolic link to a file becomes a file.
        if entry.path().is_file() {
            files.push(entry.into_path());
        }
    }
    files.sort();
    Ok(files)
}

fn name(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/")
}

fn put(path: &Path, text: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}
