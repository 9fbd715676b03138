//! A simulated Kubernetes cluster in one deterministic process.
//!
//! ```text
//!   actor   kubelets, controllers, any client ──requests──► cluster   API servers over one store, watch caches, etcd
//!     │                                                        │
//!     └── node   container runtime and data plane     net   links that delay, lose and cut messages
//!                         all of it runs on rt: processes, their clocks and their randomness (madsim)
//!   fault   what goes wrong, and when                 trace  what happens, as typed events and a digest
//! ```
//! It knows Kubernetes and no system under test: other packages register their own types ([`kinds::TypeDef`]) and actors. Code that uses
//! [`Client`](kube_machinery::Client) and [`Env`](kube_machinery::Env) runs in it unchanged, with a [`SimClient`] and a [`SimEnv`]. The
//! purpose of a run is defined elsewhere: scenarios, plans and claims are those of `sim-harness`, which builds on this package.
//!
//! | items | subject |
//! |---|---|
//! | [`Cluster`], [`ClusterConfig`], [`Knobs`] | API servers over one store; differences between installations |
//! | [`SimClient`], [`SimEnv`] | a process's access to the API; its clocks, tasks and randomness |
//! | [`Rt`], [`net`] | processes, hosts and model time; links between processes |
//! | [`Fault`], [`Faults`] | the kinds of faults with their parameters; when each begins and ends |
//! | [`actor`], [`node`] | scheduler, kubelets, the controllers of the control plane; sandboxes, CNI, what answers on each address |
//! | [`Registry`], [`Stored`] | the served types, and the rules by which their objects are stored |
//! | [`Event`], [`Note`], [`Recorder`] | events, notes of actors on their actions, listeners |
//! | [`Testbed`] | a small cluster for tests and examples |
//!
//! [`Cluster`]: cluster::Cluster
//! [`ClusterConfig`]: cluster::ClusterConfig
//! [`Knobs`]: cluster::Knobs
//! [`SimClient`]: cluster::SimClient
//! [`SimEnv`]: env::SimEnv
//! [`Rt`]: rt::Rt
//! [`Fault`]: fault::Fault
//! [`Faults`]: fault::Faults
//! [`Registry`]: kinds::Registry
//! [`Stored`]: kinds::Stored
//! [`Event`]: trace::Event
//! [`Note`]: trace::Note
//! [`Recorder`]: trace::recorder::Recorder
//! [`Testbed`]: testbed::Testbed
//!
//! # Examples
//!
//! A client is cut off from the API servers for a minute: its connection breaks, and it cannot know whether its write was stored. The same
//! seed gives the same run again:
//!
//! ```
//! use kube_machinery::ClientExt;
//! use kube_sim::fault::{Fault, Faults};
//! use kube_sim::testbed::{Testbed, config_map};
//! use sim_config::time::SimTime;
//!
//! const PARTITION: &str = "kind = 'partition'\nfrom = 'alice'\nto = 'apiserver-*'\nat = '10s'\nfor = '60s'\n";
//!
//! let story = |seed| {
//!     Testbed::run(seed, async |bed| {
//!         let partition: Fault = sim_config::toml::from_str("partition.toml", PARTITION).expect("a fault");
//!         Faults::schedule(&bed.cluster, &[partition], SimTime::from_secs(120));
//!         let (alice, bob) = (bed.client("alice"), bed.client("bob"));
//!
//!         bed.rt.sleep_until(SimTime::from_secs(15)).await;
//!         let error = alice.create(config_map("first", "by", "alice")).await.expect_err("her connection breaks");
//!         assert!(error.is_ambiguous(), "{error}");
//!         bob.create(config_map("second", "by", "bob")).await.expect("nobody else is cut off");
//!
//!         bed.rt.sleep_until(SimTime::from_secs(90)).await;
//!         alice.create(config_map("first", "by", "alice")).await.expect("the partition is over, and nothing was stored");
//!         bed.cluster.recorder(|recorder| recorder.digest.value())
//!     })
//! };
//! assert_eq!(story(7), story(7));
//! assert_ne!(story(7), story(8));
//! ```

#[cfg(not(madsim))]
compile_error!(
    "kube-sim simulates only under `--cfg madsim`. The setting is in `.cargo/config.toml`; if the environment variable RUSTFLAGS is set it \
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
