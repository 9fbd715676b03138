//! The requests that admission judges.

use std::sync::Arc;

/// The operation on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Create an object that does not exist yet.
    Create,
    /// Replace the state of an existing object.
    Update,
    /// Delete an existing object.
    Delete,
}

/// A request for admission.
#[derive(Debug)]
pub enum Request<'a, K> {
    /// Create this object, as the user wrote it or with its defaults.
    Create(&'a Arc<K>),
    /// Replace an object, terminating or not.
    Update {
        /// The object as it is stored.
        old: &'a Arc<K>,
        /// The object to be stored.
        new: &'a Arc<K>,
    },
    /// Delete this object, as it is stored.
    Delete(&'a Arc<K>),
}

impl<K> Clone for Request<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Request<'_, K> {}

impl<'a, K> Request<'a, K> {
    /// The operation of this request.
    pub fn operation(&self) -> Operation {
        match self {
            Self::Create(_) => Operation::Create,
            Self::Update { .. } => Operation::Update,
            Self::Delete(_) => Operation::Delete,
        }
    }

    /// The object to be stored, if there is one.
    pub fn object(&self) -> Option<&'a Arc<K>> {
        match self {
            Self::Create(new) | Self::Update { new, .. } => Some(new),
            Self::Delete(_) => None,
        }
    }

    /// The same request for another new object.
    pub fn with_new(self, new: Option<&'a Arc<K>>) -> Self {
        match (self, new) {
            (Self::Create(_), Some(new)) => Self::Create(new),
            (Self::Update { old, .. }, Some(new)) => Self::Update { old, new },
            (request, _) => request,
        }
    }
}
