//! Many requests of one reconcile.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use ipam_core::ApiError;

/// How many requests of one reconcile are on their way at a time.
const WIDTH: usize = 8;

/// Makes `count` requests in batches of 1, 2, 4 and so on (K §7.2): where the first of them fails, the rest would, too. A batch
/// with failures is the last one. Returns how many succeeded, and the first error.
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

/// Makes `count` requests, a few at a time, whatever becomes of each. Returns how many succeeded, and the first error.
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
