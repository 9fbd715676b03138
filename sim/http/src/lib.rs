//! The HTTP interface of a simulated Kubernetes API server, in process.
//!
//! ```text
//!  http::Request ──► Frontend ── path, query, body ──► Op ──► kube_sim's API server
//!  Response      ◄── status, headers, JSON or lines ◄──────── reply, watch
//! ```
//! The simulated server itself knows verbs, objects and errors, not HTTP. This package reads requests as a real API server does (K §2), hands them
//! over, and writes the answers down: status code, headers, body, and the lines of a watch. It has no sockets: whoever owns a listener, a client
//! library's transport, or a file of recorded requests calls [`Frontend::request`].
//!
//! Types that are known only at run time come from CustomResourceDefinitions that are created through the same interface ([`custom`]).

mod body;
pub mod custom;
mod defaults;
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

pub use frontend::Frontend;
pub use response::{Lines, Response};
pub use types::types;
