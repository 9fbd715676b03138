//! Somebody else who writes the same object (K §9.2 A9, E10).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_machinery::api::{DeleteOptions, ListOptions};
use kube_machinery::{ApiError, ClientExt, Object, ObjectKey};

use super::{ConflictingWriter, WriterMode};
use crate::cluster::{Fabric, SimClient};
use crate::rt::ProcessId;

/// The types that a conflicting writer knows, by their plural, and whether their objects live in namespaces.
const KNOWN: [(&str, bool); 7] = [
    ("configmaps", true),
    ("leases", true),
    ("peerpods", true),
    ("pods", true),
    ("spiderendpoints", true),
    ("spiderippools", false),
    ("spidersubnets", false),
];

/// What an object text such as `configmaps/default/counter` names.
///
/// # Errors
/// A sentence that says what would be right.
pub(crate) fn parse_object(text: &str) -> Result<(&str, ObjectKey), String> {
    let (plural, path) = text.split_once('/').unwrap_or((text, ""));
    let Some(&(_, namespaced)) = KNOWN.iter().find(|(known, _)| *known == plural) else {
        let known: Vec<&str> = KNOWN.iter().map(|(known, _)| *known).collect();
        return Err(format!("`{text}` does not begin with the plural of a type that a conflicting writer knows: {}", known.join(", ")));
    };
    let parts: Vec<&str> = path.split('/').collect();
    match (namespaced, parts.as_slice()) {
        (true, [namespace, name]) if !namespace.is_empty() && !name.is_empty() => Ok((plural, ObjectKey::namespaced(namespace, name))),
        (false, [name]) if !name.is_empty() => Ok((plural, ObjectKey::cluster(name))),
        (true, _) => Err(format!("`{text}` is not {plural}/NAMESPACE/NAME")),
        (false, _) => Err(format!("`{text}` is not {plural}/NAME")),
    }
}

/// Makes a process that writes for the fault with this number from its start. It is not started.
pub(super) fn hire(fabric: &Arc<Fabric>, index: u32, fault: &ConflictingWriter) -> ProcessId {
    let rt = &fabric.rt;
    let name = format!("conflicting-writer-{index}");
    let process = rt.find_process(&name).unwrap_or_else(|| rt.add_process(rt.add_host(&name), &name));
    let (shared, fault) = (Arc::downgrade(fabric), fault.clone());
    rt.set_main(process, move |_| {
        let (fabric, fault) = (shared.upgrade(), fault.clone());
        async move {
            if let Some(fabric) = fabric {
                run(fabric, process, fault).await;
            }
        }
    });
    process
}

/// Writes until its process is stopped.
async fn run(fabric: Arc<Fabric>, process: ProcessId, fault: ConflictingWriter) {
    let client = SimClient::new(&fabric, process);
    let Ok((plural, key)) = parse_object(&fault.object) else { return };
    match plural {
        "configmaps" => write::<ConfigMap>(&fabric, &client, &key, &fault).await,
        "leases" => write::<Lease>(&fabric, &client, &key, &fault).await,
        "pods" => write::<Pod>(&fabric, &client, &key, &fault).await,
        _ => {}
    }
}

async fn write<K: Object>(fabric: &Fabric, client: &SimClient, key: &ObjectKey, fault: &ConflictingWriter) {
    let mut round = 0u64;
    loop {
        round += 1;
        // Errors are the writer's own problem: it comes again.
        let _: Result<(), ApiError> = once::<K>(fabric, client, key, fault, round).await;
        // Where nothing takes time, time must pass all the same.
        fabric.rt.sleep(fault.every.0.max(Duration::from_micros(1))).await;
    }
}

/// The name, or with a star at its end what it begins with: names that are drawn cannot be told beforehand.
fn named(name: &str) -> Result<&str, &str> {
    name.strip_suffix('*').map_or(Ok(name), Err)
}

async fn once<K: Object>(
    fabric: &Fabric,
    client: &SimClient,
    key: &ObjectKey,
    fault: &ConflictingWriter,
    round: u64,
) -> Result<(), ApiError> {
    let mut object = match named(key.name()) {
        Ok(_) => (*client.get::<K>(key).await?).clone(),
        Err(prefix) => {
            let items = client.list::<K>(key.namespace(), ListOptions::default()).await?.items;
            let found = items.into_iter().find(|item| item.meta().name.as_ref().is_some_and(|name| name.starts_with(prefix)));
            let Some(found) = found else { return Ok(()) };
            (*found).clone()
        }
    };
    let key = &ObjectKey::of(&object);
    if fault.mode != WriterMode::Touch {
        // What it writes back is by then a while old.
        fabric.rt.sleep(fault.every.0).await;
    }
    match fault.mode {
        WriterMode::Touch => {
            object.meta_mut().annotations.get_or_insert_default().insert("example.com/touched".to_owned(), round.to_string());
        }
        WriterMode::Rewrite => {}
        WriterMode::Steal => {
            client.delete::<K>(key, DeleteOptions::default()).await?;
            object.meta_mut().resource_version = None;
            client.create(object).await?;
            return Ok(());
        }
    }
    if !fault.with_version {
        object.meta_mut().resource_version = None;
    }
    client.update(object).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_named_as_its_type_is_addressed() {
        assert_eq!(parse_object("configmaps/default/counter"), Ok(("configmaps", ObjectKey::namespaced("default", "counter"))));
        assert_eq!(parse_object("spiderippools/blue"), Ok(("spiderippools", ObjectKey::cluster("blue"))));
        assert_eq!((named("blue"), named("auto4-web-*")), (Ok("blue"), Err("auto4-web-")));
        for wrong in [
            "configmaps",
            "configmaps/counter",
            "configmaps/default/",
            "configmaps/a/b/c",
            "spiderippools/default/blue",
            "or/default/x",
            "/default/x",
            "",
        ] {
            assert!(parse_object(wrong).is_err(), "{wrong}");
        }
    }
}
