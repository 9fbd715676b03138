//! The HTTP interface of a simulated Kubernetes API server, in process.
//!
//! ```text
//!  http::Request ──► Frontend ── path, query, body ──► Op ──► kube_sim's API server
//!  Response      ◄── status, headers, JSON or lines ◄──────── reply, watch
//! ```
//! The simulated server itself knows verbs, objects and errors, not HTTP. This package reads requests as a real API server does (K §2),
//! passes them on, and writes the answers: status code, headers, body, and the lines of a watch. It has no sockets: the owner of a
//! listener, a client library's transport, or the reader of a file of recorded requests calls [`Frontend::request`].
//!
//! Types that are known only at run time come from CustomResourceDefinitions that are created through the same interface ([`custom`]).
//!
//! ```
//! use bytes::Bytes;
//! use kube_sim::testbed::Testbed;
//! use kube_sim_http::{Frontend, Response};
//!
//! let (status, body) = Testbed::run(1, async |bed| {
//!     let frontend = Frontend::new(bed.client("client"), None);
//!     let body = r#"{"metadata": {"name": "greeting"}, "data": {"text": "hello"}}"#;
//!     let request = http::Request::post("/api/v1/namespaces/default/configmaps").body(Bytes::from(body)).unwrap();
//!     match frontend.request(request).await {
//!         Some(Response::Whole(response)) => (response.status(), response.into_body()),
//!         _ => panic!("a create is answered as a whole"),
//!     }
//! });
//! assert_eq!(status, 201);
//! assert!(String::from_utf8_lossy(&body).contains("\"resourceVersion\""));
//! ```

mod body;
pub mod custom;
mod defaults;
mod definition;
mod delete_options;
mod discovery;
mod eviction;
mod frontend;
mod object;
mod path;
mod query;
mod response;
mod scale;
mod schema;
mod types;
mod user;
mod webhooks;
mod yaml;

pub use frontend::Frontend;
pub use response::{Lines, Response};
pub use types::types;
