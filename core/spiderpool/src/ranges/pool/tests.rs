use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::PoolIPAllocation;

fn pool(ips: &[&str], exclude: &[&str], reserved: &[&str], policy: Policy) -> Result<PoolAddresses, RangeError> {
    let reserved: IpSet = parse_ranges(reserved, 4, &policy)?.into_iter().collect();
    PoolAddresses::new(ips, exclude, &reserved, 4, &policy)
}

fn records(keys: &[&str]) -> PoolIPAllocations {
    keys.iter().map(|key| (*key, PoolIPAllocation::default())).collect()
}

fn first_free(pool: &PoolAddresses, keys: &[&str]) -> Option<String> {
    pool.first_free(&records(keys)).unwrap().map(|ip| ip.to_string())
}

/// Addresses 10.0.0.0 to 10.0.0.23, as a text of one or a range.
fn texts(most: usize) -> impl Strategy<Value = Vec<String>> {
    let ip = |low: u32| Ipv4Addr::from_bits(0x0a00_0000 + low);
    let text =
        move |(first, more): (u32, u32)| if more == 0 { ip(first).to_string() } else { format!("{}-{}", ip(first), ip(first + more)) };
    prop::collection::vec((0u32..20, 0u32..4).prop_map(text), 0..most)
}

/// The addresses of the texts, in their order.
fn plain(texts: &[String]) -> Vec<Ipv4Addr> {
    let range = |text: &String| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let bits = |ip: &str| ip.parse::<Ipv4Addr>().unwrap().to_bits();
        (bits(first)..=bits(last)).map(Ipv4Addr::from_bits)
    };
    texts.iter().flat_map(range).collect()
}

proptest! {
    #[test]
    fn the_choice_is_the_first_address_that_nothing_forbids(
        ips in texts(5), exclude in texts(3), reserved in texts(3), recorded in texts(5), dotted in texts(2),
    ) {
        // Some keys spell their address as an IPv4-mapped one.
        let mapped = |ip: &Ipv4Addr| ip.to_ipv6_mapped().to_string();
        let keys: Vec<String> = plain(&recorded).iter().map(ToString::to_string).chain(plain(&dotted).iter().map(mapped)).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let list = |texts: &[String]| plain(texts).into_iter().collect::<BTreeSet<_>>();
        let (out, kept, taken) = (list(&exclude), list(&reserved), &list(&recorded) | &list(&dotted));
        let forbidden = &(&out | &kept) | &taken;

        for policy in [Policy::hardened(), Policy::upstream()] {
            let refs = |texts: &[String]| texts.iter().map(String::as_str).map(str::to_owned).collect::<Vec<_>>();
            let reserved: IpSet = parse_ranges(&reserved, 4, &policy).unwrap().into_iter().collect();
            let pool = PoolAddresses::new(&refs(&ips), &refs(&exclude), &reserved, 4, &policy).unwrap();
            let mut order = plain(&ips);
            if !policy.upstream_ranges {
                order.sort();
            }
            let expected = order.iter().find(|ip| !forbidden.contains(ip)).map(ToString::to_string);
            prop_assert_eq!(first_free(&pool, &keys), expected.clone());

            let all = |set: &BTreeSet<Ipv4Addr>| order.iter().all(|ip| set.contains(ip));
            let shortage = match expected {
                Some(_) => None,
                None if order.is_empty() => Some(Shortage::Empty),
                None if all(&out) => Some(Shortage::Excluded),
                None if all(&(&out | &kept)) => Some(Shortage::Reserved),
                None => Some(Shortage::Exhausted),
            };
            prop_assert_eq!(pool.shortage(&records(&keys)).unwrap(), shortage);
            for ip in &order {
                prop_assert_eq!(pool.is_usable((*ip).into()), !out.contains(ip) && !kept.contains(ip));
            }
        }
    }
}

/// The number of look-ups among the records for the choice in a pool of `size` addresses with only its last one left, and the address that
/// was found.
fn look_ups(size: u32) -> (usize, Option<IpAddr>) {
    let ip = |low: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + low));
    let pool = pool(&[&format!("{}-{}", ip(0), ip(size - 1))], &[], &[], Policy::hardened()).unwrap();
    let records: PoolIPAllocations = (0..size - 1).map(|low| (ip(low), PoolIPAllocation::default())).collect();
    let asked = Cell::new(0);
    let found = pool.lowest(|ip| {
        asked.set(asked.get() + 1);
        records.first_free_from(ip)
    });
    assert_eq!(pool.first_free(&records).unwrap(), found);
    (asked.get(), found)
}

