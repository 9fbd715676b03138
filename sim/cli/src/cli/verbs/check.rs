//! `check`: all errors in scenario, plan and manifest files, without running them.
//!
//! For manifests this includes the answers of a system's webhooks if the objects of a cluster were created one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ipam_reports::CheckReport;
use ipam_reports::listing::{BrokenRule, CheckedFile, Finding, Severity};
use kube_sim::kinds::Registry;
use sim_config::manifest::{self, Manifest};
use sim_config::{Problem, Problems, Source, source, toml as input_toml};
use sim_harness::engine::load::{self, Ready};
use sim_harness::plan::{Plan, SCHEMA};
use sim_harness::served::registry;
use sim_harness::system::systems;
use sim_harness::webhook::{Broken, Judge, Judged};

use crate::cli::CliError;
use crate::cli::args::CheckArgs;

/// Checks every file under the paths of the command line.
///
/// # Errors
/// The webhooks cannot be set up with the arguments of the command line.
pub(super) fn check(args: &CheckArgs) -> Result<CheckReport, CliError> {
    let webhooks = systems().webhooks().map(|webhooks| webhooks.set_up(&args.webhooks.0)).transpose()?;
    let registry = registry();
    let (mut checked_files, mut seen, mut clusters) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
    for path in &args.paths {
        let mut files = Vec::new();
        if let Err(problem) = collect(path, true, &mut files) {
            checked_files.push(Checked { errors: problem.into(), ..Checked::new(path, "nothing") });
        } else if files.is_empty() {
            let wrong = match () {
                () if path.is_dir() => "there is nothing to check in this folder",
                () if path.exists() => "there is nothing to check under this name",
                () => "there is no such file or folder",
            };
            let problem =
                Problem::of_file(&path.display().to_string(), wrong, "scenarios and plans end in .toml, manifests in .yaml, .yml or .json");
            checked_files.push(Checked { errors: problem.into(), ..Checked::new(path, "nothing") });
        }
        for Found { file, named } in files.into_iter().filter(|found| seen.insert(found.file.clone())) {
            let (checked, manifests) = check_file(&registry, &file);
            checked_files.push(checked);
            let cluster = if named { None } else { file.parent().map(Path::to_owned) };
            clusters.entry(cluster).or_insert_with(Vec::new).extend(manifests);
        }
    }
    let mut refused = refused(&registry, clusters.values(), webhooks.as_deref());
    let files = checked_files.into_iter().map(|checked| {
        let refused = refused.remove(&checked.name).unwrap_or_default();
        checked.told(refused)
    });
    Ok(CheckReport { files: files.collect(), ..CheckReport::default() })
}

/// A file to be checked.
struct Found {
    file: PathBuf,
    /// Whether the file, or its folder, was named on the command line: all of these are one cluster, as for `--manifests`. Each folder
    /// further down is a separate cluster.
    named: bool,
}

fn collect(path: &Path, named: bool, files: &mut Vec<Found>) -> Result<(), Problem> {
    if path.is_dir() {
        for entry in source::entries(path)? {
            let known = entry.extension().is_some_and(|extension| ["toml", "yaml", "yml", "json"].iter().any(|known| extension == *known));
            // The schema of scenarios is in the same folder, but is none of the three.
            let schema = entry.to_string_lossy().ends_with(".schema.json");
            if entry.is_dir() {
                collect(&entry, false, files)?;
            } else if known && !schema {
                files.push(Found { file: entry, named });
            }
        }
    } else if path.is_file() || path == Path::new("-") {
        files.push(Found { file: path.to_owned(), named });
    }
    Ok(())
}

/// The findings of admission for the objects of each cluster, by file, if they were created one after the other.
fn refused<'a>(
    registry: &Registry,
    clusters: impl Iterator<Item = &'a Vec<Manifest>>,
    webhooks: Option<&dyn Judge>,
) -> BTreeMap<String, Vec<Finding>> {
    let mut refused: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    for manifests in clusters {
        let (mut there, mut judged_types) = (BTreeSet::new(), BTreeSet::new());
        for Judged { manifest, mut broken } in webhooks.map(|webhooks| webhooks.judge(manifests)).unwrap_or_default() {
            judged_types.insert(type_of(manifest));
            // A webhook does not always check whether the name is taken; the API server does.
            let exists = Broken::already_exists();
            if there.contains(&key_of(manifest)) && broken.iter().all(|broken| broken.fault != exists.fault) {
                broken.push(exists);
            }
            if broken.iter().all(|broken| broken.unknown) {
                there.insert(key_of(manifest));
            }
            let findings = broken.into_iter().map(|broken| finding_of(manifest, broken));
            refused.entry(manifest.file().to_owned()).or_default().extend(findings);
        }
        // Objects that admission does not judge are taken as stored; of several with the same name, the last one counts.
        let served = |manifest: &&Manifest| registry.find(&manifest.api_version, &manifest.kind).is_some();
        for manifest in manifests.iter().filter(|manifest| !judged_types.contains(&type_of(manifest))).filter(served) {
            if !there.insert(key_of(manifest)) {
                refused.entry(manifest.file().to_owned()).or_default().push(again(manifest));
            }
        }
    }
    refused
}

/// The namespace of a namespaced object that names none, as in kubectl.
const DEFAULT_NAMESPACE: &str = "default";

