//! The output format of a result.

use clap::ValueEnum;

// `help = None` below: a value with its own help text makes clap print the long, spread-out form of `--help`.

/// The output format of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text that is meant for people.
    #[default]
    #[value(help = None)]
    Text,
    /// JSON that is meant for programs.
    #[value(help = None)]
    Json,
}
