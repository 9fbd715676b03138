//! Requests to an API server and their replies.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Object, ObjectKey, Status};

/// The verb of a request (K §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Verb {
    /// Read one object by its key (K §2.1).
    Get,
    /// Read all objects of a type, of one namespace or of all, at one revision (K §2.2).
    List,
    /// Open a stream of changes.
    Watch,
    /// POST: fails with AlreadyExists if the name is taken.
    Create,
    /// PUT: replaces an object; guarded if the body has a resourceVersion (K §2.7).
    Update,
    /// PATCH: the server reads, applies the change and writes. Not guarded unless it has a resourceVersion (K §2.9).
    Patch,
    /// DELETE: removes the object, or marks it as terminating (K §2.10).
    Delete,
}

impl Verb {
    /// Every verb, in declaration order.
    pub const ALL: [Verb; 7] = [Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete];

    /// Whether the verb may change stored state.
    pub fn is_write(self) -> bool {
        matches!(self, Verb::Create | Verb::Update | Verb::Patch | Verb::Delete)
    }

    /// The name in Kubernetes' authorization, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A part of an object that is written separately (K §2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subresource {
    /// `/status`: only the status, which an update of the object does not change (K §2.8).
    Status,
    /// `/binding` of a Pod (K126): of the body only the name, the UID, if it has one, and `spec.nodeName` count. A real API server takes it
    /// as a POST of a `Binding`.
    Binding,
    /// `/finalize` of a Namespace: its `spec.finalizers`, which an update of the object does not change.
    Finalize,
}

impl Subresource {
    /// The name in URLs.
    pub fn as_str(self) -> &'static str {
        match self {
            Subresource::Status => "status",
            Subresource::Binding => "binding",
            Subresource::Finalize => "finalize",
        }
    }
}

/// The dry-run mode of a write: carried out or only checked (`dryRun=All`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dry {
    /// Carry it out, as without `dryRun`.
    #[default]
    No,
    /// Do everything but the write.
    Run,
}

/// The meaning of the `resourceVersion` of a list (K §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// That version or a later one.
    NotOlderThan,
    /// Exactly that version, which may be compacted (Expired) or not yet known (Timeout); not `"0"`.
    Exact,
}

/// Parameters of a list (K §2.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// Unset = consistent; `"0"` = any state the server's cache has; else see [`VersionMatch`].
    pub resource_version: Option<String>,
    /// The meaning of `resource_version`; unset = the legacy rules.
    pub resource_version_match: Option<VersionMatch>,
    /// At most this many items per page; 0 = all.
    pub limit: u32,
    /// The token of the previous page.
    pub continue_token: Option<String>,
    /// Label selector in the text form of `kubectl -l`.
    pub label_selector: Option<String>,
    /// Field selector in the text form of `kubectl --field-selector`.
    pub field_selector: Option<String>,
}

/// Parameters of a watch (K §2.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOptions {
    /// Events strictly after this version; unset and `"0"` start with the server's cached state.
    pub resource_version: Option<String>,
    /// Must be [`VersionMatch::NotOlderThan`] with `send_initial_events` and unset without; anything else is Invalid.
    pub resource_version_match: Option<VersionMatch>,
    /// Label selector in the text form of `kubectl -l`.
    pub label_selector: Option<String>,
    /// Field selector in the text form of `kubectl --field-selector`.
    pub field_selector: Option<String>,
    /// Whether the server may send bookmarks.
    pub allow_bookmarks: bool,
    /// The server ends the stream cleanly after this many seconds; unset = 30 to 60 minutes.
    pub timeout_seconds: Option<u32>,
    /// Start with the state as synthetic ADDED events and an end bookmark (K §2.3).
    pub send_initial_events: bool,
}

/// Conditions for a delete to go ahead (K §2.10).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The UID that the stored object must have: protects a later incarnation from a delete by name. Checked first (K094).
    pub uid: Option<String>,
    /// The resourceVersion that the stored object must have, so that it has not changed since it was read.
    pub resource_version: Option<String>,
}

/// The treatment of a deleted object's dependents (K105).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector deletes them when the object is gone.
    Background,
    /// The dependents go first: the object stays, terminating, until they are gone.
    Foreground,
    /// The dependents lose the object as their owner and stay.
    Orphan,
}

/// Parameters of a delete (K §2.10).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Seconds of grace; unset = the type's default; negative counts as 1.
    pub grace_period_seconds: Option<i64>,
    /// Checked against the stored object; a mismatch is a Conflict.
    pub preconditions: Preconditions,
    /// The treatment of dependents; unset = that of an earlier delete, else background.
    pub propagation: Option<Propagation>,
    /// The dry-run mode: the delete is carried out or only checked.
    pub dry: Dry,
}

