//! The command line of `conformance`.

use std::path::PathBuf;

use clap::Args;

use super::format::Format;
use super::value::output_file;

/// The path of the recording in the repository.
pub const RECORDED: &str = "ci/conformance/recorded.jsonl";
/// The path of the list of known differences between the simulated server and the recording.
pub const ALLOW: &str = "ci/conformance/allow.txt";

/// Arguments of `conformance`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = CONFORMANCE_EXAMPLES)]
pub struct ConformanceArgs {
    /// Judge these answers, recorded elsewhere, instead of the simulated server's; - is standard input
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Compare only cases whose id matches this regular expression
    #[arg(long, value_name = "REGEX", value_parser = pattern)]
    pub only: Option<String>,
    /// Read the cases from this folder
    #[arg(long, value_name = "DIR", default_value = "ci/conformance/cases")]
    pub cases: PathBuf,
    /// Answers of a real server [default: ci/conformance/recorded.jsonl]
    #[arg(long, value_name = "FILE")]
    pub recorded: Option<PathBuf>,
    /// Known differences [default: ci/conformance/allow.txt]
    #[arg(long, value_name = "FILE")]
    pub allow: Option<PathBuf>,
    /// Write the judged answers in the form of a recording
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub out: Option<PathBuf>,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

const CONFORMANCE_EXAMPLES: &str = "\
Examples:
  ipam-sim conformance
  ipam-sim conformance --only ^K06 --out answers.jsonl
  ipam-sim conformance --against answers.jsonl

Exits 0 if all answers are as recorded or differ as is known, 1 if others differ, 2 on bad input.";

/// Checks that a text is a regular expression.
fn pattern(text: &str) -> Result<String, String> {
    regex::Regex::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}
