//! The types of the fields of custom resources, from the schemas of their definitions (K165).

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool};

use super::schema::{Field, Items, MapType, Scalar, TypeRef};

/// The types of the fields of a custom resource, for server-side apply. Without them in the registration
/// ([`TypeDef::with`](crate::kinds::TypeDef::with)), the lists of a type are owned as wholes and its maps entry by entry.
#[derive(Clone, Debug)]
pub struct FieldTypes(pub(super) TypeRef);

impl FieldTypes {
    /// Types for which only the metadata is known.
    pub(super) fn open() -> Self {
        Self(TypeRef::of_custom([], Some(TypeRef::any())))
    }

    /// The types that a structural schema declares, with its `x-kubernetes-list-type`, `-list-map-keys` and `-map-type`.
    pub fn of_schema(schema: &JSONSchemaProps) -> Self {
        let fields = schema.properties.iter().flatten().map(|(name, schema)| (name.clone(), type_of(schema)));
        Self(TypeRef::of_custom(fields, (schema.x_kubernetes_preserve_unknown_fields == Some(true)).then(TypeRef::any)))
    }
}

fn type_of(schema: &JSONSchemaProps) -> TypeRef {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return TypeRef::scalar(Scalar::Any);
    }
    match schema.type_.as_deref() {
        Some("string") => TypeRef::scalar(Scalar::Text),
        Some("integer" | "number") => TypeRef::scalar(Scalar::Number),
        Some("boolean") => TypeRef::scalar(Scalar::Truth),
        Some("array") => {
            let element = match &schema.items {
                Some(JSONSchemaPropsOrArray::Schema(items)) => type_of(items),
                _ => TypeRef::any(),
            };
            let keys = || schema.x_kubernetes_list_map_keys.clone().unwrap_or_default();
            let items = match schema.x_kubernetes_list_type.as_deref() {
                Some("set") => Items::Set,
                Some("map") => Items::Keys(keys()),
                _ => Items::Atomic,
            };
            TypeRef::list(element, items)
        }
        Some("object") => {
            let atomic = schema.x_kubernetes_map_type.as_deref() == Some("atomic");
            if schema.x_kubernetes_embedded_resource == Some(true) {
                return TypeRef::any();
            }
            let field = |(name, schema): (&String, &JSONSchemaProps)| {
                (name.clone(), Field { of: type_of(schema), default: schema.default.as_ref().map(|default| default.0.clone()) })
            };
            let fields: BTreeMap<String, Field> = schema.properties.iter().flatten().map(field).collect();
            let open = schema.x_kubernetes_preserve_unknown_fields == Some(true);
            let element = match &schema.additional_properties {
                Some(JSONSchemaPropsOrBool::Schema(of)) => Some(type_of(of)),
                Some(JSONSchemaPropsOrBool::Bool(true)) => Some(TypeRef::any()),
                _ if open => Some(TypeRef::any()),
                _ => None,
            };
            TypeRef::map(MapType { fields, element, atomic })
        }
        _ => TypeRef::any(),
    }
}
