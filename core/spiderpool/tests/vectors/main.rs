//! Spiderpool's logic compared with recorded answers of upstream's code (`tests/data/README.md`).

mod admission;
#[path = "../api_server/mod.rs"]
mod api_server;
mod flow;
mod reclaim;
#[path = "../recorded/mod.rs"]
mod recorded;
mod selection;
