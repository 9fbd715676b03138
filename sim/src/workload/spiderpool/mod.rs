//! Spiderpool at work: agents give addresses to the pods of their nodes and take them back.

mod note;

pub use note::{Cause, Given, How, InOrder, IpamNote, Opinion, Refusal};
