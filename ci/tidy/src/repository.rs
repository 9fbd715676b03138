//! The repository's files, and findings in them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

/// A text file of the repository.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path from the root, with `/`.
    pub path: String,
    /// Its whole text, as on the disk.
    pub text: String,
}

impl File {
    /// A file made up by a test.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Whether its name ends in one of these extensions.
    pub fn is(&self, extensions: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, extension)| extensions.contains(&extension))
    }

    /// A finding at a byte of the text.
    pub fn finding(&self, at: usize, text: impl Into<String>) -> Finding {
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Finding { file: self.path.clone(), line, column: before[start..].chars().count() + 1, text: text.into() }
    }
}

/// A problem in a file, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The path from the root.
    pub file: String,
    /// The line, from 1; 0 = the file as a whole.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The problem, and what would be right.
    pub text: String,
}

impl Finding {
    /// A finding about a file as a whole.
    pub fn of_file(path: &str, text: impl Into<String>) -> Self {
        Self { file: path.to_owned(), line: 0, column: 0, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.text),
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.text),
        }
    }
}

/// The files that belong to the repository.
#[derive(Clone, Debug, Default)]
pub struct Repository {
    /// The text files, by path.
    pub files: Vec<File>,
    /// Every path, including folders and binary files.
    pub paths: BTreeSet<String>,
}

impl Repository {
    /// Reads all files that Git does not ignore.
    ///
    /// # Panics
    ///
    /// If a folder cannot be read.
    pub fn read(root: &Path) -> Self {
        let mut repository = Self::default();
        let mut walk = WalkBuilder::new(root);
        // Files in hidden folders (`.ci`, `.github`) count; Git's own do not.
        walk.hidden(false).require_git(false).filter_entry(|entry| entry.file_name() != ".git").sort_by_file_path(Ord::cmp);
        for entry in walk.build() {
            let entry = entry.unwrap_or_else(|error| panic!("the repository cannot be walked: {error}"));
            let Ok(relative) = entry.path().strip_prefix(root) else { continue };
            let path = relative.to_string_lossy().replace('\\', "/");
            if entry.file_type().is_some_and(|kind| kind.is_file())
                && let Ok(text) = std::fs::read_to_string(entry.path())
            {
                repository.files.push(File { path: path.clone(), text });
            }
            repository.paths.insert(path);
        }
        repository
    }

    /// A repository of these files, for tests of the checks.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut repository = Self::default();
        for (path, text) in files {
            let mut folder = *path;
            while let Some((above, _)) = folder.rsplit_once('/') {
                repository.paths.insert(above.to_owned());
                folder = above;
            }
            repository.paths.insert((*path).to_owned());
            repository.files.push(File::new(path, text));
        }
        repository
    }

    /// The files whose name ends in one of these extensions.
    pub fn files_of<'a>(&'a self, extensions: &'a [&'a str]) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.is(extensions))
    }

    /// A file by its path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The root of the repository that this package is in: the next folder above with a lock file.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn root() -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.ancestors().find(|folder| folder.join("Cargo.lock").exists()).expect("the package is in a workspace").to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_file_line_and_column() {
        let file = File::new("a/b.rs", "one\ntwä three\n");
        let at = file.text.find("three").unwrap();
        assert_eq!(file.finding(at, "is wrong; write `x`").to_string(), "a/b.rs:2:5: is wrong; write `x`");
        assert_eq!(Finding::of_file("c.md", "is long").to_string(), "c.md: is long");
    }

    #[test]
    fn the_repository_has_its_own_files_and_no_built_ones() {
        let repository = Repository::read(&Repository::root());
        assert!(repository.file("ci/tidy/Cargo.toml").is_some() && repository.paths.contains("ci/tidy/src"));
        assert!(repository.paths.iter().all(|path| !path.starts_with("target/") && !path.starts_with(".git/")));
    }
}
