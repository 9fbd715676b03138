//! Decisions against the golden cases of B, and against an oracle that transcribes B on plain data.

mod oracle;

use std::collections::BTreeMap;

use proptest::prelude::*;

use self::oracle::{Oracle, Outcome, Plain, Record, State, meaning, second};
use super::decide::*;
use super::*;
use kube_machinery::json_text::{InvalidText, TextForm};

fn outcome(answer: &Result<Answer, Refusal>) -> Outcome {
    match answer {
        Ok(Answer::Allocated(address)) => Outcome::Address(address.text().into()),
        Ok(Answer::Released(address)) => Outcome::Freed(address.text().into()),
        Ok(Answer::NotHeld) => Outcome::Nothing,
        Ok(Answer::Recovered(recovered)) => Outcome::Counts(recovered.own, recovered.in_use, recovered.available),
        Err(Refusal::Unreadable(_)) => Outcome::Error("unreadable"),
        Err(Refusal::Missing) => Outcome::Error("missing"),
        Err(Refusal::NullMap) => Outcome::Error("null map"),
        Err(Refusal::Panic) => Outcome::Error("panic"),
        Err(Refusal::NoAvailable { predecessor }) => Outcome::NoneLeft(predecessor.as_deref().map(str::to_owned)),
        Err(Refusal::InvalidAddress(_)) => Outcome::Error("no address"),
        Err(Refusal::NoNodeName) => Outcome::Error("no node"),
    }
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => (0u8..8).prop_map(|low| format!("10.0.0.{low}")),
        1 => (0u8..8).prop_map(|low| format!("::ffff:10.0.0.{low}")),
        1 => (0u8..3).prop_map(|low| format!("FD00:0::{low}")),
        1 => Just("fd00::1".to_owned()),
        1 => Just("vm".to_owned()),
    ]
}

fn id() -> impl Strategy<Value = String> {
    (0u8..6).prop_map(|id| format!("pod-{id}"))
}

fn record() -> impl Strategy<Value = Record> {
    (address(), "[ab]", "[pq]", prop::option::of("[mn]"), 0u8..3).prop_map(|(ip, node, pod, namespace, time)| Record {
        ip,
        node,
        pod,
        namespace,
        time,
    })
}

fn document() -> impl Strategy<Value = Plain> {
    let records = prop::collection::btree_map(id(), record(), 0..5);
    let parts = (prop::bool::weighted(0.1), records, prop::collection::vec(address(), 0..8), -1i64..5, prop::option::of(0u8..3));
    parts.prop_map(|(null, records, available, version, time)| Plain {
        null,
        records: if null { BTreeMap::new() } else { records },
        available,
        version,
        time,
    })
}

fn state() -> impl Strategy<Value = Option<Option<Plain>>> {
    prop_oneof![10 => document().prop_map(|plain| Some(Some(plain))), 1 => Just(Some(None)), 1 => Just(None)]
}

/// Every switch of the policy that the pure part uses, on and off.
fn policy() -> impl Strategy<Value = Policy> {
    let any_mix = prop::collection::vec(any::<bool>(), Policy::DEVIATIONS.len()).prop_map(|bits| {
        let mut policy = Policy::hardened();
        for (deviation, bit) in Policy::DEVIATIONS.iter().zip(bits) {
            *(deviation.switch)(&mut policy) = bit;
        }
        policy
    });
    prop_oneof![Just(Policy::hardened()), Just(Policy::upstream()), any_mix]
}

/// Configured addresses are canonical and distinct, as the parser makes them.
fn config() -> impl Strategy<Value = Vec<String>> {
    prop::sample::subsequence(vec!["10.0.0.5", "10.0.0.0", "fd00::1", "10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::2"], 0..7)
        .prop_map(|addresses| addresses.into_iter().map(str::to_owned).collect())
}

#[derive(Clone, Debug)]
enum Wish {
    Allocate { id: String, pod: String, namespace: String, ready: Option<String>, dead: Vec<String> },
    Release(String),
    Recover(Option<Vec<(String, Record)>>),
}

