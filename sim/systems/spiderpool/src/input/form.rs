//! The Spiderpool that judges manifests: its settings, and its form.

use std::path::PathBuf;

use clap::Args;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use ipam_reports::command::program;
use ipam_spiderpool::Policy;
use ipam_spiderpool::reclaim::ReclaimPolicy;
use sim_config::{Problems, nearest};
use sim_harness::deviation::Profile;
use sim_harness::engine::Error;
use sim_harness::system::System;

use super::settings::{self, ClusterSettings};
use crate::Spiderpool;

/// The settings and form of Spiderpool, for verbs that ask how it would treat manifests.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct FormArgs {
    /// Spiderpool's settings, in TOML or as its ConfigMap in YAML
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    /// The form of Spiderpool: hardened, or as upstream is
    #[arg(long, value_enum, value_name = "PROFILE", default_value_t = Profile::Hardened)]
    pub profile: Profile,
    /// With this mutation of Spiderpool, too; repeatable
    #[arg(long = "mutation", alias = "deviation", value_name = "NAME", add = ArgValueCandidates::new(mutations))]
    pub mutation: Vec<String>,
    /// Without this mutation of the profile; repeatable
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(mutations))]
    pub without: Vec<String>,
}

/// The completions of a shell for the name of a mutation.
fn mutations() -> Vec<CompletionCandidate> {
    let offered = |name: &'static str, about: &'static str| CompletionCandidate::new(name).help(Some(about.into()));
    Spiderpool.mutations().iter().map(|mutation| offered(mutation.name, mutation.about)).collect()
}

impl FormArgs {
    /// The profile with its mutations.
    ///
    /// # Errors
    /// A mutation that Spiderpool does not have.
    pub fn policy(&self) -> Result<Policy, Error> {
        let mut policy = policy_of(self.profile);
        for (names, on) in [(&self.mutation, true), (&self.without, false)] {
            for name in names {
                let of_reclaim = || ReclaimPolicy::DEVIATIONS.iter().map(|deviation| deviation.name);
                let known = || Policy::DEVIATIONS.iter().map(|deviation| deviation.name).chain(of_reclaim());
                let unknown = || {
                    Error::usage(format!("Spiderpool has no mutation `{name}`")).hint(format!(
                        "the nearest is `{}`, and `{} list mutations` shows all",
                        nearest(name, known()),
                        program()
                    ))
                };
                *policy.switch(name).ok_or_else(unknown)? = on;
            }
        }
        Ok(policy)
    }

    /// The settings of the file, or the defaults without one. Problems of the file are added to `problems`.
    pub fn settings(&self, problems: &mut Problems) -> ClusterSettings {
        let read = self.settings.as_deref().and_then(|path| problems.collect(settings::read(path)));
        read.unwrap_or_default()
    }
}

/// The form of Spiderpool that a profile names.
pub fn policy_of(profile: Profile) -> Policy {
    match profile {
        Profile::Hardened => Policy::hardened(),
        Profile::Upstream => Policy::upstream(),
    }
}
