//! What the command line of `check` says.

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use sim_harness::system::systems;

use super::format::Format;

/// Arguments of `check`.
// Without a group: what a system adds may have one of the same name.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = examples())]
#[group(skip)]
pub struct CheckArgs {
    /// Scenario, plan and manifest files, or folders of them
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// How the webhooks are set up: see [`WebhookArgs`].
    #[command(flatten)]
    pub webhooks: WebhookArgs,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

/// How the system is set up whose webhooks judge the manifests ([`Webhooks::args`](sim_harness::webhook::Webhooks::args)); nothing where no
/// system has some.
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
