//! The labels by which a pool names its owners (A §1.1), for names that are longer than a label value may be.
//!
//! Names have up to 253 characters, label values [`VALUE_MAX`]. A longer name is cut, and a hash of the whole name makes it unique. A
//! reader of such a label looks up the full name elsewhere on the pool: the affinity names the workload, the controller reference the
//! subnet. If the full name is missing, the label names nobody.

use std::borrow::Cow;

use kube_machinery::WordHash;
use kube_machinery::controller_of;
use kube_machinery::label_selector::VALUE_MAX;

use crate::auto_pool::{application_label_gv, parse_application_gv};
use crate::{Policy, SpiderIPPool, names};

/// The label value for a name: the name itself if it fits, else its beginning, a dash and 16 digits of its hash, together [`VALUE_MAX`]
/// characters.
pub fn owner_label(name: &str) -> Cow<'_, str> {
    const DIGITS: usize = 16;
    if name.len() <= VALUE_MAX {
        return Cow::Borrowed(name);
    }
    let head = &name[..name.floor_char_boundary(VALUE_MAX - DIGITS - 1)];
    Cow::Owned(format!("{head}-{:016x}", WordHash::new().text(name).finish()))
}

/// The label value as it is written: upstream writes names unchanged, whatever their length.
pub(crate) fn label_for<'a>(name: &'a str, policy: &Policy) -> Cow<'a, str> {
    if policy.long_names_unshortened { Cow::Borrowed(name) } else { owner_label(name) }
}

/// The name that a label stands for; for a label that may be cut, `named` if it matches.
fn in_full<'a>(label: &'a str, named: Option<&'a str>) -> Option<&'a str> {
    if label.len() < VALUE_MAX { Some(label) } else { named.filter(|name| owner_label(name) == label) }
}

/// The name of the subnet that a pool was made from or has belonged to since.
pub fn subnet_of(pool: &SpiderIPPool) -> Option<&str> {
    let controller = controller_of(&pool.metadata);
    in_full(label(pool, names::LABEL_OWNER_SUBNET)?, controller.map(|owner| owner.name.as_str()))
}

/// The name of the workload that an auto pool was made for.
pub fn application_name_of(pool: &SpiderIPPool) -> Option<&str> {
    in_full(label(pool, names::LABEL_OWNER_APPLICATION_NAME)?, affinity(pool, names::AFFINITY_APP_NAME))
}

/// The API version of the workload that an auto pool was made for, such as `apps/v1`.
pub fn application_version_of(pool: &SpiderIPPool) -> Option<String> {
    let label = label(pool, names::LABEL_OWNER_APPLICATION_GV)?;
    if label.len() < VALUE_MAX {
        return parse_application_gv(label);
    }
    let [group, version] = [names::AFFINITY_APP_API_GROUP, names::AFFINITY_APP_API_VERSION].map(|key| affinity(pool, key));
    let named = format!("{}/{}", group?, version?);
    (owner_label(&application_label_gv(&named)) == label).then_some(named)
}

fn label<'a>(pool: &'a SpiderIPPool, key: &str) -> Option<&'a str> {
    pool.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn affinity<'a>(pool: &'a SpiderIPPool, key: &str) -> Option<&'a str> {
    pool.spec.pod_affinity.as_ref()?.match_labels.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use kube_machinery::label_selector::is_value;
    use serde_json::json;

    use super::*;

    fn pool(name: &str, app_name: &str, owner: &str) -> SpiderIPPool {
        let labels =
            json!({names::LABEL_OWNER_APPLICATION_NAME: name, names::LABEL_OWNER_SUBNET: name, names::LABEL_OWNER_APPLICATION_GV: name});
        let affinity =
            json!({names::AFFINITY_APP_NAME: app_name, names::AFFINITY_APP_API_GROUP: app_name, names::AFFINITY_APP_API_VERSION: "v1"});
        let owner = json!({"apiVersion": "a/b", "kind": "SpiderSubnet", "name": owner, "uid": "u", "controller": true});
        serde_json::from_value(json!({
            "metadata": {"name": "p", "labels": labels, "ownerReferences": [owner]},
            "spec": {"subnet": "10.0.0.0/24", "podAffinity": {"matchLabels": affinity}},
        }))
        .unwrap()
    }

    #[test]
    fn names_that_fit_are_their_labels_and_longer_ones_are_told_apart_by_their_ends() {
        for name in ["web".to_owned(), "x".repeat(63)] {
            assert_eq!(owner_label(&name), name);
        }
        let long = |end: &str| format!("{}.{end}", "x-y.".repeat(30));
        for name in [long("a"), long("b"), format!("{}a", "x".repeat(63)), "x".repeat(64), "x".repeat(253)] {
            let label = owner_label(&name);
            assert!(label.len() == 63 && is_value(&label) && name.starts_with(&label[..46]), "{label}");
        }
        assert_ne!(owner_label(&long("a")), owner_label(&long("b")));
        // Labels of existing pools must stay readable, so this must be the same in every release.
        assert_eq!(owner_label(&"x".repeat(69)), format!("{}-af5b54877f3e2664", "x".repeat(46)));
    }

    #[test]
    fn a_cut_label_stands_for_the_name_that_the_pool_has_in_full_and_for_no_other() {
        let long = "x".repeat(69);
        let label = owner_label(&long);
        let named = pool(&label, &long, &long);
        assert_eq!((application_name_of(&named), subnet_of(&named)), (Some(&*long), Some(&*long)));
        // A workload may have the same name as another one's label.
        let namesake = pool(&label, &label, &label);
        assert_eq!((application_name_of(&namesake), subnet_of(&namesake)), (Some(&*label), Some(&*label)));
        let lost = pool(&label, "web", "s");
        assert_eq!((application_name_of(&lost), subnet_of(&lost), application_version_of(&lost)), (None, None, None));
        // A name that fits is trusted, whatever the rest of the pool says.
        let short = pool("web", "else", "else");
        assert_eq!((application_name_of(&short), subnet_of(&short)), (Some("web"), Some("web")));
    }

    #[test]
    fn a_long_api_group_is_found_in_the_affinity() {
        let group = "x".repeat(69);
        let pool = pool(&owner_label(&application_label_gv(&format!("{group}/v1"))), &group, "s");
        assert_eq!(application_version_of(&pool), Some(format!("{group}/v1")));
    }
}
