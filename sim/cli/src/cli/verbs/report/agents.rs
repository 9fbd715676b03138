//! Points of Spiderpool: nodes with an agent each, whose pods start at the same time and request addresses from one pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ipam_reports::Seconds;
use ipam_reports::conflicts::{DECIDES_AGAIN, Setting, System};
use ipam_spiderpool::names::ANNOTATION_IPPOOL;
use sim_config::Choice;
use sim_config::kinds::With;
use sim_config::time::{SimTime, Span};
use sim_harness::check::Checks;
use sim_harness::deviation::{DeviationName, Profile};
use sim_harness::engine::load::DeviationChange;
use sim_harness::operation::Turn;
use sim_harness::scenario::Scenario;
use sim_spiderpool::workload::{AppKind, ApplyApp, ClosedLoop, OPERATOR};

use super::faults::{Burst, Faults, Placed};
use super::points::{Planned, first_seed};
use super::sweep_point::{IN_USE, SweepPoint, policy_name};
use crate::cli::CliError;
use crate::cli::report::vary::Start;

/// The file with the cluster of every point: that of the capacity scenario, built in, so that it works in any folder.
pub(super) const BASE_FILE: &str = "scenarios/capacity/spiderpool-burst.toml";
pub(super) const BASE: &str = include_str!("../../../../assets/spiderpool-burst.toml");

/// The default numbers of nodes.
pub(super) const NODES: [u32; 5] = [2, 4, 8, 16, 32];

/// The maximum number of addresses in a generated pool.
const ADDRESSES_MAX: u32 = 65_000;

/// The deviation that distinguishes the first ADD of an agent from later ones.
const FIRST_ADD: &str = "first-add-fills-caches";

/// The time at which the first pod is created: agents have filled their caches by then, except with [`Start::Restarted`].
const BEGIN: Duration = Duration::from_secs(5);

/// The delay until pods that start together get their network: by then each has been created, and has its sandbox.
const TOGETHER_AFTER: Duration = Duration::from_secs(30);

/// The approximate time within which kubelets create the sandboxes of pods that are created at once.
const SANDBOXES: Duration = Duration::from_secs(1);

/// The time for which pods of loops keep their addresses: until all addresses have been requested, and all pods deleted.
const HOLD: Span = Span::secs(120);

/// Hardened and upstream agents, with one pod and with several pods per node, and with servers that queue.
pub(super) fn usual() -> Vec<(String, String, SweepPoint)> {
    let curve = |upstream: bool, pods: u32, width: u32| {
        let size = if width == 0 { String::new() } else { format!(", servers of width {width}") };
        let name = format!("{}, {pods} {} a node{size}", policy_name(upstream), if pods == 1 { "pod" } else { "pods" });
        let point = SweepPoint { system: System::Spiderpool, upstream, pods, width, ..IN_USE };
        NODES.map(|instances| ("agents".to_owned(), name.clone(), SweepPoint { instances, ..point.clone() }))
    };
    let curves = [(false, 1, 0), (true, 1, 0), (false, 8, 0), (true, 8, 0), (false, 8, 2), (true, 8, 2)];
    curves.into_iter().flat_map(|(upstream, pods, width)| curve(upstream, pods, width)).collect()
}

