//! Tests of the harness with the systems of this program.

mod budget;
mod causality;
mod claim_suites;
mod deviation;
mod excuse;
mod hunt;
mod load;
mod partition;
mod pattern;
mod phase_time;
mod regressions;
mod settings;
mod shrink;
mod statements;
mod swarm;
mod sweep;
mod upgrade;

#[path = "../support/install.rs"]
mod install;
