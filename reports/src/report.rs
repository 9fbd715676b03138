//! What every report to a planner has, whatever it is about. Its page begins with that.

use crate::Made;
use crate::against::{Against, Compared};

/// A report to a planner.
pub trait Report {
    /// How it was made.
    fn made(&self) -> &Made;

    /// One number, how sure it is and what it rests on, in a sentence; unset = the answers begin with it.
    fn headline(&self) -> Option<&str>;

    /// The answers, a sentence each.
    fn answers(&self) -> &[String];

    /// What changed since an earlier report; unset = there is none to compare with.
    fn against(&self) -> Option<&Against> {
        None
    }

    /// What would change, if something was asked about that.
    fn what_if(&self) -> &[Compared] {
        &[]
    }

    /// Whether the user stopped it before its end.
    fn interrupted(&self) -> bool {
        false
    }
}
