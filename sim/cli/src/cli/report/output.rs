//! The source and the destination of a report: arguments that all reports have.

use std::path::PathBuf;

use clap::Args;

use crate::cli::args::{Format, jobs};

/// The table that a report is drawn from instead of a simulation, its destination, its format and its number of threads.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Output {
    /// Draw a table of an earlier report again instead of simulating: its points.csv, sizes.csv, reclaims.csv or values.csv
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "jobs"])]
    pub from: Option<PathBuf>,
    /// Show what changed since an earlier report of this kind: its --out folder, or the output of --format json
    #[arg(long, value_name = "OLD")]
    pub against: Option<PathBuf>,
    /// Write tables, plots and index.html here; what is finished there is kept [default: target/ipam-sim/…]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Overwrite other results in DIR
    #[arg(long)]
    pub force: bool,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    pub jobs: Option<usize>,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

impl Output {
    /// The words of a command line for the table that is drawn again, and for the report that is compared with.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let option = |name: &str, path: &Option<PathBuf>| path.as_ref().map(|path| format!("--{name} {}", path.display()));
        [option("from", &self.from), option("against", &self.against)].into_iter().flatten()
    }

    /// The folder of the report called `what`.
    pub fn folder(&self, what: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from("target/ipam-sim").join(what))
    }
}
