//! The Spiderpool that is asked what it would say of manifests.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use sim_harness::deviation::Profile;

use super::super::complete;
use super::value::{HARDENED, profile};

/// How Spiderpool is set up, and which form of it: for verbs that ask what it would say of manifests.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct FormArgs {
    /// Spiderpool's settings, in TOML or as its ConfigMap in YAML
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// The form of Spiderpool: hardened, or as upstream is
    #[arg(long, value_name = "PROFILE", value_parser = profile(), default_value = HARDENED)]
    pub profile: Profile,
    /// With this mutation of Spiderpool, too; repeatable
    #[arg(long = "mutation", alias = "deviation", value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub mutation: Vec<String>,
    /// Without this mutation of the profile; repeatable
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::mutations))]
    pub without: Vec<String>,
}

impl Default for FormArgs {
    fn default() -> Self {
        Self { settings: None, profile: Profile::Hardened, mutation: Vec::new(), without: Vec::new() }
    }
}
