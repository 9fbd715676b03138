//! The fields of Spiderpool's objects for traces, and the changes of commits.

use std::net::IpAddr;

use ipam_spiderpool::{Edit, PoolIPAllocation, PoolIPAllocations, RecordKey, SpiderEndpoint, SpiderIPPool};
use kube_sim::object::Obj;
use kube_sim::trace::entity::{Entity, Touch};

/// The maximum number of records of a pool that are shown.
const RECORDS_MAX: usize = 64;

fn records(object: Option<&Obj>) -> Option<&PoolIPAllocations> {
    object?.as_any().downcast_ref::<SpiderIPPool>()?.status.as_ref()?.allocated_ips.parse().ok()
}

fn endpoint(object: Option<&Obj>) -> Option<&SpiderEndpoint> {
    object?.as_any().downcast_ref()
}

/// The addresses of an endpoint, without their prefixes.
fn addresses(endpoint: &SpiderEndpoint) -> Vec<IpAddr> {
    let entries = endpoint.status.iter().flat_map(|status| &status.current.ips);
    let texts = entries.flat_map(|entry| entry.ipv4.iter().chain(&entry.ipv6));
    texts.filter_map(|text| text.split('/').next()?.parse().ok()).collect()
}

/// The changes that a commit made to a pool or an endpoint; `None` = the object is neither.
pub(super) fn touches(before: Option<&Obj>, after: Option<&Obj>) -> Option<Vec<Touch>> {
    let any = after.or(before)?.as_any();
    if any.is::<SpiderIPPool>() {
        let empty = PoolIPAllocations::default();
        let (before, after) = (records(before).unwrap_or(&empty), records(after).unwrap_or(&empty));
        let touch = |edit: Edit<'_, RecordKey, PoolIPAllocation>| {
            let record = |record: Option<&std::sync::Arc<PoolIPAllocation>>| match record {
                Some(record) => format!("recorded for {} ({})", record.pod, record.pod_uid),
                None => "free".to_owned(),
            };
            let pods = [edit.before, edit.after].into_iter().flatten().map(|record| Entity::Pod(record.pod.as_str().into()));
            let entities = edit.key.address().map(Entity::ip).into_iter().chain(pods);
            Touch::moved(entities, edit.key, &record(edit.before), &record(edit.after))
        };
        return Some(before.diff(after).map(touch).collect());
    }
    if !any.is::<SpiderEndpoint>() {
        return None;
    }
    let (was, is) = (endpoint(before), endpoint(after));
    let meta = &was.or(is)?.metadata;
    let pod = Entity::pod_of(meta.namespace.as_deref().unwrap_or(""), meta.name.as_deref().unwrap_or(""));
    let of = |endpoint: Option<&SpiderEndpoint>| endpoint.map(addresses).unwrap_or_default();
    let mut all = [of(was), of(is)].concat();
    all.sort_unstable();
    all.dedup();
    let listed: Vec<String> = of(is).iter().map(ToString::to_string).collect();
    let listed = if listed.is_empty() { "no address".to_owned() } else { listed.join(", ") };
    let says = match (was, is) {
        (_, None) => "gone".to_owned(),
        (_, Some(is)) if is.metadata.deletion_timestamp.is_some() => format!("being deleted: {listed}"),
        _ => listed,
    };
    Some(vec![Touch { entities: [pod].into_iter().chain(all.into_iter().map(Entity::ip)).collect(), says }])
}

