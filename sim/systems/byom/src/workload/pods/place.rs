//! The place of a pool's ConfigMap, from the environment of its processes (B §1.1).

use std::collections::BTreeMap;

use ipam_byom::{MAX_RANGE_IPS, NamespaceSources, config_map_name};
use kube_machinery::ObjectKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim_config::draw::Draw;
use sim_config::{Choice, Problems, Source, advice};
use sim_harness::workload::InvalidValue;

/// The default place according to the documents: a literal, so that a change of the code's default is detected.
const NAMESPACE: &str = "confidential-containers-system";
const NAME: &str = "byom-ip-pool-state";

/// The sources from which the processes of a pool learn the place of its ConfigMap; an empty source is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PoolPlace {
    /// The environment variable `POOL_CONFIGMAP_NAME`, or the flag `pool-configmap-name`.
    #[serde(rename = "POOL_CONFIGMAP_NAME", skip_serializing_if = "String::is_empty")]
    pub config_map_name: String,
    /// The environment variable `POOL_NAMESPACE`, or the flag `pool-namespace`.
    #[serde(rename = "POOL_NAMESPACE", skip_serializing_if = "String::is_empty")]
    pub pool_namespace: String,
    /// The content of the service account's namespace file.
    #[serde(rename = "service-account", skip_serializing_if = "String::is_empty")]
    pub service_account: String,
    /// The environment variable `POD_NAMESPACE`.
    #[serde(rename = "POD_NAMESPACE", skip_serializing_if = "String::is_empty")]
    pub pod_namespace: String,
}

impl PoolPlace {
    /// The names of the sources.
    pub const NAMES: [&'static str; 4] = ["POOL_CONFIGMAP_NAME", "POOL_NAMESPACE", SERVICE_ACCOUNT, "POD_NAMESPACE"];

    /// Whether there is no source, so that the place is the default.
    pub(super) fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// The value of the source called `name`, one of [`NAMES`](Self::NAMES).
    pub(super) fn told_by(&mut self, name: &str) -> Option<&mut String> {
        Some(match name {
            "POOL_CONFIGMAP_NAME" => &mut self.config_map_name,
            "POOL_NAMESPACE" => &mut self.pool_namespace,
            SERVICE_ACCOUNT => &mut self.service_account,
            "POD_NAMESPACE" => &mut self.pod_namespace,
            _ => return None,
        })
    }

    /// The place of the pool according to the documents.
    pub(crate) fn documented(&self) -> ObjectKey {
        let name = if self.config_map_name.is_empty() { NAME } else { &self.config_map_name };
        let namespace = if !self.pool_namespace.is_empty() {
            &self.pool_namespace
        } else if !self.service_account.trim().is_empty() {
            self.service_account.trim()
        } else if !self.pod_namespace.trim().is_empty() {
            self.pod_namespace.trim()
        } else {
            NAMESPACE
        };
        ObjectKey::namespaced(namespace, name)
    }

    /// The place of the pool for a process with these sources.
    pub(super) fn found(&self) -> ObjectKey {
        let Self { config_map_name: name, pool_namespace, service_account, pod_namespace } = self;
        let [name, setting, service_account, pod_namespace] =
            [name, pool_namespace, service_account, pod_namespace].map(|text| Some(text.as_str()).filter(|text| !text.is_empty()));
        ObjectKey::namespaced(NamespaceSources { setting, service_account, pod_namespace }.resolve(), config_map_name(name))
    }
}

/// The name of the service account's file among the settings.
const SERVICE_ACCOUNT: &str = "service-account";

/// The setting that limits ranges of `VM_POOL_IPS`.
const RANGE_LIMIT: &str = "MAX_RANGE_IPS";

/// Checks that there is such a setting, and that it can have this value.
fn check(name: &str, value: &str) -> Result<(), InvalidValue> {
    if name == RANGE_LIMIT {
        let is_limit = value.parse::<u32>().is_ok_and(|limit| limit > 0);
        return if is_limit { Ok(()) } else { Err(InvalidValue::value(value, format!("`{value}` is no limit"), "a number from 1 on")) };
    }
    let known: Vec<&str> = PoolPlace::NAMES.into_iter().chain([RANGE_LIMIT]).collect();
    if !known.contains(&name) {
        return Err(InvalidValue::value(name, format!("there is no setting `{name}`"), advice(name, &known, "setting")));
    }
    // Blanks around a name in a file or in POD_NAMESPACE are removed.
    let label = value.trim();
    let is_name = label.is_empty() || is_label(label);
    if is_name { Ok(()) } else { Err(InvalidValue::value(value, format!("`{value}` names no object"), "a DNS label")) }
}

/// Settings of a draft, by name.
pub(super) type Settings = BTreeMap<String, Choice<String>>;

/// The problems of a draft's settings.
pub(super) fn problems_of_settings(settings: &Settings, source: Source<'_>) -> Problems {
    let mut problems = Problems::new();
    for (name, choice) in settings {
        for value in choice.written() {
            let Err(InvalidValue { found, wrong, right }) = check(name, value) else { continue };
            let path = ["workload", "settings", name];
            let unknown = found == *name;
            problems.push(if unknown { source.problem_of_key(&path, wrong, right) } else { source.problem_of_value(&path, wrong, right) });
        }
    }
    problems
}

/// The number of addresses that a range may have in every run.
pub(super) fn least_range_limit(settings: &Settings) -> u32 {
    let written = settings.get(RANGE_LIMIT).map(|choice| choice.written());
    written.into_iter().flatten().filter_map(|value| value.parse().ok()).min().unwrap_or(MAX_RANGE_IPS)
}

/// The place of the pool and the limit of a range, drawn from the settings. A fixed setting draws no number.
pub(super) fn told(settings: &Settings, draw: &mut Draw) -> (PoolPlace, u32) {
    let (mut place, mut max_range) = (PoolPlace::default(), MAX_RANGE_IPS);
    for (name, choice) in settings {
        let value = if let Choice::Is(value) = choice { value.clone() } else { choice.draw(draw) };
        match place.told_by(name) {
            Some(told) => *told = value,
            None => max_range = value.parse().unwrap_or(max_range),
        }
    }
    (place, max_range)
}

/// Whether a text is a DNS label.
pub(super) fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.len() <= 63 && name.chars().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_place_and_the_first_that_does_counts() {
        let told = |[config_map_name, pool_namespace, service_account, pod_namespace]: [&str; 4]| {
            let [config_map_name, pool_namespace, service_account, pod_namespace] =
                [config_map_name, pool_namespace, service_account, pod_namespace].map(str::to_owned);
            let place = PoolPlace { config_map_name, pool_namespace, service_account, pod_namespace };
            assert_eq!(place.found(), place.documented());
            place.documented().to_string()
        };
        assert_eq!(told(["", "", "", ""]), "confidential-containers-system/byom-ip-pool-state");
        assert_eq!(told(["mine", "set", "sa", "pod"]), "set/mine");
        assert_eq!(told(["", "", " sa\n", "pod"]), "sa/byom-ip-pool-state");
        assert_eq!(told(["", "", " ", "pod "]), "pod/byom-ip-pool-state");
    }
}
