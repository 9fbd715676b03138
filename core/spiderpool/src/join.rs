//! Several futures in one task.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

/// Runs futures concurrently; their outputs are in the order of the futures. Each time the task is woken, all unfinished futures are polled
/// in order, so that the outcome depends on nothing else.
pub(super) async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    if futures.len() == 1 {
        // The most frequent case by far needs no box.
        let mut outputs = Vec::with_capacity(1);
        for future in futures {
            outputs.push(pin!(future).await);
        }
        return outputs;
    }
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(move |context| {
        let mut done = true;
        for (future, output) in running.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *output = Some(value),
                    Poll::Pending => done = false,
                }
            }
        }
        if done { Poll::Ready(outputs.iter_mut().map(|output| output.take().expect("it is done")).collect()) } else { Poll::Pending }
    })
    .await
}
