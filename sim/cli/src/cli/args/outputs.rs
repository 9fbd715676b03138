//! Result files for other programs, which several verbs write.

use std::path::PathBuf;

use clap::Args;

use super::value::output_file;

/// Result files for other programs, in addition to the printed result.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Outputs {
    /// Write JUnit XML
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub junit: Option<PathBuf>,
    /// Add to this CSV the number of runs that reached each coverage point
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub ledger: Option<PathBuf>,
    /// Write a summary in Markdown
    #[arg(long, value_name = "FILE", value_parser = output_file)]
    pub summary: Option<PathBuf>,
    /// Annotate files for GitHub Actions, and add to its job summary
    #[arg(long)]
    pub github: bool,
}