fn type_of(manifest: &Manifest) -> (&str, &str) {
    (&manifest.api_version, &manifest.kind)
}

/// The identity of an object.
fn key_of(manifest: &Manifest) -> (&str, &str, &str, &str) {
    let namespace = manifest.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    (&manifest.api_version, &manifest.kind, namespace, &manifest.name)
}

fn again(manifest: &Manifest) -> Finding {
    let at = manifest.locate("metadata.name");
    Finding {
        severity: Severity::Warning,
        line: Some(at.line.into()),
        column: Some(at.column.into()),
        found: format!("another {} is called {}, too", manifest.kind, manifest.name),
        hint: Some("this one counts".to_owned()),
        rule: None,
    }
}

fn finding_of(manifest: &Manifest, Broken { field, message, fault, unknown }: Broken) -> Finding {
    let (at, Manifest { kind, name, .. }) = (manifest.locate(&field), manifest);
    Finding {
        severity: if unknown { Severity::Warning } else { Severity::Error },
        line: Some(at.line.into()),
        column: Some(at.column.into()),
        found: format!("{kind} {name}: {field}: {message}"),
        hint: unknown.then(|| "with the manifest of the owner it could be judged".to_owned()),
        rule: Some(BrokenRule { object: format!("{kind}/{name}"), field, fault: fault.to_owned() }),
    }
}

fn check_file(registry: &Registry, file: &Path) -> (Checked, Vec<Manifest>) {
    if file.extension().is_none_or(|extension| extension != "toml") {
        return check_manifests(registry, file);
    }
    let is_plan = std::fs::read_to_string(file).is_ok_and(|text| text.contains(SCHEMA));
    if is_plan {
        let errors = Plan::read(file).and_then(|plan| load::stage_of_plan(&plan).map(drop)).err();
        return (Checked { errors: errors.unwrap_or_default(), ..Checked::new(file, "plan") }, Vec::new());
    }
    let checked = match load::variants(file, |_| true) {
        Ok(ready) => Checked { warnings: odd_workloads(file, &ready), ..Checked::new(file, "scenario") },
        Err(errors) => Checked { errors, ..Checked::new(file, "scenario") },
    };
    (checked, Vec::new())
}

/// Remarks of systems about the workloads of a scenario.
fn odd_workloads(file: &Path, ready: &[Ready]) -> Problems {
    let mut odd = Problems::new();
    let Ok((name, text)) = input_toml::text(file) else { return odd };
    for (number, ready) in ready.iter().enumerate() {
        let source = Source::new(&name, &text).of_variant(Some(number));
        if let Some(system) = systems().of_workload(&ready.scenario.workload) {
            odd.merge(&system.check_workload(&ready.scenario.workload, source));
        }
    }
    odd
}

fn check_manifests(registry: &Registry, file: &Path) -> (Checked, Vec<Manifest>) {
    let mut checked = Checked::new(file, "manifest");
    let Checked { errors, warnings, .. } = &mut checked;
    let manifests = errors.collect(manifest::read(&[file.to_owned()])).unwrap_or_default();
    for manifest in &manifests {
        for system in systems().iter() {
            if let Some(odd) = errors.collect(system.check_manifest(manifest)) {
                warnings.append(odd);
            }
        }
        match registry.find(&manifest.api_version, &manifest.kind) {
            Some(kind) => {
                if let Some((_, unknown)) = errors.collect((registry.get(kind).decode)(manifest)) {
                    warnings.append(unknown);
                }
            }
            None => {
                let wrong = format!("the simulated cluster does not serve {} of {}", manifest.kind, manifest.api_version);
                warnings.push(manifest.problem("kind", wrong, "it is left out of a run"));
            }
        }
    }
    if let Some(manifest) = manifests.first() {
        manifest.file().clone_into(&mut checked.name);
    }
    (checked, manifests)
}

/// The findings in a file by itself.
struct Checked {
    file: PathBuf,
    /// The name of the file in its manifests.
    name: String,
    kind: &'static str,
    errors: Problems,
    warnings: Problems,
}

impl Checked {
    fn new(file: &Path, kind: &'static str) -> Self {
        Self { file: file.to_owned(), name: file.display().to_string(), kind, errors: Problems::new(), warnings: Problems::new() }
    }

    /// All findings: errors first, each group by position.
    fn told(self, refused: Vec<Finding>) -> CheckedFile {
        let file = self.file.display().to_string();
        let finding = |severity| {
            let file = &file;
            move |problem: &Problem| Finding {
                severity,
                line: problem.at.map(|at| u64::from(at.line)),
                column: problem.at.map(|at| u64::from(at.column)),
                found: if problem.file == *file { problem.wrong.clone() } else { format!("{}: {}", problem.file, problem.wrong) },
                hint: (!problem.right.is_empty()).then(|| problem.right.clone()),
                rule: None,
            }
        };
        let own = self.errors.iter().map(finding(Severity::Error)).chain(self.warnings.iter().map(finding(Severity::Warning)));
        let mut findings: Vec<Finding> = own.collect();
        if !refused.is_empty() {
            findings.extend(refused);
            findings.sort_by_key(|finding| (finding.severity, finding.line, finding.column));
        }
        CheckedFile { file, kind: self.kind.to_owned(), findings }
    }
}
