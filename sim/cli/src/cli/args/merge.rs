//! The command line of `merge`.

use std::path::PathBuf;

use clap::Args;

use super::format::Format;
use super::outputs::Outputs;

/// Arguments of `merge`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = "Examples:\n  ipam-sim merge 1.json 2.json 3.json 4.json")]
pub struct MergeArgs {
    /// Files with the output of `run` or `gate` with `--format json`; - is standard input
    #[arg(value_name = "RESULT", required = true)]
    pub results: Vec<PathBuf>,
    /// Result files for other programs.
    #[command(flatten)]
    pub outputs: Outputs,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}
