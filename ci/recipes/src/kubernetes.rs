//! Manifests that a strict API server accepts, and jobs that are bounded and have no rights.
//!
//! The types are those of Kubernetes' own schema. They accept unknown fields and any values. Unknown fields are found as those that were
//! not read, and the possible values of a Job are listed here.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaim, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use regex::Regex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidy::{File, Finding, Repository};

use crate::{container, shell, yaml};

/// The folder of the manifests.
const FOLDER: &str = "ci/kubernetes/";

/// The enumerated fields of manifests: the end of the path, and the possible values.
const VALUES: [(&str, &[&str]); 9] = [
    ("completionMode", &["Indexed", "NonIndexed"]),
    ("restartPolicy", &["Never", "OnFailure"]),
    ("seccompProfile.type", &["RuntimeDefault", "Localhost"]),
    ("fsGroupChangePolicy", &["OnRootMismatch", "Always"]),
    ("rules[].action", &["FailJob", "FailIndex", "Ignore", "Count"]),
    ("onExitCodes.operator", &["In", "NotIn"]),
    ("onPodConditions[].status", &["True", "False", "Unknown"]),
    ("accessModes[]", &["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"]),
    ("imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
];

/// Manifests that an API server would refuse, and jobs that may do too much or may never end.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let is_manifest = |file: &&File| file.is(&["yaml", "yml"]) && file.path.starts_with(FOLDER);
    repository.files.iter().filter(is_manifest).flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let documents = match yaml::documents(&file.text) {
        Ok(documents) => documents,
        Err(error) => return vec![Finding::of_file(&file.path, format!("is no YAML: {error}"))],
    };
    let mut wrong = Vec::new();
    for document in &documents {
        let of = |key: &str| document[key].as_str().unwrap_or_default();
        let unknown = match (of("apiVersion"), of("kind")) {
            ("batch/v1", "Job") => read::<Job>(document).map(|(job, unknown)| {
                jobs(&job, &mut wrong);
                unknown
            }),
            ("v1", "PersistentVolumeClaim") => read::<PersistentVolumeClaim>(document).map(|(_, unknown)| unknown),
            (version, kind) => Err(format!("`{kind}` of `{version}` has no type here; add it to ci/recipes")),
        };
        match unknown {
            Ok(unknown) => wrong.extend(unknown.iter().map(|path| format!("`{path}` is no field"))),
            Err(error) => wrong.push(error),
        }
        if document["metadata"]["name"].as_str().unwrap_or_default().is_empty() {
            wrong.push("`metadata.name` is missing".to_owned());
        }
        values(document, &mut wrong);
    }
    wrong.into_iter().map(|text| Finding::of_file(&file.path, text)).collect()
}

/// An object, and the paths of the fields that its type did not read.
fn read<T: DeserializeOwned>(document: &Value) -> Result<(T, Vec<String>), String> {
    let mut unknown = Vec::new();
    let object = serde_ignored::deserialize(document, |path| unknown.push(path.to_string().replace(".?", "")));
    object.map(|object| (object, unknown)).map_err(|error| error.to_string())
}

fn values(document: &Value, wrong: &mut Vec<String>) {
    let index = Regex::new(r"\[\d+\]").expect("a constant");
    yaml::walk(document, "", &mut |path, value| {
        let shape = index.replace_all(path, "[]");
        let allowed = VALUES.iter().find(|(end, _)| shape == *end || shape.ends_with(&format!(".{end}")));
        if let (Some((_, allowed)), Some(text)) = (allowed, value.as_str())
            && !allowed.contains(&text)
        {
            wrong.push(format!("`{path}` is `{text}`; it has to be one of {}", allowed.join(", ")));
        }
    });
}

