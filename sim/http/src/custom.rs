//! Custom resources: objects of types that a CustomResourceDefinition adds while the cluster runs (K §1.3).

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_machinery::api::Cause;
use kube_sim::kinds::{AppliedType, Stored, TypeDef};
use kube_sim::managed_fields::FieldTypes;
use kube_sim::object::Obj;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema;

/// One version of the type that a CustomResourceDefinition defines.
#[derive(Debug)]
pub struct Definition {
    /// Group and version as in a manifest: `group/version`.
    pub api_version: String,
    /// The Kind of its objects, in upper camel case.
    pub kind: String,
    has_status: bool,
    /// The present structural schema: a change applies to existing objects, too.
    schema: RwLock<Option<JSONSchemaProps>>,
}

impl Definition {
    /// The stored version of `crd`, or `None` if it has none.
    fn of(crd: &CustomResourceDefinition) -> Option<(Self, String)> {
        let version = crd.spec.versions.iter().find(|version| version.storage)?;
        let definition = Self {
            api_version: format!("{}/{}", crd.spec.group, version.name),
            kind: crd.spec.names.kind.clone(),
            has_status: version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some()),
            schema: RwLock::new(version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.clone())),
        };
        Some((definition, version.name.clone()))
    }

    /// Takes over the schema of a changed definition.
    pub(crate) fn update(&self, crd: &CustomResourceDefinition) {
        if let Some((new, _)) = Self::of(crd) {
            *self.schema.write() = new.schema.into_inner();
        }
    }

    /// The types of the fields, for server-side apply. Without a schema, anything is permitted.
    fn field_types(&self) -> FieldTypes {
        let open = JSONSchemaProps { x_kubernetes_preserve_unknown_fields: Some(true), ..JSONSchemaProps::default() };
        FieldTypes::of_schema(self.schema.read().as_ref().unwrap_or(&open))
    }

    /// Drops unknown fields and adds the defaults of the schema. Returns the paths of the dropped fields.
    fn shape(&self, content: &mut Map<String, Value>) -> Vec<String> {
        match &*self.schema.read() {
            Some(schema) => schema::shape(schema, content),
            None => Vec::new(),
        }
    }
}

/// An object of a custom type.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CustomResource {
    #[serde(default)]
    metadata: ObjectMeta,
    /// All other fields, with apiVersion and kind.
    #[serde(flatten)]
    content: Map<String, Value>,
    #[serde(skip)]
    definition: Option<Arc<Definition>>,
}

/// Two objects are equal if they serialize to the same bytes.
impl PartialEq for CustomResource {
    fn eq(&self, other: &Self) -> bool {
        self.metadata == other.metadata && self.content == other.content
    }
}

impl kube::Resource for CustomResource {
    type DynamicType = ();
    type Scope = kube::core::DynamicResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "CustomResource".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "customresources".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl CustomResource {
    /// Reads an object of the type that `definition` describes: fields that its schema does not know are dropped, its defaults are added.
    /// Also returns the paths of the dropped fields.
    ///
    /// # Errors
    /// Returns problems of the metadata.
    pub(crate) fn decode(value: Value, definition: &Arc<Definition>) -> Result<(Self, Vec<String>), String> {
        let mut object: Self = serde_json::from_value(schema::whole_numbers(value)).map_err(|error| error.to_string())?;
        // An object of another kind is refused for that alone.
        let own = object.content.get("kind").and_then(Value::as_str) == Some(definition.kind.as_str());
        let dropped = if own { definition.shape(&mut object.content) } else { Vec::new() };
        object.definition = Some(definition.clone());
        Ok((object, dropped))
    }

    /// Reads an object that an apply has made. Its nulls are kept: if a field must not be null, validation refuses it.
    fn decode_applied(value: Value, definition: &Arc<Definition>) -> Result<Self, String> {
        let mut object: Self = serde_json::from_value(schema::whole_numbers(value)).map_err(|error| error.to_string())?;
        if let Some(schema) = &*definition.schema.read() {
            schema::add_defaults(schema, &mut object.content);
        }
        object.definition = Some(definition.clone());
        Ok(object)
    }

    fn definition(&self) -> Option<&Definition> {
        self.definition.as_deref()
    }

    /// All fields except metadata, type and status.
    fn spec(&self) -> impl Iterator<Item = (&String, &Value)> {
        let has_status = self.definition().is_some_and(|definition| definition.has_status);
        self.content.iter().filter(move |(name, _)| !(matches!(name.as_str(), "apiVersion" | "kind") || has_status && *name == "status"))
    }

    fn faults(&self, old: Option<&Self>) -> Vec<Cause> {
        let Some(definition) = self.definition() else { return Vec::new() };
        let mut causes = Vec::new();
        let kind = self.content.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind != definition.kind {
            let message = format!("Invalid value: {kind:?}: must be {}", definition.kind);
            causes.push(Cause { reason: "FieldValueInvalid".into(), message: message.into(), field: "kind".into() });
        }
        if let Some(schema) = &*definition.schema.read() {
            causes.extend(schema::validate(schema, &self.content, old.map(|old| &old.content)));
        }
        causes
    }
}

impl Stored for CustomResource {
    const UNCONDITIONAL_UPDATE: bool = false;
    const CUSTOM: bool = true;

