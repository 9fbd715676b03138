//! Server-side apply for a type that is defined while the cluster runs.

use std::fmt;

use serde_json::Value;

use crate::managed_fields::FieldTypes;
use crate::object::Obj;

/// The information for server-side apply of a type whose fields only its definition knows: part of its registration
/// ([`TypeDef::with`](super::TypeDef::with)).
pub struct AppliedType {
    /// Returns the present types of its fields.
    pub fields: Box<dyn Fn() -> FieldTypes + Send + Sync>,
    /// Reads an object that results from an apply. A list or map with nothing left is null there.
    pub decode: Box<dyn Fn(Value) -> Result<Obj, String> + Send + Sync>,
}

impl fmt::Debug for AppliedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppliedType").finish_non_exhaustive()
    }
}
