//! Rules between objects, compared with plain sets and one by one.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use proptest::prelude::*;

use super::*;
use crate::names::FINALIZER;
use crate::{SpiderIPPool, SpiderReservedIP, SpiderSubnet};

fn pool(name: &str, ips: &[&str], exclude: &[&str]) -> Arc<SpiderIPPool> {
    let texts = |texts: &[&str]| Some(texts.iter().map(ToString::to_string).collect::<Vec<_>>()).filter(|texts| !texts.is_empty());
    let mut pool = SpiderIPPool::default();
    pool.metadata.name = Some(name.to_owned());
    pool.spec.subnet = "10.0.0.0/24".to_owned();
    (pool.spec.ip_version, pool.spec.ips, pool.spec.exclude_ips) = (Some(4), texts(ips), texts(exclude));
    Arc::new(pool)
}

fn judge<K: Admitted>(request: &Request<'_, K>, pools: &[Arc<SpiderIPPool>], policy: &Policy) -> Result<(), Denial> {
    let live = Listed { pools: pools.to_vec(), subnets: Vec::new() };
    review(request, &live, &AdmissionSettings::default(), policy).denial.map_or(Ok(()), Err)
}

fn fields(result: Result<(), Denial>) -> Vec<String> {
    result.err().map_or_else(Vec::new, |denial| denial.violations().iter().map(|violation| violation.field.to_string()).collect())
}

fn ranges() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec((0u8..40, 0u8..6).prop_map(|(first, more)| (first, first + more)), 0..5)
}

fn texts(ranges: &[(u8, u8)]) -> Vec<String> {
    ranges.iter().map(|(first, last)| format!("10.0.0.{first}-10.0.0.{last}")).collect()
}

fn plain(ips: &[(u8, u8)], exclude: &[(u8, u8)]) -> BTreeSet<IpAddr> {
    let all = |ranges: &[(u8, u8)]| ranges.iter().flat_map(|(first, last)| *first..=*last).collect::<BTreeSet<u8>>();
    (&all(ips) - &all(exclude)).into_iter().map(|last| IpAddr::from([10, 0, 0, last])).collect()
}

proptest! {
    /// Two pools are admitted together exactly if plain sets of their addresses share nothing.
    #[test]
    fn pools_are_apart_as_plain_sets_are(a in ranges(), not_a in ranges(), b in ranges(), not_b in ranges()) {
        let make = |name: &str, ips: &[(u8, u8)], exclude: &[(u8, u8)]| {
            let mut made = SpiderIPPool::clone(&pool(name, &[], &[]));
            (made.spec.ips, made.spec.exclude_ips) = (Some(texts(ips)), Some(texts(exclude)));
            Arc::new(made)
        };
        let (one, other) = (make("one", &a, &not_a), make("other", &b, &not_b));
        let apart = plain(&a, &not_a).is_disjoint(&plain(&b, &not_b));
        let answer = judge(&Request::Create(&one), &[Arc::clone(&other)], &Policy::hardened());
        prop_assert_eq!(answer.is_ok(), apart, "{:?}", answer);
        prop_assert_eq!(fields(answer), if apart { vec![] } else { vec!["spec.ips"] });
    }

    /// An update is refused exactly if it adds an address that the other pool has, whatever the two shared before.
    #[test]
    fn an_update_is_judged_by_what_it_adds(before in ranges(), after in ranges(), other in ranges()) {
        let make = |name: &str, ips: &[(u8, u8)]| {
            let mut made = SpiderIPPool::clone(&pool(name, &[], &[]));
            made.spec.ips = Some(texts(ips));
            Arc::new(made)
        };
        let (old, new, other_pool) = (make("one", &before), make("one", &after), make("other", &other));
        let added = &plain(&after, &[]) - &plain(&before, &[]);
        let answer = judge(&Request::Update { old: &old, new: &new }, &[Arc::clone(&old), other_pool], &Policy::hardened());
        prop_assert_eq!(answer.is_ok(), added.is_disjoint(&plain(&other, &[])), "{:?}", answer);
    }
}

#[test]
fn pools_that_overlap_can_be_taken_apart_only_if_updates_are_judged_by_what_they_change() {
    let (old, twin) = (pool("one", &["10.0.0.1-10.0.0.9"], &[]), pool("twin", &["10.0.0.5-10.0.0.12"], &[]));
    let smaller = pool("one", &["10.0.0.1-10.0.0.7"], &[]);
    let request = Request::Update { old: &old, new: &smaller };
    let pools = [Arc::clone(&old), twin];
    assert_eq!(judge(&request, &pools, &Policy::hardened()), Ok(()));
    let whole = Policy { update_judged_whole: true, ..Policy::hardened() };
    assert_eq!(fields(judge(&request, &pools, &whole)), ["spec.ips"]);
}