/// Checks a Job like the API server's validation and a careful operator.
fn jobs(job: &Job, wrong: &mut Vec<String>) {
    let mut say = |text: &str| wrong.push(text.to_owned());
    let Some(spec) = &job.spec else { return say("`spec` is missing") };
    let Some(pod) = &spec.template.spec else { return say("`spec.template.spec` is missing") };
    if spec.active_deadline_seconds.is_none() {
        say("the Job need not end; give it `activeDeadlineSeconds`");
    }
    let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
    if is_indexed && (spec.completions.is_none() || spec.backoff_limit_per_index.is_none()) {
        say("one index that fails ends the others; give the Job `completions` and `backoffLimitPerIndex`");
    }
    if spec.backoff_limit_per_index.is_some() && !is_indexed {
        say("`backoffLimitPerIndex` wants `completionMode: Indexed`");
    }
    match &spec.pod_failure_policy {
        None => say("the Job tries again what cannot succeed; give it a `podFailurePolicy`"),
        Some(policy) => {
            if pod.restart_policy.as_deref() != Some("Never") {
                say("`podFailurePolicy` wants `restartPolicy: Never`");
            }
            for rule in &policy.rules {
                if rule.on_exit_codes.is_some() == rule.on_pod_conditions.is_some() {
                    say("a rule of `podFailurePolicy` has either `onExitCodes` or `onPodConditions`");
                }
                if rule.action == "FailIndex" && spec.backoff_limit_per_index.is_none() {
                    say("`FailIndex` wants `backoffLimitPerIndex`");
                }
                let Some(codes) = &rule.on_exit_codes else { continue };
                let named = codes.container_name.as_deref();
                if named.is_some_and(|name| !pod.containers.iter().any(|container| container.name == name)) {
                    say("a rule of `podFailurePolicy` names a container that is not there");
                }
                if codes.values.is_empty()
                    || !codes.values.is_sorted_by(|a, b| a < b)
                    || (codes.operator == "In" && codes.values.contains(&0))
                {
                    say("the exit codes of a rule are in order, without 0 and without one that is there twice");
                }
            }
        }
    }
    pods(pod, &mut say);
    for container in pod.init_containers.iter().flatten().chain(&pod.containers) {
        containers(pod, container, wrong);
    }
}

fn pods(pod: &PodSpec, say: &mut impl FnMut(&str)) {
    let security = pod.security_context.clone().unwrap_or_default();
    if security.run_as_non_root != Some(true) || security.run_as_user.is_none_or(|user| user == 0) {
        say("the pod may run as root; set `runAsNonRoot` and `runAsUser`");
    }
    if security.seccomp_profile.is_none() {
        say("the pod may make every system call; set `seccompProfile`");
    }
    if pod.automount_service_account_token != Some(false) {
        say("the pod holds a token of the cluster; set `automountServiceAccountToken: false`");
    }
    if pod.containers.is_empty() {
        say("the pod has no container");
    }
    let volumes: Vec<_> = pod.volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    let mounts = || pod.containers.iter().flat_map(|container| container.volume_mounts.iter().flatten());
    if mounts().any(|mount| !volumes.contains(&mount.name.as_str())) {
        say("a volume is mounted that the pod does not have");
    }
    if volumes.iter().any(|volume| !mounts().any(|mount| mount.name == *volume)) {
        say("a volume is mounted nowhere");
    }
}

