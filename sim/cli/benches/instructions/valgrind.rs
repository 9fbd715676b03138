//! Counting of the instructions that a run of the program takes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::programs::Program;

/// The reason why nothing was counted.
#[derive(Debug)]
pub(crate) enum Error {
    /// Valgrind is not installed.
    Missing,
    /// Valgrind cannot be started.
    Start(io::Error),
    /// The program, or valgrind itself, failed; holds its output.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Missing => {
                write!(f, "instructions are counted by valgrind, which is not installed; install it with the packages of your system")
            }
            Error::Start(error) => write!(f, "cannot run valgrind: {error}"),
            Error::Failed(output) => write!(f, "the counted run failed:\n{output}"),
        }
    }
}

impl std::error::Error for Error {}

/// The root of the repository, to which paths of scenarios are relative.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The instructions of one process that runs this many seeds.
pub(crate) fn instructions(program: &Program, seeds: u64) -> Result<u64, Error> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]);
    command.arg(env!("CARGO_BIN_EXE_ipam-sim")).arg("run").arg(root().join(program.scenario));
    command.args(["--jobs", "1", "--no-shrink", "--seeds", &seeds.to_string()]);
    command.args(program.settings.iter().flat_map(|setting| ["--set", setting]));
    let output = match command.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Error::Missing),
        Err(error) => return Err(Error::Start(error)),
        Ok(output) => output,
    };
    let told = String::from_utf8_lossy(&output.stderr);
    // Few seeds do not reach everything that a scenario should reach, and are vacuous (4); that is no failure here.
    let ran = matches!(output.status.code(), Some(0 | 4));
    read(&told).filter(|_| ran).ok_or_else(|| Error::Failed(format!("{}{told}", String::from_utf8_lossy(&output.stdout))))
}

/// Reads the count from cachegrind's output: `==1234== I   refs:      147,387,526`.
fn read(told: &str) -> Option<u64> {
    let line = told.lines().find(|line| line.contains("refs:"))?;
    let digits: String = line.rsplit(':').next()?.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}
