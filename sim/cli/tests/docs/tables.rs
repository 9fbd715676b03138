//! The tables in `docs/tables`: made from the program's own lists, and from the schema of scenarios.

use std::fmt::Write as _;
use std::sync::LazyLock;

use ipam_reports::reference;
use ipam_reports::tables::TableOf;
use regex::Regex;
use serde_json::Value;

use crate::sandbox::Sandbox;
use crate::{compare, is_set, root};

/// The comment in a page that states its origin.
const MADE: &str = "<!-- Made by `UPDATE_DOCS=1 cargo test -p ipam-sim --test docs`; edits by hand do not last. -->";

const REFERENCES: &str = "Letters and numbers in brackets (`K §9.2`, `A §5.1`, `B W13`, `G GL1`) are places in the \
                          [behavioural reference](../reference/README.md).";

/// The head of a page: its title, and one paragraph of these sentences.
fn head(title: &str, sentences: &[&str]) -> String {
    format!("{MADE}\n\n# {title}\n\n{}\n", sentences.join(" "))
}

fn list(sandbox: &Sandbox, what: &str) -> Vec<Value> {
    listed(sandbox, what, what)
}

/// The part `key` of the output of `list WHAT`.
fn listed(sandbox: &Sandbox, what: &str, key: &str) -> Vec<Value> {
    let printed = sandbox.shell(&format!("ipam-sim list {what} --format json"));
    let listed: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    listed[key].as_array().unwrap().clone()
}

