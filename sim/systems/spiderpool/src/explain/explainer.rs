//! The verb `explain`, from files and flags to a question and its answer.

use std::collections::BTreeMap;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use ipam_reports::{ExplainReclaimReport, ExplainReport, human, printable};
use ipam_spiderpool::names;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use sim_config::Problems;
use sim_config::manifest::Manifest;
use sim_harness::engine::Error;
use sim_harness::explainer::{Explainer, Explanation};

use super::args::{ExplainArgs, PodKey};
use super::{Question, ReclaimQuestion, text};
use crate::Spiderpool;
use crate::input::cluster::{self, ClusterInput};
use crate::input::cni;
use crate::input::settings::{self, ClusterSettings};

impl Explainer for Spiderpool {
    fn args(&self, command: Command) -> Command {
        ExplainArgs::augment_args(command)
    }

    fn explain(&self, args: &ArgMatches) -> Result<Explanation, Error> {
        let args = ExplainArgs::from_arg_matches(args).map_err(|error| Error::usage(error.to_string()))?;
        if args.reclaim {
            let report = reclaim(&args)?;
            let warnings = report.warnings.clone();
            Ok(Explanation::new(report, text::explain_reclaim, warnings))
        } else {
            let report = add(&args)?;
            let warnings = report.warnings.clone();
            Ok(Explanation::new(report, text::explain, warnings))
        }
    }
}

/// Explains what the ADD of a pod would give it, and why.
fn add(args: &ExplainArgs) -> Result<ExplainReport, Error> {
    let policy = args.form.policy()?;
    // The problems of all files are reported together.
    let mut problems = Problems::new();
    let cluster = problems.collect(cluster::read(&args.manifests));
    let network = args.cni_config.as_deref().map(|path| problems.collect(cni::read(path)));
    let (settings, settings_from) = settings(args, cluster.as_ref(), &mut problems);
    let file = args.pod_file.as_ref().map(|path| problems.collect(cluster::read_pod(path)));
    problems.or(())?;

    let cluster = cluster.unwrap_or_default();
    let (pod, manifest) = match (file.flatten(), &args.pod) {
        (Some(found), _) => found,
        (None, Some(key)) => find(&cluster, key)?,
        (None, None) => return Err(Error::usage("no pod is named; --pod NS/NAME or --pod-file FILE does")),
    };
    let (network, odd) = network.flatten().unwrap_or_default();
    let node = args.node.clone().or_else(|| pod.spec.as_ref()?.node_name.clone()).unwrap_or_default();
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let question = Question {
        endpoints: cluster.endpoints,
        instances: cluster.instances,
        places: places(&pod, &manifest, cluster.namespaces.iter().find(|manifest| manifest.name == namespace)),
        node,
        nic: args.nic.clone(),
        cni: network.ipam,
        master: args.master.clone(),
        settings: settings.select,
        agent: settings.agent,
        settings_from,
        profile: args.form.profile,
        policy,
        objects: cluster.objects,
        written: cluster.admitted,
        pod,
    };
    let mut report = super::explain(&question);
    report.warnings.splice(0..0, cluster.warnings.iter().chain(&odd).map(ToString::to_string));
    Ok(report)
}

/// The settings in the named file, else those of the cluster's own ConfigMap, with the place where they stand.
fn settings(args: &ExplainArgs, cluster: Option<&ClusterInput>, problems: &mut Problems) -> (ClusterSettings, Option<String>) {
    if let Some(path) = &args.form.settings {
        return (args.form.settings(problems), Some(path.display().to_string()));
    }
    match cluster.and_then(|cluster| cluster.settings.as_ref()) {
        Some(manifest) => {
            let namespace = manifest.namespace.as_deref().unwrap_or(cluster::DEFAULT_NAMESPACE);
            let from = format!("{}, ConfigMap {namespace}/{}", manifest.file(), manifest.name);
            (problems.collect(settings::of_manifest(manifest)).unwrap_or_default(), Some(from))
        }
        None => (ClusterSettings::default(), None),
    }
}

/// Explains what reclaim would do.
fn reclaim(args: &ExplainArgs) -> Result<ExplainReclaimReport, Error> {
    let policy = args.form.policy()?;
    let mut problems = Problems::new();
    let cluster = problems.collect(cluster::read(&args.manifests));
    let (settings, from) = settings(args, cluster.as_ref(), &mut problems);
    problems.or(())?;
    let cluster = cluster.unwrap_or_default();
    let of_input: Vec<String> = cluster.warnings.iter().map(ToString::to_string).collect();
    let question =
        ReclaimQuestion { cluster, now: args.now.unwrap_or_else(clock), settings: settings.reclaim, profile: args.form.profile, policy };
    let mut report = super::explain_reclaim(question);
    report.warnings.splice(0..0, of_input);
    report.remarks.extend(from.map(|from| format!("the settings are those of {from}")));
    Ok(report)
}

/// The current time of the real clock. Nothing is simulated here.
#[expect(clippy::disallowed_methods, reason = "an operator asks about now")]
fn clock() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// The name of a pod in a hint: on one line, whatever the name is.
fn named(pod: &Pod) -> String {
    printable::text(&format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())).into_owned()
}

/// The maximum number of pods that are listed when the requested pod does not exist.
const NAMED_MAX: usize = 50;

fn find(cluster: &ClusterInput, PodKey { namespace, name }: &PodKey) -> Result<(Pod, Manifest), Error> {
    cluster.pod(namespace, name).cloned().ok_or_else(|| {
        let known: Vec<String> = cluster.pods.iter().map(|(pod, _)| named(pod)).collect();
        let error = Error::usage(format!("the manifests hold no pod {namespace}/{name}"));
        let more = known.len().saturating_sub(NAMED_MAX);
        let and = if more > 0 { format!(" and {} more", human::count(more as u64)) } else { String::new() };
        match &known[..] {
            [] => error.hint("they hold no pod at all; --manifests takes files, folders and - for standard input"),
            _ => error.hint(format!(
                "there {} {}",
                if known.len() == 1 { "is" } else { "are" },
                known[..known.len() - more].join(", ") + &and
            )),
        }
    })
}

/// The places of the annotations that a decision reads.
fn places(pod: &Pod, manifest: &Manifest, namespace: Option<&Manifest>) -> BTreeMap<String, String> {
    let place =
        |manifest: &Manifest, key: &str| format!("{}:{}", manifest.file(), manifest.locate(&format!("metadata.annotations[{key}]")));
    let of_pod = pod.annotations().keys().map(|key| (key.clone(), place(manifest, key)));
    let of_namespace = [
        names::ANNOTATION_DEFAULT_IPV4_IPPOOL,
        names::ANNOTATION_DEFAULT_IPV6_IPPOOL,
        names::ANNOTATION_DEFAULT_IPV4_IPPOOL_OUTDATED,
        names::ANNOTATION_DEFAULT_IPV6_IPPOOL_OUTDATED,
    ];
    let of_namespace = namespace.into_iter().flat_map(|manifest| of_namespace.map(|key| (key.to_owned(), place(manifest, key))));
    of_pod.chain(of_namespace).collect()
}
