//! The simulated Kubernetes API against the conformance checklist of its reference (K §10): one test or more per
//! statement, each with the statement's number in its name.

mod admission;
mod config_map;
mod create;
mod delete;
mod errors;
mod expect;
mod metadata;
mod patch;
mod read;
mod support;
mod update;
mod watch;
mod watch_end;
mod watch_history;