fn wish() -> impl Strategy<Value = Wish> {
    let ready = prop::option::of((0u8..8).prop_map(|low| format!("10.0.0.{low}")));
    let allocate = (id(), "[pq]", "[mn]", ready, prop::collection::vec(address(), 0..3));
    prop_oneof![
        allocate.prop_map(|(id, pod, namespace, ready, dead)| Wish::Allocate { id, pod, namespace, ready, dead }),
        id().prop_map(Wish::Release),
        prop::option::of(prop::collection::btree_map(id(), record(), 0..3).prop_map(|map| map.into_iter().collect()))
            .prop_map(Wish::Recover),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn agrees_with_a_transcription_of_the_reference(
        state in state(),
        wish in wish(),
        policy in policy(),
        config in config(),
        node in prop::option::weighted(0.9, "[ab]"),
        now in 0u8..4,
    ) {
        let typed = state.clone().flatten().map(|plain| plain.typed());
        let found = match (&state, &typed) {
            (None, _) => Found::Missing,
            (Some(None), _) => Found::Unreadable(InvalidText::new("garbage")),
            (_, typed) => Found::Document(typed.as_ref().unwrap()),
        };
        let plain_state = match state {
            None => State::Missing,
            Some(None) => State::Garbage,
            Some(Some(plain)) => State::There(plain),
        };
        let pool = PoolConfig::new(config.iter().map(|text| Address::new(text.as_str())));
        let node_name = node.as_deref().map(std::sync::Arc::from);
        let setting = Setting { config: &pool, policy: &policy, now: second(now), node: node_name.as_ref() };
        let oracle = Oracle { policy, config: &config, node: node.as_deref(), now };

        let ((expected, written), decision) = match &wish {
            Wish::Allocate { id, pod, namespace, ready, dead } => {
                let (skip, address) = (dead.iter().map(|text| AddressKey::of(text)).collect(), ready.as_deref().map(Address::new));
                let pod_name = PodName { name: pod.as_str().into(), namespace: namespace.as_str().into() };
                let shared = std::sync::Arc::from(id.as_str());
                let command = Command::Allocate { id: &shared, pod: &pod_name, ready: address.as_ref(), skip: &skip };
                (oracle.allocate(plain_state, id, pod, namespace, ready.as_deref(), dead), decide(found, command, setting))
            }
            Wish::Release(id) => (oracle.release(plain_state, id), decide(found, Command::Release { id }, setting)),
            Wish::Recover(owners) => {
                let typed: Option<Vec<_>> = owners.as_ref().map(|owners| owners.iter().map(|(id, record)| record.typed(id)).collect());
                let command = Command::Recover { owners: typed.as_deref() };
                (oracle.recover(plain_state, owners.as_deref()), decide(found, command, setting))
            }
        };
        prop_assert_eq!(outcome(&decision.answer), expected);
        let texts = (decision.write.map(|document| document.to_text()), written.map(|plain| plain.typed().to_text()));
        prop_assert_eq!(texts.0, texts.1);
    }

    #[test]
    fn recovery_leaves_the_configuration_without_what_is_recorded(plain in document(), config in config(), policy in policy()) {
        prop_assume!(!plain.null);
        let before = plain.typed();
        let pool = PoolConfig::new(config.iter().map(|text| Address::new(text.as_str())));
        let node = "a".into();
        let setting = Setting { config: &pool, policy: &policy, now: second(1), node: Some(&node) };
        let decision = decide(Found::Document(&before), Command::Recover { owners: None }, setting);
        let after = decision.write.unwrap_or(before);
        let recorded: Vec<_> = plain.records.values().map(|record| record.ip.clone()).collect();
        let free = |text: &&String| {
            let same = |ip: &String| ip == *text || (!policy.textual_addresses && meaning(ip) == meaning(text));
            !recorded.iter().any(same)
        };
        prop_assert!(after.available.iter().map(Address::text).eq(config.iter().filter(free)));
        // Records stay unchanged, except that upstream drops the namespace.
        let mut records = plain.typed().allocated;
        if policy.namespace_not_written && after.version != plain.version {
            records = records.without_namespaces();
        }
        prop_assert_eq!(after.allocated, records);
    }

    /// B I2 and I3: hardened decisions on a sound document make sound documents.
    #[test]
    fn an_address_stands_once_whatever_is_done(config in config(), wishes in prop::collection::vec(wish(), 1..20), policy in policy()) {
        let pool = PoolConfig::new(config.iter().map(|text| Address::new(text.as_str())));
        let node = "a".into();
        let setting = Setting { config: &pool, policy: &policy, now: second(1), node: Some(&node) };
        let mut document = setting.fresh();
        for wish in wishes {
            let found = Found::Document(&document);
            let decision = match wish {
                Wish::Allocate { id, pod, namespace, dead, .. } => {
                    let pod = PodName { name: pod.into(), namespace: namespace.into() };
                    let skip = dead.iter().map(|text| AddressKey::of(text)).collect();
                    decide(found, Command::Allocate { id: &id.into(), pod: &pod, ready: None, skip: &skip }, setting)
                }
                Wish::Release(id) => decide(found, Command::Release { id: &id }, setting),
                Wish::Recover(_) => decide(found, Command::Recover { owners: None }, setting),
            };
            if let Some(written) = decision.write {
                prop_assert_eq!(written.version, document.version + 1);
                document = written;
            }
            let mut all: Vec<&str> = document.available.iter().map(Address::text).collect();
            all.extend(document.allocated.iter().map(|(_, record)| record.ip.text()));
            let mut configured: Vec<&str> = config.iter().map(String::as_str).collect();
            all.sort_unstable();
            configured.sort_unstable();
            prop_assert_eq!(all, configured);
        }
    }
}

fn pool(addresses: &[&str]) -> PoolConfig {
    PoolConfig::new(addresses.iter().map(|text| Address::new(*text)))
}

/// The golden cases of recovery in B §4.3: records and available before, available after.
#[test]
fn the_golden_recoveries_hold_in_both_profiles() {
    type Texts = &'static [&'static str];
    let cases: [(Texts, Texts, Texts, Texts); 4] = [
        (&[".10", ".11", ".12"], &[".10", "10.0.0.1"], &[".11", "10.0.0.2", ".11"], &[".11", ".12"]),
        (&[".10", ".11"], &[".10", ".12"], &[".1", ".2", ".3", ".4", ".5"], &[".11"]),
        (&[".10", ".11", ".12", ".13"], &[".10"], &[".11"], &[".11", ".12", ".13"]),
        (&[".10", ".13", ".14"], &[".10"], &[".11", ".12"], &[".13", ".14"]),
    ];
    let full = |texts: &[&str]| -> Vec<String> {
        texts.iter().map(|text| if text.starts_with('.') { format!("192.168.3{text}") } else { (*text).to_owned() }).collect()
    };
    for (configured, recorded, available, expected) in cases {
        for policy in [Policy::hardened(), Policy::upstream()] {
            let config = PoolConfig::new(full(configured).into_iter().map(Address::new));
            let mut document = PoolDocument { version: 5, ..PoolDocument::default() };
            for (index, ip) in full(recorded).into_iter().enumerate() {
                let id: std::sync::Arc<str> = format!("id-{index}").into();
                document.allocated.insert(id.clone(), IpAllocation { allocation_id: id, ip: Address::new(ip), ..IpAllocation::default() });
            }
            document.available = full(available).into_iter().map(Address::new).collect();
            let node = "n".into();
            let setting = Setting { config: &config, policy: &policy, now: second(0), node: Some(&node) };
            let decision = decide(Found::Document(&document), Command::Recover { owners: None }, setting);
            let after = decision.write.expect("the list changes");
            assert_eq!(after.available.iter().map(Address::to_string).collect::<Vec<_>>(), full(expected));
            assert_eq!((after.allocated.len(), after.version), (recorded.len(), 6));
        }
    }
}

