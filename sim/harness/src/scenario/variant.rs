//! A variant of a scenario file.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::Scenario;

/// A row of `[[variant]]`. It is merged over the rest of the file, and the result is read as a [`Scenario`]; these are the keys that it
/// must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name, unique among scenarios.
    pub name: String,
    /// The reason for this variant beside the others; each variant must state it.
    pub why: String,
}

impl JsonSchema for Variant {
    fn schema_name() -> Cow<'static, str> {
        "Variant".into()
    }

    /// The schema of a scenario, of which a variant may leave out whatever the file has.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Scenario::json_schema(generator);
        if let Some(Json::Object(keys)) = schema.get_mut("properties") {
            keys.remove("variant");
        }
        let mut schema = partial(&schema.to_value(), generator);
        schema["description"] =
            "A variant of a scenario: the file with what the variant says laid over it. Tables are merged, key by key; all other values, \
                                 lists among them, replace those of the file, and so does a table of another `kind`."
                .into();
        schema["required"] = vec!["name", "why"].into();
        schema.try_into().unwrap_or_default()
    }
}

/// The schema for a part of the values that `schema` describes. Lists are complete: they replace those of the file.
fn partial(schema: &Json, generator: &mut SchemaGenerator) -> Json {
    let Json::Object(whole) = schema else { return schema.clone() };
    let mut part = Map::new();
    for (word, value) in whole {
        match (word.as_str(), value) {
            // Keys that are left out come from the file.
            ("required" | "default", _) => {}
            ("properties", Json::Object(keys)) => {
                let keys = keys.iter().map(|(key, value)| (key.clone(), partial(value, generator))).collect();
                part.insert(word.clone(), Json::Object(keys));
            }
            ("additionalProperties", _) => {
                part.insert(word.clone(), partial(value, generator));
            }
            // A part may match several alternatives.
            ("oneOf" | "anyOf", Json::Array(all)) => {
                let some: Vec<Json> = all.iter().map(|one| partial(one, generator)).collect();
                let word = if some == *all { word } else { "anyOf" };
                part.insert(word.to_owned(), some.into());
            }
            ("$ref", Json::String(name)) => {
                part.insert(word.clone(), partial_definition(name, generator).into());
            }
            _ => {
                part.insert(word.clone(), value.clone());
            }
        }
    }
    Json::Object(part)
}

/// The reference to the partial form of the definition that `reference` names; `reference` itself if nothing in it is required.
fn partial_definition(reference: &str, generator: &mut SchemaGenerator) -> String {
    let Some((path, name)) = reference.rsplit_once('/') else { return reference.to_owned() };
    let of_part = format!("PartOf{name}");
    let Some(whole) = generator.definitions().get(name).cloned() else { return reference.to_owned() };
    if !generator.definitions().contains_key(&of_part) {
        let part = partial(&whole, generator);
        if part == whole {
            return reference.to_owned();
        }
        generator.definitions_mut().insert(of_part.clone(), part);
    }
    format!("{path}/{of_part}")
}
