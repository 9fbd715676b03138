//! The harness behind the command line: scenarios read, swept, replayed and shrunk.

mod crash_points;
pub(crate) mod load;
pub(crate) mod replay;
pub(crate) mod shrink;
pub(crate) mod sweep;
mod tables;
pub(crate) mod thread_pool;

use crate::cli::CliError;
use crate::input::Problems;

pub(crate) use thread_pool::STACK_BYTES;

/// Which build this is: digests are comparable within one build.
pub const BUILD: &str = env!("IPAM_SIM_BUILD");

/// Bad input: everything that is wrong, a line each.
pub(crate) fn bad_input(problems: Problems) -> CliError {
    CliError::usage(problems.to_string().trim_end().to_owned())
}
