//! Webhooks that callers register as objects (K §8.3). No server is called over HTTP: whatever their URL or Service, nothing listens there.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use kube_machinery::api::{Subresource, Verb};
use kube_sim::cluster::admission::{FailurePolicy, MatchCondition, Part, ReinvocationPolicy, Review, Rule, Service, SideEffects, Webhook};
use kube_sim::kinds::{Registry, TypeDef};
use serde_json::Value;

/// The group of the registrations, which webhooks are not called for.
const OWN_GROUP: &str = "admissionregistration.k8s.io";
/// The plurals of configurations, and whether their webhooks are mutating.
const CONFIGURATIONS: [(&str, bool); 2] = [("mutatingwebhookconfigurations", true), ("validatingwebhookconfigurations", false)];

/// Whether the webhooks of a configuration are mutating; `None` = the type is none of the configurations.
pub(crate) fn is_mutating(def: &TypeDef) -> Option<bool> {
    CONFIGURATIONS.iter().find(|(plural, _)| def.group == OWN_GROUP && def.plural == *plural).map(|(_, mutating)| *mutating)
}

/// The webhooks of a configuration, with its defaults set.
pub(crate) fn webhooks_of(configuration: &Value, mutating: bool, registry: &Registry) -> Vec<Webhook> {
    let name = text(&configuration["metadata"]["name"]);
    list(&configuration["webhooks"]).map(|webhook| webhook_of(webhook, name, mutating, registry)).collect()
}

fn webhook_of(webhook: &Value, configuration: &str, mutating: bool, registry: &Registry) -> Webhook {
    let client = &webhook["clientConfig"];
    let service = &client["service"];
    let url = match client["url"].as_str() {
        Some(url) => url.to_owned(),
        None => {
            let port = service["port"].as_u64().unwrap_or(443);
            format!("https://{}.{}.svc:{port}{}", text(&service["name"]), text(&service["namespace"]), text(&service["path"]))
        }
    };
    let timeout = webhook["timeoutSeconds"].as_u64().map(Duration::from_secs);
    let new = Webhook::new(text(&webhook["name"]), mutating, Service::new(text(&service["name"])));
    Webhook {
        configuration: configuration.into(),
        rules: list(&webhook["rules"]).flat_map(|rule| rules_of(rule, registry)).collect(),
        namespace_selector: selector(&webhook["namespaceSelector"]),
        object_selector: selector(&webhook["objectSelector"]),
        match_conditions: list(&webhook["matchConditions"]).map(condition).collect(),
        failure_policy: if webhook["failurePolicy"] == "Ignore" { FailurePolicy::Ignore } else { FailurePolicy::Fail },
        timeout: timeout.unwrap_or(new.timeout),
        side_effects: if webhook["sideEffects"] == "NoneOnDryRun" { SideEffects::NoneOnDryRun } else { SideEffects::None },
        reinvocation_policy: match webhook["reinvocationPolicy"].as_str() {
            Some("IfNeeded") => ReinvocationPolicy::IfNeeded,
            _ => ReinvocationPolicy::Never,
        },
        url: url.into(),
        ..new
    }
}

/// The rules for the resources that a rule names, one each.
fn rules_of(rule: &Value, registry: &Registry) -> Vec<Rule> {
    let names = |field: &str, name: &str| list(&rule[field]).any(|named| named == "*" || named == name);
    let operations: Vec<Verb> = [("CREATE", Verb::Create), ("UPDATE", Verb::Update), ("DELETE", Verb::Delete)]
        .into_iter()
        .filter(|(name, _)| names("operations", name))
        .map(|(_, verb)| verb)
        .collect();
    let is_meant = |def: &TypeDef, plural: &str| {
        let scope = match rule["scope"].as_str() {
            Some("Cluster") => !def.namespaced,
            Some("Namespaced") => def.namespaced,
            _ => true,
        };
        let version = names("apiGroups", def.group) && names("apiVersions", def.version);
        scope && version && (plural == "*" || plural == def.plural) && is_mutating(def).is_none()
    };
    let mut rules = Vec::new();
    for resource in list(&rule["resources"]).map(text) {
        let (plural, part) = resource.split_once('/').unwrap_or((resource, ""));
        let part = match part {
            "" => Part::Main,
            "*" => Part::Any,
            "status" => Part::Of(Subresource::Status),
            "binding" => Part::Of(Subresource::Binding),
            "finalize" => Part::Of(Subresource::Finalize),
            // Subresources that the simulated server writes through another resource, or does not have.
            _ => continue,
        };
        let kinds: Vec<_> = registry.iter().filter(|(_, def)| is_meant(def, plural)).map(|(kind, _)| kind).collect();
        // A rule without types or operations would match all of them.
        if !kinds.is_empty() && !operations.is_empty() {
            rules.push(Rule { operations: operations.clone(), kinds, part });
        }
    }
    rules
}

/// A match condition whose evaluation always fails: CEL expressions are not evaluated here.
fn condition(condition: &Value) -> MatchCondition {
    let error = format!("expression '{}' resulted in error: expressions are not evaluated", text(&condition["expression"]));
    MatchCondition { name: text(&condition["name"]).into(), matches: Arc::new(move |_: &Review| Err(error.clone())) }
}

fn selector(labels: &Value) -> Selector {
    let labels: LabelSelector = serde_json::from_value(labels.clone()).unwrap_or_default();
    Selector::try_from(labels).unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_sim::kinds;
    use serde_json::json;

    #[test]
    fn a_configuration_registers_what_its_rules_name_and_nothing_of_its_own_group() {
        let registry = Registry::new(kinds::all(crate::types()));
        let rules = |rule: Value| {
            let webhooks = webhooks_of(&json!({"metadata": {"name": "c"}, "webhooks": [{"name": "h", "rules": [rule]}]}), true, &registry);
            webhooks[0].rules.clone()
        };
        let plurals = |rule: &Rule| rule.kinds.iter().map(|kind| registry.get(*kind).plural).collect::<Vec<_>>();
        let rule = |resources: Value| json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": resources});
        let pods = rules(rule(json!(["pods", "pods/binding", "pods/*", "pods/log"])));
        assert_eq!(pods.iter().map(|rule| rule.part).collect::<Vec<_>>(), [Part::Main, Part::Of(Subresource::Binding), Part::Any]);
        assert!(pods.iter().all(|rule| plurals(rule) == ["pods"] && rule.operations == [Verb::Create]));
        assert!(rules(rule(json!(["statefulsets"]))).is_empty(), "another group");
        let mut cluster = rule(json!(["*"]));
        cluster["scope"] = json!("Cluster");
        assert!(plurals(&rules(cluster)[0]).contains(&"nodes"));
        let all = json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]});
        let all = rules(all);
        assert_eq!(all[0].operations.len(), 3);
        assert!(plurals(&all[0]).contains(&"statefulsets") && !plurals(&all[0]).iter().any(|plural| plural.contains("webhook")));
    }
}
