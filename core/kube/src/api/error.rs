//! Errors of the Kubernetes API (K §2.12) and of the transport.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use thiserror::Error;

use super::ObjectKey;

/// The `reason` of a [`Status`]. Clients branch on it; the HTTP code alone is not enough (409 is two reasons).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Empty: etcd's raw errors arrive this way (500) and are ambiguous for writes.
    Unknown,
    /// 401: the client is not authenticated; its credentials have to be refreshed.
    Unauthorized,
    /// 403: denied by RBAC, a webhook or a quota, or the namespace is terminating (as a cause).
    Forbidden,
    /// 404: there is no such object, as far as the answering server knows: a cache may lag (K §2.1).
    NotFound,
    /// 409: the name is taken. Not a conflict in the sense of optimistic locking.
    AlreadyExists,
    /// 409: the object changed since it was read, or a precondition failed.
    Conflict,
    /// 410 in its legacy form: start again from a list, as after [`Expired`](Self::Expired).
    Gone,
    /// 422: the object, the patch or the options break a rule; the same request fails again.
    Invalid,
    /// 500 with a retry hint: ambiguous for writes.
    ServerTimeout,
    /// 504: ambiguous for writes, which may also commit later.
    Timeout,
    /// 429: overload, caches that are not ready, or an eviction over budget. Not executed: retry after the delay.
    TooManyRequests,
    /// 400: malformed; the same request fails again.
    BadRequest,
    /// 405: the resource does not have this verb.
    MethodNotAllowed,
    /// 406: no media type that the request accepts can be served.
    NotAcceptable,
    /// 413: the body is too large, or a JSON patch has too many operations (K §2.9).
    RequestEntityTooLarge,
    /// 415: an unsupported content type, such as a strategic merge patch of a custom resource (K §2.9).
    UnsupportedMediaType,
    /// 500: an error inside the server, or a webhook that could not be called (`failurePolicy: Fail`). Ambiguous for writes.
    InternalError,
    /// 410: the resourceVersion is too old.
    Expired,
    /// 503: shutting down, or a proxy reaches no server. Mostly not executed, but ambiguous for writes.
    ServiceUnavailable,
}

impl Reason {
    /// The text in the `reason` field; empty for [`Reason::Unknown`].
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Unknown => "",
            Reason::Unauthorized => "Unauthorized",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "NotFound",
            Reason::AlreadyExists => "AlreadyExists",
            Reason::Conflict => "Conflict",
            Reason::Gone => "Gone",
            Reason::Invalid => "Invalid",
            Reason::ServerTimeout => "ServerTimeout",
            Reason::Timeout => "Timeout",
            Reason::TooManyRequests => "TooManyRequests",
            Reason::BadRequest => "BadRequest",
            Reason::MethodNotAllowed => "MethodNotAllowed",
            Reason::NotAcceptable => "NotAcceptable",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::UnsupportedMediaType => "UnsupportedMediaType",
            Reason::InternalError => "InternalError",
            Reason::Expired => "Expired",
            Reason::ServiceUnavailable => "ServiceUnavailable",
        }
    }

    /// The HTTP status code of the reason.
    pub fn code(self) -> u16 {
        match self {
            Reason::Unauthorized => 401,
            Reason::Forbidden => 403,
            Reason::NotFound => 404,
            Reason::AlreadyExists | Reason::Conflict => 409,
            Reason::Gone | Reason::Expired => 410,
            Reason::Invalid => 422,
            Reason::Timeout => 504,
            Reason::TooManyRequests => 429,
            Reason::BadRequest => 400,
            Reason::MethodNotAllowed => 405,
            Reason::NotAcceptable => 406,
            Reason::RequestEntityTooLarge => 413,
            Reason::UnsupportedMediaType => 415,
            Reason::ServiceUnavailable => 503,
            Reason::Unknown | Reason::ServerTimeout | Reason::InternalError => 500,
        }
    }
}

/// One cause inside [`Details`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable type, such as `FieldValueForbidden`.
    pub reason: Cow<'static, str>,
    /// A human-readable description; after `field`, it is part of the message of [`Reason::Invalid`].
    pub message: Cow<'static, str>,
    /// The field path; may be empty.
    pub field: Cow<'static, str>,
}

/// `details` of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The object's name, or the operation for [`Reason::ServerTimeout`].
    pub name: Option<Cow<'static, str>>,
    /// The API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// The resource plural (NotFound, Conflict, AlreadyExists) or the Kind (Invalid).
    pub kind: Cow<'static, str>,
    /// The object's UID, where the error is about one incarnation.
    pub uid: Option<String>,
    /// The single causes: one for each invalid field, and types such as `ResourceVersionTooLarge`. Often empty.
    pub causes: Vec<Cause>,
    /// Seconds after which a retry makes sense; 0 = not given. The header `Retry-After` is sent exactly when it is positive.
    pub retry_after_seconds: u32,
}

