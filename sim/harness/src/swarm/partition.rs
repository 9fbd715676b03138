//! Partitions by their shape: the processes that can still communicate.
//!
//! ```text
//!   halves   {a, b, s0} ╳ {c, s1}          ring     each client reaches two servers that are next to each other
//!   node     a ╳ everybody                 bridge   {a, s0} ╳ {b, s1}, and s2 is reached by all
//!   swizzle  a, then b, then c are cut off from the servers; b, c, a come back
//! ```
//! The first four are shapes that Jepsen draws, the last one is FoundationDB's.

use std::time::Duration;

use kube_sim::fault::{Fault, FaultKind, Partition, Target, Window};
use sim_config::draw::{Concern, Draw};
use sim_config::time::{SimTime, Span};
use sim_config::{Choice, With};

use super::Setting;

/// The processes that can still communicate in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Processes and API servers in two parts.
    Halves,
    /// Each process reaches two API servers that are next to each other.
    Ring,
    /// Two parts and one API server, the bridge, that both reach.
    Bridge,
    /// One process alone, which reaches no other.
    Node,
    /// Several processes, cut off one after the other, and reconnected in another order.
    Swizzle,
}

impl Shape {
    /// The partitions of a run; none if there is nothing to split.
    pub(super) fn draw(self, setting: &Setting<'_>, shortest: Span, longest: Span, draw: &mut Draw) -> Vec<Fault> {
        let Setting { safety, targets, names, .. } = setting;
        let lasts = Choice::Between(shortest, longest).draw(draw).0.min(safety.0);
        let begin = (safety.0 - lasts).mul_f64(draw.unit());
        // One number of the stream, however many names are shuffled.
        let mut order = Draw::new(draw.u64(), Concern::Faults, 0);
        let mut clients = targets.processes.clone();
        let mut servers: Vec<String> = names.iter().filter(|name| name.starts_with("apiserver-")).cloned().collect();
        shuffle(&mut clients, &mut order);
        shuffle(&mut servers, &mut order);
        let cut = |from: &[String], to: &[String]| row(begin, lasts, from, list(to));
        match self {
            Shape::Halves => {
                let mut all = [clients, servers].concat();
                shuffle(&mut all, &mut order);
                let (one, other) = all.split_at(all.len() / 2);
                cut(one, other).into_iter().collect()
            }
            Shape::Ring if servers.len() > 2 => {
                let is_next = |client: usize, server: usize| {
                    let place = client % servers.len();
                    server == place || server == (place + 1) % servers.len()
                };
                let far = |server: usize| -> Vec<String> {
                    clients.iter().enumerate().filter(|(client, _)| !is_next(*client, server)).map(|(_, name)| name.clone()).collect()
                };
                (0..servers.len()).filter_map(|server| cut(&far(server), &servers[server..=server])).collect()
            }
            Shape::Bridge if servers.len() > 2 => {
                let (one, other) = clients.split_at(clients.len() / 2);
                let parted = &servers[1..];
                let (left, right) = parted.split_at(parted.len() / 2);
                [cut(one, right), cut(other, left)].into_iter().flatten().collect()
            }
            Shape::Ring | Shape::Bridge => Vec::new(),
            Shape::Node => row(begin, lasts, &clients[..clients.len().min(1)], Target::any()).into_iter().collect(),
            Shape::Swizzle => {
                let few = clients.len().min(2 + order.below(clients.len().max(1) as u64) as usize);
                let half = lasts / 2;
                let mut cut_at: Vec<Duration> = (0..few).map(|_| order.between(Duration::ZERO, half)).collect();
                cut_at.sort_unstable();
                let swizzled = clients[..few].iter().zip(cut_at).filter_map(|(client, after)| {
                    let back = half + order.between(Duration::ZERO, half);
                    row(begin + after, back - after, std::slice::from_ref(client), Target::from_text("apiserver-*"))
                });
                swizzled.collect()
            }
        }
    }
}

/// A partition between two parts, if neither is empty.
fn row(at: Duration, lasts: Duration, from: &[String], to: Target) -> Option<Fault> {
    let kind = FaultKind::Partition(Partition { from: list(from), to });
    let parts_something = !from.is_empty() && kind.targets().iter().all(|target| !target.to_string().is_empty());
    parts_something.then(|| With { common: Window::new(SimTime::ZERO + at, Some(Span(lasts))), kind })
}

/// A target with the names in order, so that plans are easy to read.
fn list(names: &[String]) -> Target {
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    Target::from_text(&names.join(","))
}

fn shuffle<T>(items: &mut [T], draw: &mut Draw) {
    for last in (1..items.len()).rev() {
        items.swap(last, draw.below(last as u64 + 1) as usize);
    }
}
