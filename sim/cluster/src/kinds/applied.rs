//! What server-side apply has to know of a type that is defined while the cluster runs.

use std::fmt;

use serde_json::Value;

use crate::managed_fields::FieldTypes;
use crate::object::Obj;

/// How objects of a type are applied of which only its definition knows the fields: part of its registration
/// ([`TypeDef::with`](super::TypeDef::with)).
pub struct AppliedType {
    /// The types of its fields, as they are now.
    pub fields: Box<dyn Fn() -> FieldTypes + Send + Sync>,
    /// Reads an object that an apply has made. A list or map of which nothing is left is null there.
    pub decode: Box<dyn Fn(Value) -> Result<Obj, String> + Send + Sync>,
}

impl fmt::Debug for AppliedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppliedType").finish_non_exhaustive()
    }
}
