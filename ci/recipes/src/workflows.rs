//! Workflows and actions of GitHub: the actions they use are pinned, the scripts they run exist, the names they use are declared.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::{Map, Value};
use tidy::{File, Finding, Repository};

use crate::{container, shell, yaml};

/// The keys of a workflow, a job and a step.
const OF_WORKFLOW: [&str; 9] = ["name", "run-name", "on", "permissions", "env", "defaults", "concurrency", "jobs", "timeout-minutes"];
const OF_JOB: [&str; 16] = [
    "name",
    "needs",
    "if",
    "runs-on",
    "permissions",
    "environment",
    "concurrency",
    "outputs",
    "env",
    "defaults",
    "steps",
    "continue-on-error",
    "timeout-minutes",
    "strategy",
    "container",
    "services",
];
const OF_STEP: [&str; 11] =
    ["id", "if", "name", "uses", "run", "working-directory", "shell", "with", "env", "continue-on-error", "timeout-minutes"];

/// Workflows and actions that would fail, or could change unnoticed.
pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.files_of(&["yml", "yaml"]).filter(|file| file.path.starts_with(".github/")) {
        let documents = match yaml::documents(&file.text) {
            Ok(documents) => documents,
            Err(error) => {
                findings.push(Finding::of_file(&file.path, format!("is no YAML: {error}")));
                continue;
            }
        };
        let document = documents.first().unwrap_or(&Value::Null);
        let mut checked = Checked { repository, file, document, wrong: Vec::new() };
        if file.path.starts_with(".github/workflows/") {
            checked.workflow();
        } else {
            checked.action();
        }
        findings.extend(checked.wrong.into_iter().map(|text| Finding::of_file(&file.path, text)));
    }
    findings
}

struct Checked<'a> {
    repository: &'a Repository,
    file: &'a File,
    document: &'a Value,
    wrong: Vec<String>,
}

