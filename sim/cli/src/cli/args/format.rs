//! For whom a result is printed.

use clap::ValueEnum;

// `help = None` below: a value with a help text of its own makes clap print the long, spread-out form of `--help`.

/// For whom a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    #[value(help = None)]
    Text,
    /// For programs.
    #[value(help = None)]
    Json,
}
