//! The list, selector or number that made a pool fail a rule. Core has judged the rule; this module only puts the result into words.

use std::collections::BTreeMap;
use std::fmt::Write;

use ipam_spiderpool::ranges::{IpVersion, PoolAddresses, total_ips};
use ipam_spiderpool::select::{Cluster, FIRST_NIC, Reason, Selection, TopController, is_auto_pool, network_of_nic, reserved};
use ipam_spiderpool::{SpiderIPPool, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube_machinery::label_selector::selects;

use super::Question;

/// The labels of an object.
type Labels = BTreeMap<String, String>;

/// A sentence that says why `pool` fails the rule that `reason` names.
pub(super) fn of(question: &Question, selection: &Selection, nic: &str, family: IpVersion, pool: &str, reason: Reason) -> String {
    match question.objects.pool(pool) {
        Some(pool) => of_known(question, selection, nic, family, &pool, reason),
        None => format!("no SpiderIPPool is called {pool}"),
    }
}

fn of_known(question: &Question, selection: &Selection, nic: &str, family: IpVersion, pool: &SpiderIPPool, reason: Reason) -> String {
    let (spec, objects) = (&pool.spec, &question.objects);
    let namespace = question.pod.metadata.namespace.as_deref().unwrap_or_default();
    match reason {
        Reason::Missing => reason.sentence().to_owned(),
        Reason::Terminating => match &pool.metadata.deletion_timestamp {
            Some(since) => format!("deletionTimestamp {}", since.0),
            None => reason.sentence().to_owned(),
        },
        Reason::Disabled => "spec.disable is true".to_owned(),
        Reason::IpVersion => match spec.ip_version {
            Some(version) => format!("spec.ipVersion is {version}, named for {family}"),
            None => "spec.ipVersion is not set".to_owned(),
        },
        Reason::NodeName => not_listed("nodeName", &spec.node_name, "the pod's node", &question.node),
        Reason::NodeAffinity => {
            let node = objects.node(&question.node);
            let labels = node.as_ref().map(|node| node.metadata.labels.clone().unwrap_or_default());
            not_selected("nodeAffinity", spec.node_affinity.as_ref(), &format!("node {}", question.node), labels.as_ref())
        }
        Reason::NamespaceName => not_listed("namespaceName", &spec.namespace_name, "the pod's namespace", namespace),
        Reason::NamespaceAffinity => {
            let found = objects.namespace(namespace);
            let labels = found.as_ref().map(|namespace| namespace.metadata.labels.clone().unwrap_or_default());
            not_selected("namespaceAffinity", spec.namespace_affinity.as_ref(), &format!("namespace {namespace}"), labels.as_ref())
        }
        Reason::PodAffinity if is_auto_pool(pool) => of_other_workload(question, pool),
        Reason::PodAffinity => {
            let labels = question.pod.metadata.labels.clone().unwrap_or_default();
            not_selected("podAffinity", spec.pod_affinity.as_ref(), "the pod", Some(&labels))
        }
        Reason::MultusNetwork => no_network(question, selection, nic),
        Reason::MultusName => {
            let network = network_of_nic(&question.pod, nic, selection.nameless, &question.settings).unwrap_or_default();
            not_listed("multusName", &spec.multus_name, &format!("the network of {nic}"), &network)
        }
        Reason::MasterSubnet if question.master.is_empty() => {
            "match_master_subnet is on, and no address of the physical function is known; --master ADDRESS gives one".to_owned()
        }
        Reason::MasterSubnet => {
            let master: Vec<String> = question.master.iter().map(ToString::to_string).collect();
            format!("subnet {} holds none of {}", spec.subnet, master.join(", "))
        }
        Reason::Excluded | Reason::Reserved | Reason::Exhausted => counts(question, family, pool),
    }
}

fn not_listed(field: &str, list: &Option<Vec<String>>, what: &str, value: &str) -> String {
    let value = if value.is_empty() { "not known" } else { value };
    format!("{field} is [{}], {what} is {value}", list.as_deref().unwrap_or_default().join(", "))
}

/// The first requirement of a selector that an object does not meet. `labels` is `None` if the object is not known.
fn not_selected(field: &str, selector: Option<&LabelSelector>, what: &str, labels: Option<&Labels>) -> String {
    let Some(selector) = selector else { return String::new() };
    if let Err(error) = selects(selector, labels) {
        return format!("{field} is invalid: {error}");
    }
    let Some(labels) = labels else { return format!("{field} needs labels, and {what} is not known") };
    for (key, value) in selector.match_labels.iter().flatten() {
        if labels.get(key) != Some(value) {
            return format!("{field} wants {key}={value}, {what} has {}", has(labels, key));
        }
    }
    for requirement in selector.match_expressions.iter().flatten() {
        let alone = LabelSelector { match_expressions: Some(vec![requirement.clone()]), match_labels: None };
        if selects(&alone, Some(labels)) == Ok(false) {
            return format!("{field} wants {}, {what} has {}", in_words(requirement), has(labels, &requirement.key));
        }
    }
    String::new()
}

fn in_words(LabelSelectorRequirement { key, operator, values }: &LabelSelectorRequirement) -> String {
    match operator.as_str() {
        "Exists" => format!("{key} to exist"),
        "DoesNotExist" => format!("{key} not to exist"),
        operator => format!("{key} {operator} ({})", values.as_deref().unwrap_or_default().join(", ")),
    }
}

fn has(labels: &Labels, key: &str) -> String {
    labels.get(key).map_or_else(|| format!("no label {key}"), |value| format!("{key}={value}"))
}

/// A sentence that names the workload of an auto pool and the workload of the pod.
fn of_other_workload(question: &Question, pool: &SpiderIPPool) -> String {
    let labels = pool.spec.pod_affinity.as_ref().and_then(|affinity| affinity.match_labels.as_ref());
    let label = |key| labels.and_then(|labels| labels.get(key)).map_or("", String::as_str);
    let mut text = format!(
        "made for {} {}/{} of {}/{}",
        label(names::AFFINITY_APP_KIND),
        label(names::AFFINITY_APP_NAMESPACE),
        label(names::AFFINITY_APP_NAME),
        label(names::AFFINITY_APP_API_GROUP),
        label(names::AFFINITY_APP_API_VERSION),
    );
    if let Ok(TopController { kind, namespace, name, api_version, .. }) = TopController::of(&question.objects, &question.pod) {
        // Writing to a string cannot fail.
        let _ = write!(text, ", the pod belongs to {kind} {namespace}/{name} of {api_version}");
    }
    text
}

fn no_network(question: &Question, selection: &Selection, nic: &str) -> String {
    let first = nic == FIRST_NIC || (selection.nameless && nic == "0");
    let key = if first { names::ANNOTATION_MULTUS_DEFAULT_NETWORK } else { names::ANNOTATION_MULTUS_NETWORKS };
    let text = question.pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
    match text.filter(|text| !text.is_empty()) {
        Some(text) => format!("the annotation {key} names no network for {nic}: {text}"),
        None if first => format!("neither the annotation {key} nor the setting MULTUS_CLUSTER_NETWORK names one"),
        None => format!("the pod has no annotation {key}"),
    }
}

/// The number of addresses of a pool, and what uses them up.
pub(super) fn counts(question: &Question, family: IpVersion, pool: &SpiderIPPool) -> String {
    let (policy, version) = (&question.policy, family.number());
    let records = pool.status.as_ref().and_then(|status| status.allocated_ips.parse().ok()).map_or(0, |records| records.len() as u64);
    if records >= question.settings.max_allocated_ips {
        return format!(
            "{records} records, and a pool may have {} (SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS)",
            question.settings.max_allocated_ips
        );
    }
    let readable = |texts: &Option<Vec<String>>| {
        let texts = texts.iter().flatten().filter(|text| total_ips(&[text], &[], version, policy).is_ok());
        texts.cloned().collect::<Vec<_>>()
    };
    let listed: u128 =
        total_ips(&readable(&pool.spec.ips), &[], version, policy).unwrap_or_default().iter().map(|range| range.count()).sum();
    let reserved = reserved(&question.objects, family, policy).unwrap_or_default();
    let Ok(addresses) = PoolAddresses::of(&pool.spec, &reserved, policy) else { return String::new() };
    let included: u128 = addresses.included().iter().map(|range| range.count()).sum();
    let usable: u128 = addresses.usable().iter().map(|range| range.count()).sum();
    format!(
        "{listed} addresses in ips, {} of them excluded, {} reserved, {records} recorded",
        listed.saturating_sub(included),
        included.saturating_sub(usable)
    )
}