impl Checked<'_> {
    fn workflow(&mut self) {
        let Some(workflow) = self.document.as_object() else { return self.wrong.push("is no workflow".to_owned()) };
        self.keys("the workflow", workflow, &OF_WORKFLOW);
        for key in ["on", "permissions", "jobs"] {
            if !workflow.contains_key(key) {
                self.wrong.push(format!("`{key}` is missing"));
            }
        }
        let jobs = workflow.get("jobs").and_then(Value::as_object).cloned().unwrap_or_default();
        let names: Vec<&String> = jobs.keys().collect();
        for (name, job) in &jobs {
            let Some(job) = job.as_object() else { continue };
            self.keys(&format!("job `{name}`"), job, &OF_JOB);
            for key in ["runs-on", "timeout-minutes", "steps"] {
                if !job.contains_key(key) {
                    self.wrong.push(format!("job `{name}`: `{key}` is missing"));
                }
            }
            for needed in strings(job.get("needs")) {
                if !names.iter().any(|name| **name == needed) {
                    self.wrong.push(format!("job `{name}` needs `{needed}`, which is no job"));
                }
            }
            let images = strings(job.get("container")).into_iter().chain(containers(job));
            self.wrong.extend(images.filter(|image| !image.contains("${{")).filter_map(|image| container::unpinned(&image)));
            self.steps(&format!("job `{name}`"), job);
        }
    }

    fn action(&mut self) {
        let runs = self.document["runs"].as_object().cloned().unwrap_or_default();
        if runs.get("using").and_then(Value::as_str) != Some("composite") {
            self.wrong.push("`runs.using` is not `composite`".to_owned());
        }
        for key in ["name", "description"] {
            if self.document[key].as_str().unwrap_or_default().is_empty() {
                self.wrong.push(format!("`{key}` is missing"));
            }
        }
        self.steps("the action", &runs);
        for (at, step) in runs.get("steps").and_then(Value::as_array).into_iter().flatten().enumerate() {
            if step.get("run").is_some() && step.get("shell").is_none() {
                self.wrong.push(format!("step {}: `shell` is missing, as an action has no default", at + 1));
            }
        }
        let declared: BTreeSet<String> = self.document["inputs"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let used = named(&self.file.text, r"inputs\.([\w-]+)");
        self.wrong.extend(used.difference(&declared).map(|name| format!("`inputs.{name}` is not declared")));
        self.wrong.extend(declared.difference(&used).map(|name| format!("the input `{name}` is used nowhere")));
    }

    fn steps(&mut self, of: &str, map: &Map<String, Value>) {
        let steps = map.get("steps").and_then(Value::as_array).cloned().unwrap_or_default();
        let ids: BTreeSet<String> = steps.iter().filter_map(|step| step["id"].as_str().map(str::to_owned)).collect();
        let used = named(&self.file.text, r"steps\.([\w-]+)\.");
        if map.contains_key("using") {
            self.wrong.extend(used.difference(&ids).map(|id| format!("no step has the id `{id}`")));
        }
        for (at, step) in steps.iter().enumerate() {
            let of = format!("{of}, step {}", at + 1);
            let Some(step) = step.as_object() else { continue };
            self.keys(&of, step, &OF_STEP);
            match (step.get("uses").and_then(Value::as_str), step.get("run").and_then(Value::as_str)) {
                (Some(uses), None) => self.wrong.extend(unpinned(self.repository, uses).map(|wrong| format!("{of}: {wrong}"))),
                (None, Some(run)) => self.run(&of, run),
                _ => self.wrong.push(format!("{of}: either `uses` or `run`")),
            }
        }
    }

    fn run(&mut self, of: &str, run: &str) {
        let expression = Regex::new(r"\$\{\{[^}]*\}\}").expect("a constant");
        for found in expression.find_iter(run) {
            // An expression that outsiders can control becomes code here; a variable does not.
            if ["inputs.", "github.event", "github.head_ref", "github.ref_name"].iter().any(|free| found.as_str().contains(free)) {
                self.wrong.push(format!("{of}: `{}` becomes part of a script; give it by `env`", found.as_str()));
            }
        }
        let script = expression.replace_all(run, "x");
        self.wrong.extend(shell::refused(&script).map(|error| format!("{of}: {error}")));
        let here = self.file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let script = script.replace("\"$GITHUB_ACTION_PATH/", &format!(" {here}/"));
        self.wrong.extend(shell::missing(self.repository, &script).iter().map(|path| format!("{of}: there is no `{path}`")));
    }

    fn keys(&mut self, of: &str, map: &Map<String, Value>, known: &[&str]) {
        let unknown = map.keys().filter(|key| !known.contains(&key.as_str()));
        self.wrong.extend(unknown.map(|key| format!("{of}: `{key}` is no key")));
    }
}

/// The reason why an action that a step uses is not pinned, or does not exist.
fn unpinned(repository: &Repository, uses: &str) -> Option<String> {
    if let Some(folder) = uses.strip_prefix("./") {
        return (!repository.paths.contains(&format!("{folder}/action.yml"))).then(|| format!("there is no action in `{folder}`"));
    }
    if let Some(image) = uses.strip_prefix("docker://") {
        return container::unpinned(image);
    }
    let (action, version) = uses.split_once('@').unwrap_or((uses, ""));
    let is_commit = version.len() == 40 && version.chars().all(|char| char.is_ascii_hexdigit());
    // GitHub's own actions are trusted like the runner, which is GitHub's, too.
    let is_release = action.starts_with("actions/") && Regex::new(r"^v\d+(\.\d+)*$").expect("a constant").is_match(version);
    (!is_commit && !is_release).then(|| format!("`{uses}` is not pinned; name a commit, or a version of an action of GitHub's own"))
}

/// A string, or the strings of a list.
fn strings(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(list)) => list.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// The images of a matrix.
fn containers(job: &Map<String, Value>) -> Vec<String> {
    let rows = job.get("strategy").and_then(|strategy| strategy["matrix"]["include"].as_array()).into_iter().flatten();
    rows.filter_map(|row| row["container"].as_str()).filter(|image| !image.is_empty()).map(str::to_owned).collect()
}

