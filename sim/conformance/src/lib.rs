//! Conformance cases of the Kubernetes API, recorded from a real kube-apiserver.
//!
//! ```text
//!            cases ──► Kit ──► Runner ◄──► Server      any API server, under its own clock
//!                                 │
//!                                 ▼
//!   recorded.jsonl ──► Recording, Recording ──► compare ──► Comparison: the places where two servers differ
//! ```
//! A [`Kit`] holds cases: requests, watches and waits, no expectations. A [`Runner`] runs them against a [`Server`], under that server's
//! clock, and returns a [`Record`] for each, in which values that differ from run to run (versions, uids, times) have stable names.
//! [`compare`] finds the differences between two recordings: that of a real server, and another one. [`Allowed`] lists known differences.
//!
//! Nothing of the simulation is imported here. `ipam-sim` implements [`Server`] for the simulated server; its verb `conformance` adds files
//! and text to this package.
//!
//! The format of cases and recordings is described in `ci/conformance/README.md` of the repository.
//!
//! # Examples
//!
//! A server that answers each request with 404 is compared with the recording of a working one:
//!
//! ```
//! use std::pin::pin;
//! use std::task::{Context, Poll, Waker};
//! use std::{fs, path::Path, time::Duration};
//!
//! use api_conformance::{
//!     Allowed, Answer, EventStream, Identity, Kit, Options, Recording, RequestError, Runner, Server, Verdict, compare,
//! };
//!
//! struct NothingFound;
//! enum NoStream {}
//!
//! impl Server for NothingFound {
//!     type Stream = NoStream;
//!     async fn request(
//!         &self,
//!         _method: &str,
//!         _target: &str,
//!         _headers: &[(String, String)],
//!         _body: Option<Vec<u8>>,
//!         _identity: Identity,
//!     ) -> Result<Answer, RequestError> {
//!         Ok(Answer { status: 404, headers: Vec::new(), body: b"ok".to_vec() })
//!     }
//!     async fn watch(
//!         &self,
//!         target: &str,
//!         headers: &[(String, String)],
//!         identity: Identity,
//!     ) -> Result<(Answer, Option<NoStream>), RequestError> {
//!         Ok((self.request("GET", target, headers, None, identity).await?, None))
//!     }
//!     async fn sleep(&self, _: Duration) {
//!         std::future::pending().await
//!     }
//!     fn elapsed(&self) -> Duration {
//!         Duration::ZERO
//!     }
//!     async fn compact(&self, _revision: u64, _announce: bool) {}
//! }
//!
//! impl EventStream for NoStream {
//!     async fn next(&mut self) -> Option<Vec<u8>> {
//!         match *self {}
//!     }
//! }
//!
//! let folder = tempfile::tempdir()?;
//! fs::write(folder.path().join("_shared.json"), r#"{"paths": {}, "templates": {}, "ignore": {}, "loose": [], "crds": []}"#)?;
//! let case = r#"{"id": "livez", "why": "Is the server well?", "namespace": false, "steps": [{"path": "/livez"}]}"#;
//! fs::write(folder.path().join("health.json"), format!(r#"{{"theme": "health", "cases": [{case}]}}"#))?;
//! let kit = Kit::read(folder.path())?;
//!
//! let options = Options::default();
//! let runner = Runner::new(&kit, &options);
//! let run = pin!(runner.run(&NothingFound));
//! let Poll::Ready(records) = run.poll(&mut Context::from_waker(Waker::noop())) else { panic!("this server answers at once") };
//!
//! let recorded = r#"{"id": "livez", "theme": "health", "steps": [{"status": 200, "text": "ok"}]}"#;
//! let recorded = Recording::read(Path::new("recorded.jsonl"), recorded)?;
//! let allowed = Allowed::default();
//! let comparison = compare(&kit, &recorded, &Recording::from_iter(records), &allowed);
//! let Verdict::Differs(places) = &comparison.cases[0].verdict else { panic!("{comparison:?}") };
//! assert_eq!(places.iter().map(|place| (place.step, &*place.path)).collect::<Vec<_>>(), [(1, "status")]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
