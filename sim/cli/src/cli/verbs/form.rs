//! Which Spiderpool is asked about manifests: its settings, and its form.

use ipam_reports::command::program;
use ipam_spiderpool::Policy;
use ipam_spiderpool::reclaim::ReclaimPolicy;
use sim_config::{Problems, nearest};
use sim_spiderpool::explain::policy_of;
use sim_spiderpool::input::settings::{self, ClusterSettings};

use crate::cli::CliError;
use crate::cli::args::FormArgs;

/// The profile with its deviations.
///
/// # Errors
/// A deviation that Spiderpool does not have.
pub(super) fn policy(args: &FormArgs) -> Result<Policy, CliError> {
    let mut policy = policy_of(args.profile);
    for (names, on) in [(&args.mutation, true), (&args.without, false)] {
        for name in names {
            let of_reclaim = || ReclaimPolicy::DEVIATIONS.iter().map(|deviation| deviation.name);
            let known = || Policy::DEVIATIONS.iter().map(|deviation| deviation.name).chain(of_reclaim());
            let unknown = || {
                CliError::usage(format!("Spiderpool has no mutation `{name}`")).hint(format!(
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

/// The settings in the file; the defaults without one. What is wrong in it goes to `problems`.
pub(super) fn settings(args: &FormArgs, problems: &mut Problems) -> ClusterSettings {
    let read = args.settings.as_deref().and_then(|path| problems.collect(settings::read(path)));
    read.unwrap_or_default()
}
