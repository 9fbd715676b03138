//! The command line of `list`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::format::Format;

/// Arguments of `list`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = "Examples:\n  ipam-sim list\n  ipam-sim list scenarios my-scenarios\n  ipam-sim list claims -o name")]
pub struct ListArgs {
    /// Part to list [default: everything]
    #[arg(value_enum, value_name = "WHAT")]
    pub what: Option<What>,
    /// Look for scenarios here
    #[arg(value_name = "PATH", default_value = "scenarios")]
    pub paths: Vec<PathBuf>,
    /// Form of the list: a table, JSON, or only names as WHAT/NAME
    #[arg(short, long, value_enum, value_name = "FORM", conflicts_with = "format")]
    pub output: Option<ListForm>,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

impl ListArgs {
    /// Whether this part was requested.
    pub fn wants(&self, what: What) -> bool {
        self.what.is_none_or(|asked| asked == what)
    }
}

// `help = None` below: a value with its own help text makes clap print the long, spread-out form of `--help`.

/// The form of a list, as in kubectl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListForm {
    /// A table for people, as `--format text` prints it.
    #[value(help = None)]
    Table,
    /// One object for programs, as `--format json` prints it.
    #[value(help = None)]
    Json,
    /// One name per line, for shells.
    #[value(help = None)]
    Name,
}

/// The parts that can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Scenario files.
    #[value(help = None)]
    Scenarios,
    /// Claims.
    #[value(help = None)]
    Claims,
    /// Faults.
    #[value(help = None)]
    Faults,
    /// Mutations.
    #[value(help = None, alias = "deviations")]
    Mutations,
}
