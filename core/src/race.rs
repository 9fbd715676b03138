//! The first of two futures to finish.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Which of two futures finished first, and its output.
#[derive(Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first one's.
    Left(A),
    /// The second one's.
    Right(B),
}

/// Runs two futures in one task until one finishes; the other is dropped. When both are ready the left one wins, so
/// that the outcome never depends on anything but the two futures.
pub async fn race<A: Future, B: Future>(left: A, right: B) -> Either<A::Output, B::Output> {
    let mut left = pin!(left);
    let mut right = pin!(right);
    poll_fn(|context| {
        if let Poll::Ready(output) = left.as_mut().poll(context) {
            return Poll::Ready(Either::Left(output));
        }
        right.as_mut().poll(context).map(Either::Right)
    })
    .await
}