#[test]
fn a_choice_costs_one_look_up_however_large_the_pool_is() {
    assert_eq!(look_ups(256), (1, Some("10.0.0.255".parse().unwrap())));
    assert_eq!(look_ups(65_536), (1, Some("10.0.255.255".parse().unwrap())));
}

#[test]
fn all_of_a_family_is_a_pool() {
    let all =
        PoolAddresses::new(&["::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], &["::-::ffff"], &IpSet::default(), 6, &Policy::hardened());
    let (all, records) = (all.unwrap(), records(&["::1:0", "::1:2", "::0001:1"]));
    assert_eq!(all.first_free(&records).unwrap(), Some("::1:3".parse().unwrap()));
}

#[test]
fn a_bad_entry_holds_nothing_and_the_rest_of_the_pool_serves() {
    let bad = ["10.0.0.9-10.0.0.1", "nonsense", "10.0.0.5-10.0.0.6-10.0.0.7", "10.0.0.3"];
    let readable = pool(&bad, &[], &[], Policy::hardened()).unwrap();
    assert_eq!(readable.usable().iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.3"]);
    let spec = IPPoolSpec {
        ip_version: Some(4),
        ips: Some(bad.map(str::to_owned).to_vec()),
        exclude_ips: Some(vec!["10.0.0.1".to_owned(), "fd00::1".to_owned()]),
        ..IPPoolSpec::default()
    };
    let found = bad_entries(&spec, &Policy::hardened());
    let fields: Vec<&str> = found.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["spec.ips[0]", "spec.ips[1]", "spec.ips[2]", "spec.excludeIPs[1]"]);
    assert_eq!(found[0].1, RangeError::Reversed(bad[0].to_owned()));
    let skipped = pool(&bad, &[], &[], Policy::upstream()).unwrap();
    assert_eq!(skipped.usable().iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.5", "10.0.0.3"]);
    for policy in [Policy::hardened(), Policy::upstream()] {
        assert!(pool(&["10.0.0.1"], &bad, &[], policy).is_err(), "exclusions are read strictly");
        assert_eq!(PoolAddresses::of(&IPPoolSpec::default(), &IpSet::default(), &policy).unwrap_err(), RangeError::NoVersion);
    }
}

#[test]
fn keys_of_records_that_are_no_addresses_stop_upstream_only() {
    let addresses = |policy| pool(&["10.0.0.1-10.0.0.9"], &[], &[], policy).unwrap();
    for key in ["not-an-ip", "10.0.0.300", "fd00::1"] {
        assert_eq!(first_free(&addresses(Policy::hardened()), &[key, "10.0.0.1"]).as_deref(), Some("10.0.0.2"));
        assert!(addresses(Policy::upstream()).first_free(&records(&[key])).is_err(), "{key}");
    }
    // A range as a key counts as all its addresses.
    for policy in [Policy::hardened(), Policy::upstream()] {
        assert_eq!(first_free(&addresses(policy), &["10.0.0.1-10.0.0.3", "10.0.0.4"]).as_deref(), Some("10.0.0.5"));
    }
}

proptest! {
    /// The memory of one version of the records changes no answer for another one, earlier or later.
    #[test]
    fn what_is_remembered_changes_no_choice(edits in prop::collection::vec((0u32..72, any::<bool>(), any::<bool>()), 1..200)) {
        let ip = |low: u32| Ipv4Addr::from_bits(0x0a00_0000 + low);
        // 18 stretches of two, in another order for upstream.
        let ips: Vec<String> = (0..18).map(|at| 4 * (at * 5 % 18)).map(|low| format!("{}-{}", ip(low), ip(low + 1))).collect();
        for policy in [Policy::hardened(), Policy::upstream()] {
            let pool = PoolAddresses::new(&ips, &[], &IpSet::default(), 4, &policy).unwrap();
            prop_assert!(pool.usable().len() >= MARKED);
            let mut order = plain(&ips);
            if !policy.upstream_ranges {
                order.sort();
            }
            let (mut records, mut earlier) = (PoolIPAllocations::default(), PoolIPAllocations::default());
            for (low, is_there, keep) in &edits {
                let lowest_free = pool.first_free(&records).unwrap();
                match (is_there, lowest_free) {
                    // Mostly in the way that pools fill up: from the lowest address on.
                    (true, Some(ip)) => drop(records.insert(ip, PoolIPAllocation::default())),
                    _ => drop(records.remove(IpAddr::from(ip(*low)))),
                }
                for records in [&records, &earlier] {
                    let free = order.iter().find(|ip| records.get(IpAddr::from(**ip)).is_none());
                    prop_assert_eq!(pool.first_free(records).unwrap(), free.copied().map(IpAddr::from));
                }
                if *keep {
                    earlier = records.clone();
                }
            }
        }
    }
}
