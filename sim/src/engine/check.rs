//! `check`: everything that is wrong with scenario, plan and manifest files, without running them.

use std::path::{Path, PathBuf};

use ipam_reports::CheckReport;
use ipam_reports::listing::{CheckedFile, Finding, Severity};

use super::load;
use crate::cli::CliError;
use crate::cli::args::CheckArgs;
use crate::input::{Problem, Problems, manifest};
use crate::kinds::Registry;
use crate::plan::{Plan, SCHEMA};
use crate::scenario::Scenario;
use crate::world::registry;

/// Checks every file under the paths of the command line.
pub(super) fn check(args: &CheckArgs) -> Result<CheckReport, CliError> {
    let registry = registry();
    let mut report = CheckReport::default();
    for path in &args.paths {
        let mut files = Vec::new();
        collect(path, &mut files);
        if files.is_empty() {
            let wrong = if path.exists() { "there is nothing to check in this folder" } else { "there is no such file or folder" };
            let problem =
                Problem::of_file(&path.display().to_string(), wrong, "scenarios and plans end in .toml, manifests in .yaml, .yml or .json");
            report.files.push(checked(path, "nothing", problem.into(), Problems::new()));
        }
        report.files.extend(files.iter().map(|file| check_file(&registry, file)));
    }
    Ok(report)
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for entry in entries {
            let known = entry.extension().is_some_and(|extension| ["toml", "yaml", "yml", "json"].iter().any(|known| extension == *known));
            // The schema of scenarios lies beside them, and is none of the three.
            let schema = entry.to_string_lossy().ends_with(".schema.json");
            if entry.is_dir() || (known && !schema) {
                collect(&entry, files);
            }
        }
    } else if path.is_file() || path == Path::new("-") {
        files.push(path.to_owned());
    }
}

fn check_file(registry: &Registry, file: &Path) -> CheckedFile {
    if file.extension().is_none_or(|extension| extension != "toml") {
        return check_manifests(registry, file);
    }
    let is_plan = std::fs::read_to_string(file).is_ok_and(|text| text.contains(SCHEMA));
    let (kind, problems) = if is_plan {
        ("plan", Plan::read(file).and_then(|plan| load::stage(&plan.cluster.manifests).map(drop)).err())
    } else {
        ("scenario", Scenario::read(file).and_then(check_stages).err())
    };
    checked(file, kind, problems.unwrap_or_default(), Problems::new())
}

/// The manifests of every variation can be read.
fn check_stages(scenario: Scenario) -> Result<(), Problems> {
    scenario.each().iter().try_for_each(|scenario| load::stage(&scenario.cluster.manifests).map(drop))
}

fn check_manifests(registry: &Registry, file: &Path) -> CheckedFile {
    let (mut errors, mut warnings) = (Problems::new(), Problems::new());
    let manifests = errors.collect(manifest::read(&[file.to_owned()])).unwrap_or_default();
    for manifest in &manifests {
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
    checked(file, "manifest", errors, warnings)
}

fn checked(file: &Path, kind: &str, errors: Problems, warnings: Problems) -> CheckedFile {
    let finding = |severity| {
        move |problem: &Problem| Finding {
            severity,
            line: problem.at.map(|at| u64::from(at.line)),
            column: problem.at.map(|at| u64::from(at.column)),
            found: if problem.file == file.display().to_string() {
                problem.wrong.clone()
            } else {
                format!("{}: {}", problem.file, problem.wrong)
            },
            hint: (!problem.right.is_empty()).then(|| problem.right.clone()),
        }
    };
    let findings = errors.iter().map(finding(Severity::Error)).chain(warnings.iter().map(finding(Severity::Warning))).collect();
    CheckedFile { file: file.display().to_string(), kind: kind.to_owned(), findings }
}
