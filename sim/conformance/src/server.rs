//! The server that cases are run against.

use std::time::Duration;

/// What an API server answers to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code of HTTP.
    pub status: u16,
    /// Names in lower case, and values; a name may be there more than once.
    pub headers: Vec<(String, String)>,
    /// The whole body; empty for a watch that was opened.
    pub body: Vec<u8>,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// A member of `system:masters`.
    #[default]
    Admin,
    /// The user `kit-nobody`, who is known and may do nothing.
    Nobody,
    /// Somebody with a token that the server does not know.
    Stranger,
    /// Somebody without a token.
    Anonymous,
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// None came in time.
    Timeout,
    /// The connection was refused, or ended before the answer.
    Connection,
}

/// An API server that cases are run against, under its own clock. Its futures may be dropped at any time: the caller hangs up.
pub trait Server {
    /// A watch that was opened and not hung up.
    type Stream: EventStream;

    /// Sends one request and waits for the whole answer. `target` is path and query as they stand in the request line; names of headers are
    /// in lower case. What proves the identity is the server's to add.
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

    /// How much time has passed on the server's clock, from any beginning.
    fn elapsed(&self) -> Duration;

    /// Compacts the history of the store up to `revision`, which stays, as a stranger to the API server would; with `announce` as the API
    /// servers' own compactor does it, so that they drop what is older from their caches.
    fn compact(&self, revision: u64, announce: bool) -> impl Future<Output = ()>;
}

/// The lines of a watch. Dropping it hangs up.
pub trait EventStream {
    /// Waits for the next line; `None` when the server has ended the stream, each time from then on. Dropping the future loses no line.
    fn next(&mut self) -> impl Future<Output = Option<Vec<u8>>>;
}
