//! Reclaim over an API server in memory: its behaviour after each failure, and the promise that each deviation breaks.

#[path = "../../../tests/api_server/mod.rs"]
mod api_server;
mod crashes;
mod executor;
mod gap;
#[path = "../../../tests/promise/mod.rs"]
mod promise;
mod promises;
mod replica;
mod scale;
mod scene;
mod tables;
