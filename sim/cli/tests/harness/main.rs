//! The harness at work on the systems that this program brings.

mod deviation;
mod excuse;
mod pattern;
mod shrink;
mod story;
mod swarm;

#[path = "../support/install.rs"]
mod install;
