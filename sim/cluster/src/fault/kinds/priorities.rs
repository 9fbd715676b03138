//! Processes whose requests are executed in the order of their priorities.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::Choice;
use sim_config::draw::{Concern, Draw};
use sim_config::time::Span;

use crate::cluster::{Cluster, Priorities as Rule};
use crate::fault::blocks::resource_kind;
use crate::fault::effect::{ActiveEffect, Effect, Inject, Injection, Overlap};
use crate::fault::parameters::{Resolve, any, between, every_resource, served, text_of};
use crate::fault::{Aim, Blocks, Drawn, Invalid, Inventory, Lasts, Parameters, Subject, Target, Trigger, Wait};

/// API servers execute the requests of some processes in the order of priorities, which change at some of these requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Priorities {
    /// The processes, named by themselves or by their hosts, highest priority first.
    pub process: Target,
    /// The plural of the type that the requests are about, or `*`.
    pub resource: String,
    /// The numbers of requests before which their process gets the lowest priority, and waits for the next request of another one; the
    /// requests of all these processes are counted together as their turns come, from 1 on.
    pub drops: Vec<u32>,
    /// The longest time for which a request is held back.
    pub at_most: Span,
    /// The time that others wait for the next request of a process that was answered.
    pub rest: Span,
}

/// API servers execute the requests of some processes in the order of priorities, which change at some of these requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PrioritiesDraft {
    /// The processes, named by themselves or by their hosts; those of API servers do not count. The order of their priorities is drawn.
    pub process: Choice<Target>,
    /// The plural of the type that the requests are about, or `*`.
    pub resource: Choice<String>,
    /// The number of orderings of two requests that a bug may need, at least 1: priorities change at one request fewer.
    pub depth: Choice<u32>,
    /// The number of first requests among which the changes are drawn, at least 1.
    pub within: Choice<u32>,
    /// The longest time for which a request is held back.
    pub at_most: Choice<Span>,
    /// The time that others wait for the next request of a process that was answered.
    pub rest: Choice<Span>,
}

impl Default for PrioritiesDraft {
    fn default() -> Self {
        Self {
            process: any(),
            resource: every_resource(),
            depth: Choice::Between(1, 4),
            within: Choice::OneOf(vec![5, 10, 30, 100]),
            at_most: between(Span::millis(200), Span::secs(2)),
            rest: between(Span::millis(5), Span::millis(50)),
        }
    }
}

impl Parameters for Priorities {
    type Draft = PrioritiesDraft;

    const DOCUMENTATION: &'static str =
        "API servers execute the requests of some processes in the order of priorities, which change at some of these requests.";

    /// Takes the same number of draws whatever it finds.
    fn draw(draft: &PrioritiesDraft, draw: &mut Draw, names: &[String]) -> Self {
        let process = draft.process.draw(draw).drawn(draw, names);
        let (resource, depth, within) = (draft.resource.draw(draw), draft.depth.draw(draw), draft.within.draw(draw));
        let (at_most, rest) = (draft.at_most.draw(draw), draft.rest.draw(draw));
        let mut order = Draw::new(draw.u64(), Concern::Faults, 0);
        Self { process: shuffled(&process, names, &mut order), resource, drops: change_points(depth, within, &mut order), at_most, rest }
    }

    fn targets(&self) -> Vec<Target> {
        vec![self.process.clone()]
    }

    fn targets_of(draft: &PrioritiesDraft) -> Vec<Target> {
        draft.process.written().into_iter().cloned().collect()
    }

    /// Variants with fewer changes and processes come first: a plan that needs few of them is the easiest to read.
    fn simpler(&self, names: &[String]) -> Vec<Self> {
        let with_drops = |drops| Self { drops, ..self.clone() };
        let with_process = |process: String| Self { process: Target::from_text(&process), ..self.clone() };
        let order: Vec<&str> = self.process.patterns().collect();
        let mut simpler: Vec<Self> = without_one(&self.drops).into_iter().map(with_drops).collect();
        // A single process has no order.
        if order.len() > 2 {
            simpler.extend(without_one(&order).into_iter().map(|order| with_process(order.join(","))));
        }
        simpler.extend(earlier(&self.drops).into_iter().map(with_drops));
        simpler.extend(self.at_most.simpler(names).into_iter().map(|at_most| Self { at_most, ..self.clone() }));
        simpler.extend(self.rest.simpler(names).into_iter().map(|rest| Self { rest, ..self.clone() }));
        simpler
    }