#[test]
fn a_terminating_object_is_let_go_by_everybody_who_holds_it() {
    let mut old = SpiderSubnet::default();
    old.spec.subnet = "10.0.0.0/24".to_owned();
    old.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    old.metadata.finalizers = Some(vec!["foregroundDeletion".to_owned(), FINALIZER.to_owned()]);
    let mut new = old.clone();
    new.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    let mut other = new.clone();
    other.spec.gateway = Some("10.0.0.1".to_owned());
    let (old, new, other) = (Arc::new(old), Arc::new(new), Arc::new(other));
    let upstream = Policy { terminating_update_refused: true, ..Policy::hardened() };
    for (new, policy, allowed) in
        [(&new, Policy::hardened(), true), (&new, upstream, false), (&other, Policy::hardened(), false), (&other, upstream, false)]
    {
        let answer = judge(&Request::Update { old: &old, new }, &[], &policy);
        assert_eq!(answer.is_ok(), allowed, "{answer:?}");
        assert_eq!(answer.err().map(|denial| denial.reason()), (!allowed).then_some(kube_machinery::Reason::Forbidden));
    }
}

#[test]
fn a_foreign_hold_on_a_reservation_can_end() {
    let mut old = SpiderReservedIP::default();
    (old.spec.ip_version, old.spec.ips) = (Some(4), Some(vec!["10.0.0.1".to_owned()]));
    old.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    old.metadata.finalizers = Some(vec!["mine".to_owned()]);
    let mut new = old.clone();
    new.metadata.finalizers = None;
    let (old, new) = (Arc::new(old), Arc::new(new));
    assert_eq!(judge(&Request::Update { old: &old, new: &new }, &[], &Policy::hardened()), Ok(()));
    assert!(judge(&Request::Update { old: &old, new: &new }, &[], &Policy::upstream()).is_err());
}

#[test]
fn a_shrinking_auto_pool_may_have_less_than_is_set_aside_and_never_more() {
    let mut subnet = SpiderSubnet::default();
    (subnet.metadata.name, subnet.metadata.uid) = (Some("s".to_owned()), Some("uid-s".to_owned()));
    (subnet.spec.ip_version, subnet.spec.ips) = (Some(4), Some(vec!["10.0.0.1-10.0.0.100".to_owned()]));
    subnet.spec.subnet = "10.0.0.0/24".to_owned();
    let rules = (AdmissionSettings::default(), Policy::hardened());
    let mut live = Listed::default();
    subnet.set_defaults(&Rules { live: &live, settings: &rules.0, policy: &rules.1 }).unwrap();
    let text = r#"{"auto":{"ips":["10.0.0.1-10.0.0.5"],"application":"apps_v1_Deployment_default_web"}}"#;
    subnet.status.get_or_insert_default().controlled_ippools = kube_machinery::JsonText::verbatim(text);
    live.subnets.push(Arc::new(subnet));
    let of = |ips: &str| {
        let mut pool = SpiderIPPool::clone(&pool("auto", &[ips], &[]));
        pool.metadata.labels = Some([(crate::names::LABEL_OWNER_APPLICATION_NAME.to_owned(), "web".to_owned())].into());
        let judged = |policy| review(&Request::Create(&Arc::new(pool.clone())), &live, &rules.0, &policy).denial;
        (judged(Policy::hardened()).is_none(), judged(Policy::upstream()).is_none())
    };
    assert_eq!(of("10.0.0.1-10.0.0.5"), (true, true));
    assert_eq!(of("10.0.0.1-10.0.0.4"), (true, false));
    assert_eq!(of("10.0.0.1-10.0.0.6"), (false, false));
}

#[test]
fn a_denial_is_told_as_kubernetes_tells_it() {
    let violations = vec![Violation::forbidden("spec.ips", "10.0.0.1 is in pool p already"), Violation::invalid("spec.gateway", "no")];
    let status = Denial::Invalid(violations).to_status::<SpiderIPPool>("new");
    assert_eq!((status.code, status.reason), (422, kube_machinery::Reason::Invalid));
    assert_eq!(
        status.message(),
        "SpiderIPPool.spiderpool.spidernet.io \"new\" is invalid: [spec.ips: 10.0.0.1 is in pool p already, spec.gateway: no]"
    );
    let causes: Vec<_> = status.details.causes.iter().map(|cause| &*cause.reason).collect();
    assert_eq!(causes, ["FieldValueForbidden", "FieldValueInvalid"]);
    let status = Denial::AlreadyExists.to_status::<SpiderIPPool>("new");
    assert_eq!(status.message(), "spiderippools.spiderpool.spidernet.io \"new\" already exists");
}

