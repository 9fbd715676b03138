//! The servers of `--servers`: those of a scenario file, instead of the stated latency.

use std::path::Path;
use std::sync::Arc;

use kube_sim::net::Delay;
use sim_config::Choice;
use sim_config::time::Span;
use sim_harness::engine::load::{self, LoadOptions};
use sim_harness::scenario::ClusterDraft;

use super::calibrate::settings::mean;
use crate::cli::CliError;
use crate::cli::report::vary::Vary;

/// The servers of a scenario.
#[derive(Debug)]
pub(super) struct Servers {
    cluster: ClusterDraft,
    /// The mean round trip of a read without waiting.
    pub(super) read: Span,
    /// The mean round trip of a write without waiting.
    pub(super) write: Span,
    /// The number of requests that are processed at a time; 0 = unlimited.
    pub(super) width: u32,
    /// The mean time for which a read keeps a processor busy.
    pub(super) service: Span,
}

/// The axes that the file of the servers determines, and that must not be varied as well.
const OF_SERVERS: [&str; 3] = ["latency", "width", "service"];

impl Servers {
    /// Reads the servers of a scenario file, and the latency of requests that do not wait there.
    ///
    /// # Errors
    /// It is no scenario, it has variants, its servers differ from run to run, or `vary` sets one of their values.
    pub(super) fn read(file: &Path, vary: &[Vary]) -> Result<Arc<Self>, CliError> {
        if let Some(one) = vary.iter().find(|one| OF_SERVERS.contains(&one.key())) {
            let wrong = format!("`{}` is varied, and {} says what servers are like; give one of them", one.key(), file.display());
            return Err(CliError::usage(wrong));
        }
        let mut ready = load::scenarios(&LoadOptions { scenarios: vec![file.to_owned()], ..LoadOptions::default() })?;
        let (Some(one), true) = (ready.pop(), ready.is_empty()) else {
            let wrong = format!("{}: has several variants, whose servers may differ", file.display());
            return Err(CliError::usage(wrong).hint("name a file with one scenario, such as the settings.toml of `report calibrate`"));
        };
        let cluster = one.scenario.cluster.clone();
        let (width, read, write) = match &cluster.capacity {
            None => (0, 0.0, 0.0),
            Some(capacity) => match (&capacity.width, capacity.likelihood.get() >= 1.0) {
                (Choice::Is(width), true) => (*width, mean(capacity.read), mean(capacity.write)),
                _ => {
                    let wrong = format!("{}: its servers have another size from run to run", file.display());
                    return Err(CliError::usage(wrong).hint("give `width` in [cluster.capacity] one value, and leave out `likelihood`"));
                }
            },
        };
        let delays = &cluster.delays;
        let all =
            |parts: [Delay; 2]| parts.into_iter().map(mean).sum::<f64>() + mean(delays.processing) + 2.0 * mean(cluster.links.healthy);
        let span = |seconds: f64| Span::micros((seconds * 1e6).round() as u64);
        // A client on the machine of the server processes its answer before it continues.
        let client = cluster.capacity.as_ref().map_or(0.0, |capacity| mean(capacity.client));
        let trip = |takes: f64, least: Span| span(takes.max(least.0.as_secs_f64()) + client);
        Ok(Arc::new(Self {
            read: trip(read + all([delays.quorum_read, delays.quorum_read_answer]), delays.read_at_least),
            write: trip(write + all([delays.commit, delays.commit_answer]), delays.write_at_least),
            width,
            service: span(read),
            cluster,
        }))
    }

    /// Replaces the servers, links and delays of a point's cluster by these.
    pub(super) fn apply(&self, cluster: &mut ClusterDraft) {
        cluster.api_servers = self.cluster.api_servers.clone();
        cluster.links = self.cluster.links;
        cluster.delays = self.cluster.delays;
        cluster.capacity.clone_from(&self.cluster.capacity);
    }
}
