//! Conversion of the state that the rules know into JSON and back.

use kube_machinery::{Object, ObjectKey};
use kube_sim::testbed::{from_json, key};
use serde_json::{Value, json};

use super::rules::{Body, Guard, Kind, Known, PLACES, Place, UNSCHEDULED};

const PHASES: [&str; 3] = ["Pending", "Running", "Succeeded"];

/// This many finalizers, always the same ones.
fn finalizers(held: u8) -> Vec<String> {
    (0..held).map(|number| format!("example.com/held-{number}")).collect()
}

/// Sets a field of `value`, possibly a nested one.
fn set(value: &mut Value, path: &[&str], field: impl Into<Value>) {
    *path.iter().fold(value, |value, name| &mut value[*name]) = field.into();
}

/// The key of the object in a store, with its namespace if it has one.
pub(crate) fn key_of((kind, name): Place) -> ObjectKey {
    if kind == Kind::Pool { ObjectKey::cluster(name) } else { key(name) }
}

/// The parts that are the same in a body and in a patch.
fn fields((kind, _): Place, body: &Body, guard: &Guard) -> Value {
    let mut value = json!({"metadata": {}});
    if let Some(spec) = body.spec {
        match kind {
            Kind::Map => set(&mut value, &["data", "v"], spec.to_string()),
            Kind::Lease => set(&mut value, &["spec", "holderIdentity"], spec.to_string()),
            Kind::Pod => {
                let image = format!("registry.example/app:{spec}");
                set(&mut value, &["spec", "containers"], json!([{"name": "main", "image": image}]));
            }
            Kind::Pool => set(&mut value, &["spec", "ips"], json!([format!("10.0.0.{spec}")])),
            Kind::Endpoint => set(&mut value, &["status", "ownerControllerName"], spec.to_string()),
        }
    }
    if let Some(status) = body.status {
        match kind {
            Kind::Map | Kind::Lease | Kind::Endpoint => {}
            Kind::Pod => set(&mut value, &["status", "phase"], PHASES[usize::from(status)]),
            Kind::Pool => set(&mut value, &["status", "totalIPCount"], status),
        }
    }
    if let Some(version) = guard.version {
        set(&mut value, &["metadata", "resourceVersion"], version.to_string());
    }
    if let Some(uid) = &guard.uid {
        set(&mut value, &["metadata", "uid"], uid.as_str());
    }
    value
}

/// The whole object, as a create or a PUT sends it.
pub(crate) fn whole<K: Object>(place: Place, body: &Body, guard: &Guard) -> K {
    let mut value = fields(place, body, guard);
    let (kind, name) = place;
    set(&mut value, &["metadata", "name"], name);
    if let Some(label) = body.label.filter(|label| *label > 0) {
        set(&mut value, &["metadata", "labels", "v"], label.to_string());
    }
    set(&mut value, &["metadata", "finalizers"], finalizers(body.held.unwrap_or_default()));
    if let Some(namespace) = key_of(place).namespace() {
        set(&mut value, &["metadata", "namespace"], namespace);
    }
    match kind {
        Kind::Map | Kind::Lease => {}
        Kind::Pod if place == UNSCHEDULED => {}
        Kind::Pod => set(&mut value, &["spec", "nodeName"], "n1"),
        Kind::Pool => set(&mut value, &["spec", "subnet"], "10.0.0.0/24"),
        Kind::Endpoint => {
            set(&mut value, &["status", "current"], json!({"uid": "", "node": "", "ips": []}));
            set(&mut value, &["status", "ownerControllerType"], "Pod");
        }
    }
    from_json(value)
}

/// A merge patch, which removes fields by null.
pub(crate) fn patch(place: Place, body: &Body, guard: &Guard) -> Value {
    let mut value = fields(place, body, guard);
    if let Some(label) = body.label {
        set(&mut value, &["metadata", "labels", "v"], (label > 0).then(|| label.to_string()));
    }
    if let Some(held) = body.held {
        set(&mut value, &["metadata", "finalizers"], (held > 0).then(|| finalizers(held)));
    }
    value
}

/// The place of an object, and the state that the rules know.
pub(crate) fn known<K: Object>(kind: Kind, object: &K) -> (Place, Known) {
    let value = serde_json::to_value(object).unwrap();
    let text = |path: &str| value.pointer(path).and_then(Value::as_str);
    // The last part is the number.
    let number = |text: &str| -> u64 { text.rsplit(['.', ':']).next().unwrap().parse().unwrap() };
    let place = PLACES.into_iter().find(|place| (place.0, Some(place.1)) == (kind, text("/metadata/name"))).unwrap();
    let (spec, status) = match kind {
        Kind::Map => ("/data/v", None),
        Kind::Lease => ("/spec/holderIdentity", None),
        Kind::Pod => {
            let phase = PHASES.iter().position(|phase| Some(*phase) == text("/status/phase")).unwrap();
            ("/spec/containers/0/image", Some(phase as u8))
        }
        Kind::Endpoint => ("/status/ownerControllerName", None),
        Kind::Pool => ("/spec/ips/0", value.pointer("/status/totalIPCount").map(|count| count.as_u64().unwrap() as u8)),
    };
    let meta = object.meta();
    let held = meta.finalizers.as_ref().map_or(0, Vec::len) as u8;
    assert_eq!(meta.finalizers.clone().unwrap_or_default(), finalizers(held), "nobody asked for other finalizers");
    assert_eq!(meta.deletion_timestamp.is_some(), meta.deletion_grace_period_seconds.is_some(), "{value}");
    let known = Known {
        uid: meta.uid.clone().unwrap(),
        version: number(text("/metadata/resourceVersion").unwrap()),
        generation: meta.generation,
        spec: number(text(spec).unwrap()) as u8,
        label: text("/metadata/labels/v").map_or(0, |label| number(label) as u8),
        status,
        held,
        grace: meta.deletion_grace_period_seconds,
    };
    (place, known)
}
