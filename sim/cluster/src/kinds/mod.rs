//! The types that a cluster serves and the rules of each (K §1.3): permitted updates, the owner of the status, the course of a delete, the
//! fields of selectors.
//!
//! The store is open: a scenario registers the types it needs.

#[macro_use]
mod status;

mod applied;
mod budget;
mod builtin;
mod config_map;
mod content;
mod custom;
pub mod kruise;
mod kubevirt;
pub mod naming;
mod served;

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::sync::OnceLock;

use jiff::Timestamp;
use kube_machinery::api::Cause;
use kube_machinery::{FxHashMap, Object};
use serde_json::Value;
use served::View;
use sim_config::Problems;
use sim_config::manifest::{Manifest, decode_value};

use crate::object::{AnyObject, Obj, typed_ref};

pub use crate::status_subresource;
pub use applied::AppliedType;
pub use builtin::{builtin, immutable, latecomers};
pub use config_map::config_map_faults;
pub use content::{Moment, moment};
pub use kubevirt::kubevirt;
pub use served::Served;

/// The registrations of Kubernetes' own types, of `systems`, and of the operators that a cluster may run.
pub fn all(systems: impl IntoIterator<Item = TypeDef>) -> Vec<TypeDef> {
    builtin().into_iter().chain(systems).chain(kubevirt()).chain(latecomers()).collect()
}

