//! A cluster from manifests, for verbs that decide on it without running it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ipam_spiderpool::SpiderEndpoint;
use ipam_spiderpool::names::{GROUP, VERSION};
use ipam_spiderpool::select::{Kept, Objects};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube_machinery::kubevirt::{self, VirtualMachine, VirtualMachineInstance};
use kube_sim::kinds::naming;
use serde::de::DeserializeOwned;
use sim_config::manifest::{self, Manifest};
use sim_config::problem::{Position, Problem, Problems};

use super::admission;

/// The objects of manifests; of several of one kind, namespace and name the last counts.
#[derive(Debug, Default)]
pub struct ClusterInput {
    /// The objects that decisions read.
    pub objects: Objects,
    /// The pods, each with its manifest, in the order in which their names first appeared.
    pub pods: Vec<(Pod, Manifest)>,
    /// The index in `pods` by namespace and name.
    place_of_pod: BTreeMap<(Option<String>, Option<String>), usize>,
    /// The SpiderEndpoints, under the names of pods or, for static VMs, of their VMIs (A §5.2).
    pub endpoints: Kept<SpiderEndpoint>,
    /// The VirtualMachineInstances of KubeVirt.
    pub instances: Kept<VirtualMachineInstance>,
    /// KubeVirt's VirtualMachines, which decide whether a VMI that is gone or terminating keeps its addresses (A §6.5).
    pub machines: Kept<VirtualMachine>,
    /// The manifests of the namespaces.
    pub namespaces: Vec<Manifest>,
    /// The ConfigMap that holds the settings of Spiderpool.
    pub settings: Option<Manifest>,
    /// The manifests of the objects that admission judges.
    pub admitted: Vec<Manifest>,
    /// Oddities that are no errors.
    pub warnings: Problems,
}

/// The ConfigMap of Spiderpool (A §10).
const SETTINGS: &str = "spiderpool-conf";

/// The namespace of a namespaced object that names none, as in kubectl.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Reads files, directories and standard input (`-`). Objects of kinds that no decision reads are left out.
///
/// # Errors
/// All problems of all of them.
pub fn read(paths: &[PathBuf]) -> Result<ClusterInput, Problems> {
    let mut input = ClusterInput::default();
    let mut problems = Problems::new();
    for manifest in manifest::read(paths)? {
        problems.collect(input.take(manifest));
    }
    problems.or(input)
}

impl ClusterInput {
    /// Adds an object.
    ///
    /// # Errors
    /// Its problems.
    pub fn take(&mut self, manifest: Manifest) -> Result<(), Problems> {
        let objects = &mut self.objects;
        let again = match (manifest.api_version.as_str(), manifest.kind.as_str()) {
            ("v1", "Pod") => {
                let pod = decode::<Pod>(&manifest, true)?;
                let key = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
                let place = *self.place_of_pod.entry(key).or_insert(self.pods.len());
                let again = place < self.pods.len();
                if again {
                    self.pods[place] = (pod, manifest.clone());
                } else {
                    self.pods.push((pod, manifest.clone()));
                }
                again
            }
            ("v1", "Namespace") => {
                let again = keep(&mut objects.namespaces, &manifest, false)?;
                if again {
                    self.namespaces.retain(|other| other.name != manifest.name);
                }
                self.namespaces.push(manifest.clone());
                again
            }
            ("v1", "ConfigMap") if manifest.name == SETTINGS => self.settings.replace(manifest.clone()).is_some(),
            ("v1", "Node") => keep(&mut objects.nodes, &manifest, false)?,
            ("apps/v1", "ReplicaSet") => keep(&mut objects.replica_sets, &manifest, true)?,
            ("apps/v1", "Deployment") => keep(&mut objects.deployments, &manifest, true)?,
            ("apps/v1", "StatefulSet") => keep(&mut objects.stateful_sets, &manifest, true)?,
            ("apps/v1", "DaemonSet") => keep(&mut objects.daemon_sets, &manifest, true)?,
            ("batch/v1", "Job") => keep(&mut objects.jobs, &manifest, true)?,
            ("batch/v1", "CronJob") => keep(&mut objects.cron_jobs, &manifest, true)?,
            (kubevirt::API_VERSION, "VirtualMachineInstance") => keep(&mut self.instances, &manifest, true)?,
            (kubevirt::API_VERSION, "VirtualMachine") => keep(&mut self.machines, &manifest, true)?,
            (version, kind) if version.split_once('/') == Some((GROUP, VERSION)) => match kind {
                "SpiderIPPool" => keep(&mut objects.pools, &manifest, false)?,
                "SpiderReservedIP" => keep(&mut objects.reserved_ips, &manifest, false)?,
                "SpiderSubnet" => keep(&mut objects.subnets, &manifest, false)?,
                "SpiderEndpoint" => keep(&mut self.endpoints, &manifest, true)?,
                _ => false,
            },
            (version, kind) if version.split('/').next() == Some(GROUP) => {
                let wrong = format!("{kind} of {version} is left out");
                self.warnings.push(manifest.problem("apiVersion", wrong, format!("known is {GROUP}/{VERSION}")));
                false
            }
            _ => false,
        };
        if again {
            let wrong = format!("another {} was called {}, too", manifest.kind, manifest.name);
            self.warnings.push(manifest.problem("metadata.name", wrong, "this one counts"));
        }
        if admission::kind_of(&manifest).is_some() {
            self.admitted.push(manifest);
        }
        Ok(())
    }

