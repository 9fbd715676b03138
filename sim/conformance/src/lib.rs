//! Conformance cases of the Kubernetes API, recorded from a real kube-apiserver.
//!
//! A [`Kit`] holds cases: requests, watches and waits, no expectations. A [`Runner`] runs them against a [`Server`], under that server's
//! clock, and gives a [`Record`] for each, in which whatever differs from run to run (versions, uids, times) has a name that does not.
//! [`compare`] finds the places where two recordings differ: that of a real server, and another one.
//!
//! The format of cases and recordings is described in `ci/conformance/README.md` of the repository.

mod allowed;
mod answer;
mod case;
mod compare;
mod focus;
mod forms;
mod glob;
mod json;
mod kit;
mod normal;
mod pick;
mod place;
mod problem;
mod record;
mod request;
mod run;
mod server;
mod shared;
mod step;
mod values;
mod watch;

pub use allowed::{Allowance, Allowed};
pub use case::{Case, Need};
pub use compare::{CaseResult, Comparison, Counts, Difference, Verdict, compare};
pub use json::{Json, Map};
pub use kit::Kit;
pub use place::Place;
pub use problem::Problem;
pub use record::{Outcome, Record, Recording};
pub use run::{Options, Runner};
pub use server::{Answer, EventStream, Identity, RequestError, Server};
pub use shared::Shared;
pub use step::{Collect, Compact, Exact, Poll, Request, Step, Until, Wanted, Watch};
