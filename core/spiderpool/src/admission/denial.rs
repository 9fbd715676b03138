//! The reasons why admission refuses a request.

use std::borrow::Cow;
use std::fmt;

use thiserror::Error;

use crate::names::GROUP;
use kube_machinery::api::{Cause, Object, Reason, Status};

/// The kind of a field's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The value is invalid.
    Invalid,
    /// The value is none of the permitted ones.
    NotSupported,
    /// The value is valid, but not here.
    Forbidden,
    /// The value is missing.
    Required,
    /// The webhook itself could not read something.
    Internal,
}

impl Fault {
    /// The type of the cause, as Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Required => "FieldValueRequired",
            Self::Internal => "InternalError",
        }
    }
}

/// A rule that a field breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field, such as `spec.ips[1]`.
    pub field: Cow<'static, str>,
    /// The kind of the error: the type of the cause in the answer.
    pub fault: Fault,
    /// A description of the error and, where that helps, of what to write instead.
    pub message: String,
}

impl Violation {
    /// A violation of `field`.
    pub fn new(field: impl Into<Cow<'static, str>>, fault: Fault, message: impl fmt::Display) -> Self {
        Self { field: field.into(), fault, message: message.to_string() }
    }

    /// A violation of `field` that is [`Fault::Invalid`].
    pub fn invalid(field: impl Into<Cow<'static, str>>, message: impl fmt::Display) -> Self {
        Self::new(field, Fault::Invalid, message)
    }

    /// A violation of `field` that is [`Fault::Forbidden`].
    pub fn forbidden(field: impl Into<Cow<'static, str>>, message: impl fmt::Display) -> Self {
        Self::new(field, Fault::Forbidden, message)
    }

    /// A violation of `field` that is [`Fault::Internal`].
    pub fn internal(field: impl Into<Cow<'static, str>>, message: impl fmt::Display) -> Self {
        Self::new(field, Fault::Internal, message)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// The refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Denial {
    /// Fields break rules; at least one.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<Violation>),
    /// An object of this name exists.
    #[error("there is an object of this name already")]
    AlreadyExists,
    /// The object may not be changed or deleted now.
    #[error("{0}")]
    Forbidden(String),
    /// The existing objects could not be read, so that no decision is possible.
    #[error("{0}")]
    Internal(String),
}

impl Denial {
    /// The reason in the answer.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Invalid(_) => Reason::Invalid,
            Self::AlreadyExists => Reason::AlreadyExists,
            Self::Forbidden(_) => Reason::Forbidden,
            Self::Internal(_) => Reason::InternalError,
        }
    }

    /// The rules that are broken, field by field.
    pub fn violations(&self) -> &[Violation] {
        match self {
            Self::Invalid(violations) => violations,
            _ => &[],
        }
    }

    /// The result of the webhook for the object `name` of kind `K`; the API server answers with its code (K122).
    pub fn to_status<K: Object>(&self, name: &str) -> Status {
        let text = match self {
            Self::Invalid(_) | Self::AlreadyExists => String::new(),
            Self::Forbidden(text) | Self::Internal(text) => text.clone(),
        };
        let mut status = Status::new(self.reason(), text);
        if matches!(self, Self::Internal(_)) {
            return status;
        }
        let kind = if matches!(self, Self::Invalid(_)) { K::kind(&()) } else { K::plural(&()) };
        (status.details.name, status.details.group, status.details.kind) = (Some(name.to_owned().into()), GROUP.into(), kind);
        status.details.causes.extend(self.violations().iter().map(|violation| Cause {
            reason: violation.fault.as_str().into(),
            message: violation.message.clone().into(),
            field: violation.field.clone(),
        }));
        status
    }
}

/// Returns a denial unless there is no violation.
pub(super) fn unless_empty(violations: Vec<Violation>) -> Result<(), Denial> {
    if violations.is_empty() { Ok(()) } else { Err(Denial::Invalid(violations)) }
}

impl From<Violation> for Denial {
    fn from(violation: Violation) -> Self {
        Self::Invalid(vec![violation])
    }
}