/// The format of a patch (K §2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/merge-patch+json`: null deletes a key, lists are replaced whole.
    Merge,
    /// `application/json-patch+json`: an array of operations; a `test` that fails is Invalid, not a Conflict.
    Json,
    /// `application/strategic-merge-patch+json`: built-in types only.
    Strategic,
    /// `application/apply-patch+yaml`: server-side apply, which creates an object that is missing.
    Apply,
}

/// A patch: the body as the client sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// The content type, which determines how `body` is read.
    pub kind: PatchKind,
    /// The patch as JSON: an array for [`PatchKind::Json`], else a part of the object.
    pub body: Arc<serde_json::Value>,
    /// `fieldManager`: the manager of the fields that it writes. Required for an apply; otherwise unset = the client's name.
    pub manager: Option<Arc<str>>,
    /// Whether an apply takes over fields that others manage.
    pub force: bool,
}

impl Patch {
    /// A patch of this kind, with the client as the manager.
    pub fn of(kind: PatchKind, body: impl Into<Arc<serde_json::Value>>) -> Self {
        Self { kind, body: body.into(), manager: None, force: false }
    }

    /// A merge patch (RFC 7386).
    pub fn merge(body: serde_json::Value) -> Self {
        Self::of(PatchKind::Merge, body)
    }

    /// A JSON patch (RFC 6902): `body` is the array of operations.
    pub fn json(body: serde_json::Value) -> Self {
        Self::of(PatchKind::Json, body)
    }

    /// Server-side apply: only the fields of an object that `manager` wants. `body` has apiVersion, kind and the name (K166).
    pub fn apply(manager: &str, body: serde_json::Value) -> Self {
        Self { manager: Some(manager.into()), ..Self::of(PatchKind::Apply, body) }
    }

    /// The same apply, but taking over fields that others manage instead of failing with a Conflict (K167).
    #[must_use]
    pub fn forced(self) -> Self {
        Self { force: true, ..self }
    }
}

/// One call, without the options of its transport.
#[derive(Clone, Debug)]
pub enum Call<K> {
    /// Read one object. `resource_version`: unset = most recent, `"0"` = any, N = not older than N (K §2.1).
    Get {
        /// Namespace and name of the object to read.
        key: ObjectKey,
        /// The freshness of the requested state.
        resource_version: Option<String>,
    },
    /// Read the objects of a type at one revision (K §2.2).
    List {
        /// All namespaces if unset.
        namespace: Option<Arc<str>>,
        /// Freshness, paging and selectors.
        options: ListOptions,
    },
    /// Create an object; AlreadyExists if the name is taken, even by an object that is terminating.
    Create {
        /// The namespace of the URL; unset for cluster-scoped types.
        namespace: Option<Arc<str>>,
        /// The object as sent.
        body: Arc<K>,
        /// The dry-run mode: the create is carried out or only checked.
        dry: Dry,
    },
    /// Replace an object, which must exist unless it is a Lease; a Conflict if the body has another resourceVersion or UID (K §2.7).
    Update {
        /// The name of the URL.
        key: ObjectKey,
        /// The object as sent.
        body: Arc<K>,
        /// Write only this part of it; unset = the object itself.
        subresource: Option<Subresource>,
        /// The dry-run mode: the update is carried out or only checked.
        dry: Dry,
    },
    /// Change an object by a description of the change.
    Patch {
        /// Namespace and name of the object to change; only an apply may name one that does not exist.
        key: ObjectKey,
        /// The change and its manager.
        patch: Patch,
        /// Change only this part of it; unset = the object itself.
        subresource: Option<Subresource>,
        /// The dry-run mode: the patch is carried out or only checked.
        dry: Dry,
    },
    /// Delete an object, at once or gracefully; for the result see [`Reply::into_remains`].
    Delete {
        /// Namespace and name of the object to delete.
        key: ObjectKey,
        /// Grace, preconditions, the treatment of dependents, and whether to only check.
        options: DeleteOptions,
    },
}

impl<K> Call<K> {
    /// The verb of the call.
    pub fn verb(&self) -> Verb {
        match self {
            Call::Get { .. } => Verb::Get,
            Call::List { .. } => Verb::List,
            Call::Create { .. } => Verb::Create,
            Call::Update { .. } => Verb::Update,
            Call::Patch { .. } => Verb::Patch,
            Call::Delete { .. } => Verb::Delete,
        }
    }
}

/// The most common calls: most recent state, whole objects, no dry run.
impl<K: Object> Call<K> {
    /// Reads the most recent state of an object (quorum read, K §2.1).
    pub fn get(key: &ObjectKey) -> Self {
        Call::Get { key: key.clone(), resource_version: None }
    }