    fn decode_like(value: Value, other: &Self) -> Result<Self, String> {
        match &other.definition {
            Some(definition) => Self::decode(value, definition).map(|(object, _)| object),
            None => serde_json::from_value(value).map_err(|error| error.to_string()),
        }
    }

    fn copy_status(&mut self, other: &Self) {
        match other.content.get("status") {
            Some(status) => {
                self.content.insert("status".to_owned(), status.clone());
            }
            None => {
                self.content.remove("status");
            }
        }
    }

    fn reset_status(&mut self) {
        self.content.remove("status");
    }

    fn spec_differs(&self, other: &Self) -> bool {
        !self.spec().eq(other.spec())
    }

    fn validate(&self) -> Vec<Cause> {
        // An update is only judged by its changes: see `validate_update`.
        if self.metadata.resource_version.as_deref().is_some_and(|version| !version.is_empty()) { Vec::new() } else { self.faults(None) }
    }

    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        self.faults(Some(old))
    }

    fn field(&self, name: &str) -> Cow<'_, str> {
        let mut parts = name.split('.');
        let first = parts.next().and_then(|part| self.content.get(part));
        match parts.fold(first, |value, part| value?.get(part)) {
            Some(Value::String(text)) => Cow::Borrowed(text),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => Cow::Owned(value.to_string()),
            _ => Cow::Borrowed(""),
        }
    }

    fn size(&self) -> usize {
        schema::json_size(&self.content)
    }
}

/// The registration of the type that `crd` defines, with its definition; `None` if it stores no version.
pub(crate) fn define(crd: &CustomResourceDefinition) -> Option<(TypeDef, Arc<Definition>)> {
    fn leak(text: &str) -> &'static str {
        text.to_owned().leak()
    }
    let (definition, version) = Definition::of(crd)?;
    let mut def = TypeDef::of::<CustomResource>();
    def.kind = leak(&definition.kind);
    def.group = leak(&crd.spec.group);
    def.version = leak(&version);
    def.plural = leak(&crd.spec.names.plural);
    def.namespaced = crd.spec.scope == "Namespaced";
    def.has_status = definition.has_status;
    let stored = crd.spec.versions.iter().find(|version| version.storage)?;
    let fields = stored.selectable_fields.iter().flatten().map(|field| leak(field.json_path.trim_start_matches('.')));
    def.fields = fields.collect::<Vec<_>>().leak();
    let definition = Arc::new(definition);
    let (of_fields, of_objects) = (definition.clone(), definition.clone());
    let applied = AppliedType {
        fields: Box::new(move || of_fields.field_types()),
        decode: Box::new(move |value| CustomResource::decode_applied(value, &of_objects).map(|object| Arc::new(object) as Obj)),
    };
    Some((def.with(applied), definition))
}
