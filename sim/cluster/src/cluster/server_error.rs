//! The errors of an API server that could not carry out a request (K §2.11, §3.4).

use kube_machinery::api::{Reason, TransportError, Verb};
use kube_machinery::{ApiError, ObjectKey, Status};

use super::server::Failure;
use crate::kinds::TypeDef;

pub(super) fn etcd_error(text: &'static str) -> ApiError {
    Status::new(Reason::Unknown, text).into()
}

pub(super) fn failure(failure: Failure, verb: Verb, def: &TypeDef) -> ApiError {
    match failure {
        Failure::EtcdTimeout => etcd_error("etcdserver: request timed out"),
        Failure::LeaderChanged => etcd_error("etcdserver: leader changed"),
        Failure::Timeout => deadline_exceeded(),
        Failure::ServerTimeout => {
            let operation = if verb == Verb::Patch { Verb::Update } else { verb }.as_str();
            let key = ObjectKey::cluster(operation);
            Status::about(Reason::ServerTimeout, def.group, def.plural, &key, "").retry_after(2).into()
        }
        Failure::Reset => TransportError::Reset.into(),
    }
}

pub(super) fn deadline_exceeded() -> ApiError {
    Status::new(Reason::Timeout, "request did not complete within requested timeout - context deadline exceeded").into()
}