    /// Creates an object in the namespace of its metadata.
    pub fn create(body: impl Into<Arc<K>>) -> Self {
        let body = body.into();
        Call::Create { namespace: body.meta().namespace.as_deref().map(Arc::from), body, dry: Dry::No }
    }

    /// Replaces an object; guarded by the body's resourceVersion if it has one.
    pub fn update(body: impl Into<Arc<K>>) -> Self {
        let body = body.into();
        Call::Update { key: ObjectKey::of(&*body), body, subresource: None, dry: Dry::No }
    }

    /// Replaces an object's status; guarded by the body's resourceVersion if it has one.
    pub fn update_status(body: impl Into<Arc<K>>) -> Self {
        let body = body.into();
        Call::Update { key: ObjectKey::of(&*body), body, subresource: Some(Subresource::Status), dry: Dry::No }
    }

    /// Changes an object by `patch`. Guarded only if the patch itself sets the resourceVersion (K §2.9).
    pub fn patch(key: &ObjectKey, patch: Patch) -> Self {
        Call::Patch { key: key.clone(), patch, subresource: None, dry: Dry::No }
    }
}

/// A call and the time that its caller is willing to wait.
#[derive(Clone, Debug)]
pub struct Request<K> {
    /// The call to the API server, without the timeout.
    pub call: Call<K>,
    /// The time after which the client gives up; unset = never (client-go's default, K §4.4). The server does not know it.
    pub timeout: Option<Duration>,
}

impl<K> From<Call<K>> for Request<K> {
    fn from(call: Call<K>) -> Self {
        Self { call, timeout: None }
    }
}

/// Many objects of one type at one revision (K §2.2).
#[derive(Clone, Debug)]
pub struct List<K> {
    /// The revision at which the list was evaluated.
    pub resource_version: String,
    /// The objects, by storage key.
    pub items: Vec<Arc<K>>,
    /// The token of the next page; unset on the last page.
    pub continue_token: Option<String>,
    /// The number of items after this page; unset with selectors.
    pub remaining: Option<u64>,
}

/// The answer to a call that succeeded.
#[derive(Clone, Debug)]
pub enum Reply<K> {
    /// The object as stored (200 or 201).
    Object(Arc<K>),
    /// The answer to a list, or one page of it.
    List(List<K>),
    /// The object is gone: a Status with `status: Success` and its UID (K §2.10). Some types answer with the object:
    /// [`Reply::into_remains`].
    Deleted {
        /// The UID of the object that was removed.
        uid: String,
    },
}

impl<K> Reply<K> {
    /// The object. Panics if the call was a list, or a delete that removed its object.
    pub fn into_object(self) -> Arc<K> {
        match self {
            Reply::Object(object) => object,
            Reply::List(_) | Reply::Deleted { .. } => unreachable!("an API server answers this verb with an object"),
        }
    }

    /// The list. Panics if the call was not a list.
    pub fn into_list(self) -> List<K> {
        match self {
            Reply::List(list) => list,
            Reply::Object(_) | Reply::Deleted { .. } => unreachable!("an API server answers a list with a list"),
        }
    }

    /// The result of a delete: `Some` = the object still exists and is terminating; `None` = it is gone. Panics if the call was a list.
    ///
    /// For Pods, Services and ServiceAccounts the reply is their last state (K095): an object that is terminating, without grace and
    /// without finalizers, is gone.
    pub fn into_remains(self) -> Option<Arc<K>>
    where
        K: Object,
    {
        match self {
            Reply::Object(object) => {
                let meta = object.meta();
                let is_held = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
                let stays = is_held || meta.deletion_timestamp.is_some() && meta.deletion_grace_period_seconds != Some(0);
                stays.then_some(object)
            }
            Reply::Deleted { .. } => None,
            Reply::List(_) => unreachable!("an API server answers a delete with an object or a Status"),
        }
    }
}

/// One element of a watch stream (K §2.3).
#[derive(Clone, Debug)]
pub enum WatchEvent<K: ?Sized> {
    /// The object exists, or began to match the selector.
    Added(Arc<K>),
    /// The object changed and still matches the selector; its state after the change.
    Modified(Arc<K>),
    /// The object is gone, or no longer matches the selector; carries its last (matching) state and the new revision.
    Deleted(Arc<K>),
    /// All events up to this revision have been sent.
    Bookmark {
        /// The version to resume from: a watch from here misses nothing.
        resource_version: String,
        /// `k8s.io/initial-events-end`: the initial state is complete.
        initial_events_end: bool,
    },
    /// The stream cannot go on and ends after this element.
    Error(Box<Status>),
}
