//! Admission without a run: the answers of a system's webhooks to manifests, for the verb `check`.
//!
//! ```text
//!   arguments of `check` ─► Webhooks ─(set up)─► Judge ─(the manifests of a cluster)─► Judged: which object breaks which rule
//! ```

use clap::{ArgMatches, Command};
use sim_config::manifest::Manifest;

use crate::error::Error;

/// The webhooks of a system, as `check` uses them.
pub trait Webhooks: Sync {
    /// Adds the arguments for the settings of the system to the command line; by default none. `check` adds its own arguments: `PATH`,
    /// `--format` and `--color`.
    fn args(&self, command: Command) -> Command {
        command
    }

    /// Command lines for the help of `check`, each as a user types it. The program is called `ipam-sim` in them.
    fn examples(&self) -> &'static [&'static str] {
        &[]
    }

    /// Further remarks on the arguments for the help of `check`, in whole sentences.
    fn note(&self) -> &'static str {
        ""
    }

    /// The webhooks of a system with the settings of the command line. `args` has the arguments that [`Webhooks::args`] added.
    ///
    /// # Errors
    /// Fails if something that the command line names does not exist or cannot be read.
    fn set_up(&self, args: &ArgMatches) -> Result<Box<dyn Judge>, Error>;
}

/// Webhooks with their settings.
pub trait Judge {
    /// Judges the objects of a cluster as if they were created one after the other, in the order with the fewest rejections. Objects that
    /// the webhooks do not judge are left out. Name collisions are the API server's business: an object whose name exists already may be
    /// returned without a broken rule.
    fn judge<'a>(&self, cluster: &'a [Manifest]) -> Vec<Judged<'a>>;
}

/// An object, with the answer of the webhooks.
#[derive(Debug)]
pub struct Judged<'a> {
    /// The object as it was written.
    pub manifest: &'a Manifest,
    /// The rules that it breaks. It is created if there are none, or none that is certainly broken.
    pub broken: Vec<Broken>,
}

/// A rule that an object breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The path of the field, such as `spec.ips[1]`.
    pub field: String,
    /// The problem and, where that helps, the correct value.
    pub message: String,
    /// The type of the cause, as Kubernetes writes it; `AlreadyExists` for a name that is taken.
    pub fault: &'static str,
    /// Whether the manifests do not suffice to judge: a webhook would look at objects that they do not hold.
    pub unknown: bool,
}

impl Broken {
    /// The rule that the name exists already.
    pub fn already_exists() -> Self {
        Self {
            field: "metadata.name".to_owned(),
            message: "there is an object of this name already".to_owned(),
            fault: "AlreadyExists",
            unknown: false,
        }
    }
}
