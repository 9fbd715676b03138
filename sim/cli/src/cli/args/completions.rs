//! The command line of `completions`.

use clap::Args;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  ipam-sim completions bash > ~/.local/share/bash-completion/completions/ipam-sim

`source <(COMPLETE=bash ipam-sim)` asks the program at each key: it knows the names of scenarios, claims,
faults and mutations, too. COMPLETE may be bash, elvish, fish, powershell or zsh.";

/// Arguments of `completions`.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}
