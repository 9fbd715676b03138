//! A cluster and a pod as plain values, to be drawn at random.

use std::collections::BTreeMap;

/// The cluster and the pod.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) pools: BTreeMap<String, Pool>,
    pub(crate) reserved: Vec<(i64, u8)>,
    pub(crate) node: Option<Labels>,
    pub(crate) namespace: Option<Labels>,
    pub(crate) pod: Labels,
    pub(crate) ippools: Option<Vec<Item>>,
    pub(crate) ippool: Option<Item>,
    pub(crate) of_namespace: [Option<Vec<String>>; 2],
    pub(crate) of_namespace_outdated: [Option<Vec<String>>; 2],
    pub(crate) cni: [Vec<String>; 2],
    pub(crate) enabled: [bool; 2],
    pub(crate) nic: String,
    pub(crate) default_network: Option<String>,
    pub(crate) networks: Vec<String>,
    pub(crate) max_records: usize,
    pub(crate) duplicates_fail: bool,
    pub(crate) capacity_not_filtered: bool,
    pub(crate) network_always: bool,
    pub(crate) outdated_ignored: bool,
}

pub(crate) type Labels = BTreeMap<String, String>;

/// An item of an annotation.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) interface: String,
    pub(crate) pools: [Vec<String>; 2],
}

/// A pool. Its addresses are numbers.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) version: Option<i64>,
    pub(crate) terminating: bool,
    pub(crate) disabled: bool,
    pub(crate) default: bool,
    pub(crate) node_names: Vec<String>,
    pub(crate) node: Option<Vec<Term>>,
    pub(crate) namespace_names: Vec<String>,
    pub(crate) namespace: Option<Vec<Term>>,
    pub(crate) pod: Option<Vec<Term>>,
    /// Whether the pool was made for this pod's workload; `None` = it was made for none.
    pub(crate) auto: Option<bool>,
    pub(crate) networks: Vec<String>,
    pub(crate) ips: Vec<u8>,
    pub(crate) excluded: Vec<u8>,
    /// Addresses with a record, and whether the record is this pod's.
    pub(crate) records: BTreeMap<u8, bool>,
}

/// A term of a selector: `Equals` is a term of `matchLabels`.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) values: Vec<String>,
}
