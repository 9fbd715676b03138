//! The simulated Kubernetes API compared with the conformance checklist of its reference (K §10): one or more tests per statement, with the
//! statement's number in their names.

mod admission;
mod against_rules;
mod ambiguity;
mod apply;
mod capacity;
mod config_map;
mod connection;
mod core_server;
mod create;
mod delete;
mod errors;
mod expect;
mod get;
mod late;
mod list;
mod list_pages;
mod metadata;
mod over_http;
mod patch;
mod quorum;
mod recorded;
mod restore;
mod support;
mod transports;
mod update;
mod validation;
mod watch;
mod watch_bookmark;
mod watch_delay;
mod watch_end;
mod watch_history;
mod watch_initial;
mod watch_selector;
mod webhook_connections;
mod webhooks;
