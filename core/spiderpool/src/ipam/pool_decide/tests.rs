//! Decisions on a pool, compared with a plain map.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use kube_machinery::json_text::JsonText;
use proptest::prelude::*;

use super::*;
use crate::IPPoolSpec;
use crate::ranges::IpSet;

const KEY: &str = "ns/a";
const EVERY: std::ops::RangeInclusive<u8> = 1..=SIZE;
const SIZE: u8 = 6;

fn ip(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

/// Address to key, UID and NIC.
type Plain = BTreeMap<u8, (String, String, Option<String>)>;

fn pool(records: &Plain) -> SpiderIPPool {
    let spec = IPPoolSpec {
        ip_version: Some(4),
        subnet: "10.0.0.0/24".to_owned(),
        ips: Some(vec![format!("10.0.0.1-10.0.0.{SIZE}")]),
        ..IPPoolSpec::default()
    };
    let record = |(pod, pod_uid, interface): &(String, String, Option<String>)| PoolIPAllocation {
        interface: interface.clone(),
        pod: pod.clone(),
        pod_uid: pod_uid.clone(),
    };
    let records: PoolIPAllocations = records.iter().map(|(last, of)| (ip(*last), record(of))).collect();
    let mut pool = SpiderIPPool::new("p", spec);
    pool.status = Some(IPPoolStatus { allocated_ip_count: count_of(&records), allocated_ips: records.into(), total_ip_count: Some(6) });
    pool
}

fn addresses(pool: &SpiderIPPool, avoided: &[IpAddr]) -> Result<Arc<PoolAddresses>, RangeError> {
    PoolAddresses::of(&pool.spec, &avoided.iter().copied().collect::<IpSet>(), &Policy::hardened()).map(Arc::new)
}

/// The records after a decision.
fn after(pool: &SpiderIPPool, write: Option<&IPPoolStatus>) -> Plain {
    let status = write.or(pool.status.as_ref()).unwrap();
    let records = status.allocated_ips.parse().unwrap();
    assert_eq!(status.allocated_ip_count, count_of(records));
    assert_eq!(status.total_ip_count, Some(6));
    let last = |ip: IpAddr| if let IpAddr::V4(ip) = ip { ip.octets()[3] } else { unreachable!("an IPv4 pool") };
    let plain = |record: &PoolIPAllocation| (record.pod.clone(), record.pod_uid.clone(), record.interface.clone());
    records.iter().map(|(key, record)| (last(key.address().unwrap()), plain(record))).collect()
}

#[test]
fn whether_a_nic_is_recorded_is_not_known_of_records_that_cannot_be_read() {
    let (key, policy) = (ObjectKey::namespaced("ns", "a"), Policy::hardened());
    let named = [ip(3)];
    let ask = |nic: &'static str, named| Ask {
        key: &key,
        uid: "u1",
        nic,
        max_records: 9,
        avoided: &[],
        refused: &[],
        sure: None,
        named,
        policy: &policy,
    };
    let of = |nic: Option<&str>| (KEY.to_owned(), "u1".to_owned(), nic.map(str::to_owned));
    let mut pool = pool(&[(3, of(Some("eth0")))].into());
    assert_eq!(ask("eth0", None).is_recorded_in(&pool), Some(true));
    assert_eq!(ask("eth0", Some(&named[..])).is_recorded_in(&pool), Some(false), "its endpoint names it");
    assert_eq!(ask("net1", None).is_recorded_in(&pool), Some(false));
    pool.status.as_mut().unwrap().allocated_ips = JsonText::verbatim("~{}".to_owned());
    assert_eq!(ask("eth0", None).is_recorded_in(&pool), None);
    pool.status = None;
    assert_eq!(ask("eth0", None).is_recorded_in(&pool), Some(false), "nobody has an address of a new pool");
}

fn records() -> impl Strategy<Value = Plain> {
    let of = (
        prop_oneof![Just("ns/a"), Just("ns/b")],
        prop_oneof![Just("u1"), Just("u2")],
        prop::option::of(prop_oneof![Just("eth0"), Just("net1")]),
    );
    let owned = of.prop_map(|(key, uid, nic)| (key.to_owned(), uid.to_owned(), nic.map(str::to_owned)));
    prop::collection::btree_map(1..=SIZE, owned, 0..=usize::from(SIZE))
}

