//! The interface of a server that cases are run against.

use std::time::Duration;

/// The answer of an API server to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code of HTTP.
    pub status: u16,
    /// The headers, with names in lower case; a name may occur more than once.
    pub headers: Vec<(String, String)>,
    /// The whole body; empty for a watch that was opened.
    pub body: Vec<u8>,
}

/// The identity of a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// A member of `system:masters`.
    #[default]
    Admin,
    /// The user `kit-nobody`, authenticated and without permissions.
    Nobody,
    /// A user with a token that the server does not know.
    Stranger,
    /// A user without a token.
    Anonymous,
}

/// The reason why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// No answer came in time.
    Timeout,
    /// The connection was refused, or ended before the answer.
    Connection,
}

/// An API server that cases are run against, under its own clock. Its futures may be dropped at any time: the caller hangs up.
pub trait Server {
    /// A watch that was opened and not hung up.
    type Stream: EventStream;

    /// Sends one request and waits for the whole answer. `target` is path and query as in the request line; names of headers are in lower
    /// case. The server adds the credentials of the identity.
    fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: Option<Vec<u8>>,
        identity: Identity,
    ) -> impl Future<Output = Result<Answer, RequestError>>;

    /// Sends a GET that opens a watch, and waits for the header of the answer: a stream if the status is 200, else the whole refusal.
    fn watch(
        &self,
        target: &str,
        headers: &[(String, String)],
        identity: Identity,
    ) -> impl Future<Output = Result<(Answer, Option<Self::Stream>), RequestError>>;

    /// Waits on the server's clock.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;

    /// The time on the server's clock, since any fixed beginning.
    fn elapsed(&self) -> Duration;

    /// Compacts the history of the store up to `revision`, which stays, as an outsider would; with `announce`, as the API servers' own
    /// compactor does, so that they drop older history from their caches.
    fn compact(&self, revision: u64, announce: bool) -> impl Future<Output = ()>;
}

/// The lines of a watch. Dropping it hangs up.
pub trait EventStream {
    /// Waits for the next line; `None` = the server has ended the stream, also in each later call. Dropping the future loses no line.
    fn next(&mut self) -> impl Future<Output = Option<Vec<u8>>>;
}