/// The error body of the Kubernetes API (K §2.12).
///
/// The message is made on demand: most errors are handled by their reason and never printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP status code of the answer: [`Reason::code`], unless the server chose another one.
    pub code: u16,
    /// The reason that clients branch on; left out on the wire if [`Reason::Unknown`].
    pub reason: Reason,
    /// The part of the message that reason and details do not imply; see [`Status::message`]. It comes after the implied part, but before
    /// `already exists` unless it begins with a comma.
    pub text: Cow<'static, str>,
    /// Name, kind, causes and retry hint.
    pub details: Details,
    /// A fresh token that continues at the latest revision; only in a 410 on a continue token (K §2.2).
    pub continue_token: Option<String>,
}

impl Status {
    /// A status of `reason` whose whole message is `message`.
    pub fn new(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code: reason.code(), reason, text: message.into(), details: Details::default(), continue_token: None }
    }

    /// A status about the object `key` of resource `plural` in `group`.
    pub fn about(reason: Reason, group: &'static str, plural: &'static str, key: &ObjectKey, text: impl Into<Cow<'static, str>>) -> Self {
        let mut status = Self::new(reason, text);
        status.details.name = Some(key.name().to_owned().into());
        status.details.group = group.into();
        status.details.kind = plural.into();
        status
    }

    /// Adds a retry hint.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.retry_after_seconds = seconds;
        self
    }

    /// Appends to `details.causes`, whose order the message of [`Reason::Invalid`] keeps.
    pub fn cause(mut self, cause: Cause) -> Self {
        self.details.causes.push(cause);
        self
    }

    /// `plural.group`, or `plural` for the core group.
    fn qualified_resource(&self) -> Cow<'_, str> {
        let (kind, group) = (&*self.details.kind, &*self.details.group);
        if group.is_empty() { Cow::Borrowed(kind) } else { Cow::Owned([kind, ".", group].concat()) }
    }

    /// The message in the API server's form for the reason (table of K §2.12).
    pub fn message(&self) -> String {
        let name = self.details.name.as_deref().unwrap_or("");
        let about_object = !self.details.kind.is_empty();
        match self.reason {
            Reason::NotFound if about_object => format!("{} \"{name}\" not found", self.qualified_resource()),
            Reason::AlreadyExists if about_object => {
                let (before, after) = if self.text.starts_with(',') { ("", &*self.text) } else { (&*self.text, "") };
                format!("{before}{} \"{name}\" already exists{after}", self.qualified_resource())
            }
            Reason::Conflict if about_object => {
                format!("Operation cannot be fulfilled on {} \"{name}\": {}", self.qualified_resource(), self.text)
            }
            Reason::Forbidden if about_object && name.is_empty() => format!("{} is forbidden: {}", self.qualified_resource(), self.text),
            Reason::Forbidden if about_object => format!("{} \"{name}\" is forbidden: {}", self.qualified_resource(), self.text),
            Reason::Invalid if about_object => {
                let qualified = self.qualified_resource();
                // Messages that occur in several causes are listed once.
                let mut parts: Vec<String> = Vec::with_capacity(self.details.causes.len());
                for cause in &self.details.causes {
                    let part = [&*cause.field, ": ", &*cause.message].concat();
                    if !parts.contains(&part) {
                        parts.push(part);
                    }
                }
                let why = match &parts[..] {
                    [] => Cow::Borrowed(&*self.text),
                    [one] => Cow::Borrowed(&**one),
                    many => Cow::Owned(["[", &many.join(", "), "]"].concat()),
                };
                [&*qualified, " \"", name, "\" is invalid: ", &*why].concat()
            }
            Reason::ServerTimeout if about_object => {
                format!("The {name} operation against {} could not be completed at this time, please try again.", self.qualified_resource())
            }
            Reason::InternalError => format!("Internal error occurred: {}", self.text),
            Reason::Timeout => format!("Timeout: {}", self.text),
            _ => self.text.to_string(),
        }
    }

    /// The `Retry-After` header: sent exactly when the details carry a positive hint (K110).
    pub fn retry_after_header(&self) -> Option<u32> {
        (self.details.retry_after_seconds > 0).then_some(self.details.retry_after_seconds)
    }

    /// The body in its wire format.
    pub fn to_wire(&self) -> meta::Status {
        let details = &self.details;
        meta::Status {
            status: Some("Failure".to_owned()),
            code: Some(i32::from(self.code)),
            reason: (self.reason != Reason::Unknown).then(|| self.reason.as_str().to_owned()),
            message: Some(self.message()),
            metadata: meta::ListMeta { continue_: self.continue_token.clone(), ..Default::default() },
            details: (*details != Details::default()).then(|| meta::StatusDetails {
                name: details.name.as_deref().filter(|name| !name.is_empty()).map(str::to_owned),
                group: (!details.group.is_empty()).then(|| details.group.to_string()),
                kind: (!details.kind.is_empty()).then(|| details.kind.to_string()),
                uid: details.uid.clone(),
                causes: (!details.causes.is_empty()).then(|| {
                    let wire = |cause: &Cause| meta::StatusCause {
                        reason: (!cause.reason.is_empty()).then(|| cause.reason.to_string()),
                        message: Some(cause.message.to_string()),
                        field: (!cause.field.is_empty()).then(|| cause.field.to_string()),
                    };
                    details.causes.iter().map(wire).collect()
                }),
                retry_after_seconds: (details.retry_after_seconds > 0).then_some(details.retry_after_seconds as i32),
            }),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

/// A failure of the connection to the API server (K §2.12, last paragraph).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum TransportError {
    /// The connection was refused: the request was not executed.
    #[error("connection refused")]
    Refused,
    /// The connection broke after the request was sent: ambiguous for writes.
    #[error("connection reset by peer")]
    Reset,
    /// The client gave up waiting: ambiguous for writes, which may still execute later.
    #[error("context deadline exceeded")]
    Deadline,
    /// The connection was found dead by its health check: ambiguous for writes.
    #[error("http2: client connection lost")]
    ConnectionLost,
}

/// The reason why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApiError {
    /// The API server answered with an error body.
    #[error("{0}")]
    Status(Box<Status>),
    /// A filter or a proxy in front of the API server answered in plain text (429 and 503 of K §2.11).
    #[error("{text}")]
    Plain {
        /// HTTP status code: 429 or 503 from such a filter; a proxy may send others.
        code: u16,
        /// The body, which is not a Status: [`ApiError::reason`] derives the reason from the code.
        text: &'static str,
        /// The `Retry-After` header in seconds.
        retry_after: Option<u32>,
    },
    /// No HTTP answer arrived, so there is no code and no reason.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl From<Status> for ApiError {
    fn from(status: Status) -> Self {
        ApiError::Status(Box::new(status))
    }
}