/// Adds the state of a pool or an endpoint as names and short values; returns whether the object is one.
pub(super) fn fields(object: &Obj, fields: &mut Vec<(String, String)>) -> bool {
    let mut add = |name: &str, value: String| fields.push((name.to_owned(), value));
    if let Some(pool) = object.as_any().downcast_ref::<SpiderIPPool>() {
        add("ips", pool.spec.ips.iter().flatten().cloned().collect::<Vec<_>>().join(", "));
        if let Some(exclude) = pool.spec.exclude_ips.as_ref().filter(|exclude| !exclude.is_empty()) {
            add("excluded", exclude.join(", "));
        }
        if pool.spec.disable {
            add("disabled", "yes".to_owned());
        }
        match pool.status.as_ref().map(|status| status.allocated_ips.parse()) {
            Some(Ok(records)) => {
                for (key, record) in records.iter().take(RECORDS_MAX) {
                    add(&format!("record {key}"), format!("{} ({})", record.pod, record.pod_uid));
                }
                if records.len() > RECORDS_MAX {
                    add("records", format!("and {} more", records.len() - RECORDS_MAX));
                }
            }
            Some(Err(error)) => add("unreadable", error.to_string()),
            None => {}
        }
        return true;
    }
    let Some(endpoint) = object.as_any().downcast_ref::<SpiderEndpoint>() else { return false };
    let Some(status) = &endpoint.status else { return true };
    add("uid", status.current.uid.clone());
    add("node", status.current.node.clone());
    add("of", format!("{} {}", status.owner_controller_type, status.owner_controller_name));
    for entry in &status.current.ips {
        let of_family = [(&entry.ipv4, &entry.ipv4_pool), (&entry.ipv6, &entry.ipv6_pool)];
        let texts: Vec<String> = of_family
            .into_iter()
            .filter_map(|(ip, pool)| Some(format!("{} from {}", ip.as_ref()?, pool.as_deref().unwrap_or("no pool"))))
            .collect();
        let name = if entry.interface.is_empty() { "NIC without a name" } else { &entry.interface };
        add(name, texts.join(", "));
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ipam_spiderpool::{EndpointStatus, IPAllocationDetail, IPPoolStatus, PodIPAllocation, PoolIPAllocation};

    use super::*;

    fn pool(records: &[(&str, &str)]) -> Obj {
        let mut status = IPPoolStatus::default();
        for (ip, pod) in records {
            let record = PoolIPAllocation { pod: (*pod).to_owned(), pod_uid: "u".to_owned(), interface: None };
            status.allocated_ips.make_mut().unwrap().insert(ip.parse::<IpAddr>().unwrap(), record);
        }
        Arc::new(SpiderIPPool { status: Some(status), ..SpiderIPPool::default() })
    }

    #[test]
    fn a_commit_of_a_pool_touches_the_addresses_whose_records_it_changes() {
        let (before, after) = (pool(&[("10.0.0.1", "a/x"), ("10.0.0.2", "a/y")]), pool(&[("10.0.0.2", "a/y"), ("10.0.0.3", "a/z")]));
        let touches = touches(Some(&before), Some(&after)).unwrap();
        let says: Vec<&str> = touches.iter().map(|touch| &*touch.says).collect();
        assert_eq!(says, ["10.0.0.1 recorded for a/x (u) -> free", "10.0.0.3 free -> recorded for a/z (u)"]);
        assert!(touches[0].entities.contains(&Entity::Pod("a/x".into())));
    }

    #[test]
    fn an_endpoint_touches_its_pod_and_its_addresses() {
        let mut endpoint = SpiderEndpoint::default();
        endpoint.metadata.namespace = Some("a".to_owned());
        endpoint.metadata.name = Some("x".to_owned());
        let entry =
            IPAllocationDetail { interface: "eth0".to_owned(), ipv4: Some("10.0.0.1/24".to_owned()), ..IPAllocationDetail::default() };
        let current = PodIPAllocation { ips: vec![entry], ..PodIPAllocation::default() };
        endpoint.status = Some(EndpointStatus { current, ..EndpointStatus::default() });
        let object: Obj = Arc::new(endpoint);
        let made = touches(None, Some(&object)).unwrap();
        assert_eq!(made[0].entities, [Entity::Pod("a/x".into()), Entity::ip("10.0.0.1".parse().unwrap())]);
        assert_eq!(made[0].says, "10.0.0.1");
        assert_eq!(touches(Some(&object), None).unwrap()[0].says, "gone");
        let mut shown = Vec::new();
        assert!(fields(&object, &mut shown));
        assert!(shown.contains(&("eth0".to_owned(), "10.0.0.1/24 from no pool".to_owned())));
    }
}
