//! What the command line of `conformance` says.

use std::path::PathBuf;

use clap::Args;

use super::format::Format;
use super::value::output_file;

/// The recording of the repository.
pub const RECORDED: &str = "ci/conformance/recorded.jsonl";
/// The known differences of the simulated server from it.
pub const ALLOW: &str = "ci/conformance/allow.txt";

/// What the command line of `conformance` says.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = CONFORMANCE_EXAMPLES)]
pub struct ConformanceArgs {
    /// Judge these answers, recorded elsewhere, instead of the simulated server's; - is standard input
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Only cases whose id this regular expression matches
    #[arg(long, value_name = "REGEX", value_parser = pattern)]
    pub only: Option<String>,
    /// The folder of the cases
    #[arg(long, value_name = "DIR", default_value = "ci/conformance/cases")]
    pub cases: PathBuf,
    /// What a real server answered [default: ci/conformance/recorded.jsonl]
    #[arg(long, value_name = "FILE")]
    pub recorded: Option<PathBuf>,
    /// Differences that are known [default: ci/conformance/allow.txt]
    #[arg(long, value_name = "FILE")]
    pub allow: Option<PathBuf>,
    /// Write the answers that were judged, in the form of a recording
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub out: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

const CONFORMANCE_EXAMPLES: &str = "\
Examples:
  ipam-sim conformance
  ipam-sim conformance --only ^K06 --out answers.jsonl
  ipam-sim conformance --against answers.jsonl

Exits 0 if all answers are as recorded or differ as is known, 1 if others differ, 2 on bad input.";

/// A text that is a regular expression.
fn pattern(text: &str) -> Result<String, String> {
    regex::Regex::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}
