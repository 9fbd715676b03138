//! Admission without a run: what the webhooks of a system would say of manifests, for the verb `check`.
//!
//! ```text
//!   arguments of `check` ─► Webhooks ─(set up)─► Judge ─(the manifests of a cluster)─► Judged: which object breaks which rule
//! ```

use clap::{ArgMatches, Command};
use sim_config::manifest::Manifest;

use crate::error::Error;

/// The webhooks of a system, as `check` asks them.
pub trait Webhooks: Sync {
    /// The command line with the arguments by which it is said how the system is set up; without any unless it has some. `check` has
    /// arguments of its own: `PATH`, `--format` and `--color`.
    fn args(&self, command: Command) -> Command {
        command
    }

    /// Command lines for the help of `check`, each as it is typed. The program is called `ipam-sim` in them.
    fn examples(&self) -> &'static [&'static str] {
        &[]
    }

    /// What else the help of `check` should say of the arguments, in whole sentences.
    fn note(&self) -> &'static str {
        ""
    }

    /// The webhooks of a system that is set up as the command line says. `args` has what [`Webhooks::args`] has added.
    ///
    /// # Errors
    /// What the command line names does not exist or cannot be read.
    fn set_up(&self, args: &ArgMatches) -> Result<Box<dyn Judge>, Error>;
}

/// Webhooks that are set up.
pub trait Judge {
    /// What they say if the objects of a cluster are created one after the other, in the order in which that goes best. Objects that they
    /// do not judge are left out. Whether a name is taken is the API server's business: an object of which another exists may be in it as
    /// one that breaks no rule.
    fn judge<'a>(&self, cluster: &'a [Manifest]) -> Vec<Judged<'a>>;
}

/// An object, and what webhooks say of it.
#[derive(Debug)]
pub struct Judged<'a> {
    /// The object as it was written.
    pub manifest: &'a Manifest,
    /// Every rule that it breaks. It is created if there is none, or none that surely is broken.
    pub broken: Vec<Broken>,
}

/// A rule that an object breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The path of the field, such as `spec.ips[1]`.
    pub field: String,
    /// What is wrong and, where that helps, what to write instead.
    pub message: String,
    /// The type of the cause, as Kubernetes writes it; `AlreadyExists` for a name that is taken.
    pub fault: &'static str,
    /// Whether the manifests are too few to judge: a webhook would look at what they do not hold.
    pub unknown: bool,
}

impl Broken {
    /// The name is taken.
    pub fn already_exists() -> Self {
        Self {
            field: "metadata.name".to_owned(),
            message: "there is an object of this name already".to_owned(),
            fault: "AlreadyExists",
            unknown: false,
        }
    }
}
