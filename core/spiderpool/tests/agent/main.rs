//! Spiderpool's agent over an API server in memory: its deviations, its faults, its stories.

#[path = "../api_server/mod.rs"]
mod api_server;
mod changes;
mod deviations;
mod endpoints;
mod faults;
mod marked_endpoints;
mod overlaps;
#[path = "../promise/mod.rs"]
mod promise;
mod releases;
mod scene;
mod shown_elsewhere;
mod stories;
mod terminating_pools;
mod unknown;
mod unseen;
mod virtual_machines;
mod without_uid;