/// Text for a cell: one line, in which references to the documents are links.
fn cell(text: &str) -> String {
    let linked = reference::markdown(text, "../");
    // Links within the code's documentation lead nowhere here.
    static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[(`[^`]+`)\]").unwrap());
    CODE.replace_all(&linked, "$1").split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_default()
}

fn faults(sandbox: &Sandbox) -> String {
    let sentences = [
        "What a `[[fault]]` of a scenario can be, and what a swarm draws from.",
        "Parameters are shown with the range that they are drawn from unless the scenario says otherwise;",
        "every fault also takes `likelihood`, `count`, `at` and `for` ([scenario reference](../scenarios.md#faults)).",
        "The command line has the same list: `ipam-sim list faults`.",
        REFERENCES,
    ];
    let mut page = head("Faults", &sentences);
    page += "\n| fault | what it does | parameters | the real event |\n|---|---|---|---|\n";
    for fault in list(sandbox, "faults") {
        let parameters: Vec<String> = fault["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|parameter| format!("`{} = {}`", text(parameter, "name"), text(parameter, "default")))
            .collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            text(&fault, "name"),
            cell(text(&fault, "about")),
            parameters.join("<br>"),
            cell(text(&fault, "event"))
        );
    }
    page
}

fn claims(sandbox: &Sandbox) -> String {
    let kinds = [
        ("always", "Invariants: false at any step = violated."),
        ("eventually", "Liveness: still false when the bound has passed after the heal = violated."),
        ("sometimes", "Coverage of situations: held in no run of the sweep = the sweep is vacuous."),
        ("reachable", "Coverage of code: the point was passed in no run of the sweep = the sweep is vacuous."),
    ];
    let sentences = [
        "What a scenario can list under `[check]`. `always` also takes all claims of a suite, \
         `spiderpool/reclaim/*`, or of a system, `spiderpool/*`.",
        "The command line has the same list: `ipam-sim list claims`.",
        "The last column is the property of the [behavioural reference](../reference/README.md) that a claim stands for.",
    ];
    let mut page = head("Claims", &sentences);
    let claims = list(sandbox, "claims");
    for (kind, about) in kinds {
        let _ = write!(page, "\n## {kind}\n\n{about}\n\n| claim | suite | says | reference |\n|---|---|---|---|\n");
        for claim in claims.iter().filter(|claim| text(claim, "kind") == kind) {
            let (about, reference) = (cell(text(claim, "about")), cell(text(claim, "reference")));
            let _ = writeln!(page, "| `{}` | {} | {about} | {reference} |", text(claim, "name"), text(claim, "suite"));
        }
    }
    page += "\n## Excuses\n\nThe documented hazards that a scenario can list under `excuses` ([concepts](../concepts.md#excuse)). Outside \
             of its interval, or where its condition does not hold, a violation is one.\n\n\
             | excuse | hazard | begins | ends | reference |\n|---|---|---|---|---|\n";
    for excuse in listed(sandbox, "claims", "excuses") {
        let [about, begins, ends, reference] = ["about", "begins", "ends", "reference"].map(|key| cell(text(&excuse, key)));
        let _ = writeln!(page, "| `{}` | {about} | {begins} | {ends} | {reference} |", text(&excuse, "name"));
    }
    assert!(claims.iter().all(|claim| kinds.iter().any(|(kind, _)| *kind == text(claim, "kind"))), "a kind of claim is missing");
    page
}

fn mutations(sandbox: &Sandbox) -> String {
    let hows = [
        ("claim", "Found by a claim", "`selftest` fails unless a claim is violated within 2,000 seeds."),
        ("crash", "Found by a crash", "The mutated process panics."),
        ("figure", "Found by a metric", "No claim is violated; a figure of the result shows it."),
        ("explain", "Found by `explain`", "Only what `explain` says of a cluster differs."),
        ("test", "Found by a test", "A test of the code shows it; no run does."),
        ("control", "The control group", "No bug: claims must *not* report these."),
    ];
    let sentences = [
        "Named ways in which the system under test can be made to behave differently from its hardened form:",
        "each known upstream bug, and some bugs that nobody has made yet.",
        "`--mutation NAME` switches one on, `--without NAME` switches one off, and `--profile upstream` switches on those",
        "that upstream has ([concepts](../concepts.md#mutation-and-profile)).",
        "The command line has the same list: `ipam-sim list mutations`.",
        REFERENCES,
    ];
    let mut page = head("Mutations", &sentences);
    let mutations = list(sandbox, "deviations");
    for (how, title, about) in hows {
        let _ = write!(page, "\n## {title}\n\n{about}\n\n| mutation | what it does |\n|---|---|\n");
        for mutation in mutations.iter().filter(|mutation| text(mutation, "how") == how) {
            let _ = writeln!(page, "| `{}` | {} |", text(mutation, "name"), cell(text(mutation, "about")));
        }
    }
    assert!(mutations.iter().all(|mutation| hows.iter().any(|(how, ..)| *how == text(mutation, "how"))), "a way to be found is missing");
    page
}

/// The rows of an object of the schema.
fn keys(page: &mut String, title: &str, object: &Value) {
    let about = cell(text(object, "description"));
    let _ = write!(page, "\n## {title}\n\n{about}\n\n| key | default | meaning |\n|---|---|---|\n");
    for (key, value) in object["properties"].as_object().unwrap().iter().filter(|(key, _)| *key != "kind") {
        let default = match &value["default"] {
            Value::Null => String::new(),
            // Groups of keys have separate tables.
            Value::Object(_) => "…".to_owned(),
            default => format!("`{default}`"),
        };
        let _ = writeln!(page, "| `{key}` | {default} | {} |", cell(text(value, "description")));
    }
}

fn scenario_keys() -> String {
    let schema = std::fs::read_to_string(root().join("scenarios/scenario.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let defs = &schema["$defs"];
    let sentences = [
        "Every key with its default, from `scenarios/scenario.schema.json`, which editors use for completion.",
        "How the pieces fit together is in the [scenario reference](../scenarios.md).",
        REFERENCES,
    ];
    let mut page = head("Keys of a scenario", &sentences);
    keys(&mut page, "Scenario", &schema);
    for (title, name) in [
        ("`[phases]`", "Phases"),
        ("`[cluster]`", "ClusterDraft"),
        ("`[cluster.knobs]`", "KnobsDraft"),
        ("`[cluster.capacity]`", "CapacityDraft"),
        ("`[check]`", "Checks"),
    ] {
        keys(&mut page, title, &defs[name]);
    }
    let fault = &defs["With2"];
    assert!(!fault["properties"]["likelihood"].is_null(), "the schema calls the common keys of faults otherwise now");
    keys(&mut page, "`[[fault]]`, besides the [parameters of its kind](faults.md)", fault);
    keys(&mut page, "`[swarm]`", &defs["Swarm"]);
    for workload in defs["WorkloadDraft"]["oneOf"].as_array().unwrap() {
        keys(&mut page, &format!("`[workload]`, kind `{}`", text(&workload["properties"]["kind"], "const")), workload);
    }
    page
}

fn report_columns() -> String {
    let sentences = [
        "The tables in CSV that [reports](../reports.md) write beside their pages, and `run --out`, column by column.",
        "A column with `_low` and `_high` beside it is an estimate with the ends of its interval of 95 %.",
        "An empty cell is a number that nothing says, an end that nothing bounds.",
        "A name that ends in `_s` is that of a time in seconds. Columns are only ever added at the end.",
        "In parentheses stands what a column is called on the console, where it is shown there.",
        REFERENCES,
    ];
    let mut page = head("Columns of the reports", &sentences);
    for TableOf { file, about, columns } in ipam_reports::tables::all() {
        let _ = write!(page, "\n## {file}\n\n{about}\n\n| column | unit | holds |\n|---|---|---|\n");
        for column in columns {
            let heads: Vec<String> = column.heads.iter().map(|head| format!("`{head}`")).collect();
            let console = column.console.map_or_else(String::new, |console| format!(" ({console})"));
            let _ = writeln!(page, "| {}{console} | {} | {} |", heads.join(", "), column.unit.name(), cell(column.meaning));
        }
    }
    page
}

#[test]
fn the_tables_are_what_the_program_lists() {
    let sandbox = Sandbox::new("tables");
    let tables = [
        ("faults", faults(&sandbox)),
        ("claims", claims(&sandbox)),
        ("mutations", mutations(&sandbox)),
        ("scenario-keys", scenario_keys()),
        ("report-columns", report_columns()),
    ];
    let mut wrong = Vec::new();
    for (name, made) in tables {
        let path = format!("docs/tables/{name}.md");
        if is_set("UPDATE_DOCS") {
            std::fs::create_dir_all(root().join("docs/tables")).unwrap();
            std::fs::write(root().join(&path), made).unwrap();
        } else if let Err(difference) = compare(&path, &made, &std::fs::read_to_string(root().join(&path)).unwrap_or_default()) {
            wrong.push(difference);
        }
    }
    assert!(wrong.is_empty(), "`UPDATE_DOCS=1 cargo test -p ipam-sim --test docs` makes them anew\n{}", wrong.join("\n"));
}
