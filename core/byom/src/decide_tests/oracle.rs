//! The decisions as B describes them, on plain lists; of the code under test it uses only the index function.

use std::collections::BTreeMap;

use crate::{Address, Allocations, IpAllocation, Policy, PoolDocument, Seconds, select_index};

/// The state as plain data.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plain {
    pub(super) null: bool,
    pub(super) records: BTreeMap<String, Record>,
    pub(super) available: Vec<String>,
    pub(super) version: i64,
    pub(super) time: Option<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) ip: String,
    pub(super) node: String,
    pub(super) pod: String,
    pub(super) namespace: Option<String>,
    pub(super) time: u8,
}

pub(super) fn second(time: u8) -> Seconds {
    Seconds::new(jiff::Timestamp::from_second(1_800_000_000 + i64::from(time)).unwrap())
}

impl Record {
    pub(super) fn typed(&self, id: &str) -> IpAllocation {
        IpAllocation {
            allocation_id: id.into(),
            ip: Address::new(self.ip.as_str()),
            node_name: self.node.as_str().into(),
            pod_name: self.pod.as_str().into(),
            pod_namespace: self.namespace.as_deref().map(Into::into),
            allocated_at: second(self.time),
        }
    }
}

impl Plain {
    pub(super) fn typed(&self) -> PoolDocument {
        let mut allocated: Allocations = self.records.iter().map(|(id, record)| (id.as_str().into(), record.typed(id))).collect();
        if self.null {
            allocated = Allocations::null();
        }
        PoolDocument {
            allocated,
            available: self.available.iter().map(|text| Address::new(text.as_str())).collect(),
            last_updated: self.time.map_or(Seconds::ZERO, second),
            version: self.version,
        }
    }
}

/// The address that a text means, by the subset of Go's rules that the tests below need.
pub(super) fn meaning(text: &str) -> Option<String> {
    let ip: std::net::IpAddr = text.parse().ok()?;
    Some(ip.to_canonical().to_string())
}

fn go_spelling(text: &str) -> Option<String> {
    text.parse::<std::net::IpAddr>().ok().map(|ip| ip.to_string())
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Address(String),
    Freed(String),
    Nothing,
    Counts(usize, usize, usize),
    Error(&'static str),
    NoneLeft(Option<String>),
}

/// A literal reading of B: the answer, and the document that is written.
pub(super) struct Oracle<'a> {
    pub(super) policy: Policy,
    pub(super) config: &'a [String],
    pub(super) node: Option<&'a str>,
    pub(super) now: u8,
}

pub(super) enum State {
    Missing,
    Garbage,
    There(Plain),
}

