//! Disruption budgets: what people say of how many pods of an application evictions may take away (K §6.5).

use std::fmt;

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sim_config::draw::Draw;
use sim_harness::workload::InvalidValue;

use super::apps::{APP, app_label};
use super::ops::ApplyApp;

/// What a [`PodCount`] is told by.
const FORM: &str = "a number of pods, or a percentage such as \"50%\"";

/// How many pods: a number, or a percentage of those that there shall be, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodCount {
    /// This many pods, whether or not there shall be as many.
    Number(u32),
    /// This many of each hundred pods that there shall be, at most 100.
    Percent(u32),
}

impl fmt::Display for PodCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PodCount::Number(number) => write!(f, "{number}"),
            PodCount::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Serialize for PodCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            PodCount::Number(number) => serializer.serialize_u32(*number),
            PodCount::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for PodCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = PodCount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(FORM)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<PodCount, E> {
                u32::try_from(number).map(PodCount::Number).map_err(|_| E::custom(format!("`{number}` is not {FORM}")))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<PodCount, E> {
                u32::try_from(number).map(PodCount::Number).map_err(|_| E::custom(format!("`{number}` is not {FORM}")))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<PodCount, E> {
                let percent = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
                let percent = percent.and_then(|digits| digits.parse().ok()).filter(|percent| *percent <= 100);
                percent.map(PodCount::Percent).ok_or_else(|| E::custom(format!("`{text}` is not {FORM}")))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for PodCount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PodCount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": FORM,
            "oneOf": [{"type": "integer", "minimum": 0, "maximum": u32::MAX}, {"type": "string", "pattern": "^(100|[0-9]{1,2})%$"}],
        })
    }
}

impl From<PodCount> for IntOrString {
    fn from(count: PodCount) -> Self {
        match count {
            PodCount::Number(number) => IntOrString::Int(number.min(i32::MAX as u32) as i32),
            PodCount::Percent(_) => IntOrString::String(count.to_string()),
        }
    }
}

/// Gives an application of several pods a budget, in one of the ways in which people write them. One that lets none go would keep a node
/// from being drained for ever.
pub(super) fn draw(draw: &mut Draw, apply: &mut ApplyApp) {
    match draw.below(4) {
        0 => apply.min_available = Some(PodCount::Number(apply.replicas - 1)),
        1 => apply.min_available = Some(PodCount::Percent(50)),
        2 => apply.max_unavailable = Some(PodCount::Number(1)),
        _ => apply.max_unavailable = Some(PodCount::Percent(25)),
    }
}

/// A budget says what has to stay or what may go, and not both, as the API server has it.
pub(super) fn check(apply: &ApplyApp) -> Result<(), InvalidValue> {
    match (apply.min_available, apply.max_unavailable) {
        (Some(_), Some(most)) => {
            let wrong = "a budget has `min_available` or `max_unavailable`, not both";
            Err(InvalidValue::value(&most.to_string(), wrong, "one of the two"))
        }
        _ => Ok(()),
    }
}

impl ApplyApp {
    /// Whether it has a budget.
    pub(super) fn has_budget(&self) -> bool {
        self.min_available.is_some() || self.max_unavailable.is_some()
    }

    /// The budget of its pods, if it has one.
    pub(super) fn budget(&self) -> Option<PodDisruptionBudget> {
        let match_labels = Some([(APP.to_owned(), app_label(&self.app).to_owned())].into());
        self.has_budget().then(|| PodDisruptionBudget {
            metadata: ObjectMeta { name: Some(self.app.clone()), namespace: Some(self.namespace.clone()), ..ObjectMeta::default() },
            spec: Some(PodDisruptionBudgetSpec {
                min_available: self.min_available.map(IntOrString::from),
                max_unavailable: self.max_unavailable.map(IntOrString::from),
                selector: Some(LabelSelector { match_labels, ..LabelSelector::default() }),
                ..PodDisruptionBudgetSpec::default()
            }),
            status: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_pods_is_a_number_or_a_percentage() {
        let read = |json: &str| serde_json::from_str::<PodCount>(json).map_err(|error| error.to_string());
        assert_eq!(read("2"), Ok(PodCount::Number(2)));
        assert_eq!(read("\"50%\""), Ok(PodCount::Percent(50)));
        assert_eq!(serde_json::to_string(&PodCount::Percent(50)).unwrap(), "\"50%\"");
        for bad in ["-1", "\"101%\"", "\"50\"", "\"%\"", "\"+5%\"", "5000000000"] {
            let error = read(bad).unwrap_err();
            assert!(error.contains("is not a number of pods, or a percentage"), "{bad}: {error}");
        }
    }
}