    fn rename(&mut self, rename: &dyn Fn(&str) -> String) {
        self.process.rename(rename);
    }

    fn invalid(&self, fault: &str, inventory: &Inventory<'_>) -> Vec<Invalid> {
        let wrong = || format!("the fault `{fault}` has `drops` with 0");
        let counted_from_0 = self.drops.contains(&0).then(|| Invalid::value("drops", wrong(), "requests are counted from 1"));
        served(fault, &self.resource, inventory).into_iter().chain(counted_from_0).collect()
    }

    fn invalid_of(draft: &PrioritiesDraft, fault: &str, inventory: &Inventory<'_>) -> Vec<Invalid> {
        let none = |key: &'static str, values: &Choice<u32>| {
            let wrong = || format!("the fault `{fault}` has `{key}` 0");
            values.written().contains(&&0).then(|| Invalid::value(key, wrong(), "1 or more"))
        };
        let resources = draft.resource.written().into_iter().filter_map(|resource| served(fault, resource, inventory));
        resources.chain(none("depth", &draft.depth)).chain(none("within", &draft.within)).collect()
    }

    fn defaults() -> Vec<(&'static str, String)> {
        let PrioritiesDraft { process, resource, depth, within, at_most, rest } = PrioritiesDraft::default();
        vec![
            ("process", text_of(&process)),
            ("resource", text_of(&resource)),
            ("depth", text_of(&depth)),
            ("within", text_of(&within)),
            ("at_most", text_of(&at_most)),
            ("rest", text_of(&rest)),
        ]
    }
}

/// The names that the target matches, in a drawn order, without API servers. If nothing matches, the pattern stays as it is.
fn shuffled(process: &Target, names: &[String], draw: &mut Draw) -> Target {
    let mut order: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| !name.starts_with("apiserver-") && process.matches(name)).collect();
    if order.is_empty() {
        return process.clone();
    }
    for last in (1..order.len()).rev() {
        order.swap(last, draw.below(last as u64 + 1) as usize);
    }
    Target::from_text(&order.join(","))
}

/// One change point fewer than the depth, among the first `within` requests, ascending.
fn change_points(depth: u32, within: u32, draw: &mut Draw) -> Vec<u32> {
    let mut drops: Vec<u32> = Vec::new();
    for _ in 1..depth.min(within.saturating_add(1)) {
        // Among the remaining ones, counted upwards.
        let mut nth = 1 + draw.below(u64::from(within) - drops.len() as u64) as u32;
        for &taken in &drops {
            nth += u32::from(taken <= nth);
        }
        let position = drops.partition_point(|&taken| taken < nth);
        drops.insert(position, nth);
    }
    drops
}

/// The lists that lack one element each.
fn without_one<T: Clone>(list: &[T]) -> Vec<Vec<T>> {
    (0..list.len()).map(|leaving| [&list[..leaving], &list[leaving + 1..]].concat()).collect()
}

/// The lists of change points with one of them earlier.
fn earlier(drops: &[u32]) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    for (position, &nth) in drops.iter().enumerate() {
        for smaller in [nth / 2, nth.saturating_sub(1)].into_iter().filter(|smaller| *smaller > 0 && !drops.contains(smaller)) {
            let mut changed = drops.to_vec();
            changed[position] = smaller;
            changed.sort_unstable();
            all.push(changed);
        }
    }
    all.dedup();
    all
}

