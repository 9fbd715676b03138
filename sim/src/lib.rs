//! A simulated Kubernetes cluster in one deterministic process, and the claims checked in it.

#[cfg(not(madsim))]
compile_error!(
    "ipam-sim simulates only under `--cfg madsim`. The setting is in `.cargo/config.toml`; if the environment variable RUSTFLAGS is set it \
     replaces that setting: unset it, or add `--cfg madsim` to it."
);

pub mod actor;
pub mod claim;
pub mod cli;
pub mod cluster;
pub mod deviation;
pub mod draw;
pub mod engine;
pub mod env;
pub mod explain;
pub mod fault;
pub mod input;
pub mod kinds;
pub mod meter;
pub mod net;
pub mod node;
pub mod object;
pub mod plan;
pub mod rt;
pub mod scenario;
pub mod selector;
pub mod story;
pub mod swarm;
pub mod system;
pub mod systems;
mod territory;
pub mod testbed;
pub mod time;
pub mod trace;
pub mod workload;
pub mod world;
