//! The workloads that pools are made for.

use std::fmt;

use crate::Policy;
use crate::auto_pool::{application_key, auto_pool_name, parse_application_gv};
use crate::ranges::IpVersion;
use crate::select::{TopController, Workload};
use kube_machinery::api::ObjectKey;

/// A workload by name, whichever incarnation; a pre-allocation names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationName {
    /// Its API version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The namespace, which is also that of its pods.
    pub namespace: String,
    /// The name, as in `metadata.name`.
    pub name: String,
}

impl ApplicationName {
    /// Parses the field `application` of a pre-allocation: `apps_v1_Deployment_default_web`, or four parts for the core group (A §1.3).
    /// `None` if the parts differ.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('_').collect();
        let (group_version, [kind, namespace, name]) = match parts[..] {
            [group, version, kind, namespace, name] => (format!("{group}_{version}"), [kind, namespace, name]),
            [version, kind, namespace, name] => (version.to_owned(), [kind, namespace, name]),
            _ => return None,
        };
        let api_version = parse_application_gv(&group_version)?;
        Some(Self { api_version, kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Whether a [key](Self::key) is that of a workload of this namespace and name, whatever its kind. Only the end of the text is split:
    /// names have no underscores.
    pub(super) fn is_key_of(key: &str, workload: &ObjectKey) -> bool {
        let mut parts = key.rsplit('_');
        parts.next() == Some(workload.name()) && parts.next() == workload.namespace()
    }

    /// The field `application` of its pre-allocations.
    pub fn key(&self) -> String {
        application_key(&self.api_version, &self.kind, &self.namespace, &self.name)
    }

    /// The API group, empty for the core group, and the version.
    pub fn group_version(&self) -> (&str, &str) {
        self.api_version.split_once('/').unwrap_or(("", &self.api_version))
    }
}

impl fmt::Display for ApplicationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}/{}", self.api_version, self.kind, self.namespace, self.name)
    }
}

/// One incarnation of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Application {
    /// The API version, kind, namespace and name.
    pub name: ApplicationName,
    /// The UID, which distinguishes this incarnation from others of the same name.
    pub uid: String,
}

impl Application {
    /// The top controller of a pod; `None` for an orphan.
    pub fn of(controller: &TopController) -> Option<Self> {
        if controller.workload == Workload::Orphan {
            return None;
        }
        let TopController { api_version, kind, namespace, name, uid, .. } = controller.clone();
        Some(Self { name: ApplicationName { api_version, kind, namespace, name }, uid })
    }

    /// The name of the workload's pool for a NIC and a family (A §8.2).
    pub fn pool_name(&self, nic: &str, family: IpVersion, policy: &Policy) -> String {
        auto_pool_name(&self.name.name, nic, &self.uid, family, policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back() {
        for (api_version, parts) in [("apps/v1", 5), ("v1", 4)] {
            let name = ApplicationName {
                api_version: api_version.to_owned(),
                kind: "Kind".to_owned(),
                namespace: "default".to_owned(),
                name: "web".to_owned(),
            };
            assert_eq!(name.key().split('_').count(), parts);
            let is_key_of = |namespace, workload| ApplicationName::is_key_of(&name.key(), &ObjectKey::namespaced(namespace, workload));
            assert_eq!([is_key_of("default", "web"), is_key_of("other", "web"), is_key_of("default", "b")], [true, false, false]);
            assert_eq!(ApplicationName::parse(&name.key()), Some(name));
        }
        for text in ["", "a_b_c", "a_b_c_d_e_f"] {
            assert_eq!(ApplicationName::parse(text), None);
        }
    }
}