impl ApiError {
    /// The reason, if an API server gave one.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            ApiError::Status(status) => Some(status.reason),
            ApiError::Plain { code: 429, .. } => Some(Reason::TooManyRequests),
            ApiError::Plain { code: 503, .. } => Some(Reason::ServiceUnavailable),
            ApiError::Plain { .. } => Some(Reason::Unknown),
            ApiError::Transport(_) => None,
        }
    }

    /// The HTTP status code, if there was an HTTP answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            ApiError::Status(status) => Some(status.code),
            ApiError::Plain { code, .. } => Some(*code),
            ApiError::Transport(_) => None,
        }
    }

    /// The error body, if there was one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            ApiError::Status(status) => Some(status),
            _ => None,
        }
    }

    /// The `Retry-After` header in seconds.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            ApiError::Status(status) => status.retry_after_header(),
            ApiError::Plain { retry_after, .. } => *retry_after,
            ApiError::Transport(_) => None,
        }
    }

    /// Whether the reason is Conflict: read again, decide again, write again.
    pub fn is_conflict(&self) -> bool {
        self.reason() == Some(Reason::Conflict)
    }

    /// Whether the reason is AlreadyExists: the object may be one's own, after a lost reply.
    pub fn is_already_exists(&self) -> bool {
        self.reason() == Some(Reason::AlreadyExists)
    }

    /// Whether the reason is NotFound: for a delete as good as success, see [`ignore_not_found`]; from a cache it may be out of date.
    pub fn is_not_found(&self) -> bool {
        self.reason() == Some(Reason::NotFound)
    }

    /// Whether this is a 410 with either of its reasons: start again from a list.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason(), Some(Reason::Expired | Reason::Gone))
    }

    /// Whether this is `Too large resource version`: the server's cache has not seen that revision (K022).
    pub fn is_too_large_resource_version(&self) -> bool {
        self.status().is_some_and(|status| {
            status.reason == Reason::Timeout && status.details.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
        })
    }

    /// Whether a write that failed this way may have been executed, or may still be (K §2.13, K113, K114).
    pub fn is_ambiguous(&self) -> bool {
        match self {
            ApiError::Transport(TransportError::Refused) => false,
            ApiError::Transport(_) => true,
            ApiError::Plain { code, .. } => matches!(code, 500 | 502 | 504),
            ApiError::Status(status) => matches!(status.code, 500 | 502 | 503 | 504),
        }
    }
}

/// Treats NotFound as success: an object that is gone need not be changed or deleted.
///
/// # Errors
/// Any other error of `result`.
pub fn ignore_not_found<T>(result: Result<T, ApiError>) -> Result<(), ApiError> {
    match result {
        Err(error) if error.is_not_found() => Ok(()),
        result => result.map(drop),
    }
}

/// Treats AlreadyExists as success: an object that exists need not be created.
///
/// # Errors
/// Any other error of `result`.
pub fn ignore_already_exists<T>(result: Result<T, ApiError>) -> Result<(), ApiError> {
    match result {
        Err(error) if error.is_already_exists() => Ok(()),
        result => result.map(drop),
    }
}
