//! The servers of `--servers`: those of a scenario file, in place of the stated latency.

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

/// Servers as a scenario has them.
#[derive(Debug)]
pub(super) struct Servers {
    cluster: ClusterDraft,
    /// The mean round trip of a read that waits for nobody.
    pub(super) read: Span,
    /// The same of a write.
    pub(super) write: Span,
    /// How many requests are worked on at a time; 0 = everything at once.
    pub(super) width: u32,
    /// For how long a read keeps a processor busy, on average.
    pub(super) service: Span,
}

/// What a file says of the servers and a command line must not say as well.
const OF_SERVERS: [&str; 3] = ["latency", "width", "service"];

impl Servers {
    /// Reads the servers of a scenario file, and how long a request takes at them when it waits for nobody.
    ///
    /// # Errors
    /// It is no scenario, it has variants, its servers differ from run to run, or `vary` says something else of them.
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
        // A client on the machine of the server takes its answer in before it goes on.
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

    /// Puts servers, links and delays in place of those that the cluster of a point has.
    pub(super) fn apply(&self, cluster: &mut ClusterDraft) {
        cluster.api_servers = self.cluster.api_servers.clone();
        cluster.links = self.cluster.links;
        cluster.delays = self.cluster.delays;
        cluster.capacity.clone_from(&self.cluster.capacity);
    }
}
