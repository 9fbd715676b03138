//! The server's handling of a request.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::change::{
    about, changed, check_part, check_preconditions, check_uid, check_version, count_generation, created, grace_of, is_held, is_over,
    is_terminating, patched, terminating, written,
};
use super::traits::Traits;
use super::{Objects, Stored, kind, read};
use crate::api::{
    ApiError, Call, DeleteOptions, Dry, List, ListOptions, Object, ObjectKey, Reason, Reply, Status, Subresource, VersionMatch,
};

impl Objects {
    /// Carries out a request at the time `now`.
    ///
    /// # Errors
    /// Those of K §2.
    ///
    /// # Panics
    /// If this store does not support the request.
    pub fn serve<K: Object>(&mut self, call: &Call<K>, now: Timestamp) -> Result<Reply<K>, ApiError> {
        self.serve_admitted(call, now, |_, _, new| Ok(new))
    }

    /// The same with webhooks, which get the object before and after, and return the object to store. They see neither deletes nor writes
    /// of `/status`.
    ///
    /// # Errors
    /// Those of K §2, and those of `admit`.
    ///
    /// # Panics
    /// If this store does not support the request.
    pub fn serve_admitted<K: Object>(
        &mut self,
        call: &Call<K>,
        now: Timestamp,
        admit: impl FnOnce(&Self, Option<&Value>, Value) -> Result<Value, ApiError>,
    ) -> Result<Reply<K>, ApiError> {
        // The server's clock shows whole seconds.
        let now = Timestamp::from_second(now.as_second()).expect("it is a time");
        let object = |stored: Arc<Stored>| Ok(Reply::Object(stored.read()));
        match call {
            Call::Get { key, .. } => object(self.stored::<K>(key)?),
            Call::List { namespace, options } => Ok(Reply::List(self.list(namespace.as_deref(), options))),
            Call::Create { body, dry: Dry::No, .. } => object(self.create(&**body, now, admit)?),
            Call::Update { key, body, subresource, dry: Dry::No } => {
                let of = self.traits::<K>();
                check_part(*subresource, of)?;
                let body = written(&**body);
                let before = match self.stored::<K>(key) {
                    Ok(before) => before,
                    Err(_) if of.is_created_by_update => {
                        check_uid::<K>(key, "", &body, of)?;
                        let mut body: K = read(&body);
                        // The version of the body is ignored (K083).
                        body.meta_mut().resource_version = None;
                        return object(self.create(&body, now, admit)?);
                    }
                    Err(error) => return Err(error),
                };
                check_uid::<K>(key, before.uid(), &body, of)?;
                check_version::<K>(key, &before.value, &body, of)?;
                object(self.write::<K>(key, &before, body, *subresource, admit)?)
            }
            Call::Patch { key, patch, subresource, dry: Dry::No } => {
                let of = self.traits::<K>();
                check_part(*subresource, of)?;
                let before = self.stored::<K>(key)?;
                let value = patched::<K>(&before.value, patch)?;
                check_version::<K>(key, &before.value, &value, of)?;
                object(self.write::<K>(key, &before, value, *subresource, admit)?)
            }
            Call::Delete { key, options: options @ DeleteOptions { dry: Dry::No, .. } } => self.delete(key, options, now),
            _ => unreachable!("nobody asks for a dry run"),
        }
    }

    fn traits<K: Object>(&self) -> Traits {
        Traits::of::<K>(self.without_status)
    }

    fn stored<K: Object>(&self, key: &ObjectKey) -> Result<Arc<Stored>, ApiError> {
        self.find(&K::kind(&()), key).cloned().ok_or_else(|| about::<K>(Reason::NotFound, key, "").into())
    }