/// The rules of one type. The defaults are those of an ordinary built-in type.
///
/// `By` is the declarer of the rules. A crate with rules for a type that it does not define uses a local type there, as Rust's orphan rule
/// requires, and registers with [`TypeDef::by`].
pub trait Stored<By = ()>: Object {
    /// Whether objects live in namespaces.
    const NAMESPACED: bool = true;
    /// Whether a delete has a grace period (K §2.10).
    const GRACEFUL: bool = false;
    /// Whether a PUT without resourceVersion is accepted (K §1.3).
    const UNCONDITIONAL_UPDATE: bool = true;
    /// Whether a PUT creates an absent object.
    const CREATE_ON_UPDATE: bool = false;
    /// Whether the type is a custom resource: no strategic merge patch, `/status` resets metadata (K078, K091).
    const CUSTOM: bool = false;
    /// Whether `/status` is a separate subresource.
    const HAS_STATUS: bool = false;
    /// Whether metadata.generation is maintained.
    const HAS_GENERATION: bool = true;
    /// Whether a type without a generation keeps the one in a create unchanged (K010).
    const KEEPS_GENERATION: bool = false;
    /// Whether a delete answers with the object that it removed, in place of a Status (K095).
    const RETURNS_DELETED: bool = false;
    /// Whether the first delete only begins the deletion, even if nothing holds the object, and the second removes it (namespaces).
    const TERMINATES_FIRST: bool = false;
    /// Whether a create may carry a status (K §1.2, last row).
    const KEEPS_STATUS_ON_CREATE: bool = false;
    /// Field selectors besides metadata.name and metadata.namespace (K §2.2).
    const FIELDS: &'static [&'static str] = &[];

    /// The field by whose value an API server finds the watches that a change concerns, without checking the others (`IndexedTrigger` of
    /// Kubernetes' cacher). One of [`Stored::FIELDS`].
    const TRIGGER: Option<&'static str> = None;

    /// Reads an object of this type from JSON. `other` is an object in the cluster: a type that is known only at run time takes its
    /// definition from there.
    ///
    /// # Errors
    /// The parts that do not fit the type.
    fn decode_like(value: Value, other: &Self) -> Result<Self, String> {
        let _ = other;
        decode_value(value)
    }

    /// Takes the status of `other`; only called with [`Stored::HAS_STATUS`].
    fn copy_status(&mut self, other: &Self) {
        let _ = other;
    }

    /// A copy of this object with the status of `other`. Types with a large status implement it without copying the one that is replaced.
    fn with_status_of(&self, other: &Self) -> Self {
        let mut object = self.clone();
        object.copy_status(other);
        object
    }

    /// Applies a write to `/binding` (K126), or returns the reason why not; `None` = the type has no such subresource.
    fn bind(&mut self, body: &Self, now: Timestamp) -> Binding {
        let _ = (body, now);
        None
    }

    /// Sets the status of a new object.
    fn reset_status(&mut self) {}

    /// Whether anything but metadata and status differs.
    fn spec_differs(&self, other: &Self) -> bool {
        let _ = other;
        false
    }

    /// The errors of the object alone; metadata is checked elsewhere.
    fn validate(&self) -> Vec<Cause> {
        Vec::new()
    }

    /// Whether the statuses certainly differ, so that the whole objects need not be compared.
    fn status_differs(&self, other: &Self) -> bool {
        let _ = other;
        false
    }

    /// The errors of changing `old` into this object; metadata is checked elsewhere.
    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        let _ = old;
        Vec::new()
    }

    /// The errors of an update of the status alone, after which this object has the spec of `old`.
    fn validate_status_update(&self, old: &Self) -> Vec<Cause> {
        self.validate_update(old)
    }

    /// The value of a field named in [`Stored::FIELDS`].
    fn field(&self, name: &str) -> Cow<'_, str> {
        let _ = name;
        Cow::Borrowed("")
    }

    /// The seconds of grace of a delete that names none. Only for [`Stored::GRACEFUL`] types.
    fn default_grace_seconds(&self) -> i64 {
        0
    }

    /// Whether a delete of this object is without grace whatever the request says (K100).
    fn deletes_at_once(&self) -> bool {
        true
    }

    /// Takes fields from the stored object that an update silently does not change.
    fn keep(&mut self, stored: &Self) {
        let _ = stored;
    }

    /// Fills in fields that a write omits but the server always stores, in a create as in an update (K157, K206).
    fn fill_defaults(&mut self) {}

    /// Sets the fields that the server itself adds to a new object.
    fn on_create(&mut self) {}

    /// Sets the fields that the beginning of a deletion changes besides metadata.
    fn on_deletion(&mut self) {}

    /// Whether something besides finalizers keeps a terminating object (a namespace's content).
    fn is_held(&self) -> bool {
        false
    }

    /// The size in bytes of the parts of the object that can grow without bound, as far as it is known without converting; metadata is
    /// counted elsewhere. A custom resource is stored as JSON, in which texts are longer because of escapes: count them with
    /// [`escaped_len`](kube_machinery::json_text::escaped_len). Names of fields are left out, so the limits of K §1.3 are reached a few
    /// hundred bytes late. 0 = nothing can grow.
    fn size(&self) -> usize {
        0
    }

    /// A number that distinguishes contents of this type, without metadata: it enters the digest of a run with every write. Must be cheap,
    /// must not depend on which client has read the object, and need not cover fields that no actor ever writes.
    fn content(&self) -> u64 {
        0
    }
}

/// The number of a type in its registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub u16);

/// The result of a binding: an error says why not; `None` for a type without that subresource.
pub type Binding = Option<Result<(), String>>;

