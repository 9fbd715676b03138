//! The CSV tables of a sweep, written while it runs, in the order of seeds, whichever worker runs them.
//!
//! ```text
//!  worker 0: chunk 0 ───────► written at once
//!  worker 1: chunk 2 ─┐
//!  worker 0: chunk 1 ─┴─────► written together; nobody gets further ahead than a few chunks
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ipam_reports::rows::Rows;

use super::output::Aside;

/// The number of chunks that may wait for a late one.
const AHEAD_MAX: usize = 256;

/// Lets the other workers continue when one panics: its chunk will never come.
pub(super) struct ReleaseOnPanic<'a>(pub(super) Option<&'a Tables>);

impl Drop for ReleaseOnPanic<'_> {
    fn drop(&mut self) {
        if let Some(tables) = self.0.filter(|_| std::thread::panicking()) {
            tables.release();
        }
    }
}

/// `runs.csv`, `calls.csv` and `reclaims.csv` in a folder. [`Tables::finish`] puts them there: until then, former ones stay.
pub struct Tables {
    state: Mutex<State>,
    moved: Condvar,
}

struct State {
    runs: Aside,
    calls: Aside,
    reclaims: Aside,
    /// The chunk that is written next.
    next: u64,
    waiting: BTreeMap<u64, Rows>,
    /// Whether no worker waits any more, since some chunks will never come: the sweep is being stopped, or a worker panicked.
    released: bool,
    failed: Option<io::Error>,
}

impl Tables {
    /// New tables in `folder`, with their header lines.
    ///
    /// # Errors
    /// Fails if the folder or a file in it cannot be written.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let file = |name: &str| Aside::create(&folder.join(name));
        let (runs, calls, reclaims) = (file("runs.csv")?, file("calls.csv")?, file("reclaims.csv")?);
        let mut state = State { runs, calls, reclaims, next: 0, waiting: BTreeMap::new(), released: false, failed: None };
        state.write(&Rows::heads())?;
        Ok(Self { state: Mutex::new(state), moved: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the rows of a chunk. Waits while too many chunks are ahead of a late one, to limit memory.
    pub(super) fn put(&self, chunk: u64, rows: Rows) {
        let mut state = self.lock();
        while chunk != state.next && state.waiting.len() >= AHEAD_MAX && !state.released {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.insert(chunk, rows);
        while let Some(rows) = {
            let next = state.next;
            state.waiting.remove(&next)
        } {
            state.next += 1;
            state.keep(&rows);
        }
        self.moved.notify_all();
    }

    /// Stops all waiting, since the sweep stops before its end: some chunks will never come.
    pub(super) fn release(&self) {
        self.lock().released = true;
        self.moved.notify_all();
    }

    /// Ends the sweep of a scenario: writes the rows that still wait, and counts chunks from 0 again.
    pub fn finish_scenario(&self) {
        let mut state = self.lock();
        for (_, rows) in std::mem::take(&mut state.waiting) {
            state.keep(&rows);
        }
        (state.next, state.released) = (0, false);
    }

    /// Ends all sweeps: moves the tables to their places.
    ///
    /// # Errors
    /// Fails if something could not be written. A table must not lack rows, so none is moved then.
    pub fn finish(self) -> io::Result<()> {
        let State { runs, calls, reclaims, failed, .. } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match failed {
            Some(error) => Err(error),
            None => runs.finish().and_then(|()| calls.finish()).and_then(|()| reclaims.finish()),
        }
    }
}

impl State {
    fn write(&mut self, rows: &Rows) -> io::Result<()> {
        self.runs.write_all(&rows.runs)?;
        self.calls.write_all(&rows.calls)?;
        self.reclaims.write_all(&rows.reclaims)
    }

    /// Writes rows, unless writing failed before; keeps the first error.
    fn keep(&mut self, rows: &Rows) {
        if self.failed.is_none() {
            self.failed = self.write(rows).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(number: u64) -> Rows {
        Rows { runs: format!("run {number}\n").into(), ..Rows::default() }
    }

    fn written(work: impl FnOnce(&Tables)) -> Vec<String> {
        let folder = testkit::Folder::missing("tables");
        let tables = Tables::create(&folder.0).unwrap();
        work(&tables);
        tables.finish_scenario();
        tables.finish().unwrap();
        folder.text("runs.csv").lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn rows_stand_in_the_order_of_chunks() {
        let in_order = written(|tables| [2, 0, 3, 1].into_iter().for_each(|chunk| tables.put(chunk, rows(chunk))));
        assert_eq!(in_order, ["run 0", "run 1", "run 2", "run 3"]);
        let with_a_gap = written(|tables| [2, 0].into_iter().for_each(|chunk| tables.put(chunk, rows(chunk))));
        assert_eq!(with_a_gap, ["run 0", "run 2"]);
    }

    #[test]
    fn a_worker_waits_for_one_that_is_late() {
        let lines = written(|tables| {
            std::thread::scope(|scope| {
                scope.spawn(|| (1..=3 * AHEAD_MAX as u64).for_each(|chunk| tables.put(chunk, rows(chunk))));
                while tables.lock().waiting.len() < AHEAD_MAX {
                    std::thread::yield_now();
                }
                tables.put(0, rows(0));
            });
        });
        assert_eq!(lines.len(), 1 + 3 * AHEAD_MAX);
        assert!(lines.windows(2).all(|pair| pair[0].len() <= pair[1].len()));
    }
}