proptest! {
    #[test]
    fn an_address_is_own_or_free(
        records in records(),
        avoided in prop::collection::vec(EVERY, 0..3),
        named in prop::option::of(prop::collection::vec(EVERY, 0..3)),
        max in 1u64..8,
        fences: bool,
    ) {
        let pool = pool(&records);
        let policy = Policy::hardened();
        let avoided: Vec<IpAddr> = avoided.into_iter().map(ip).collect();
        let sure = fences.then_some(&[][..]);
        let key = ObjectKey::namespaced("ns", "a");
        let named: Option<Vec<IpAddr>> = named.map(|named| named.into_iter().map(ip).collect());
        let ask = Ask {
            key: &key,
            uid: "u1",
            nic: "eth0",
            max_records: max,
            avoided: &avoided,
            refused: &[],
            sure,
            named: named.as_deref(),
            policy: &policy,
        };
        let is_own = |of: &(String, String, Option<String>)| of.1 == "u1" && of.2.as_deref().is_none_or(|nic| nic == "eth0");
        // An address that the endpoint names counts as another pod's.
        let is_named = |last: u8| named.as_ref().is_some_and(|named| named.contains(&ip(last)));
        let own: Vec<u8> = records.iter().filter(|(last, of)| is_own(of) && !is_named(**last)).map(|(last, _)| *last).collect();
        let mine: Vec<u8> = own.iter().copied().filter(|last| !fences && !avoided.contains(&ip(*last))).collect();
        match allocate(&pool, &ask, || addresses(&pool, &avoided)) {
            // Nothing is left but own records that have to be dropped.
            Ok(Decision { outcome: Given { address: None, recorded, dropped }, write }) => {
                prop_assert!(!recorded && mine.is_empty() && !own.is_empty());
                prop_assert_eq!(&dropped, &own.iter().copied().map(ip).collect::<Vec<_>>());
                let mut rest = records.clone();
                rest.retain(|last, _| !own.contains(last));
                prop_assert_eq!(after(&pool, write.as_ref()), rest);
                let free = (1..=SIZE).any(|last| !records.contains_key(&last) && !avoided.contains(&ip(last)));
                prop_assert!(!free || (records.len() - own.len()) as u64 >= max);
            }
            Ok(decision) => {
                let Some(IpAddr::V4(given)) = decision.outcome.address.map(|address| address.addr()) else { unreachable!("an IPv4 pool") };
                let given = given.octets()[3];
                let now = after(&pool, decision.write.as_ref());
                let own = (KEY.to_owned(), "u1".to_owned(), Some("eth0".to_owned()));
                prop_assert_eq!(now.get(&given), if decision.write.is_some() { Some(&own) } else { records.get(&given) });
                prop_assert_eq!(decision.outcome.recorded, mine.contains(&given));
                prop_assert!(!mine.is_empty() || !records.contains_key(&given));
                prop_assert!(decision.outcome.recorded || now.len() as u64 <= max);
                prop_assert!(!avoided.contains(&ip(given)));
                let gone: Vec<IpAddr> = records.keys().filter(|last| !now.contains_key(last)).map(|last| ip(*last)).collect();
                prop_assert_eq!(decision.outcome.dropped, gone.clone());
                let all_were_there = now.iter().all(|(last, of)| records.get(last).is_none_or(|was| was == of));
                prop_assert!(named.is_some() || (gone.is_empty() && all_were_there));
                // No other pod's record is changed, and no own one that works is lost.
                let stays = |last: u8, of| !is_own(of) || is_named(last) || (mine.contains(&last) && last != given);
                for (last, of) in records.iter().filter(|(last, of)| stays(**last, of)) {
                    prop_assert_eq!(now.get(last), Some(of));
                }
            }
            Err(PoolError::Unavailable(_)) => {
                prop_assert!(own.is_empty());
                let free = (1..=SIZE).any(|last| !records.contains_key(&last) && !avoided.contains(&ip(last)));
                prop_assert!(!free || records.len() as u64 >= max);
            }
            Err(PoolError::EndpointUnknown) => {
                let changes = |last: &u8| !mine.contains(last) || records[last].2.is_none();
                prop_assert!(named.is_none() && own.iter().any(changes));
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn only_the_records_of_the_uid_go(records in records(), what in prop::collection::vec(1..=SIZE, 0..4)) {
        let pool = pool(&records);
        let ips: Vec<IpAddr> = what.iter().copied().map(ip).collect();
        let decision = release(&pool, "u1", &ips).unwrap();
        let expected: Plain = records.clone().into_iter().filter(|(last, of)| !(what.contains(last) && of.1 == "u1")).collect();
        prop_assert_eq!(decision.outcome, records.len() - expected.len());
        prop_assert_eq!(decision.write.is_some(), expected != records);
        prop_assert_eq!(after(&pool, decision.write.as_ref()), expected);
    }

    #[test]
    fn an_heir_gets_what_is_free_or_of_its_name(records in records(), what in prop::collection::btree_set(1..=SIZE, 1..4)) {
        let pool = pool(&records);
        let policy = Policy::hardened();
        let new_owner = NewOwner { key: KEY, uid: "u3", gone: Some("u1"), beside: None, makes: true, max_records: 100, policy: &policy };
        let reused: Vec<ReusedIp> = what.iter().map(|last| ReusedIp { ip: ip(*last), nic: "eth0".to_owned() }).collect();
        let decision = reown(&pool, &new_owner, &reused, || addresses(&pool, &[])).unwrap();
        let now = after(&pool, decision.write.as_ref());
        for (last, fate) in what.iter().zip(&decision.outcome) {
            let expected = match records.get(last) {
                None => Fate::Made,
                Some((key, ..)) if key != KEY => Fate::OfAnotherPod,
                Some((_, uid, _)) if uid == "u1" => Fate::TakenOver,
                Some((_, uid, _)) => Fate::Of(uid.clone()),
            };
            prop_assert_eq!(fate, &expected);
            if expected.is_kept() {
                prop_assert_eq!(now.get(last), Some(&(KEY.to_owned(), "u3".to_owned(), Some("eth0".to_owned()))));
            }
        }
        for (last, of) in records.iter().filter(|(last, of)| !what.contains(last) || of.0 != KEY) {
            prop_assert_eq!(now.get(last), Some(of));
        }
    }
}

/// A pool with these records: address, key, UID and NIC.
fn pool_of(records: &[(u8, &str, &str, Option<&str>)]) -> SpiderIPPool {
    let plain =
        |(last, key, uid, nic): &(u8, &str, &str, Option<&str>)| (*last, ((*key).to_owned(), (*uid).to_owned(), nic.map(str::to_owned)));
    pool(&records.iter().map(plain).collect())
}

#[test]
fn a_record_that_names_the_nic_is_answered_rather_than_one_that_names_none() {
    let pool = pool_of(&[(1, KEY, "u1", None), (2, KEY, "u1", Some("eth0")), (3, KEY, "u1", Some("net1"))]);
    let (key, policy) = (ObjectKey::namespaced("ns", "a"), Policy::hardened());
    let ask =
        Ask { key: &key, uid: "u1", nic: "eth0", max_records: 9, avoided: &[], refused: &[], sure: None, named: None, policy: &policy };
    let decision = allocate(&pool, &ask, || addresses(&pool, &[])).unwrap();
    assert_eq!(decision.outcome.address.map(|address| address.addr()), Some(ip(2)));
    assert!(decision.write.is_none());
}

#[test]
fn an_heir_leaves_what_another_nic_of_his_has_and_what_the_pool_may_not_give() {
    let policy = Policy::hardened();
    let mut pool = pool_of(&[(1, KEY, "u3", Some("net1")), (2, KEY, "u1", Some("eth0"))]);
    pool.spec.exclude_ips = Some(vec!["10.0.0.4".to_owned()]);
    let reused_ip = |last| ReusedIp { ip: ip(last), nic: "eth0".to_owned() };
    let fates = |max_records, what: &[u8]| {
        let new_owner = NewOwner { key: KEY, uid: "u3", gone: Some("u1"), beside: None, makes: true, max_records, policy: &policy };
        let what: Vec<ReusedIp> = what.iter().copied().map(reused_ip).collect();
        let decision = reown(&pool, &new_owner, &what, || addresses(&pool, &[])).unwrap();
        (decision.outcome, after(&pool, decision.write.as_ref()).len())
    };
    assert_eq!(fates(9, &[1, 2, 3, 4]), (vec![Fate::OfAnotherNic, Fate::TakenOver, Fate::Made, Fate::Lost], 3));
    // The pool has its maximum number of records.
    assert_eq!(fates(2, &[2, 3]), (vec![Fate::TakenOver, Fate::Lost], 2));
}

#[test]
fn nothing_is_taken_over_beside_what_an_earlier_life_of_the_agent_recorded_for_the_nic() {
    let policy = Policy::hardened();
    let fates = |stray: (&str, &str), beside: Option<&[IpAddr]>| {
        let pool = pool_of(&[(1, KEY, "u1", Some("eth0")), (2, stray.0, "u3", Some(stray.1))]);
        let new_owner = NewOwner { key: KEY, uid: "u3", gone: Some("u1"), beside, makes: true, max_records: 9, policy: &policy };
        let what = [ReusedIp { ip: ip(1), nic: "eth0".to_owned() }];
        reown(&pool, &new_owner, &what, || addresses(&pool, &[])).map(|decision| decision.outcome)
    };
    assert_eq!(fates((KEY, "eth0"), Some(&[])), Err(PoolError::EndpointUnknown));
    for (stray, beside) in
        [((KEY, "net1"), Some(&[][..])), (("ns/b", "eth0"), Some(&[])), ((KEY, "eth0"), Some(&[ip(2)])), ((KEY, "eth0"), None)]
    {
        assert_eq!(fates(stray, beside), Ok(vec![Fate::TakenOver]), "{stray:?} {beside:?}");
    }
}

#[test]
fn a_missing_record_is_made_only_for_a_pod_that_was_alive_since() {
    let (policy, pool) = (Policy::hardened(), pool_of(&[]));
    for (makes, fate) in [(false, Fate::Missing), (true, Fate::Made)] {
        let new_owner = NewOwner { key: KEY, uid: "u3", gone: Some("u1"), beside: None, makes, max_records: 9, policy: &policy };
        let what = [ReusedIp { ip: ip(1), nic: "eth0".to_owned() }];
        let decision = reown(&pool, &new_owner, &what, || addresses(&pool, &[])).unwrap();
        assert_eq!((decision.outcome, decision.write.is_some()), (vec![fate], makes));
    }
}
