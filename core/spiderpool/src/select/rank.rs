//! The order in which pools are tried (A §4).

use std::cmp::Reverse;
use std::sync::Arc;

use crate::{IPPoolSpec, Policy, SpiderIPPool};

/// The specificity of a pool; more specific ones are tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u8);

/// The rules that make a pool specific, in order of weight, as the fields of its spec.
pub const RULES: [&str; 6] = ["podAffinity", "nodeName", "nodeAffinity", "namespaceName", "namespaceAffinity", "multusName"];

impl Rank {
    /// The [`RULES`] that the pool has.
    pub fn rules(self) -> impl Iterator<Item = &'static str> {
        (0..).zip(RULES).filter_map(move |(at, rule)| (self.0 >> (RULES.len() - 1 - at) & 1 == 1).then_some(rule))
    }

    /// The rank of a pool: pod affinity, then node name, node affinity, namespace name, namespace affinity, Multus name.
    pub fn of(spec: &IPPoolSpec) -> Self {
        let named = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
        let rules = [
            spec.pod_affinity.is_some(),
            named(&spec.node_name),
            spec.node_affinity.is_some(),
            named(&spec.namespace_name),
            spec.namespace_affinity.is_some(),
            named(&spec.multus_name),
        ];
        Self(rules.into_iter().fold(0, |rank, rule| rank << 1 | u8::from(rule)))
    }
}

/// Groups pools of equal rank, the most specific ones first; the order inside a rank is preserved.
pub fn by_rank(pools: impl IntoIterator<Item = Arc<SpiderIPPool>>) -> Vec<Vec<Arc<SpiderIPPool>>> {
    // A cluster has only a few of the possible ranks.
    let mut ranks: Vec<(Rank, Vec<Arc<SpiderIPPool>>)> = Vec::new();
    for pool in pools {
        let rank = Rank::of(&pool.spec);
        match ranks.iter_mut().find(|(known, _)| *known == rank) {
            Some((_, equals)) => equals.push(pool),
            None => ranks.push((rank, vec![pool])),
        }
    }
    ranks.sort_unstable_by_key(|&(rank, _)| Reverse(rank));
    ranks.into_iter().map(|(_, equals)| equals).collect()
}

/// The order in which pools are tried. `below` draws a number below its argument, which is at least 1: upstream loses the order inside a
/// rank (`ties-in-any-order`), and the hardened form draws nothing.
pub fn tries(order: &[Vec<Arc<SpiderIPPool>>], policy: &Policy, mut below: impl FnMut(usize) -> usize) -> Vec<Arc<SpiderIPPool>> {
    let mut tries = Vec::new();
    for equals in order {
        let first = tries.len();
        tries.extend(equals.iter().cloned());
        if policy.ties_in_any_order {
            for left in (2..=equals.len()).rev() {
                tries.swap(first + left - 1, first + below(left));
            }
        }
    }
    tries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, multus: &[&str]) -> Arc<SpiderIPPool> {
        let multus_name = Some(multus.iter().map(|&name| name.to_owned()).collect());
        Arc::new(SpiderIPPool::new(name, IPPoolSpec { multus_name, ..IPPoolSpec::default() }))
    }

    fn names<'a>(pools: impl IntoIterator<Item = &'a Arc<SpiderIPPool>>) -> Vec<String> {
        pools.into_iter().map(|pool| pool.metadata.name.clone().unwrap()).collect()
    }

    #[test]
    fn a_rank_is_told_by_its_rules() {
        let affinity = || Some(Default::default());
        let spec = IPPoolSpec { pod_affinity: affinity(), namespace_affinity: affinity(), ..IPPoolSpec::default() };
        assert_eq!(Rank::of(&spec).rules().collect::<Vec<_>>(), ["podAffinity", "namespaceAffinity"]);
        let names = || Some(vec!["x".to_owned()]);
        let all = IPPoolSpec { node_affinity: affinity(), node_name: names(), namespace_name: names(), multus_name: names(), ..spec };
        assert_eq!(Rank::of(&all).rules().collect::<Vec<_>>(), RULES);
    }

    #[test]
    fn equals_keep_their_order_and_upstream_loses_it() {
        let order = by_rank([pool("d", &[]), pool("b", &["x"]), pool("c", &[]), pool("a", &["y"])]);
        assert_eq!(order.iter().map(names).collect::<Vec<_>>(), [["b", "a"], ["d", "c"]]);
        let nothing_drawn = |_| unreachable!("the hardened form draws nothing");
        assert_eq!(names(&tries(&order, &Policy::hardened(), nothing_drawn)), ["b", "a", "d", "c"]);
        assert_eq!(names(&tries(&order, &Policy::upstream(), |_| 0)), ["a", "b", "c", "d"]);
        assert_eq!(names(&tries(&order, &Policy::upstream(), |below| below - 1)), ["b", "a", "d", "c"]);
    }
}
