//! Helpers for tests of several packages. It depends on none of them, so that any of them can use it.

use std::path::PathBuf;

use tempfile::TempDir;

/// A folder for a single test, removed at its end.
pub struct Folder(
    /// Its path, below the folder for temporary files.
    pub PathBuf,
    /// The temporary folder around it, removed when dropped.
    #[expect(dead_code, reason = "dropping it is what it is for")]
    TempDir,
);

impl Folder {
    /// An empty folder called `name`.
    pub fn new(name: &str) -> Self {
        let folder = Self::missing(name);
        std::fs::create_dir(&folder.0).unwrap_or_else(|error| panic!("{name}: {error}"));
        folder
    }

    /// A folder called `name` that does not exist yet.
    pub fn missing(name: &str) -> Self {
        let around = tempfile::tempdir().unwrap_or_else(|error| panic!("{name}: {error}"));
        Self(around.path().join(name), around)
    }

    /// The path of the entry called `name`, as an argument of a command line.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file, creating folders as needed, and returns its path like [`path`](Self::path).
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        written.unwrap_or_else(|error| panic!("{name}: {error}"));
        self.path(name)
    }

    /// The text of a file.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_with_its_files_until_it_is_dropped() {
        let folder = Folder::new("a");
        let file = folder.file("b.txt", "text");
        assert_eq!((folder.text("b.txt").as_str(), std::fs::read_to_string(&file).unwrap().as_str()), ("text", "text"));
        folder.file("c/d.txt", "inner");
        assert_eq!(folder.text("c/d.txt"), "inner");
        let path = folder.0.clone();
        drop(folder);
        assert!(!path.exists());
        assert!(!Folder::missing("a").0.exists());
    }
}
