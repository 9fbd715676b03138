//! What the command line of `check` says.

use std::path::PathBuf;

use clap::Args;

use super::form::FormArgs;
use super::format::Format;

/// Arguments of `check`.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArgs {
    /// Scenario, plan and manifest files, or folders of them
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// The Spiderpool whose webhooks judge the manifests
    #[command(flatten)]
    pub form: FormArgs,
    /// How to print the result
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  ipam-sim check scenarios
  kubectl get pods -A -o yaml > pods.yaml && ipam-sim check pods.yaml
  kubectl get ss,sp,sr -o yaml | ipam-sim check -
  ipam-sim check manifests --settings spiderpool-conf.yaml --profile upstream

Settings and form are for the pools, subnets and reservations of manifests. Exits 0 if nothing is wrong, else 2.";
