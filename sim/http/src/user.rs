//! The user of a request, and its permissions (K §8.1).

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// The user that the server attributes a request to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// May read and write every resource of the API.
    Admin,
    /// May only read public paths.
    Named(String),
    /// Has an invalid token.
    Unknown,
}

impl User {
    /// The user of a request to a server whose only token is `token`; without a token every caller is the administrator.
    pub(crate) fn of(headers: &HeaderMap, token: Option<&str>) -> Self {
        let Some(token) = token else { return User::Admin };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        match given.map(|given| given.strip_prefix("Bearer ").unwrap_or(given)) {
            None => User::Named("system:anonymous".to_owned()),
            Some(given) if given != token => User::Unknown,
            Some(_) => match headers.get("impersonate-user").and_then(|value| value.to_str().ok()) {
                Some(user) => User::Named(user.to_owned()),
                None => User::Admin,
            },
        }
    }
}

/// Whether every user may read a path that is not a resource.
pub(crate) fn is_public(parts: &[String]) -> bool {
    matches!(parts.first().map(String::as_str), Some("healthz" | "livez" | "readyz" | "version"))
}
