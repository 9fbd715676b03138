//! The workload controllers of the simulated control plane (K §7, K141, K142, A §6), with a minimal kubelet.

mod clone_sets;
mod cron_jobs;
mod daemon_sets;
mod jobs;
mod namespaces;
mod replica_sets;
mod stateful_sets;
mod support;
mod together;
mod virtual_machines;