impl Oracle<'_> {
    fn empty_pool(&self) -> Plain {
        Plain { null: false, records: BTreeMap::new(), available: self.config.to_vec(), version: 1, time: Some(self.now) }
    }

    fn load(&self, state: State) -> Result<Plain, &'static str> {
        match state {
            State::Garbage => Err("unreadable"),
            State::Missing => self.policy.missing_map_is_empty_pool.then(|| self.empty_pool()).ok_or("missing"),
            State::There(plain) => {
                if plain.null && !self.policy.null_map {
                    return Err("null map");
                }
                Ok(plain)
            }
        }
    }

    fn store(&self, mut plain: Plain) -> Option<Plain> {
        plain.version += 1;
        plain.time = Some(self.now);
        if self.policy.namespace_not_written {
            for record in plain.records.values_mut() {
                record.namespace = None;
            }
        }
        Some(plain)
    }

    fn configured(&self, text: &str) -> Option<&String> {
        let same = |other: &&String| **other == *text || (meaning(text).is_some() && meaning(other) == meaning(text));
        self.config.iter().find(same)
    }

    pub(super) fn allocate(
        &self,
        state: State,
        id: &str,
        pod: &str,
        namespace: &str,
        ready: Option<&str>,
        dead: &[String],
    ) -> (Outcome, Option<Plain>) {
        let mut plain = match self.load(state) {
            Ok(plain) => plain,
            Err(why) => return (Outcome::Error(why), None),
        };
        let textual = self.policy.textual_addresses;
        let spell = |text: &str| if textual { go_spelling(text) } else { meaning(text) };
        if let Some(record) = plain.records.get(id) {
            return (spell(&record.ip).map_or(Outcome::Error("no address"), Outcome::Address), None);
        }

        let mut good = Vec::new();
        for text in &plain.available {
            let mut fine = true;
            if !textual {
                let recorded = plain.records.values().any(|record| meaning(&record.ip) == meaning(text));
                fine &= meaning(text).is_some() && !recorded;
            }
            if !self.policy.foreign_address_returned {
                fine &= self.configured(text).is_some();
            }
            fine &= !dead.iter().any(|other| other == text || (meaning(other).is_some() && meaning(other) == meaning(text)));
            good.push(fine);
        }
        let n = good.len();
        let wanted = ready.and_then(|ready| (0..n).find(|i| good[*i] && meaning(&plain.available[*i]) == meaning(ready)));
        let hash = if n <= 1 || self.policy.select_first { 0 } else { select_index(n, id) };
        let Some(chosen) = wanted.or_else(|| (0..n).map(|step| (hash + step) % n).find(|i| good[*i])) else {
            let mut earlier: Vec<(u8, &String)> = Vec::new();
            for (other, record) in &plain.records {
                let skipped =
                    dead.iter().any(|dead| *dead == record.ip || (meaning(dead).is_some() && meaning(dead) == meaning(&record.ip)));
                let mine = Some(record.node.as_str()) == self.node && record.pod == pod && record.namespace.as_deref() == Some(namespace);
                if mine && !skipped {
                    earlier.push((record.time, other));
                }
            }
            earlier.sort();
            let predecessor = earlier.first().filter(|_| !self.policy.full_pool_restart).map(|(_, other)| (*other).clone());
            return (Outcome::NoneLeft(predecessor), None);
        };
        let Some(node) = self.node else { return (Outcome::Error("no node"), None) };
        if plain.null {
            return (Outcome::Error("panic"), None);
        }
        let text = plain.available.remove(chosen);
        if !textual {
            plain.available.retain(|other| meaning(other) != meaning(&text));
        }
        let ip = if textual { text.clone() } else { meaning(&text).unwrap() };
        let record = Record { ip, node: node.into(), pod: pod.into(), namespace: Some(namespace.into()), time: self.now };
        plain.records.insert(id.into(), record);
        (spell(&text).map_or(Outcome::Error("no address"), Outcome::Address), self.store(plain))
    }

    pub(super) fn release(&self, state: State, id: &str) -> (Outcome, Option<Plain>) {
        let mut plain = match self.load(state) {
            Ok(plain) => plain,
            Err(why) => return (Outcome::Error(why), None),
        };
        let Some(record) = plain.records.remove(id) else { return (Outcome::Nothing, None) };
        let same = |text: &String| *text == record.ip || (meaning(text).is_some() && meaning(text) == meaning(&record.ip));
        if self.policy.textual_addresses {
            if self.policy.foreign_address_returned || self.config.contains(&record.ip) {
                plain.available.push(record.ip.clone());
            }
        } else if !plain.available.iter().any(same) && !plain.records.values().any(|other| same(&other.ip)) {
            let foreign = meaning(&record.ip).filter(|_| self.policy.foreign_address_returned);
            plain.available.extend(self.configured(&record.ip).cloned().or(foreign));
        }
        (Outcome::Freed(record.ip), self.store(plain))
    }

    pub(super) fn recover(&self, state: State, owners: Option<&[(String, Record)]>) -> (Outcome, Option<Plain>) {
        let Some(node) = self.node else { return (Outcome::Error("no node"), None) };
        let before = if let State::There(plain) = &state { Some(plain.clone()) } else { None };
        let counts = |plain: &Plain| {
            let own = plain.records.values().filter(|record| record.node == node).count();
            Outcome::Counts(own, plain.records.len(), plain.available.len())
        };
        let mut plain = match (self.load(state), owners) {
            (Ok(plain), _) => plain,
            (Err("unreadable"), _) if self.policy.reset_after_read_error => {
                let fresh = self.empty_pool();
                return (counts(&fresh), Some(fresh));
            }
            (Err("missing" | "null map"), Some(owners)) => {
                let version = before.as_ref().map_or(1, |plain| plain.version);
                Plain { records: owners.iter().cloned().collect(), version, ..self.empty_pool() }
            }
            (Err(why), _) => return (Outcome::Error(why), None),
        };
        plain.available.clear();
        for text in self.config {
            let recorded = |record: &Record| {
                record.ip == *text || (!self.policy.textual_addresses && meaning(text).is_some() && meaning(&record.ip) == meaning(text))
            };
            if !plain.records.values().any(recorded) {
                plain.available.push(text.clone());
            }
        }
        let same = before
            .is_some_and(|before| before.available == plain.available && before.records == plain.records && before.null == plain.null);
        let outcome = counts(&plain);
        (outcome, if same && !self.policy.recover_decide_once { None } else { self.store(plain) })
    }
}