#[test]
fn an_audit_tells_all_that_a_webhook_would_tell_one_by_one() {
    let mut new = SpiderIPPool::clone(&pool("new", &["10.0.0.30", "10.0.0.5-10.0.0.1", "10.0.0.1-10.0.0.20", "10.9.0.1"], &["here"]));
    new.spec.gateway = Some("10.0.0.7".to_owned());
    let route = |dst: &str, gw: &str| crate::Route { dst: dst.to_owned(), gw: gw.to_owned() };
    new.spec.routes = Some(vec![route("0.0.0.0/0", "10.0.0.1"), route("172.16.0.0/12", "10.9.0.1")]);
    new.spec.pod_affinity = Some(Default::default());
    let live = Listed { pools: vec![pool("old", &["10.0.0.20-10.0.0.25"], &[])], subnets: Vec::new() };
    let (settings, policy) = (AdmissionSettings::default(), Policy::hardened());
    let rules = Rules { live: &live, settings: &settings, policy: &policy };
    assert_eq!(
        fields(new.audit(&rules)),
        ["spec.ips[1]", "spec.ips[3]", "spec.excludeIPs[0]", "spec.ips", "spec.routes[0].dst", "spec.routes[1].gw", "spec.podAffinity"]
    );
    let webhook = review(&Request::Create(&Arc::new(new.clone())), &live, &settings, &policy).denial.map_or(Ok(()), Err);
    assert_eq!(fields(webhook), ["spec.ips[1]", "spec.podAffinity"]);
    // Merged lists have another order; the error names the position where the user wrote it.
    new.spec.ips = Some(vec!["10.0.0.30".to_owned(), "10.0.0.1-10.0.0.9".to_owned()]);
    (new.spec.exclude_ips, new.spec.routes, new.spec.pod_affinity) = (None, None, None);
    assert_eq!(fields(new.audit(&rules)), ["spec.ips[1]"]);
    assert_eq!(fields(judge(&Request::Create(&Arc::new(new.clone())), &live.pools, &policy)), ["spec.ips[0]"]);
    new.metadata.name = Some("old".to_owned());
    assert_eq!(new.audit(&rules), Err(Denial::AlreadyExists));
}

/// The violations of upstream's rules for an update, as fields and faults.
fn told_upstream(old: &SpiderIPPool, new: &SpiderIPPool) -> Vec<(String, Fault)> {
    let (old, new) = (Arc::new(old.clone()), Arc::new(new.clone()));
    let denial = judge(&Request::Update { old: &old, new: &new }, std::slice::from_ref(&old), &Policy::upstream()).err();
    let violations = denial.iter().flat_map(Denial::violations);
    violations.map(|violation| (violation.field.to_string(), violation.fault)).collect()
}

/// A §1.6 hazard (a), A §9.1: the strict parser reads the ranges of every update.
#[test]
fn upstream_refuses_every_update_of_a_pool_with_a_reversed_range() {
    let reversed = pool("one", &["10.0.0.9-10.0.0.5"], &[]);
    assert_eq!(told_upstream(&reversed, &reversed), [("spec.ips".to_owned(), Fault::Internal)]);
    assert_eq!(judge(&Request::Create(&reversed), &[], &Policy::upstream()), Ok(()));
}

