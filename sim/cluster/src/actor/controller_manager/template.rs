//! Pods from templates, and hashes that distinguish templates.

use std::fmt::Write as _;
use std::io;

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_machinery::Object;
use kube_machinery::ObjectKey;

/// The characters of generated names (K §2.6).
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The reference to the owner that controls an object.
pub(super) fn reference<K: Object>(owner: &K) -> OwnerReference {
    let meta = owner.meta();
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A pod made from `template` for `owner`: unnamed, with a name to be generated after `base`.
pub(super) fn pod<K: Object>(template: &PodTemplateSpec, owner: &K, base: &str) -> Pod {
    let own = template.metadata.as_ref();
    let metadata = ObjectMeta {
        namespace: owner.meta().namespace.clone(),
        generate_name: Some(format!("{base}-")),
        labels: own.and_then(|meta| meta.labels.clone()),
        annotations: own.and_then(|meta| meta.annotations.clone()),
        finalizers: own.and_then(|meta| meta.finalizers.clone()),
        owner_references: Some(vec![reference(owner)]),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: template.spec.clone(), status: None }
}

/// Gives the label `name` this value, whatever it had before.
pub(super) fn set_label(meta: &mut ObjectMeta, name: &str, value: &str) {
    meta.labels.get_or_insert_default().insert(name.to_owned(), value.to_owned());
}

/// A short text that distinguishes this template from others: the same in every run and on every machine.
pub(super) fn hash(template: &PodTemplateSpec) -> String {
    /// FNV-1a, as Kubernetes hashes templates (though not of this text).
    struct Fnv(u32);
    impl io::Write for Fnv {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619));
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut fnv = Fnv(2_166_136_261);
    serde_json::to_writer(&mut fnv, template).unwrap_or_else(|_| unreachable!("hashing does not fail, and a template serialises"));
    let mut digits = String::with_capacity(10);
    let _ = write!(digits, "{}", fnv.0);
    digits.bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// The key of an object called `name` in the namespace of `owner`.
pub(super) fn beside<K: Object>(owner: &K, name: &str) -> ObjectKey {
    ObjectKey::namespaced(owner.meta().namespace.as_deref().unwrap_or(""), name)
}
