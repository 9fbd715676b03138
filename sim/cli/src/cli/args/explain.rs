//! The command line of `explain`. All arguments except the format are defined by the system that explains.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use sim_harness::system::systems;

use super::format::Format;

/// Arguments of `explain`.
// No group: an argument that a system adds may have the same name.
#[derive(Clone, Debug, PartialEq, Args)]
#[group(skip)]
pub struct ExplainArgs {
    /// The question to be explained: see [`QuestionArgs`].
    #[command(flatten)]
    pub question: QuestionArgs,
    /// Print in this format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub format: Format,
}

/// The question to be explained, in the terms of the system that explains ([`Explainer::args`](sim_harness::explainer::Explainer::args)).
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionArgs(pub ArgMatches);

/// The name of the argument that takes any words if no system explains.
const WORDS: &str = "words";

impl Args for QuestionArgs {
    fn augment_args(command: Command) -> Command {
        match systems().explainer() {
            Some(explainer) => explainer.args(command),
            // No system can answer, whatever the question is.
            None => {
                let words = Arg::new(WORDS).num_args(1..).action(ArgAction::Append).value_parser(value_parser!(std::ffi::OsString));
                command.hide(true).disable_help_flag(true).arg(words.trailing_var_arg(true).allow_hyphen_values(true).hide(true))
            }
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for QuestionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = matches.clone();
        Ok(())
    }
}

/// The error for a program none of whose systems explains.
pub(super) fn nobody_explains(command: &mut Command) -> clap::Error {
    let names = systems().iter().map(|system| system.name()).collect::<Vec<_>>().join(", ");
    let message = format!("{} has no verb `explain`: no system of it explains its decisions (there is {names})", command.get_name());
    command.error(ErrorKind::InvalidSubcommand, message)
}
