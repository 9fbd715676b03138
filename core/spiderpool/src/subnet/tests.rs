//! Decisions about subnets: against a plain model, deviation by deviation, and with the controller over an API server in memory.

mod conservation;
mod deviations;
mod model;
mod races;
mod scene;
mod server;
mod stories;
mod terms;
mod third_party;
mod unmade;
