//! The subject that a user wants to follow: the argument of `replay --follow`.

use std::fmt;
use std::str::FromStr;

use kube_machinery::ObjectKey;
use kube_machinery::address::AddressKey;

/// A subject to follow, parsed from the text that each variant shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An IP address, such as `10.0.0.7`, whatever its spelling.
    Address(AddressKey),
    /// A pod by its name, `pod:NS/NAME`, whatever its UID.
    Pod(ObjectKey),
    /// `object:KIND/NS/NAME`, or `object:KIND/NAME` for an object without a namespace.
    Object {
        /// The Kind or the plural, in any case.
        kind: String,
        /// Namespace and name of the object; without a namespace it is cluster-scoped.
        key: ObjectKey,
    },
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = |rest: &str| rest.split('/').map(str::to_owned).collect::<Vec<String>>();
        let named = |parts: &[String]| parts.iter().all(|part| !part.is_empty());
        if let Some(rest) = text.strip_prefix("pod:") {
            return match parts(rest).as_slice() {
                [namespace, name] if named(&parts(rest)) => Ok(Subject::Pod(ObjectKey::namespaced(namespace, name))),
                _ => Err("a pod is written pod:NAMESPACE/NAME, e.g. pod:default/web-0".to_owned()),
            };
        }
        if let Some(rest) = text.strip_prefix("object:") {
            let parts = parts(rest);
            return match parts.as_slice() {
                _ if !named(&parts) => None,
                [kind, namespace, name] => Some((kind, ObjectKey::namespaced(namespace, name))),
                [kind, name] => Some((kind, ObjectKey::cluster(name))),
                _ => None,
            }
            .map(|(kind, key)| Subject::Object { kind: kind.clone(), key })
            .ok_or_else(|| "an object is written object:KIND/NAMESPACE/NAME, e.g. object:configmap/default/counter".to_owned());
        }
        match AddressKey::of(text) {
            AddressKey::Other(_) => Err("expected an IP address, pod:NAMESPACE/NAME or object:KIND/NAMESPACE/NAME".to_owned()),
            address => Ok(Subject::Address(address)),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Address(address) => address.fmt(f),
            Subject::Pod(key) => write!(f, "pod {key}"),
            Subject::Object { kind, key } => write!(f, "{kind}/{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_an_address_a_pod_or_an_object() {
        let shown = |text: &str| text.parse::<Subject>().map(|subject| subject.to_string());
        assert_eq!(shown("10.0.0.7"), Ok("10.0.0.7".to_owned()));
        assert_eq!(shown("::ffff:10.0.0.7"), Ok("10.0.0.7".to_owned()), "two spellings, one address");
        assert_eq!(shown("fd00::0:1"), Ok("fd00::1".to_owned()));
        assert_eq!(shown("pod:default/web-0"), Ok("pod default/web-0".to_owned()));
        assert_eq!(shown("object:ConfigMap/kube-system/pool"), Ok("ConfigMap/kube-system/pool".to_owned()));
        assert_eq!(shown("object:node/n1"), Ok("node/n1".to_owned()));
    }

    #[test]
    fn anything_else_is_refused_with_the_right_form() {
        for (text, expected) in [
            ("10.0.0", "an IP address"),
            ("", "an IP address"),
            ("web-0", "pod:NAMESPACE/NAME"),
            ("pod:web-0", "pod:default/web-0"),
            ("pod:default/", "pod:default/web-0"),
            ("pod:a/b/c", "pod:default/web-0"),
            ("object:default", "object:configmap/default/counter"),
            ("object:a/b/c/d", "object:configmap/default/counter"),
            ("object:configmap//counter", "object:configmap/default/counter"),
        ] {
            let message = text.parse::<Subject>().unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
