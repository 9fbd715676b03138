//! The fields of a BYOM pool's objects, and their changes by commits.

use ipam_byom::{Address, AddressKey, IpAllocation, PeerPod, PoolConfigMap, PoolDocument, RecordChange};
use kube_sim::object::Obj;
use kube_sim::trace::entity::{Entity, Touch};

use crate::workload::short;

/// The maximum number of addresses shown of a list.
const LIST_MAX: usize = 64;

fn document(object: Option<&Obj>) -> Option<&PoolDocument> {
    let config_map = object?.as_any().downcast_ref::<PoolConfigMap>()?;
    config_map.document()?.parse().ok()
}

/// The changes by a commit of the pool or of a PeerPod; `None` = it is neither.
pub(super) fn touches(before: Option<&Obj>, after: Option<&Obj>) -> Option<Vec<Touch>> {
    let object = after.or(before)?;
    if object.as_any().is::<PoolConfigMap>() {
        let empty = PoolDocument::default();
        return Some(pool_touches(document(before).unwrap_or(&empty), document(after).unwrap_or(&empty)));
    }
    let change = match (before, after) {
        (None, _) => "",
        (_, None) => "gone: ",
        (_, Some(after)) if after.meta().deletion_timestamp.is_some() => "being deleted: ",
        _ => "changed: ",
    };
    let peer_pod = object.as_any().downcast_ref::<PeerPod>()?;
    let namespace = peer_pod.metadata.namespace.as_deref().unwrap_or("");
    let owners = peer_pod.metadata.owner_references.iter().flatten();
    let owner = owners.filter(|owner| owner.kind == "Pod").map(|owner| Entity::pod_of(namespace, &owner.name));
    let named = peer_pod.spec.pod_name.as_deref().filter(|name| !name.is_empty()).map(|name| Entity::pod_of(namespace, name));
    let mut entities: Vec<Entity> = owner.chain(named).collect();
    entities.extend(peer_pod.allocation_id().map(|id| Entity::Allocation(id.into())));
    let address = Address::new(peer_pod.spec.instance_id.as_str());
    entities.extend(address.key().is_address().then(|| Entity::Address(address.key().clone())));
    entities.sort();
    entities.dedup();
    let id = peer_pod.allocation_id().map_or_else(|| "no allocation".into(), short);
    Some(vec![Touch { entities, says: format!("{change}VM {address} for {id}") }])
}

/// The entities of a record: its address, its allocation, and its pod if it names one.
fn entities_of(id: &std::sync::Arc<str>, record: &IpAllocation) -> Vec<Entity> {
    let pod = record.pod_namespace.as_deref().filter(|_| !record.pod_name.is_empty());
    let pod = pod.map(|namespace| Entity::pod_of(namespace, &record.pod_name));
    [Entity::Address(record.ip.key().clone()), Entity::allocation(id)].into_iter().chain(pod).collect()
}

/// A description of an address's state in a document.
fn place(document: &PoolDocument, address: &AddressKey) -> String {
    let mut places: Vec<String> = document.allocated.of_address(address).map(|(id, _)| format!("recorded under {}", short(id))).collect();
    if document.available.contains(address) {
        places.push("in the list".to_owned());
    }
    if places.is_empty() { "nowhere".to_owned() } else { places.join(" and ") }
}

fn pool_touches(before: &PoolDocument, after: &PoolDocument) -> Vec<Touch> {
    let mut touches: Vec<Touch> = Vec::new();
    let moved = |address: &AddressKey| {
        let (was, is) = (place(before, address), place(after, address));
        if was == is { format!("{} stays {is}", address) } else { format!("{} {was} -> {is}", address) }
    };
    for change in before.allocated.diff(&after.allocated) {
        let (id, record) = match change {
            RecordChange::Added(id, record) | RecordChange::Removed(id, record) => (id, record),
            RecordChange::Changed { id, from, to } => {
                if from.ip.key() != to.ip.key() {
                    touches.push(Touch { entities: entities_of(id, from), says: moved(from.ip.key()) });
                }
                (id, to)
            }
        };
        touches.push(Touch { entities: entities_of(id, record), says: moved(record.ip.key()) });
    }
    let (lost, gained) = before.available.diff(&after.available);
    for address in lost.into_iter().chain(gained) {
        let thing = Entity::Address(address.key().clone());
        // An entry that only moved is still in the list.
        let same = place(before, address.key()) == place(after, address.key());
        if !same && !touches.iter().any(|touch| touch.entities.contains(&thing)) {
            touches.push(Touch { entities: vec![thing], says: moved(address.key()) });
        }
    }
    touches
}

