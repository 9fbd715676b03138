//! The processes or hosts that a fault affects.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::draw::Draw;

use crate::cluster::Cluster;
use crate::glob;
use crate::net::Side;
use crate::rt::{HostId, ProcessId, Rt};

/// Names of processes or hosts: a comma-separated list in which `*` stands for any text. A host stands for all its processes where
/// processes are expected, and a process for its host where hosts are expected.
///
/// In a scenario `one:PATTERN` draws one of the matching names and `some:PATTERN` draws a few of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Target(String);

impl Target {
    /// The target `*`: every process, and every host.
    pub fn any() -> Self {
        Self("*".to_owned())
    }

    /// The target written as `text`.
    pub fn from_text(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether every name matches.
    pub fn is_any(&self) -> bool {
        self.0 == "*"
    }

    /// Whether any of `names` matches, or can be drawn.
    pub fn can_match(&self, names: &[String]) -> bool {
        let pattern = self.0.strip_prefix("one:").or_else(|| self.0.strip_prefix("some:")).unwrap_or(&self.0);
        let pattern = Self(pattern.to_owned());
        names.iter().any(|name| pattern.matches(name))
    }

    /// The first name or pattern of the list that matches none of `names`.
    pub fn unmatched(&self, names: &[String]) -> Option<&str> {
        let list = self.0.strip_prefix("one:").or_else(|| self.0.strip_prefix("some:")).unwrap_or(&self.0);
        list.split(',').map(str::trim).find(|pattern| !pattern.is_empty() && !names.iter().any(|name| glob::matches(pattern, name)))
    }

    /// The names and patterns of the list.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &str> {
        self.0.split(',').map(str::trim)
    }

    /// Whether the target matches `name`.
    pub fn matches(&self, name: &str) -> bool {
        self.patterns().any(|pattern| glob::matches(pattern, name))
    }

    /// Narrower targets of one name each, from `names`.
    pub(super) fn narrower(&self, names: &[String]) -> Vec<Self> {
        let of = |name: &String| Self(name.clone());
        names.iter().filter(|name| **name != self.0 && self.matches(name)).map(of).collect()
    }

    /// The same target with exact names replaced by the result of `rename`.
    pub fn renamed(&self, rename: &dyn Fn(&str) -> String) -> Self {
        let mut names: Vec<String> = self.0.split(',').map(|name| rename(name.trim())).collect();
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        Self(names.join(","))
    }

    fn means(&self, rt: &Rt, process: ProcessId) -> bool {
        self.matches(&rt.process_name(process)) || self.matches(&rt.host_name(rt.host_of(process)))
    }

    /// The existing processes that match.
    pub(super) fn processes(&self, rt: &Rt) -> Vec<ProcessId> {
        rt.processes().into_iter().filter(|&process| self.means(rt, process)).collect()
    }

    /// The existing processes that match, in the order of the list.
    pub(super) fn in_order(&self, rt: &Rt) -> Vec<ProcessId> {
        let mut order = Vec::new();
        for pattern in self.patterns() {
            let meant = Self::from_text(pattern).processes(rt);
            order.extend(meant.into_iter().filter(|process| !order.contains(process)).collect::<Vec<_>>());
        }
        order
    }

    /// The existing hosts that match.
    pub(super) fn hosts(&self, rt: &Rt) -> Vec<HostId> {
        let mut hosts: Vec<HostId> = self.processes(rt).into_iter().map(|process| rt.host_of(process)).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// The API servers that match.
    pub(super) fn servers(&self, cluster: &Cluster) -> Vec<usize> {
        (0..cluster.servers()).filter(|&server| self.means(&cluster.rt, cluster.server_process(server))).collect()
    }

    /// The processes that match, as one side of a rule. "All" includes those that are added later.
    pub(super) fn side(&self, rt: &Rt) -> Side {
        if self.is_any() { Side::Any } else { Side::Only(self.processes(rt)) }
    }

    /// Replaces `one:` and `some:` by names drawn from `names`. If nothing matches, the pattern stays as it is.
    pub fn drawn(self, draw: &mut Draw, names: &[String]) -> Self {
        let (pattern, one) = match self.0.split_once(':') {
            Some(("one", pattern)) => (pattern.to_owned(), true),
            Some(("some", pattern)) => (pattern.to_owned(), false),
            _ => return self,
        };
        let of = Self(pattern);
        let candidates: Vec<&str> = names.iter().map(String::as_str).filter(|name| of.matches(name)).collect();
        // Takes the same number of draws whatever it finds, so that a change of the cluster does not shift later faults.
        let (first, rest) = (draw.u64(), draw.u64());
        if candidates.is_empty() {
            return of;
        }
        let chosen = sim_config::draw::below(first, candidates.len() as u64) as usize;
        if one {
            return Self(candidates[chosen].to_owned());
        }
        let few = candidates.iter().enumerate().filter(|(index, _)| *index == chosen || rest >> (index % 64) & 0b11 == 0);
        Self(few.map(|(_, name)| *name).collect::<Vec<_>>().join(","))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_list_of_patterns() {
        for (target, name, expected) in [("a,b", "b", true), ("a, b-*", "b-1", true), ("client-*", "clients", false)] {
            assert_eq!(Target::from_text(target).matches(name), expected, "{target} {name}");
        }
    }
}