/// A registered type: [`Stored`] with its type erased.
pub struct TypeDef {
    /// The Kind, as in `kind` of a manifest.
    pub kind: &'static str,
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version without the group, such as `v1`; the only one that is served.
    pub version: &'static str,
    /// The plural, as in URLs.
    pub plural: &'static str,
    /// Whether objects live in namespaces, otherwise in the cluster: [`Stored::NAMESPACED`].
    pub namespaced: bool,
    /// Whether a delete has a grace period, like that of a pod: [`Stored::GRACEFUL`].
    pub graceful: bool,
    /// Whether a PUT without resourceVersion is accepted, otherwise it is 422: [`Stored::UNCONDITIONAL_UPDATE`].
    pub unconditional_update: bool,
    /// Whether a PUT of an absent object creates it, otherwise it is an error: [`Stored::CREATE_ON_UPDATE`].
    pub create_on_update: bool,
    /// Whether it follows the rules of custom resources: [`Stored::CUSTOM`].
    pub custom: bool,
    /// Whether `/status` is a separate subresource, so that an update of the object leaves the status unchanged: [`Stored::HAS_STATUS`].
    pub has_status: bool,
    /// Whether the server counts changes in `metadata.generation`: [`Stored::HAS_GENERATION`].
    pub has_generation: bool,
    /// Whether a generation that is not counted stays as in the create, otherwise it is dropped: [`Stored::KEEPS_GENERATION`].
    pub keeps_generation: bool,
    /// Whether a delete is answered with the removed object: [`Stored::RETURNS_DELETED`].
    pub returns_deleted: bool,
    /// Whether the first delete only marks the object, even if nothing holds it: [`Stored::TERMINATES_FIRST`].
    pub terminates_first: bool,
    /// Whether a create stores the status in its body, otherwise it is reset: [`Stored::KEEPS_STATUS_ON_CREATE`].
    pub keeps_status_on_create: bool,
    /// The fields that a field selector may name, besides name and namespace: [`Stored::FIELDS`].
    pub fields: &'static [&'static str],
    pub(crate) trigger: Option<&'static str>,
    pub(crate) copy_status: fn(&mut dyn AnyObject, &dyn AnyObject),
    pub(crate) with_status_of: fn(&dyn AnyObject, &dyn AnyObject) -> Obj,
    pub(crate) bind: fn(&mut dyn AnyObject, &dyn AnyObject, Timestamp) -> Binding,
    pub(crate) reset_status: fn(&mut dyn AnyObject),
    pub(crate) spec_differs: fn(&dyn AnyObject, &dyn AnyObject) -> bool,
    pub(crate) validate: fn(&dyn AnyObject) -> Vec<Cause>,
    pub(crate) status_differs: fn(&dyn AnyObject, &dyn AnyObject) -> bool,
    pub(crate) validate_update: fn(&dyn AnyObject, &dyn AnyObject) -> Vec<Cause>,
    pub(crate) validate_status_update: fn(&dyn AnyObject, &dyn AnyObject) -> Vec<Cause>,
    pub(crate) field: for<'a> fn(&'a dyn AnyObject, &str) -> Cow<'a, str>,
    pub(crate) default_grace_seconds: fn(&dyn AnyObject) -> i64,
    pub(crate) deletes_at_once: fn(&dyn AnyObject) -> bool,
    pub(crate) keep: fn(&mut dyn AnyObject, &dyn AnyObject),
    pub(crate) fill_defaults: fn(&mut dyn AnyObject),
    pub(crate) on_create: fn(&mut dyn AnyObject),
    pub(crate) on_deletion: fn(&mut dyn AnyObject),
    pub(crate) is_held: fn(&dyn AnyObject) -> bool,
    pub(crate) size: fn(&dyn AnyObject) -> usize,
    content: fn(&dyn AnyObject) -> u64,
    /// Reads an object of the type from a manifest, with the fields that the type does not know.
    pub decode: fn(&Manifest) -> Result<(Obj, Problems), Problems>,
    /// Reads an object of the type from JSON. Fields that the type does not know are ignored.
    pub from_value: fn(Value) -> Result<Obj, String>,
    pub(crate) decode_like: fn(Value, &dyn AnyObject) -> Result<Obj, String>,
    type_id: TypeId,
    views: Vec<View>,
    extensions: Vec<Box<dyn Any + Send + Sync>>,
}

fn typed_mut<K: Object>(object: &mut dyn AnyObject) -> &mut K {
    object.as_any_mut().downcast_mut().unwrap_or_else(|| panic!("the object is not a {}", std::any::type_name::<K>()))
}

