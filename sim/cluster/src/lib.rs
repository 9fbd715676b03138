//! A simulated Kubernetes cluster in one deterministic process.
//!
//! ```text
//!   actor   kubelets, controllers, any client ──requests──► cluster   API servers over one store, watch caches, etcd
//!     │                                                        │
//!     └── node   container runtime and data plane     net   links that delay, lose and cut messages
//!                         all of it runs on rt: processes, their clocks and their randomness (madsim)
//!   fault   what goes wrong, and when                 trace  what happens, as typed events and a digest
//! ```
//! It knows Kubernetes and no system under test: whoever brings types and actors of their own registers them ([`kinds::TypeDef`]).

#[cfg(not(madsim))]
compile_error!(
    "ipam-sim simulates only under `--cfg madsim`. The setting is in `.cargo/config.toml`; if the environment variable RUSTFLAGS is set it \
     replaces that setting: unset it, or add `--cfg madsim` to it."
);

pub mod actor;
pub mod cluster;
pub mod env;
pub mod fault;
mod glob;
pub mod kinds;
pub mod managed_fields;
pub mod net;
pub mod node;
pub mod object;
pub mod rt;
pub mod selector;
pub mod testbed;
pub mod trace;
