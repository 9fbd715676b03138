//! A simulated Kubernetes cluster in one deterministic process, and the claims checked in it.

#[cfg(not(madsim))]
compile_error!(
    "ipam-sim simulates only under `--cfg madsim`. The setting is in `.cargo/config.toml`; if the environment variable RUSTFLAGS is set it \
     replaces that setting: unset it, or add `--cfg madsim` to it."
);

pub mod cli;
pub mod draw;
pub mod rt;
pub mod time;
