//! Building blocks for any Kubernetes client or controller, generic over transport and runtime.
//!
//! Everything is generic over a [`Client`] (access to an API server) and an [`Env`] (clocks, sleep, spawn, random numbers). Nothing here
//! depends on a runtime, reads an ambient clock or draws ambient randomness, so the same code runs against a simulated cluster and against
//! any other implementation of the two traits. The semantics are those of client-go, down to its arithmetic of backoff.
//!
//! | modules | hold |
//! |---|---|
//! | [`api`], [`client`] | requests, replies, errors; the trait that carries them, and its verbs |
//! | [`env`](mod@env) | clocks, sleep, tasks and randomness of a process |
//! | [`transparent`], [`retry`], [`rate_limit`] | resending below the API, backoff and retry on conflict, a client-side token bucket |
//! | [`informer`] | list and watch into a local store, with indexes and callbacks |
//! | [`workqueue`], [`leader`], [`lease_lock`] | keys to reconcile, with delays for failures; leader election and a lock on a Lease |
//! | [`label_selector`], [`owner`], [`kubevirt`] | evaluation of selectors; who controls an object; the types of KubeVirt |
//! | [`json_text`], [`word_hash`] | fields that hold a JSON document as text; a hash that is the same in every build |
//! | [`latest`], [`race`](mod@race) | a value whose latest state others wait for; the first of two futures |
//! | [`deviation`] | named switches between the hardened form of a system and its upstream's |
//! | [`testing`] | a virtual clock, an executor, a scripted API server and one with objects, for unit tests |
//!
//! # Examples
//!
//! Reads an object through a client that resends what failed on the way, in virtual time:
//!
//! ```
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube_machinery::testing::{Answer, TestClient, TestEnv};
//! use kube_machinery::transparent::{Policy, Transparent};
//! use kube_machinery::{ClientExt, ObjectKey};
//!
//! let env = TestEnv::new();
//! let server = TestClient::without_watch(&env, |_| Answer::object(ConfigMap::default()));
//! let client = Transparent::new(server, env.clone(), Policy::ClientGo);
//!
//! let key = ObjectKey::namespaced("default", "settings");
//! let read: Arc<ConfigMap> = env.block_on(client.get(&key)).expect("the server has the object");
//! assert_eq!(*read, ConfigMap::default());
//! ```

pub mod address;
pub mod api;
pub mod client;
pub mod deviation;
pub mod env;
pub mod informer;
pub mod json_text;
pub mod kubevirt;
pub mod label_selector;
pub mod latest;
pub mod leader;
pub mod lease_lock;
pub mod owner;
pub mod race;
pub mod rate_limit;
pub mod retry;
pub mod schema;
pub mod testing;
pub mod time_limit;
pub mod transparent;
pub mod word_hash;
pub mod workqueue;

pub use api::{ApiError, Object, ObjectKey, Reason, Status};
pub use client::{Backlog, Client, ClientExt, WatchStream};
pub use env::{Env, Task};
pub use json_text::{InvalidText, JsonText, TextForm};
pub use owner::controller_of;

/// A hash map with a fixed hasher: the same insertion history iterates the same way in every run.
pub use rustc_hash::{FxHashMap, FxHashSet};
pub use word_hash::WordHash;
