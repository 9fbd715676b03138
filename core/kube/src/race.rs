//! The first of two futures to finish.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// The output of the future that finished first.
#[derive(Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first one finished, or both were ready: its output.
    Left(A),
    /// The second one finished, and the first was not ready: its output.
    Right(B),
}

pin_project! {
    /// The future that [`race`] returns; it resolves to an [`Either`].
    #[must_use = "a race does nothing until it is awaited"]
    pub struct Race<A, B> {
        #[pin]
        left: A,
        #[pin]
        right: B,
    }
}

/// Runs two futures in one task until one finishes; the other is dropped with the race. If both are ready the left one wins, so that the
/// outcome depends only on the two futures.
///
/// The future is as large as both together: an `async fn` would hold each twice, and nested races would double in size at each level.
pub fn race<A: Future, B: Future>(left: A, right: B) -> Race<A, B> {
    Race { left, right }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = Either<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let race = self.project();
        if let Poll::Ready(output) = race.left.poll(context) {
            return Poll::Ready(Either::Left(output));
        }
        race.right.poll(context).map(Either::Right)
    }
}
