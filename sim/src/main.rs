//! The `ipam-sim` command.

fn main() {}