    /// Lists the newest state, that of the watch cache, or exactly one version (K §2.2).
    fn list<K: Object>(&self, namespace: Option<&str>, options: &ListOptions) -> List<K> {
        let ListOptions { resource_version, resource_version_match, limit, continue_token, label_selector, field_selector } = options;
        assert!(field_selector.is_none() && continue_token.is_none(), "nobody selects by fields, and there are no pages");
        let kind = kind::<K>();
        let version = resource_version.as_deref().map(|version| version.parse::<u64>().expect("a version that this store gave"));
        let revision = match (version, resource_version_match) {
            (None, _) => self.revision,
            (Some(version), Some(VersionMatch::Exact)) => version,
            (Some(_), _) => self.held.get(&kind).copied().unwrap_or(self.revision),
        };
        assert!(version.is_none_or(|version| version <= revision), "nobody asks for the future");
        let has_label = |value: &Value, term: &str| {
            let (label, wanted) = term.split_once('=').expect("a label and its value");
            value["metadata"]["labels"][label] == json!(wanted)
        };
        let is_wanted = |(key, stored): &(&ObjectKey, &Arc<Stored>)| {
            namespace.is_none_or(|namespace| key.namespace() == Some(namespace))
                && label_selector.iter().flat_map(|selector| selector.split(',')).all(|term| has_label(&stored.value, term))
        };
        let items: Vec<_> = self.at(&kind, revision).iter().filter(is_wanted).map(|(_, stored)| stored.read()).collect();
        assert!(*limit == 0 || version == Some(0) || items.len() <= *limit as usize, "there are no pages");
        List { resource_version: revision.to_string(), items, continue_token: None, remaining: None }
    }

    fn create<K: Object>(
        &mut self,
        body: &K,
        now: Timestamp,
        admit: impl FnOnce(&Self, Option<&Value>, Value) -> Result<Value, ApiError>,
    ) -> Result<Arc<Stored>, ApiError> {
        let (of, key) = (self.traits::<K>(), ObjectKey::of(body));
        assert!(!key.name().is_empty(), "nobody has a name generated");
        // Admission comes first: the store is checked only for admitted objects.
        let mut value = admit(self, None, created(body, of))?;
        if body.meta().resource_version.as_ref().is_some_and(|version| version.parse().is_ok_and(|version: u64| version > 0)) {
            return Err(Status::new(Reason::Unknown, "resourceVersion should not be set on objects to be created").into());
        }
        if let Ok(existing) = self.stored::<K>(&key) {
            let text = if is_terminating(&existing.value) { "object is being deleted: " } else { "" };
            return Err(about::<K>(Reason::AlreadyExists, &key, text).into());
        }
        value["metadata"]["uid"] = json!(self.next_uid());
        value["metadata"]["creationTimestamp"] = json!(now.to_string());
        Ok(self.store(&kind::<K>(), &key, value))
    }

    /// Stores a client's change of an object.
    fn write<K: Object>(
        &mut self,
        key: &ObjectKey,
        before: &Stored,
        body: Value,
        part: Option<Subresource>,
        admit: impl FnOnce(&Self, Option<&Value>, Value) -> Result<Value, ApiError>,
    ) -> Result<Arc<Stored>, ApiError> {
        let of = self.traits::<K>();
        let before = written(&*before.read::<K>());
        let mut value = changed::<K>(key, &before, body, part, of)?;
        if part.is_none() {
            value = admit(self, Some(&before), value)?;
        }
        count_generation(&mut value, &before, of);
        if is_over(&value) {
            // The object is removed without being changed first: watchers get the stored state, the writer gets the changed one.
            self.remove(&K::kind(&()), key);
            return Ok(Stored::of(value));
        }
        if value == before { self.stored::<K>(key) } else { Ok(self.store(&kind::<K>(), key, value)) }
    }

    fn delete<K: Object>(&mut self, key: &ObjectKey, options: &DeleteOptions, now: Timestamp) -> Result<Reply<K>, ApiError> {
        let (of, mut stored) = (self.traits::<K>(), self.stored::<K>(key)?);
        check_preconditions::<K>(key, &stored.value, options)?;
        assert!(options.propagation.is_none(), "nobody says what becomes of dependents");
        if !of.is_graceful && !is_held(&stored.value) {
            self.remove(&K::kind(&()), key);
            return Ok(Reply::Deleted { uid: stored.uid().to_owned() });
        }
        if let Some(seconds) = grace_of(&stored.value, options, of) {
            stored = self.store(&kind::<K>(), key, terminating(&stored.value, seconds, now));
            // Without grace the object is marked, and then removed.
            if is_over(&stored.value) {
                self.remove(&K::kind(&()), key);
                stored = Stored::of(self.at_this_revision(stored.value.clone()));
            }
        }
        Ok(Reply::Object(stored.read()))
    }
}
