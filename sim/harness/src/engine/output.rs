//! Files that are complete whenever they are read.
//!
//! ```text
//!  a file     ──► written aside, in the same folder ──► renamed: the former file or the new one, never half of either
//!  a journal  ──► rows are appended in one piece; a process that is told to end waits for the piece
//! ```
//! A process that exits early calls [`settle`] first, which removes temporary files that are not finished.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tempfile::{Builder, NamedTempFile};

/// The temporary files that are not finished. The lock is held while a file is renamed or appended to.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The prefix and suffix of temporary file names.
const ASIDE: [&str; 2] = [".ipam-sim-", ".part"];

/// The age at which a temporary file counts as left behind by a killed process: no write takes that long.
const ABANDONED: Duration = Duration::from_secs(3_600);

/// The time that [`settle`] waits for a write in progress: more than any takes on a disk that responds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes a file as a whole, and creates its folder if necessary. A device or a pipe is written to directly.
///
/// # Errors
/// Fails if the operating system refuses; then the former file is still there.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    if is_special(path) {
        return File::options().write(true).open(path)?.write_all(bytes.as_ref());
    }
    let mut file = Aside::create(path)?;
    file.write_all(bytes.as_ref())?;
    file.finish()
}

/// Whether the name is that of a temporary file.
pub fn is_aside(name: &str) -> bool {
    let [prefix, suffix] = ASIDE;
    name.starts_with(prefix) && name.ends_with(suffix)
}

/// Removes temporary files that killed processes left in a folder, as far as the operating system permits.
pub fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_aside)) {
        let age = entry.metadata().and_then(|metadata| metadata.modified()).map(|modified| modified.elapsed().unwrap_or_default());
        if age.is_ok_and(|age| age >= ABANDONED) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Appends to a journal in one piece, as far as the disk allows.
///
/// # Errors
/// Fails if the operating system refuses. A part may have been written.
pub fn append(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let _whole = UNFINISHED.lock();
    file.write_all(bytes)
}

/// Ends all writing before the process exits early: waits for a write in progress, and removes temporary files that are not finished. While
/// the guard lives, nothing more is written. `None` = the disk did not respond in time.
pub fn settle() -> Option<Settled> {
    let mut unfinished = UNFINISHED.try_lock_for(PATIENCE)?;
    for path in std::mem::take(&mut *unfinished) {
        let _ = fs::remove_file(path);
    }
    Some(Settled(unfinished))
}

/// A guard that prevents all writing while it lives.
pub struct Settled(#[expect(dead_code, reason = "holding it is its purpose")] MutexGuard<'static, BTreeSet<PathBuf>>);

/// A temporary file beside its target.
pub struct Aside {
    file: BufWriter<NamedTempFile>,
    target: PathBuf,
}

impl Aside {
    /// Begins a temporary file for `path`, and creates its folder if necessary.
    ///
    /// # Errors
    /// Fails if the folder cannot be created, or is not writable.
    pub fn create(path: &Path) -> io::Result<Self> {
        // A symbolic link stays one: the file that it leads to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if target.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut unfinished = UNFINISHED.lock();
        let mut builder = Builder::new();
        let [prefix, suffix] = ASIDE;
        builder.prefix(prefix).suffix(suffix);
        let file = match (fs::metadata(&target), usual()) {
            (Ok(former), _) => {
                let file = builder.tempfile_in(folder)?;
                file.as_file().set_permissions(former.permissions())?;
                file
            }
            (Err(_), Some(usual)) => builder.permissions(usual).tempfile_in(folder)?,
            (Err(_), None) => builder.tempfile_in(folder)?,
        };
        unfinished.insert(file.path().to_owned());
        Ok(Self { file: BufWriter::new(file), target })
    }

    /// Moves the file to its target.
    ///
    /// # Errors
    /// Fails if the operating system refuses; then the former file is still there.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()?;
        let mut unfinished = UNFINISHED.lock();
        unfinished.remove(self.file.get_ref().path());
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.persist(&self.target).map(drop).map_err(|error| error.error)
    }
}

impl Write for Aside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Whether a file cannot be replaced by renaming: a device, a pipe, a stream of the process.
pub fn is_special(path: &Path) -> bool {
    let of_the_system = ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder));
    of_the_system || fs::metadata(path).is_ok_and(|known| !known.is_file() && !known.is_dir())
}

/// The permissions of a new file, subject to the process's umask, instead of those of a temporary file.
#[cfg(unix)]
fn usual() -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt;
    Some(Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn usual() -> Option<Permissions> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names in a folder, in order.
    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_the_former_one_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/here/runs.csv");
        write(&path, "former\n").unwrap();
        let mut next = Aside::create(&path).unwrap();
        next.write_all(b"half").unwrap();
        next.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "former\n");
        next.write_all(b" and whole\n").unwrap();
        next.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "half and whole\n");
        drop(Aside::create(&path).unwrap());
        assert_eq!(names(path.parent().unwrap()), ["runs.csv"], "what is given up leaves nothing behind");
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay_and_devices_are_written_to() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "former").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        let (new, plain) = (folder.path().join("new"), folder.path().join("plain"));
        write(&new, "").unwrap();
        fs::write(&plain, "").unwrap();
        assert_eq!(fs::metadata(new).unwrap().permissions(), fs::metadata(plain).unwrap().permissions(), "as any other program's");
        write(Path::new("/dev/null"), "nothing").unwrap();
        assert_eq!(write(Path::new("/dev/full"), "much").unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