/// A §9.1: version, spec, affinity and records are judged in this order.
#[test]
fn upstream_tells_of_one_group_of_rules_of_an_update() {
    let old = pool("one", &["10.0.0.1-10.0.0.9"], &[]);
    let mut new = SpiderIPPool::clone(&pool("one", &["10.0.0.5-10.0.0.9"], &[]));
    let records = kube_machinery::JsonText::verbatim(r#"{"10.0.0.1":{"pod":"a/b","podUid":"u"}}"#);
    new.status.get_or_insert_default().allocated_ips = records;
    assert_eq!(told_upstream(&old, &new), [("spec.ips".to_owned(), Fault::Forbidden)]);
    new.spec.pod_affinity = Some(Default::default());
    assert_eq!(told_upstream(&old, &new), [("spec.podAffinity".to_owned(), Fault::Invalid)]);
    new.spec.gateway = Some("10.9.0.1".to_owned());
    assert_eq!(told_upstream(&old, &new), [("spec.gateway".to_owned(), Fault::Invalid)]);
}

/// The webhook parser accepts a reversed range, the strict one does not, and upstream ignores its error.
#[test]
fn upstream_compares_gateways_with_readable_ranges_only() {
    let mut new = SpiderIPPool::clone(&pool("one", &["10.0.0.9-10.0.0.5"], &["10.0.0.8-10.0.0.6"]));
    new.spec.gateway = Some("10.0.0.7".to_owned());
    assert_eq!(judge(&Request::Create(&Arc::new(new)), &[], &Policy::upstream()), Ok(()));
}

/// A §9.2: pools come before the ranges of the subnet, and are compared by the strict parser.
#[test]
fn upstream_compares_a_subnet_with_pools_before_it_reads_its_ranges() {
    let subnet = |ips: &str| {
        let mut subnet = SpiderSubnet::default();
        subnet.metadata.name = Some("s".to_owned());
        (subnet.spec.subnet, subnet.spec.ip_version, subnet.spec.ips) = ("10.0.0.0/24".to_owned(), Some(4), Some(vec![ips.to_owned()]));
        Arc::new(subnet)
    };
    let told = |ips: &str, pools: &[Arc<SpiderIPPool>]| {
        let denial = judge(&Request::Create(&subnet(ips)), pools, &Policy::upstream()).err();
        denial.map(|denial| (denial.violations()[0].field.to_string(), denial.violations()[0].fault))
    };
    let orphan = [pool("orphan", &["10.0.0.1-10.0.0.9"], &[])];
    assert_eq!(told("10.0.0.1-10.0.0.20", &orphan), None);
    assert_eq!(told("10.0.0.5-10.0.0.20", &orphan), Some(("spec.ips".to_owned(), Fault::Invalid)));
    assert_eq!(told("here", &orphan), Some(("spec.ips".to_owned(), Fault::Internal)));
    assert_eq!(told("here", &[]), Some(("spec.ips[0]".to_owned(), Fault::Invalid)));
}

/// A §9.1: as in Kubernetes' own controllers, a subnet is identified by group, kind and name, and the older reference to it is replaced.
#[test]
fn a_reference_to_an_earlier_subnet_of_the_name_is_replaced_and_another_controller_stays() {
    let mut subnet = SpiderSubnet::default();
    (subnet.metadata.name, subnet.metadata.uid) = (Some("s".to_owned()), Some("now".to_owned()));
    subnet.metadata.labels = Some([("ipam.spidernet.io/subnet-cidr".to_owned(), "10-0-0-0-24".to_owned())].into());
    let live = Listed { pools: Vec::new(), subnets: vec![Arc::new(subnet.clone())] };
    let settings = AdmissionSettings { enable_spider_subnet: true, ..AdmissionSettings::default() };
    let admitted = |earlier: OwnerReference| {
        let mut new = SpiderIPPool::clone(&pool("p", &["10.0.0.1-10.0.0.9"], &[]));
        new.metadata.owner_references = Some(vec![earlier]);
        review(&Request::Create(&Arc::new(new)), &live, &settings, &Policy::hardened()).defaulted.unwrap().metadata.clone()
    };
    let reference = crate::subnet::owner(&subnet);
    let label =
        |metadata: &ObjectMeta| metadata.labels.as_ref().and_then(|labels| labels.get("ipam.spidernet.io/owner-spider-subnet").cloned());

    let metadata = admitted(OwnerReference { uid: "before".to_owned(), ..reference.clone() });
    assert_eq!((label(&metadata).as_deref(), metadata.owner_references), (Some("s"), Some(vec![reference.clone()])));
    let other = OwnerReference { kind: "Node".to_owned(), uid: "before".to_owned(), ..reference };
    let metadata = admitted(other.clone());
    assert_eq!((label(&metadata), metadata.owner_references), (None, Some(vec![other])));
}

/// A §9.1 step 6: addresses that cannot be compared with the subnet are reported for the subnet.
#[test]
fn upstream_tells_of_the_subnet_that_a_pool_cannot_be_compared_with() {
    let mut new = SpiderIPPool::clone(&pool("one", &["10.0.0.1-10.0.0.9"], &[]));
    let (api_version, kind, name, uid) = ("v1".to_owned(), "SpiderSubnet".to_owned(), "gone".to_owned(), "u".to_owned());
    let owner = OwnerReference { api_version, kind, name, uid, controller: Some(true), ..Default::default() };
    new.metadata.owner_references = Some(vec![owner]);
    let denial = judge(&Request::Create(&Arc::new(new)), &[], &Policy::upstream()).unwrap_err();
    assert_eq!((&*denial.violations()[0].field, denial.violations()[0].fault), ("spec.subnet", Fault::Internal));
}