/// The state of the pool or of a PeerPod; `None` = it is neither.
pub(super) fn fields(object: &Obj) -> Option<Vec<(String, String)>> {
    let mut fields = Vec::new();
    if let Some(config_map) = object.as_any().downcast_ref::<PoolConfigMap>() {
        match config_map.document()?.parse() {
            Ok(document) => pool_fields(document, &mut fields),
            Err(error) => fields.push(("unreadable".to_owned(), error.to_string())),
        }
        return Some(fields);
    }
    let peer_pod = object.as_any().downcast_ref::<PeerPod>()?;
    let spec = &peer_pod.spec;
    let id = peer_pod.allocation_id().map(|id| short(id).into_owned());
    let known = [("VM", Some(spec.instance_id.clone())), ("allocation", id), ("node", spec.node_name.clone())];
    fields.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    Some(fields)
}

fn pool_fields(document: &PoolDocument, fields: &mut Vec<(String, String)>) {
    fields.push(("version".to_owned(), document.version.to_string()));
    for (id, record) in document.allocated.iter() {
        fields.push((format!("record {}", short(id)), format!("{} on {}", record.ip, record.node_name)));
    }
    let mut list: Vec<&str> = document.available.iter().take(LIST_MAX).map(Address::text).collect();
    let more = document.available.len().saturating_sub(LIST_MAX);
    let more = format!("and {more} more");
    if document.available.len() > LIST_MAX {
        list.push(&more);
    }
    fields.push(("list".to_owned(), if list.is_empty() { "empty".to_owned() } else { list.join(", ") }));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ipam_byom::PoolData;
    use kube_machinery::{JsonText, ObjectKey};

    use super::*;

    fn config_map(document: PoolDocument) -> Obj {
        Arc::new(PoolConfigMap::new(&ObjectKey::namespaced("a", "b"), JsonText::from(document)))
    }

    fn with(records: &[(&str, &str)], list: &[&str]) -> PoolDocument {
        let mut document = PoolDocument::default();
        for (id, ip) in records {
            let id: Arc<str> = (*id).into();
            let record = IpAllocation {
                allocation_id: id.clone(),
                ip: Address::new(*ip),
                node_name: "n1".into(),
                pod_name: "web".into(),
                pod_namespace: Some("default".into()),
                ..IpAllocation::default()
            };
            document.allocated.insert(id, record);
        }
        list.iter().for_each(|ip| document.available.push(Address::new(*ip)));
        document
    }

    #[test]
    fn a_commit_touches_the_addresses_that_it_moves_and_no_others() {
        let before = with(&[("web-1", "10.0.0.1")], &["10.0.0.2", "10.0.0.3"]);
        let mut after = before.clone();
        after.available.remove(0);
        after.allocated.remove("web-1");
        after.allocated.insert("web-2".into(), IpAllocation { ip: Address::new("10.0.0.2"), ..IpAllocation::default() });
        let touches = touches(Some(&config_map(before)), Some(&config_map(after))).unwrap();
        let says: Vec<&str> = touches.iter().map(|touch| &*touch.says).collect();
        assert_eq!(says, ["10.0.0.1 recorded under web-1 -> nowhere", "10.0.0.2 in the list -> recorded under web-2"]);
        assert!(touches[0].entities.contains(&Entity::Pod("default/web".into())));
    }

    #[test]
    fn an_unreadable_document_has_lost_everything() {
        let before = config_map(with(&[], &["10.0.0.2"]));
        let broken: Obj = Arc::new(PoolConfigMap {
            data: Some(PoolData { state: Some(JsonText::verbatim("{")), ..PoolData::default() }),
            ..PoolConfigMap::default()
        });
        let touches = touches(Some(&before), Some(&broken)).unwrap();
        assert_eq!(touches.len(), 1);
        assert_eq!(touches[0].says, "10.0.0.2 in the list -> nowhere");
        assert!(fields(&broken).unwrap().iter().any(|(name, _)| name == "unreadable"));
    }

    #[test]
    fn a_pool_shows_version_records_and_list() {
        let fields = fields(&config_map(with(&[("web-1", "10.0.0.1")], &["10.0.0.2"]))).unwrap();
        let shown: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(shown, [("version", "0"), ("record web-1", "10.0.0.1 on n1"), ("list", "10.0.0.2")]);
    }
}
