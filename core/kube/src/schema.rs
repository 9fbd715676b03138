//! Schemas of Kubernetes' own types that custom resources embed, for `#[schemars(with = "…")]`. `k8s-openapi` provides schemas for all its
//! types, but they take longer to compile than everything else in it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// The schema of a [`LabelSelector`](k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector).
pub enum LabelSelector {}

impl JsonSchema for LabelSelector {
    fn schema_name() -> Cow<'static, str> {
        "LabelSelector".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Objects are selected by their labels: every entry of both lists has to hold. An \
                            empty selector selects all objects.",
            "type": "object",
            "properties": {
                "matchExpressions": {
                    "description": "What the labels have to be.",
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "key": { "description": "The key of the label.", "type": "string" },
                            "operator": { "description": "One of In, NotIn, Exists and DoesNotExist.", "type": "string" },
                            "values": {
                                "description": "For In and NotIn the values, at least one; for the others none.",
                                "type": "array",
                                "items": { "type": "string" },
                            },
                        },
                        "required": ["key", "operator"],
                    },
                },
                "matchLabels": {
                    "description": "Labels with the value that they must have.",
                    "type": "object",
                    "additionalProperties": { "type": "string" },
                },
            },
        })
    }
}

/// The schema of a [`Time`](k8s_openapi::apimachinery::pkg::apis::meta::v1::Time).
pub enum Time {}

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}
