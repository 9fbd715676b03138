//! Where a report goes and what it is made of: what all of them are asked for.

use std::path::PathBuf;

use clap::Args;

use crate::cli::args::{Format, jobs};

/// What a report is drawn from if nothing is simulated, where it goes, how it is printed, and on how many threads it is made.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Output {
    /// Draw a table of an earlier report again instead of simulating: its points.csv, sizes.csv, reclaims.csv or
    /// values.csv
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "jobs"])]
    pub from: Option<PathBuf>,
    /// Say what changed since an earlier report of this kind: its --out folder, or what --format json printed
    #[arg(long, value_name = "OLD")]
    pub against: Option<PathBuf>,
    /// Where tables, plots and index.html go; what is finished there is kept [default: target/ipam-sim/…]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Overwrite other results in DIR
    #[arg(long)]
    pub force: bool,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    pub jobs: Option<usize>,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

impl Output {
    /// What a command line says of the table that is drawn again, and of the report that is compared with.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let option = |name: &str, path: &Option<PathBuf>| path.as_ref().map(|path| format!("--{name} {}", path.display()));
        [option("from", &self.from), option("against", &self.against)].into_iter().flatten()
    }

    /// The folder; `what` is reported.
    pub fn folder(&self, what: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from("target/ipam-sim").join(what))
    }
}