/// The names in the expressions of a file.
fn named(text: &str, pattern: &str) -> BTreeSet<String> {
    let expression = Regex::new(r"\$\{\{(.*?)\}\}").expect("a constant");
    let name = Regex::new(pattern).expect("a constant");
    let expressions = expression.captures_iter(text).map(|found| found.get(1).expect("it has a group").as_str());
    expressions.flat_map(|text| name.captures_iter(text).map(|found| found[1].to_owned()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKFLOW: &str = "on: push\npermissions: {}\njobs:\n  a:\n    runs-on: x\n    timeout-minutes: 1\n    steps:\n      \
                            - uses: actions/checkout@v4\n      - uses: ./.github/actions/b\n      - run: ci/c.sh \"${{ matrix.d }}\"\n  \
                            b:\n    needs: a\n    runs-on: x\n    timeout-minutes: 1\n    steps: []\n";
    const ACTION: &str = "name: b\ndescription: B\ninputs:\n  in: { description: I }\nruns:\n  using: composite\n  steps:\n    \
                          - id: one\n      shell: bash\n      run: '\"$GITHUB_ACTION_PATH/run.sh\"'\n      \
                          env: { IN: '${{ inputs.in }}' }\n    \
                          - shell: bash\n      run: exit \"$CODE\"\n      env: { CODE: '${{ steps.one.outputs.code }}' }\n";

    fn findings(workflow: &str, action: &str) -> Vec<String> {
        let files = [
            (".github/workflows/a.yml", workflow),
            (".github/actions/b/action.yml", action),
            (".github/actions/b/run.sh", ""),
            ("ci/c.sh", ""),
        ];
        check(&Repository::of(&files)).iter().map(Finding::to_string).collect()
    }

    #[track_caller]
    fn with(from: &str, to: &str) -> String {
        assert!(WORKFLOW.contains(from) || ACTION.contains(from), "{from}");
        findings(&WORKFLOW.replace(from, to), &ACTION.replace(from, to)).join("; ")
    }

    #[test]
    fn what_would_not_run_is_found() {
        assert_eq!(findings(WORKFLOW, ACTION), [""; 0]);
        assert_eq!(with("ci/c.sh", "ci/d.sh"), ".github/workflows/a.yml: job `a`, step 3: there is no `ci/d.sh`");
        assert_eq!(with("run.sh", "ran.sh"), ".github/actions/b/action.yml: the action, step 1: there is no `.github/actions/b/ran.sh`");
        assert!(with("jobs:\n", "jobs: [\n").contains("is no YAML"));
        assert!(with("permissions: {}\n", "permissions: {}\npermissions: {}\n").contains("is no YAML"));
        assert!(with("permissions: {}\n", "").contains("`permissions` is missing"));
        assert!(with("timeout-minutes: 1", "timeout: 1").contains("job `a`: `timeout` is no key"));
        assert!(with("needs: a", "needs: c").contains("job `b` needs `c`, which is no job"));
        assert!(with("ci/c.sh \"", "ci/c.sh \"\"").contains("unexpected EOF"));
        assert!(with("      shell: bash\n", "").contains("`shell` is missing"));
        assert!(
            with("inputs.in ", "inputs.out ")
                .contains("`inputs.out` is not declared; .github/actions/b/action.yml: the input `in` is used nowhere")
        );
        assert!(with("steps.one", "steps.two").contains("no step has the id `two`"));
        assert!(with("./.github/actions/b", "./.github/actions/c").contains("there is no action in"));
    }

    #[test]
    fn what_would_be_another_tomorrow_is_found() {
        for uses in ["actions/checkout", "actions/checkout@main", "someone/checkout@v4", "docker://debian"] {
            assert!(with("actions/checkout@v4", uses).contains("is not pinned"), "{uses}");
        }
        assert_eq!(with("actions/checkout@v4", "someone/x@0123456789012345678901234567890123456789"), "");
        assert!(with("    runs-on: x\n    timeout", "    runs-on: x\n    container: debian\n    timeout").contains("is not pinned"));
        assert!(with("matrix.d", "github.event.issue.title").contains("becomes part of a script"));
    }
}
