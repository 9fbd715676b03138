//! The Kubernetes API as a client sees it: objects, requests, replies and errors.

mod error;
mod object;
mod request;

pub use error::{ApiError, Cause, Details, Reason, Status, TransportError, ignore_already_exists, ignore_not_found};
pub use object::{Object, ObjectKey};
pub use request::{
    Call, DeleteOptions, Dry, List, ListOptions, Patch, PatchKind, Preconditions, Propagation, Reply, Request, Subresource, Verb,
    VersionMatch, WatchEvent, WatchOptions,
};