    /// The pod of this namespace and name, with its manifest.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&(Pod, Manifest)> {
        let place = self.place_of_pod.get(&(Some(namespace.to_owned()), Some(name.to_owned())))?;
        self.pods.get(*place)
    }
}

/// Adds an object; returns whether it replaced another one.
fn keep<K>(kept: &mut Kept<K>, manifest: &Manifest, namespaced: bool) -> Result<bool, Problems>
where
    K: kube_machinery::api::Object + DeserializeOwned,
{
    Ok(kept.insert(decode(manifest, namespaced)?).is_some())
}

fn decode<K: Resource + DeserializeOwned>(manifest: &Manifest, namespaced: bool) -> Result<K, Problems> {
    let mut problems = naming::check(manifest, namespaced);
    let object = problems.collect(manifest.decode::<K>());
    let (true, Some(mut object)) = (problems.is_empty(), object) else { return Err(problems) };
    let meta: &mut ObjectMeta = object.meta_mut();
    if namespaced {
        meta.namespace.get_or_insert_with(|| DEFAULT_NAMESPACE.to_owned());
    } else {
        meta.namespace = None;
    }
    Ok(object)
}

/// Reads the only pod of a file.
///
/// # Errors
/// The problems of the file; also if it holds no pod, or more than one.
pub fn read_pod(path: &PathBuf) -> Result<(Pod, Manifest), Problems> {
    let manifests = manifest::read(std::slice::from_ref(path))?;
    let mut pods = manifests.into_iter().filter(|manifest| manifest.api_version == "v1" && manifest.kind == "Pod");
    let wrong = match (pods.next(), pods.next()) {
        (Some(manifest), None) => return Ok((decode(&manifest, true)?, manifest)),
        (Some(_), Some(second)) => {
            return Err(second.problem("", "the file holds more than one Pod", "--pod NS/NAME picks one of --manifests").into());
        }
        (None, _) => "holds no Pod",
    };
    Err(Problem::at(&path.display().to_string(), Position::START, wrong, "expected what `kubectl get pod NAME -o yaml` prints").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> Result<ClusterInput, Problems> {
        let (mut input, mut problems) = (ClusterInput::default(), Problems::new());
        for manifest in manifest::parse("x.yaml", text.as_bytes())? {
            problems.collect(input.take(manifest));
        }
        problems.or(input)
    }

    #[test]
    fn objects_find_their_place_and_strangers_are_left_out() {
        let input = taken(
            "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x}}\n---\n\
             {apiVersion: v1, kind: Service, metadata: {name: s}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n\
             {apiVersion: spiderpool.spidernet.io/v2beta1, kind: SpiderIPPool, metadata: {name: p}, spec: {subnet: 10.0.0.0/8}}\n---\n\
             {apiVersion: spiderpool.spidernet.io/v1, kind: SpiderIPPool, metadata: {name: q}}\n---\n\
             {apiVersion: v1, kind: Node, metadata: {name: n1}}",
        )
        .unwrap();
        assert!(input.pod("default", "a").is_some() && input.pod("x", "a").is_some() && input.pod("y", "a").is_none());
        assert!(input.objects.pools.get("", "p").is_some() && input.objects.pools.get("", "q").is_none());
        insta::assert_snapshot!(input.warnings, @r"
        x.yaml:11:14: SpiderIPPool of spiderpool.spidernet.io/v1 is left out; known is spiderpool.spidernet.io/v2beta1
        x.yaml:13:47: another Node was called n1, too; this one counts
        ");
    }

    #[test]
    fn every_bad_object_is_named_with_its_place() {
        let text = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {name: p}\nspec:\n  subnet: 10.0.0.0/8\n  \
                    ips: 10.0.0.1\n---\n{apiVersion: v1, kind: Node, metadata: {name: n1, labels: [a]}}";
        let problems = taken(text).unwrap_err();
        assert_eq!(problems.iter().map(|problem| problem.at.unwrap().line).collect::<Vec<_>>(), [6, 8]);
    }
}