fn leak(text: Cow<'static, str>) -> &'static str {
    match text {
        Cow::Borrowed(text) => text,
        // Derived types answer with constants; a type that does not would leak once per registration.
        Cow::Owned(text) => text.leak(),
    }
}

impl TypeDef {
    /// The registration of `K`.
    pub fn of<K: Stored>() -> Self {
        Self::by::<(), K>()
    }

    /// The registration of `K` by the rules that `By` declares.
    pub fn by<By, K: Stored<By>>() -> Self {
        Self {
            kind: leak(K::kind(&())),
            group: leak(K::group(&())),
            version: leak(K::version(&())),
            plural: leak(K::plural(&())),
            namespaced: K::NAMESPACED,
            graceful: K::GRACEFUL,
            unconditional_update: K::UNCONDITIONAL_UPDATE,
            create_on_update: K::CREATE_ON_UPDATE,
            custom: K::CUSTOM,
            has_status: K::HAS_STATUS,
            has_generation: K::HAS_GENERATION,
            keeps_generation: K::KEEPS_GENERATION,
            returns_deleted: K::RETURNS_DELETED,
            terminates_first: K::TERMINATES_FIRST,
            keeps_status_on_create: K::KEEPS_STATUS_ON_CREATE,
            fields: K::FIELDS,
            trigger: K::TRIGGER,
            copy_status: |object, other| typed_mut::<K>(object).copy_status(typed_ref(other)),
            with_status_of: |object, other| std::sync::Arc::new(typed_ref::<K>(object).with_status_of(typed_ref(other))),
            bind: |object, body, now| typed_mut::<K>(object).bind(typed_ref(body), now),
            reset_status: |object| typed_mut::<K>(object).reset_status(),
            spec_differs: |object, other| typed_ref::<K>(object).spec_differs(typed_ref(other)),
            validate: |object| typed_ref::<K>(object).validate(),
            status_differs: |object, other| typed_ref::<K>(object).status_differs(typed_ref(other)),
            validate_update: |object, old| typed_ref::<K>(object).validate_update(typed_ref(old)),
            validate_status_update: |object, old| typed_ref::<K>(object).validate_status_update(typed_ref(old)),
            field: |object, name| typed_ref::<K>(object).field(name),
            default_grace_seconds: |object| typed_ref::<K>(object).default_grace_seconds(),
            deletes_at_once: |object| typed_ref::<K>(object).deletes_at_once(),
            keep: |object, stored| typed_mut::<K>(object).keep(typed_ref(stored)),
            fill_defaults: |object| typed_mut::<K>(object).fill_defaults(),
            on_create: |object| typed_mut::<K>(object).on_create(),
            on_deletion: |object| typed_mut::<K>(object).on_deletion(),
            is_held: |object| typed_ref::<K>(object).is_held(),
            size: |object| typed_ref::<K>(object).size(),
            content: |object| typed_ref::<K>(object).content(),
            decode: |manifest| {
                let mut problems = naming::check(manifest, K::NAMESPACED);
                let decoded = problems.collect(manifest.decode_with_unknown::<K>());
                let (true, Some((object, unknown))) = (problems.is_empty(), decoded) else { return Err(problems) };
                Ok((std::sync::Arc::new(object), unknown))
            },
            from_value: |value| {
                let object: K = decode_value(value)?;
                Ok(std::sync::Arc::new(object))
            },
            decode_like: |value, other| Ok(std::sync::Arc::new(K::decode_like(value, typed_ref(other))?)),
            type_id: TypeId::of::<K>(),
            views: Vec::new(),
            extensions: Vec::new(),
        }
    }

    /// This registration with information on the type for a part of the cluster; see [`TypeDef::extension`].
    #[must_use]
    pub fn with(mut self, extension: impl Any + Send + Sync) -> Self {
        self.extensions.push(Box::new(extension));
        self
    }

    /// The information on the type for a part of the cluster, if its registration has it.
    pub fn extension<T: Any>(&self) -> Option<&T> {
        self.extensions.iter().find_map(|extension| extension.downcast_ref())
    }

    /// A number that distinguishes this content of an object from others, for the digest of a run.
    pub fn content_of(&self, object: &dyn AnyObject) -> u64 {
        content::of_metadata(object.meta()).word((self.content)(object)).finish()
    }

    /// `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// The types a cluster serves.
pub struct Registry {
    types: Vec<TypeDef>,
    /// Slots for types that are defined while the cluster runs.
    late: Box<[OnceLock<TypeDef>]>,
    by_type: FxHashMap<TypeId, (KindId, Option<View>)>,
}

impl Registry {
    /// A registry of `types`; a type registered twice counts once. A second Rust type for one Kind replaces the first, and has the first as
    /// a view ([`TypeDef::viewed_as`]): clients of either are served. Panics if it has no such view.
    pub fn new(types: impl IntoIterator<Item = TypeDef>) -> Self {
        let mut registry = Self { types: Vec::new(), late: Box::default(), by_type: FxHashMap::default() };
        for def in types {
            let there = registry.types.iter().position(|other| (other.group, other.kind) == (def.group, def.kind));
            if let Some(index) = there.filter(|&index| registry.types[index].type_id != def.type_id) {
                let replaced = registry.types[index].type_id;
                assert!(
                    def.views.iter().any(|view| view.type_id == replaced),
                    "{} is registered twice, as types that are no views",
                    def.kind
                );
                let kind = KindId(index as u16);
                registry.by_type.insert(def.type_id, (kind, None));
                registry.by_type.extend(def.views.iter().map(|view| (view.type_id, (kind, Some(*view)))));
                registry.types[index] = def;
            } else if there.is_none() {
                let kind = KindId(registry.types.len() as u16);
                registry.by_type.insert(def.type_id, (kind, None));
                registry.by_type.extend(def.views.iter().map(|view| (view.type_id, (kind, Some(*view)))));
                registry.types.push(def);
            }
        }
        registry
    }

    /// This registry with room for types that are defined while the cluster runs ([`Registry::define`]).
    #[must_use]
    pub fn with_room_for(mut self, types: usize) -> Self {
        self.late = std::iter::repeat_with(OnceLock::new).take(types).collect();
        self
    }

    /// Adds a type to a running cluster, as a CustomResourceDefinition does. Returns its number, or `None` if there is no room left.
    pub fn define(&self, def: TypeDef) -> Option<KindId> {
        let mut def = Some(def);
        let index = self.late.iter().position(|slot| {
            let free = slot.get().is_none();
            if free {
                let _ = slot.set(def.take().unwrap_or_else(|| unreachable!("the first free slot ends the search")));
            }
            free
        })?;
        Some(KindId((self.types.len() + index) as u16))
    }

    /// The number of `K`, which is a stored type or a view of one. Panics if the type is not registered, which is a bug
    /// of the scenario's set-up.
    pub fn id<K: Object>(&self) -> KindId {
        self.served::<K>().kind
    }

    /// The way clients of `K` are served. Panics like [`Registry::id`].
    pub fn served<K: Object>(&self) -> Served<K> {
        let (kind, view) = *self
            .by_type
            .get(&TypeId::of::<K>())
            .unwrap_or_else(|| panic!("{} is not registered: the simulated cluster does not serve it", std::any::type_name::<K>()));
        Served::new(kind, view)
    }

    /// The type with this number.
    pub fn get(&self, kind: KindId) -> &TypeDef {
        let index = usize::from(kind.0);
        match self.types.get(index) {
            Some(def) => def,
            None => self.late[index - self.types.len()].get().unwrap_or_else(|| unreachable!("numbers are given out with their types")),
        }
    }

    /// The type of a manifest.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<KindId> {
        self.iter().find(|(_, def)| def.kind == kind && def.api_version() == api_version).map(|(kind, _)| kind)
    }

    /// Every type, in order of registration.
    pub fn iter(&self) -> impl Iterator<Item = (KindId, &TypeDef)> {
        let late = self.late.iter().map_while(OnceLock::get);
        self.types.iter().chain(late).enumerate().map(|(index, def)| (KindId(index as u16), def))
    }

    /// The number of types that there can be.
    pub fn len(&self) -> usize {
        self.types.len() + self.late.len()
    }

    /// Whether there can be no type.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