#[test]
fn the_sequence_of_the_reference_is_allocated_in_both_profiles() {
    let config = pool(&["192.168.3.10", "192.168.3.11", "192.168.3.12", "192.168.3.13", "192.168.3.14", "192.168.3.15"]);
    for policy in [Policy::hardened(), Policy::upstream()] {
        let node = "n".into();
        let setting = Setting { config: &config, policy: &policy, now: second(0), node: Some(&node) };
        let mut document = setting.fresh();
        let pod = PodName { name: "p".into(), namespace: "ns".into() };
        let skip = Default::default();
        let mut got = Vec::new();
        for pod_number in 1..=5 {
            let id = format!("pod-{pod_number}").into();
            let command = Command::Allocate { id: &id, pod: &pod, ready: None, skip: &skip };
            let decision = decide(Found::Document(&document), command, setting);
            let Ok(Answer::Allocated(address)) = decision.answer else { panic!("{:?}", decision.answer) };
            got.push(address.to_string());
            document = decision.write.unwrap();
            // Repeating it changes nothing (B I7).
            let again = decide(Found::Document(&document), command, setting);
            assert!(again.write.is_none() && matches!(again.answer, Ok(Answer::Allocated(same)) if same.text() == got.last().unwrap()));
        }
        assert_eq!(got, ["192.168.3.13", "192.168.3.12", "192.168.3.11", "192.168.3.15", "192.168.3.10"]);
        assert_eq!(document.version, 6);
    }
}

#[test]
fn with_a_full_pool_the_oldest_allocation_of_the_same_pod_on_the_same_node_is_named() {
    let record = |pod: &str, node: &str, namespace: Option<&str>, time: u8| Record {
        ip: "10.0.0.9".into(),
        node: node.into(),
        pod: pod.into(),
        namespace: namespace.map(str::to_owned),
        time,
    };
    let records = [
        ("other-node", record("p", "b", Some("m"), 0)),
        ("other-pod", record("q", "a", Some("m"), 0)),
        ("other-namespace", record("p", "a", Some("n"), 0)),
        ("unknown-namespace", record("p", "a", None, 0)),
        ("younger", record("p", "a", Some("m"), 2)),
        ("older", record("p", "a", Some("m"), 1)),
    ];
    let records = records.into_iter().map(|(id, record)| (id.to_owned(), record)).collect();
    let document = Plain { null: false, records, available: Vec::new(), version: 1, time: None }.typed();
    let (config, node, pod) = (pool(&["10.0.0.9"]), "a".into(), PodName { name: "p".into(), namespace: "m".into() });
    for (policy, expected) in [(Policy::hardened(), Some("older")), (Policy::upstream(), None)] {
        let setting = Setting { config: &config, policy: &policy, now: second(0), node: Some(&node) };
        let command = Command::Allocate { id: &"new".into(), pod: &pod, ready: None, skip: &Default::default() };
        let answer = decide(Found::Document(&document), command, setting).answer;
        let Err(Refusal::NoAvailable { predecessor }) = answer else { panic!("{answer:?}") };
        assert_eq!(predecessor.as_deref(), expected);
    }
}
