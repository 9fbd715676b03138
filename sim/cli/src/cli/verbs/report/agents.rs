//! Points of Spiderpool: nodes with an agent each, whose pods start at the same time and want addresses of one pool.

use std::time::Duration;

use ipam_reports::Seconds;
use ipam_reports::conflicts::{DECIDES_AGAIN, Setting, System};
use sim_config::Choice;
use sim_config::kinds::With;
use sim_config::time::SimTime;
use sim_harness::check::Checks;
use sim_harness::deviation::Profile;
use sim_harness::engine::load::DeviationChange;
use sim_harness::operation::Turn;
use sim_harness::scenario::Scenario;
use sim_spiderpool::workload::{AppKind, ApplyApp, OPERATOR};

use super::points::{Planned, first_seed};
use super::sweep_point::{IN_USE, SweepPoint, WRITE_OF_READ, half_of, policy_name};
use crate::cli::CliError;

/// The cluster of every point: that of the capacity scenario, whatever folder the user is in.
pub(super) const BASE_FILE: &str = "scenarios/capacity/spiderpool-burst.toml";
pub(super) const BASE: &str = include_str!("../../../../assets/spiderpool-burst.toml");

/// How many nodes, unless it is said.
pub(super) const NODES: [u32; 5] = [2, 4, 8, 16, 32];

/// The most addresses of a generated pool.
const ADDRESSES_MAX: u32 = 65_000;

/// When the first pod is created: agents have filled their caches by then.
const BEGIN: Duration = Duration::from_secs(5);

/// The hardened agents and upstream's, with one pod and with several on each node.
pub(super) fn usual() -> Vec<(String, String, SweepPoint)> {
    let curve = |upstream: bool, pods: u32| {
        let name = format!("{}, {pods} {} a node", policy_name(upstream), if pods == 1 { "pod" } else { "pods" });
        let point = SweepPoint { system: System::Spiderpool, upstream, pods, ..IN_USE };
        NODES.map(|instances| ("agents".to_owned(), name.clone(), SweepPoint { instances, ..point.clone() }))
    };
    [curve(false, 1), curve(true, 1), curve(false, 8), curve(true, 8)].into_iter().flatten().collect()
}

/// A point of nodes with agents.
pub(super) fn planned(base: &Scenario, panels: &str, series: &str, point: &SweepPoint) -> Result<Planned, CliError> {
    let (nodes, pods) = (point.instances, point.instances.saturating_mul(point.pods));
    let addresses = point.pool.unwrap_or_else(|| pods.saturating_mul(2));
    if addresses > ADDRESSES_MAX {
        return Err(CliError::usage(format!(
            "{nodes} nodes with {} pods each need {addresses} addresses, more than {ADDRESSES_MAX}",
            point.pods
        )));
    }
    let setting = Setting {
        panels: panels.to_owned(),
        series: series.to_owned(),
        instances: nodes,
        addresses,
        spread: Seconds::from(point.spread.0),
        read: Seconds::from(point.latency.0),
        write: Seconds::from(point.latency.0.mul_f64(WRITE_OF_READ)),
        retry: policy_name(point.upstream).to_owned(),
        update: DECIDES_AGAIN.to_owned(),
        selection: "first".to_owned(),
        throttle: "agent".to_owned(),
        system: System::Spiderpool,
        pods: point.pods,
        ..Setting::default()
    };
    let mut scenario = base.clone();
    scenario.name = "conflicts".to_owned();
    scenario.check = Checks::default();
    if point.upstream {
        DeviationChange { profile: Some(Profile::Upstream), ..DeviationChange::default() }.apply(&mut scenario.deviations);
    }
    let delays = &mut scenario.cluster.delays;
    (delays.quorum_read, delays.quorum_read_answer) = (half_of(point.latency, 1.0), half_of(point.latency, 1.0));
    (delays.commit, delays.commit_answer) = (half_of(point.latency, WRITE_OF_READ), half_of(point.latency, WRITE_OF_READ));
    if let Some(draft) = scenario.workload.get_mut::<sim_spiderpool::Drafts>().map(sim_spiderpool::Drafts::cluster_mut) {
        draft.nodes = Choice::Is(nodes);
        draft.addresses = Choice::Is(addresses);
    }
    // Evenly over the spread, node by node in turn; how long a node takes to come to its request differs by itself.
    scenario.op = (0..pods)
        .map(|number| {
            let at = SimTime::ZERO + BEGIN + point.spread.0.mul_f64(f64::from(number) / f64::from(pods));
            let apply = ApplyApp {
                app: format!("pod-{number}"),
                namespace: "default".to_owned(),
                kind: AppKind::Pod,
                replicas: 1,
                node: Some(number % nodes),
                ..ApplyApp::default()
            };
            With { common: Turn { at, actor: OPERATOR.to_owned() }, kind: sim_spiderpool::Operation::ApplyApp(apply).into() }
        })
        .collect();
    let first_seed = first_seed(&setting);
    Ok(Planned { setting, scenario, first_seed })
}