impl Inject for Priorities {
    const EVENT: &'static str =
        "any order in which requests of several clients get through: busy servers and slow paths decide (K §9.2 A5, A7)";
    const LASTS: Lasts<Self> = Lasts::Window;
    const BEGINS: Trigger<Wait<Self>> = Trigger::Window;
    // Priorities cause no errors that could not happen anyway, they only make other orders of events likely. If no two processes contend,
    // they only cost time.
    const DRAWN: Drawn<Aim<PrioritiesDraft>> = Drawn::IfNamed(|targeting| {
        Some(PrioritiesDraft { process: targeting.processes()?, resource: targeting.resource(), ..PrioritiesDraft::default() })
    });

    fn subject(&self) -> Subject {
        Subject::of(&[&self.process])
    }

    fn blocks(&self) -> Blocks {
        Blocks::LateRequests { clients: self.process.clone(), resource: self.resource.clone() }
    }

    fn inject(&self, injection: &Injection<'_>) -> Vec<ActiveEffect> {
        let Some(kind) = resource_kind(injection.cluster, &self.resource) else { return Vec::new() };
        let order = self.process.in_order(&injection.cluster.rt);
        let (drops, at_most, rest) = (self.drops.clone(), self.at_most.0, self.rest.0);
        vec![InOrder(Rule { fault: injection.index, order, kind, drops, at_most, rest }).into()]
    }
}

/// Requests that are executed in an order.
#[derive(Debug)]
struct InOrder(Rule);

impl Effect for InOrder {
    fn apply(&self, cluster: &Arc<Cluster>) {
        cluster.add_priorities(self.0.clone());
    }

    fn revert(&self, cluster: &Arc<Cluster>) {
        cluster.remove_priorities(self.0.fault);
    }

    /// A request to which several orders apply waits for all of them.
    fn excludes(&self, _: &Self) -> Overlap {
        Overlap::Separate
    }

    fn has_observable_effect(&self, _: &Cluster) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_points_are_distinct_requests_among_the_first() {
        let mut seen = [0; 6];
        for seed in 0..200 {
            let drops = change_points(4, 6, &mut Draw::new(seed, Concern::Faults, 0));
            assert!(drops.len() == 3 && drops.is_sorted_by(|a, b| a < b) && (1..=6).contains(&drops[0]) && drops[2] <= 6, "{drops:?}");
            drops.iter().for_each(|&nth| seen[nth as usize - 1] += 1);
        }
        // Each of the six is one of the three drawn in half of the draws.
        assert!(seen.iter().all(|count| (70..130).contains(count)), "{seen:?}");
        let of = |depth, within| change_points(depth, within, &mut Draw::new(1, Concern::Faults, 0));
        assert_eq!([of(1, 6), of(9, 2)], [vec![], vec![1, 2]]);
    }

    #[test]
    fn each_order_of_the_processes_is_drawn_and_no_api_server_is_in_it() {
        let names = ["apiserver-0", "a", "b", "c"].map(str::to_owned);
        let order = |seed| Priorities::draw(&PrioritiesDraft::default(), &mut Draw::new(seed, Concern::Faults, 0), &names).process;
        let orders: std::collections::BTreeSet<String> = (0..60).map(|seed| order(seed).to_string()).collect();
        assert_eq!(orders, ["a,b,c", "a,c,b", "b,a,c", "b,c,a", "c,a,b", "c,b,a"].map(str::to_owned).into());
    }

    #[test]
    fn fewer_processes_and_changes_are_simpler_but_two_processes_stay() {
        let of = |process: &str, drops: &[u32]| Priorities {
            process: Target::from_text(process),
            resource: "*".to_owned(),
            drops: drops.to_vec(),
            at_most: Span::millis(1),
            rest: Span::millis(1),
        };
        let simpler = of("a,b,c", &[2, 3]).simpler(&[]);
        let expected =
            [("a,b,c", vec![3]), ("a,b,c", vec![2]), ("b,c", vec![2, 3]), ("a,c", vec![2, 3]), ("a,b", vec![2, 3]), ("a,b,c", vec![1, 3])];
        assert_eq!(simpler[..6], expected.map(|(process, drops)| of(process, &drops)));
        assert_eq!(of("a,b", &[]).simpler(&[]), []);
    }
}
