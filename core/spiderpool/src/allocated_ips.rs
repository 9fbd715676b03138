//! The allocation records of a pool.

use std::fmt;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

use super::null_is_default;
use super::text_map::{Edit, TextMap, read_entries};
use kube_machinery::json_text::{InvalidText, TextForm};

/// The holder of an address: a value in `status.allocatedIPs` (A §1.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PoolIPAllocation {
    /// The NIC. Upstream has dropped this field and ignores it; the hardened form writes it, so that two NICs of a pod
    /// that draw from one pool get two addresses (A W14).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// `namespace/name` of the pod; the name of the VMI for a KubeVirt VM with static addresses.
    #[serde(deserialize_with = "null_is_default")]
    pub pod: String,
    /// The UID of the pod.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_uid: String,
}

/// A key of `status.allocatedIPs`.
///
/// Upstream keeps the keys as text, and only some steps parse them. A hand-edited key that is no address, or is not in canonical form,
/// therefore does not break the others and does not count as an address here: it is kept unchanged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    /// An address, written the canonical way (as Go writes it; an IPv4-mapped address is its IPv4 address).
    Address(IpAddr),
    /// Any other text, kept unchanged; it may still spell an address or a range.
    Other(Arc<str>),
}

impl RecordKey {
    /// The address, if this is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(ip) => Some(*ip),
            Self::Other(_) => None,
        }
    }
}

impl From<IpAddr> for RecordKey {
    fn from(ip: IpAddr) -> Self {
        Self::Address(ip.to_canonical())
    }
}

impl From<&str> for RecordKey {
    fn from(text: &str) -> Self {
        let key = text.parse::<IpAddr>().map(Self::from);
        key.ok().filter(|key| key.to_string() == text).unwrap_or_else(|| Self::Other(text.into()))
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V4(ip)) if f.width().is_none() && f.precision().is_none() => write_plainly(*ip, f),
            Self::Address(ip) => ip.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// Writes an address as its own `Display` does, but without four passes through the formatter: every change of a record needs its key as
/// text.
fn write_plainly(ip: Ipv4Addr, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (mut text, mut len) = ([b'.'; 15], 0);
    for octet in ip.octets() {
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let skipped = if octet < 10 { 2 } else { usize::from(octet < 100) };
        for digit in &digits[skipped..] {
            text[len] = b'0' + digit;
            len += 1;
        }
        len += 1;
    }
    f.write_str(std::str::from_utf8(&text[..len - 1]).map_err(|_| fmt::Error)?)
}

/// The records of `status.allocatedIPs`, stored so that the cost of one allocation does not grow with the pool.
///
/// Besides the records ([`TextMap`]) it keeps the runs of consecutive addresses that are taken and an index of the records by pod UID; all
/// three are persistent. `clone` and `text_len` are constant; `get`, `insert`, `remove`, [`first_free_from`](Self::first_free_from) and
/// [`of_pod_uid`](Self::of_pod_uid) are O(log n).
#[derive(Clone, Debug, Default)]
pub struct PoolIPAllocations {
    records: TextMap<RecordKey, PoolIPAllocation>,
    /// First and last address of each maximal run of recorded addresses.
    runs: OrdMap<IpAddr, IpAddr>,
    /// The keys of the records of each pod UID, by its hash.
    owners: OrdMap<u64, Keys>,
}

/// The keys of records, at least one.
#[derive(Clone, Debug, PartialEq)]
enum Keys {
    /// The usual case, which needs no memory of its own.
    One(RecordKey),
    /// Several, as in a dump in which many records name no UID.
    More(OrdSet<RecordKey>),
}

impl Keys {
    /// The keys in order.
    fn iter(&self) -> impl Iterator<Item = &RecordKey> {
        let (one, more) = match self {
            Self::One(key) => (Some(key), None),
            Self::More(keys) => (None, Some(keys)),
        };
        one.into_iter().chain(more.into_iter().flatten())
    }

    /// The same keys and another one.
    fn with(self, key: RecordKey) -> Self {
        let mut keys = match self {
            Self::One(only) => OrdSet::unit(only),
            Self::More(keys) => keys,
        };
        keys.insert(key);
        Self::More(keys)
    }

