//! The command line of `check`.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use sim_harness::system::systems;

use super::format::Format;

/// Arguments of `check`.
// No group: an argument that a system adds may have the same name.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = examples())]
#[group(skip)]
pub struct CheckArgs {
    /// Scenario, plan and manifest files, or folders of them
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// The setup of the webhooks: see [`WebhookArgs`].
    #[command(flatten)]
    pub webhooks: WebhookArgs,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

/// The setup of the system whose webhooks judge the manifests ([`Webhooks::args`](sim_harness::webhook::Webhooks::args)); empty if no
/// system has webhooks.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookArgs(pub ArgMatches);

impl Args for WebhookArgs {
    fn augment_args(command: Command) -> Command {
        match systems().webhooks() {
            Some(webhooks) => webhooks.args(command),
            None => command,
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for WebhookArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = matches.clone();
        Ok(())
    }
}

const EXAMPLES: &str = "\
Examples:
  ipam-sim check scenarios
  kubectl get pods -A -o yaml > pods.yaml && ipam-sim check pods.yaml
";

fn examples() -> String {
    let webhooks = systems().webhooks();
    let examples =
        webhooks.map(|webhooks| webhooks.examples()).unwrap_or_default().iter().map(|line| format!("  {line}\n")).collect::<String>();
    let note = webhooks.map(|webhooks| webhooks.note()).filter(|note| !note.is_empty()).map(|note| format!("{note} ")).unwrap_or_default();
    format!("{EXAMPLES}{examples}\n{note}Exits 0 if nothing is wrong, else 2.")
}