fn containers(pod: &PodSpec, container: &Container, wrong: &mut Vec<String>) {
    let name = &container.name;
    let mut say = |text: &str| wrong.push(format!("container `{name}`: {text}"));
    match &container.image {
        None => say("has no image"),
        Some(image) => container::unpinned(image).iter().for_each(|text| say(text)),
    }
    let resources = container.resources.clone().unwrap_or_default();
    let (requests, limits) = (resources.requests.unwrap_or_default(), resources.limits.unwrap_or_default());
    for resource in ["cpu", "memory"] {
        if !requests.contains_key(resource) || !limits.contains_key(resource) {
            say(&format!("has no request or no limit of {resource}"));
        }
    }
    let quantity = Regex::new(r"^\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$").expect("a constant");
    for (resource, Quantity(amount)) in requests.iter().chain(&limits) {
        if !quantity.is_match(amount) {
            say(&format!("`{amount}` is no quantity of {resource}"));
        }
    }
    let security = container.security_context.clone().unwrap_or_default();
    if security.read_only_root_filesystem != Some(true) {
        say("may write to its image; set `readOnlyRootFilesystem`");
    }
    if security.allow_privilege_escalation != Some(false) {
        say("may gain rights; set `allowPrivilegeEscalation: false`");
    }
    if security.capabilities.and_then(|capabilities| capabilities.drop).is_none_or(|dropped| dropped != ["ALL"]) {
        say("has capabilities; drop ALL");
    }
    if pod.containers.iter().filter(|other| other.name == *name).count() > 1 {
        say("is there twice");
    }
    if container.command.as_ref().is_some_and(|command| command.first().is_some_and(|program| program == "bash")) {
        container.args.iter().flatten().filter_map(|script| shell::refused(script)).for_each(|error| say(&error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = include_str!("../../kubernetes/indexed-job.yaml");

    fn findings(text: &str) -> Vec<String> {
        check(&Repository::of(&[("ci/kubernetes/job.yaml", text)])).iter().map(Finding::to_string).collect()
    }

    /// The findings for the shipped Job with a part of its text replaced, without the name of the file.
    #[track_caller]
    fn with(from: &str, to: &str) -> String {
        assert!(JOB.contains(from), "{from}");
        findings(&JOB.replace(from, to)).join("; ").replace("ci/kubernetes/job.yaml: ", "")
    }

    #[test]
    fn what_an_api_server_refuses_is_found() {
        assert_eq!(findings(JOB), [""; 0]);
        assert_eq!(with("parallelism: 8", "paralellism: 8"), "`spec.paralellism` is no field");
        assert!(with("sizeLimit", "size").contains("volumes.1.emptyDir.size` is no field"));
        assert!(with("storage: 5Gi }", "storage: 5Gi }\n  acessModes: []").contains("`spec.acessModes` is no field"));
        assert!(with("completions: 9", "completions: nine").contains("invalid type"));
        assert!(with("kind: Job", "kind: Jobs").contains("`Jobs` of `batch/v1` has no type here"));
        assert!(with("Indexed", "Indxed").contains("`spec.completionMode` is `Indxed`; it has to be one of Indexed, NonIndexed"));
        assert!(with("FailIndex", "FailIndexes").contains("rules[1].action"));
        assert!(with("containerName: sweep", "containerName: sleep").contains("names a container that is not there"));
        assert!(with("[1, 2,", "[0, 2,").contains("are in order"));
        assert!(with("[1, 2,", "[2, 1,").contains("are in order"));
        assert!(with("restartPolicy: Never", "restartPolicy: OnFailure").contains("wants `restartPolicy: Never`"));
        assert!(with("memory: 4Gi", "memory: 4GB").contains("`4GB` is no quantity"));
        assert!(with("{ name: tmp, mountPath", "{ name: temp, mountPath").contains("a volume is mounted that the pod does not have"));
        assert!(with("  name: ipam-sim-sweep", "  nam: x").contains("`metadata.name` is missing"));
        assert!(with("spec:\n  completionMode", "spec:\nspec:\n  completionMode").contains("is no YAML"));
        assert!(with("; then", "; than").contains("syntax error"));
    }

    #[test]
    fn a_job_that_may_do_too_much_or_need_not_end_is_found() {
        for (from, to, said) in [
            ("activeDeadlineSeconds: 14400", "suspend: false", "need not end"),
            ("backoffLimitPerIndex: 1", "backoffLimit: 1", "one index that fails ends the others"),
            ("podFailurePolicy:", "podReplacementPolicy: Failed\n  x:", "tries again what cannot succeed"),
            ("runAsNonRoot: true", "runAsNonRoot: false", "may run as root"),
            ("runAsUser: 65532", "runAsUser: 0", "may run as root"),
            ("seccompProfile: { type: RuntimeDefault }", "fsGroup: 1", "is no YAML"),
            ("        seccompProfile: { type: RuntimeDefault }\n", "", "every system call"),
            ("automountServiceAccountToken: false", "hostNetwork: false", "holds a token"),
            (":0.1.0\n", ":latest\n", "is not pinned"),
            ("limits: { cpu: \"2\", memory: 4Gi,", "limits: { cpu: \"2\",", "no limit of memory"),
            ("requests: { cpu: \"2\",", "requests: {", "no request or no limit of cpu"),
            ("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "may write to its image"),
            ("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "may gain rights"),
            ("drop: [ALL]", "drop: [NET_RAW]", "drop ALL"),
        ] {
            assert!(with(from, to).contains(said), "{from}: {}", with(from, to));
        }
    }
}
