//! Batches of requests made by one reconcile.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use kube_machinery::ApiError;

/// The number of requests of one reconcile that may be in flight at a time.
const WIDTH: usize = 8;

/// Makes `count` requests in batches of 1, 2, 4 and so on (K §7.2): if the first of them fails, the rest would probably fail, too. A batch
/// with failures is the last one. Returns the number of requests that succeeded, and the first error.
pub(super) async fn slow_start<F>(count: usize, mut request: impl FnMut(usize) -> F) -> (usize, Result<(), ApiError>)
where
    F: Future<Output = Result<(), ApiError>>,
{
    let (mut made, mut succeeded, mut size) = (0, 0, 1);
    while made < count {
        let batch = size.min(count - made);
        let (good, result) = all(batch, |index| request(made + index)).await;
        succeeded += good;
        if result.is_err() {
            return (succeeded, result);
        }
        made += batch;
        size *= 2;
    }
    (succeeded, Ok(()))
}

/// Makes `count` requests, a few at a time, whether or not others fail. Returns the number of requests that succeeded, and the first error.
pub(super) async fn all<F>(count: usize, mut request: impl FnMut(usize) -> F) -> (usize, Result<(), ApiError>)
where
    F: Future<Output = Result<(), ApiError>>,
{
    if count == 1 {
        let result = request(0).await;
        return (usize::from(result.is_ok()), result);
    }
    let mut next = 0;
    let mut lanes: Vec<Option<Pin<Box<F>>>> = Vec::new();
    lanes.resize_with(count.min(WIDTH), || None);
    let (mut succeeded, mut failed) = (0, Ok(()));
    poll_fn(|cx| {
        let mut waits = false;
        for lane in &mut lanes {
            loop {
                if lane.is_none() && next < count {
                    *lane = Some(Box::pin(request(next)));
                    next += 1;
                }
                let Some(future) = lane else { break };
                match future.as_mut().poll(cx) {
                    Poll::Pending => {
                        waits = true;
                        break;
                    }
                    Poll::Ready(result) => {
                        *lane = None;
                        match result {
                            Ok(()) => succeeded += 1,
                            Err(error) if failed.is_ok() => failed = Err(error),
                            Err(_) => {}
                        }
                    }
                }
            }
        }
        if waits { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    (succeeded, failed)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use kube_machinery::api::TransportError;
    use kube_machinery::env::Env;

    use super::*;
    use crate::testbed::Testbed;

    /// Makes requests of 1 s each; those named fail. Returns the number that succeeded, whether all did, and the number made after each
    /// second.
    fn made(count: usize, fails: &[usize]) -> (usize, bool, Vec<usize>) {
        Testbed::run(1, async |bed| {
            let env = bed.env(&bed.client("client"));
            let starts = RefCell::new(Vec::new());
            let begin = env.monotonic();
            let request = |index: usize| {
                let second = (env.monotonic() - begin).as_secs() as usize;
                let mut starts = starts.borrow_mut();
                let seconds = starts.len().max(second + 1);
                starts.resize(seconds, 0);
                starts[second] += 1;
                let (sleep, fails) = (env.sleep(std::time::Duration::from_secs(1)), fails.contains(&index));
                async move {
                    sleep.await;
                    if fails { Err(TransportError::Reset.into()) } else { Ok(()) }
                }
            };
            let (succeeded, result) = slow_start(count, request).await;
            (succeeded, result.is_ok(), starts.into_inner())
        })
    }

    #[test]
    fn batches_double_and_at_most_eight_requests_are_on_their_way() {
        assert_eq!(made(1, &[]), (1, true, vec![1]));
        assert_eq!(made(9, &[]), (9, true, vec![1, 2, 4, 2]));
        assert_eq!(made(31, &[]), (31, true, vec![1, 2, 4, 8, 8, 8]));
    }

    #[test]
    fn a_batch_with_a_failure_is_finished_and_is_the_last_one() {
        assert_eq!(made(20, &[0]), (0, false, vec![1]));
        assert_eq!(made(20, &[3]), (6, false, vec![1, 2, 4]));
    }
}
