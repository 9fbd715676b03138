//! Owners of objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The owner that controls an object; `None` if there is none. Other owners only decide how long the object lives.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str, controller: Option<bool>) -> OwnerReference {
        OwnerReference { name: name.to_owned(), controller, ..OwnerReference::default() }
    }

    #[test]
    fn an_owner_controls_only_where_it_says_so() {
        let owners = vec![owner("silent", None), owner("other", Some(false)), owner("set", Some(true))];
        let mut meta = ObjectMeta { owner_references: Some(owners), ..ObjectMeta::default() };
        assert_eq!(controller_of(&meta).map(|owner| &*owner.name), Some("set"));
        meta.owner_references.as_mut().unwrap().pop();
        assert_eq!(controller_of(&meta), None);
        assert_eq!(controller_of(&ObjectMeta::default()), None);
    }
}