/// The annotation by which pods name their pool, if there are several: nodes use the pools in turn.
fn annotations(node: u32, pools: u32) -> BTreeMap<String, String> {
    let named = (ANNOTATION_IPPOOL.to_owned(), format!("{{\"ipv4\":[\"v4-{}\"]}}", node % pools));
    (pools > 1).then_some(named).into_iter().collect()
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
    if point.start != Start::Kubelets && !point.spread.is_zero() {
        let name = point.start.name();
        return Err(CliError::usage(format!("`start={name}` leaves nothing to spread; vary `spread` with `start=kubelets`")));
    }
    if point.start == Start::Restarted && !point.upstream {
        return Err(CliError::usage(
            "`start=restarted` is about agents whose first call fills their caches: upstream's; vary `policy=upstream`, as hardened agents \
             fill them before they serve"
                .to_owned(),
        ));
    }
    if point.start == Start::Loops && point.pools > 1 {
        return Err(CliError::usage("pods of loops have one pool; spread them over several with `start=kubelets`".to_owned()));
    }
    let setting = Setting {
        panels: panels.to_owned(),
        series: series.to_owned(),
        instances: nodes,
        addresses,
        spread: Seconds::from(point.spread.0),
        read: Seconds::from(point.read().0),
        write: Seconds::from(point.write().0),
        retry: point.told_retry(policy_name(point.upstream)),
        pools: point.pools,
        update: DECIDES_AGAIN.to_owned(),
        selection: "first".to_owned(),
        throttle: "agent".to_owned(),
        system: System::Spiderpool,
        pods: point.pods,
        width: point.server_width(),
        service: Seconds::from(point.busy().0),
        start: point.start.name().to_owned(),
        faults: point.told_faults(),
        ..Setting::default()
    };
    let mut scenario = base.clone();
    scenario.name = "conflicts".to_owned();
    scenario.check = Checks::default();
    if point.upstream {
        // Agents that have run for some time have had their first ADD.
        let without = if point.start == Start::Restarted { Vec::new() } else { vec![DeviationName::new(FIRST_ADD).expect("a name")] };
        DeviationChange { profile: Some(Profile::Upstream), without, ..DeviationChange::default() }.apply(&mut scenario.deviations);
    }
    point.apply(&mut scenario.cluster)?;
    if let Some(draft) = scenario.workload.get_mut::<sim_spiderpool::Drafts>().map(sim_spiderpool::Drafts::cluster_mut) {
        draft.nodes = Choice::Is(nodes);
        draft.addresses = Choice::Is(addresses.div_ceil(point.pools));
        draft.backoff = point.backoff;
        if point.pools > 1 {
            (draft.pools, draft.default_pools) = (Choice::Is(point.pools), Choice::Is(0));
        }
        match point.start {
            Start::Kubelets => {}
            Start::Together | Start::Restarted => draft.kubelet.network_ready = Span(BEGIN + TOGETHER_AFTER),
            Start::Loops => {
                draft.kubelet.network_ready = Span(BEGIN);
                draft.closed_loop = Some(ClosedLoop { times: point.pods, hold: Some(HOLD) });
            }
        }
    }
    if point.start == Start::Loops {
        scenario.phases.liveness = Choice::Is(Span(HOLD.0 * 2));
        scenario.op = Vec::new();
        let first_seed = first_seed(&setting);
        let faults = placed(point, &mut scenario)?;
        return Ok(Planned { setting, scenario, first_seed, faults });
    }
    // Evenly over the spread, node by node in turn; the time until a node makes its request varies anyway.
    scenario.op = (0..pods)
        .map(|number| {
            let at = SimTime::ZERO + BEGIN + point.spread.0.mul_f64(f64::from(number) / f64::from(pods));
            let apply = ApplyApp {
                app: format!("pod-{number}"),
                namespace: "default".to_owned(),
                kind: AppKind::Pod,
                replicas: 1,
                node: Some(number % nodes),
                annotations: annotations(number % nodes, point.pools),
                ..ApplyApp::default()
            };
            With { common: Turn { at, actor: OPERATOR.to_owned() }, kind: sim_spiderpool::Operation::ApplyApp(apply).into() }
        })
        .collect();
    let first_seed = first_seed(&setting);
    let faults = placed(point, &mut scenario)?;
    Ok(Planned { setting, scenario, first_seed, faults })
}

/// Places the faults of a point at the time when its pods request addresses.
fn placed(point: &SweepPoint, scenario: &mut Scenario) -> Result<Option<Placed>, CliError> {
    let length = point.length();
    let (calls, length) = match point.start {
        Start::Kubelets => (BEGIN, length + SANDBOXES),
        Start::Together | Start::Restarted => (BEGIN + TOGETHER_AFTER, length),
        // The pods of a node ask one after the other.
        Start::Loops => (BEGIN, length * point.pods),
    };
    let place = |faults: Arc<Faults>| faults.placed(scenario, Burst { asked: SimTime::ZERO + BEGIN, moved: Duration::ZERO, calls, length });
    point.faults.clone().map(place).transpose()
}