    /// The keys but one; `None` = no key is left.
    fn without(self, key: &RecordKey) -> Option<Self> {
        let mut keys = match self {
            Self::One(only) => return (only != *key).then_some(Self::One(only)),
            Self::More(keys) => keys,
        };
        keys.remove(key);
        if keys.len() == 1 { keys.remove_min().map(Self::One) } else { Some(Self::More(keys)) }
    }
}

impl PoolIPAllocations {
    /// The record of an address.
    pub fn get(&self, key: impl Into<RecordKey>) -> Option<&PoolIPAllocation> {
        self.records.get(&key.into())
    }

    /// The records in the order of addresses, IPv4 first, other keys last. (In the text they are in byte order.)
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&RecordKey, &PoolIPAllocation)> {
        self.records.iter()
    }

    /// The differences in `later`, in the order of [`iter`](Self::iter). For two versions of one pool the cost is that of the edits between
    /// them.
    pub fn diff<'a>(&'a self, later: &'a Self) -> impl Iterator<Item = Edit<'a, RecordKey, PoolIPAllocation>> {
        self.records.diff(&later.records)
    }

    /// The records whose key is no canonical address, in reverse order; there are none unless somebody edited them by hand.
    pub fn others(&self) -> impl Iterator<Item = (&RecordKey, &PoolIPAllocation)> {
        self.iter().rev().take_while(|(key, _)| key.address().is_none())
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is no record. The field is then absent.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The records with this pod UID, in the order of [`iter`](Self::iter).
    pub fn of_pod_uid(&self, uid: &str) -> impl Iterator<Item = (&RecordKey, &PoolIPAllocation)> {
        // A look-up costs less than the start of an iteration, and most pools that are asked hold nothing for the pod.
        let same_hash = self.owners.get(&hash_of(uid)).into_iter().flat_map(Keys::iter);
        same_hash.filter_map(move |key| self.records.get(key).filter(|record| record.pod_uid == uid).map(|record| (key, record)))
    }

    /// A hash of a pod UID; two UIDs may share one.
    pub(crate) fn owner_hash(uid: &str) -> u64 {
        hash_of(uid)
    }

    /// The [`owner_hash`](Self::owner_hash) of each record.
    pub(crate) fn owner_hashes(&self) -> impl Iterator<Item = u64> {
        self.owners.iter().flat_map(|(hash, keys)| keys.iter().map(|_| *hash))
    }

    /// The lowest address without a record, from `ip` on and of its family. [`others`](Self::others) do not count.
    pub fn first_free_from(&self, ip: IpAddr) -> Option<IpAddr> {
        let ip = ip.to_canonical();
        match self.run_of(ip) {
            Some((_, last)) => successor(last),
            None => Some(ip),
        }
    }

    /// Records an address and returns the previous record.
    pub fn insert(&mut self, key: impl Into<RecordKey>, record: PoolIPAllocation) -> Option<Arc<PoolIPAllocation>> {
        let key = key.into();
        let owner = hash_of(&record.pod_uid);
        let previous = self.records.insert(key.clone(), record);
        match (&previous, key.address()) {
            (Some(previous), _) => self.disown(hash_of(&previous.pod_uid), &key),
            (None, Some(ip)) => self.join_runs(ip),
            (None, None) => {}
        }
        let keys = match self.owners.get(&owner).cloned() {
            None => Keys::One(key),
            Some(keys) => keys.with(key),
        };
        self.owners.insert(owner, keys);
        previous
    }

    /// Removes the record of an address and returns it.
    pub fn remove(&mut self, key: impl Into<RecordKey>) -> Option<Arc<PoolIPAllocation>> {
        let key = key.into();
        let previous = self.records.remove(&key)?;
        if let Some(ip) = key.address() {
            self.split_run(ip);
        }
        self.disown(hash_of(&previous.pod_uid), &key);
        Some(previous)
    }

    /// Removes a key from those of an owner.
    fn disown(&mut self, owner: u64, key: &RecordKey) {
        let Some(keys) = self.owners.get(&owner).cloned() else { return };
        match keys.without(key) {
            Some(keys) => drop(self.owners.insert(owner, keys)),
            None => drop(self.owners.remove(&owner)),
        }
    }

    /// The run of recorded addresses that holds `ip`.
    fn run_of(&self, ip: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let (first, last) = self.runs.get_prev(&ip)?;
        (*last >= ip).then_some((*first, *last))
    }

    fn join_runs(&mut self, ip: IpAddr) {
        let first = predecessor(ip).and_then(|below| self.run_of(below)).map_or(ip, |(first, _)| first);
        let last = successor(ip).and_then(|above| self.runs.remove(&above)).unwrap_or(ip);
        self.runs.insert(first, last);
    }

    fn split_run(&mut self, ip: IpAddr) {
        let (first, last) = self.run_of(ip).expect("a recorded address is in a run");
        match predecessor(ip).filter(|_| first < ip) {
            Some(below) => self.runs.insert(first, below),
            None => self.runs.remove(&first),
        };
        if let Some(above) = successor(ip).filter(|_| ip < last) {
            self.runs.insert(above, last);
        }
    }
}

fn hash_of(uid: &str) -> u64 {
    FxBuildHasher.hash_one(uid)
}

fn successor(ip: IpAddr) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(ip) => ip.to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

fn predecessor(ip: IpAddr) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().checked_sub(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(ip) => ip.to_bits().checked_sub(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

/// Equality is that of the records; the rest is derived from them.
impl PartialEq for PoolIPAllocations {
    fn eq(&self, other: &Self) -> bool {
        self.records == other.records
    }
}

impl Eq for PoolIPAllocations {}

impl<K: Into<RecordKey>> FromIterator<(K, PoolIPAllocation)> for PoolIPAllocations {
    fn from_iter<I: IntoIterator<Item = (K, PoolIPAllocation)>>(records: I) -> Self {
        let mut map = Self::default();
        for (key, record) in records {
            map.insert(key, record);
        }
        map
    }
}

impl TextForm for PoolIPAllocations {
    fn to_text(&self) -> String {
        self.records.to_text()
    }

    fn from_text(text: &str) -> Result<Self, InvalidText> {
        Ok(read_entries(text)?.map(|(key, record)| (RecordKey::from(&*key), record)).collect())
    }

    fn text_len(&self) -> usize {
        self.records.text_len()
    }

    fn escaped_len(&self) -> usize {
        self.records.escaped_len()
    }

    fn content_hash(&self) -> u64 {
        self.records.content_hash()
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use kube_machinery::json_text::escaped_len;

    use super::*;

    /// Addresses near the ends of their families, so that runs join, split and reach the ends; and texts.
    fn keys() -> impl Strategy<Value = RecordKey> {
        let address = |ip| RecordKey::from(ip);
        prop_oneof![
            (0u32..12).prop_map(|low| IpAddr::from(Ipv4Addr::from_bits(low))).prop_map(address),
            (0u32..12).prop_map(|low| IpAddr::from(Ipv4Addr::from_bits(u32::MAX - low))).prop_map(address),
            (0u128..12).prop_map(|low| IpAddr::from(Ipv6Addr::from_bits(u128::MAX - low))).prop_map(address),
            "[0-3.\"]{0,3}".prop_map(|text| RecordKey::from(&*text)),
        ]
    }

    fn records() -> impl Strategy<Value = PoolIPAllocation> {
        (prop::option::of("[a-z\"\\\\\n]{0,3}"), "[a-zä/]{0,4}", "[ab]").prop_map(|(interface, pod, pod_uid)| PoolIPAllocation {
            interface,
            pod,
            pod_uid,
        })
    }

    proptest! {
        #[test]
        fn an_address_is_written_as_the_standard_library_writes_it(
            bits: u32,
            octets in prop::array::uniform4(prop::sample::select(vec![0, 9, 10, 99, 100, 255])),
        ) {
            for ip in [Ipv4Addr::from_bits(bits), Ipv4Addr::from(octets)] {
                prop_assert_eq!(RecordKey::from(IpAddr::from(ip)).to_string(), ip.to_string());
                prop_assert_eq!(format!("{:>20}", RecordKey::from(IpAddr::from(ip))), format!("{ip:>20}"));
            }
        }

        #[test]
        fn agrees_with_a_plain_map(edits in prop::collection::vec((keys(), prop::option::of(records())), 0..60)) {
            let mut map = PoolIPAllocations::default();
            let mut model = BTreeMap::new();
            for (key, record) in edits {
                let (previous, expected) = match record {
                    Some(record) => (map.insert(key.clone(), record.clone()), model.insert(key, record)),
                    None => (map.remove(key.clone()), model.remove(&key)),
                };
                prop_assert_eq!(previous.as_deref(), expected.as_ref());
                prop_assert_eq!(map.text_len(), map.to_text().len());
                prop_assert_eq!(map.escaped_len(), escaped_len(map.to_text().as_bytes()));
            }

            let by_text: BTreeMap<String, _> = model.iter().map(|(key, record)| (key.to_string(), record)).collect();
            prop_assert_eq!(map.to_text(), serde_json::to_string(&by_text).unwrap());
            prop_assert_eq!(&PoolIPAllocations::from_text(&map.to_text()).unwrap(), &map);
            prop_assert_eq!(PoolIPAllocations::from_text(&map.to_text()).unwrap().content_hash(), map.content_hash());
            prop_assert!(map.iter().eq(&model));

            // Rebuilding gives the same derived parts, and they answer as a scan does.
            let rebuilt: PoolIPAllocations = model.clone().into_iter().collect();
            prop_assert_eq!((&map.runs, &map.owners), (&rebuilt.runs, &rebuilt.owners));
            prop_assert!(map.others().eq(model.iter().rev().filter(|(key, _)| key.address().is_none())));
            for uid in ["a", "b", "c"] {
                prop_assert!(map.of_pod_uid(uid).eq(model.iter().filter(|(_, record)| record.pod_uid == uid)));
            }
            for from in ["0.0.0.0", "0.0.0.3", "255.255.255.250", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0"] {
                let from = from.parse().unwrap();
                let scan = std::iter::successors(Some(from), |ip| successor(*ip)).find(|ip| !model.contains_key(&(*ip).into()));
                prop_assert_eq!(map.first_free_from(from), scan);
            }
        }
    }

    proptest! {
        #[test]
        fn a_difference_is_what_plain_maps_differ_in(
            edits in prop::collection::vec((keys(), prop::option::of(records())), 0..40),
            at in 0usize..40,
        ) {
            let (mut earlier, mut map, mut model) = (PoolIPAllocations::default(), PoolIPAllocations::default(), BTreeMap::new());
            let mut before = BTreeMap::new();
            for (index, (key, record)) in edits.into_iter().enumerate() {
                if index == at {
                    (earlier, before) = (map.clone(), model.clone());
                }
                match record {
                    Some(record) => (map.insert(key.clone(), record.clone()).is_some(), model.insert(key, record).is_some()),
                    None => (map.remove(key.clone()).is_some(), model.remove(&key).is_some()),
                };
            }
            let keys: std::collections::BTreeSet<_> = before.keys().chain(model.keys()).collect();
            let expected: Vec<_> = keys.into_iter().filter(|key| before.get(key) != model.get(key)).collect();
            let found: Vec<_> = earlier.diff(&map).collect();
            prop_assert_eq!(found.iter().map(|edit| edit.key).collect::<Vec<_>>(), expected);
            for edit in found {
                prop_assert_eq!(edit.before.map(|record| &**record), before.get(edit.key));
                prop_assert_eq!(edit.after.map(|record| &**record), model.get(edit.key));
            }
        }
    }

    #[test]
    fn keys_are_written_in_byte_order() {
        let text = r#"{"10.1.0.10":{"pod":"default/web-1","podUid":"5f"},"10.1.0.2":{"pod":"default/web-0","podUid":"a1"}}"#;
        let map = PoolIPAllocations::from_text(text).unwrap();
        assert_eq!(map.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>(), ["10.1.0.2", "10.1.0.10"]);
        assert_eq!(map.to_text(), text);
    }

    #[test]
    fn only_canonical_addresses_are_addresses() {
        for text in ["10.0.0.1", "fd00::1a", "::"] {
            assert_eq!(RecordKey::from(text), RecordKey::Address(text.parse().unwrap()));
        }
        for text in ["10.0.0.01", "FD00::1a", "fd00:0::1a", "::ffff:10.0.0.1", "10.0.0.1-10.0.0.9", "10.0.0.300", ""] {
            assert_eq!(RecordKey::from(text), RecordKey::Other(text.into()));
        }
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(RecordKey::from(mapped), RecordKey::from("10.0.0.1"));
    }

    #[test]
    fn texts_are_read_as_go_reads_them() {
        let text = |text| PoolIPAllocations::from_text(text).map(|map| map.to_text());
        assert_eq!(text(" null ").unwrap(), "{}");
        assert_eq!(text(r#"{"::1":null}"#).unwrap(), r#"{"::1":{"pod":"","podUid":""}}"#);
        assert_eq!(text(r#"{"::1":{"pod":"a/b"},"::1":{"podUid":"u","x":1}}"#).unwrap(), r#"{"::1":{"pod":"","podUid":"u"}}"#);
        for broken in ["", "{", "[]", "5", r#"{"::1":5}"#, r#"{"::1":{"pod":5}}"#, "{} {}", "{'a':{}}"] {
            text(broken).unwrap_err();
        }
    }
}
