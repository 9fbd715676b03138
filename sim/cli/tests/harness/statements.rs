//! The behaviour that the documents require occurs while faults are active: `ci/statements.toml` states where, and this test runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ipam_reports::reference;
use serde::Deserialize;
use sim_harness::claim;
use sim_harness::engine::HarnessBug;
use sim_harness::engine::load::{LoadOptions, Ready, scenarios};
use sim_harness::engine::progress::Unobserved;
use sim_harness::engine::run::run_plan;
use sim_harness::engine::thread_pool::{ThreadPool, jobs};
use sim_harness::scenario::Scenario;
use sim_harness::system::{RunOptions, systems};

/// The number of seeds of a scenario that run at a time, and the maximum. More than the first batch run only if something has not been seen
/// yet.
const BATCH: u64 = 4;
const SEEDS_MAX: u64 = 40;

/// The number of statements in the documents.
const STATEMENTS: usize = 105;

/// The content of the file `ci/statements.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    statement: Vec<Statement>,
}

/// A sentence of the documents that requires behaviour.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    /// Its name, unique in the file and used by the table and by messages.
    id: String,
    /// The requirement, in our own words.
    says: String,
    /// The location of its description in the reference.
    reference: String,
    /// The coverage points that are reached if it is followed.
    #[serde(default)]
    reached: Vec<String>,
    /// The claims that would be violated, or held nowhere, if it were not followed.
    judged: Vec<String>,
    /// The scenarios that must hold and in which it occurs under faults.
    scenarios: Vec<String>,
}

/// The coverage points and claims of one run.
#[derive(Default)]
struct Shown {
    points: BTreeSet<String>,
    claims: BTreeSet<String>,
}

impl Shown {
    /// Whether it shows the statement: it reaches one of its points, if it has any, and one of its claims judges.
    fn shows(&self, statement: &Statement) -> bool {
        let passed = statement.reached.is_empty() || statement.reached.iter().any(|point| self.points.contains(point));
        passed && statement.judged.iter().any(|claim| self.claims.contains(claim))
    }
}

/// The coverage of a whole run in which a fault took hold, and of the times when a fault was active.
#[derive(Default)]
struct Run {
    whole: Shown,
    while_active: Shown,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read() -> Vec<Statement> {
    let text = std::fs::read_to_string(root().join("ci/statements.toml")).unwrap();
    let File { statement } = sim_config::toml::from_str("ci/statements.toml", &text).unwrap_or_else(|problems| panic!("{problems}"));
    statement
}

/// The scenarios that must hold, by name.
fn must_hold() -> BTreeMap<String, Ready> {
    let folders = ["scenarios/smoke", "scenarios/chaos"].map(|folder| root().join(folder));
    let all = scenarios(&LoadOptions { scenarios: folders.to_vec(), ..LoadOptions::default() }).unwrap();
    all.into_iter().filter(|ready| ready.scenario.expect.is_none()).map(|ready| (ready.scenario.name.clone(), ready)).collect()
}

/// Every claim that a scenario names, alone or as part of a suite.
fn named(scenario: &Scenario) -> BTreeSet<&str> {
    let check = &scenario.check;
    let always = check.always_claims().into_iter().map(|(claim, _)| claim.name);
    let eventually = check.eventually.iter().map(|eventually| eventually.claim.as_str());
    always.chain(eventually).chain(check.sometimes.iter().map(|claim| claim.as_str())).collect()
}

/// The errors in a statement that are found before anything runs.
fn problems(statement: &Statement, points: &BTreeSet<String>, known: &BTreeMap<String, Ready>) -> Vec<String> {
    let mut wrong = Vec::new();
    if statement.says.trim().is_empty() || statement.judged.is_empty() || statement.scenarios.is_empty() {
        wrong.push("it needs a sentence, a claim and a scenario".to_owned());
    }
    if reference::places(&statement.reference).is_empty() {
        wrong.push(format!("`{}` cites no place of the reference", statement.reference));
    }
    wrong.extend(
        statement.reached.iter().filter(|point| !points.contains(*point)).map(|point| format!("there is no coverage point `{point}`")),
    );
    wrong.extend(statement.judged.iter().filter(|name| claim::find(name).is_none()).map(|name| format!("there is no claim `{name}`")));
    for name in &statement.scenarios {
        let Some(Ready { scenario, .. }) = known.get(name) else {
            wrong.push(format!("there is no scenario `{name}` among those that must hold"));
            continue;
        };
        if scenario.fault.is_empty() && scenario.swarm.is_none() {
            wrong.push(format!("`{name}` has no faults"));
        }
        if named(scenario).is_disjoint(&statement.judged.iter().map(String::as_str).collect()) {
            wrong.push(format!("`{name}` names none of its claims"));
        }
    }
    wrong
}

/// Runs the next seeds of a scenario, after the first `after`.
fn run(ready: &Ready, after: u64) -> Vec<Run> {
    let pool = ThreadPool { jobs: jobs(None), chunk: 1, label: &ready.scenario.name, progress: &Unobserved };
    let runs = pool.each(after..after + BATCH, || (), |(), seed| run_seed(ready, seed));
    runs.unwrap_or_else(|HarnessBug(bug)| panic!("{}: {bug}", ready.scenario.name)).unwrap()
}

fn run_seed(ready: &Ready, seed: u64) -> Result<Run, HarnessBug> {
    let outcome = run_plan(&ready.scenario.draw(seed), &ready.stage, RunOptions { features: true, ..RunOptions::default() })?;
    let mut run = Run::default();
    if outcome.fired.is_empty() {
        return Ok(run);
    }
    run.whole.points.extend(outcome.coverage.iter().map(|point| point.to_string()));
    run.while_active.points.extend(outcome.coverage_under_faults.iter().map(|point| point.to_string()));
    let judged = outcome.features.iter().filter_map(|feature| feature.strip_prefix("claim ")?.split_once(" under "));
    for (claim, fault) in judged {
        run.whole.claims.insert(claim.to_owned());
        if fault != "no fault" {
            run.while_active.claims.insert(claim.to_owned());
        }
    }
    // Claims that must come true after the faults are judged at their bound; `sometimes` claims are looked for in the whole run.
    let awaited = ready.scenario.check.eventually.iter().map(|eventually| eventually.claim.as_str().to_owned());
    run.whole.claims.extend(awaited.chain(outcome.held));
    Ok(run)
}

/// The points and claims of a statement that none of these runs shows.
fn unseen(statement: &Statement, runs: &BTreeMap<&String, Vec<Run>>) -> Vec<String> {
    let of = || statement.scenarios.iter().flat_map(|name| &runs[name]);
    let points = statement.reached.iter().filter(|point| !of().any(|run| run.whole.points.contains(*point)));
    let points = points.map(|point| format!("no run with faults passes `{point}`"));
    let claims = statement.judged.iter().filter(|claim| !of().any(|run| run.whole.claims.contains(*claim)));
    let claims = claims.map(|claim| format!("`{claim}` judges nothing in runs with faults"));
    let mut unseen: Vec<String> = points.chain(claims).collect();
    if unseen.is_empty() && !of().any(|run| run.whole.shows(statement)) {
        unseen.push("no run both passes one of its points and judges it".to_owned());
    }
    unseen
}

/// Names as a cell of the table, each as code.
fn names<S: AsRef<str>>(names: &[S]) -> String {
    names.iter().map(|name| format!("`{}`", name.as_ref())).collect::<Vec<_>>().join(", ")
}

/// The beginning of the page.
fn head() -> String {
    let about = [
        "Each sentence of the documents that asks for behaviour ([D §0](../reference/deviations.md#d-0)), where the reference describes",
        "it, which claims judge it, and in which scenarios that must hold. The last columns: in how many of the seeds of these scenarios",
        "one of the claims judged, and one of the statement's [coverage points](../ci.md#coverage) was passed, in a run in which a fault",
        "took hold, and in how many of them both was so at a moment at which a fault was active. A claim about what must be done in time",
        "mostly judges when the time is over, and so are faults by then. The test that makes the table reads `ci/statements.toml`, runs",
        "the first seeds of each scenario, and more where something is still to be seen, and fails if it is not seen.",
    ];
    format!(
        "<!-- Made by `UPDATE_DOCS=1 cargo test -p ipam-sim --test harness statements`; edits by hand do not last. -->\n\n\
         # Statements of the documents\n\n{}\n\nExercised under faults: {STATEMENTS} of {STATEMENTS}.\n\n\
         | statement | asks | reference | claims | scenarios | runs with faults | while active |\n|---|---|---|---|---|--:|--:|\n",
        about.join(" ")
    )
}

/// The row of a statement.
fn row(statement: &Statement, runs: &BTreeMap<&String, Vec<Run>>) -> String {
    let Statement { id, says, reference, judged, scenarios, .. } = statement;
    let of: Vec<&Run> = scenarios.iter().flat_map(|name| &runs[name]).collect();
    let count = |shown: fn(&Run) -> &Shown| of.iter().filter(|run| shown(run).shows(statement)).count();
    let (whole, active, all) = (count(|run| &run.whole), count(|run| &run.while_active), of.len());
    format!(
        "| {id} | {says} | {} | {} | {} | {whole} of {all} | {active} |\n",
        reference::markdown(reference, "../"),
        names(judged),
        names(scenarios)
    )
}

#[test]
fn each_statement_of_the_documents_is_exercised_under_faults() {
    let statements = read();
    let points: BTreeSet<String> = systems().iter().flat_map(|system| system.coverage()).map(|point| point.to_string()).collect();
    let known = must_hold();
    let mut wrong: Vec<String> = statements
        .iter()
        .flat_map(|statement| problems(statement, &points, &known).into_iter().map(|problem| format!("{}: {problem}", statement.id)))
        .collect();
    let ids: BTreeSet<&str> = statements.iter().map(|statement| &*statement.id).collect();
    if ids.len() != statements.len() || ids.len() != STATEMENTS {
        wrong.push(format!("{} statements with {} names are not {STATEMENTS}", statements.len(), ids.len()));
    }
    assert!(wrong.is_empty(), "ci/statements.toml:\n{}", wrong.join("\n"));

    let mut runs: BTreeMap<&String, Vec<Run>> = BTreeMap::new();
    let mut due: BTreeSet<&String> = statements.iter().flat_map(|statement| &statement.scenarios).collect();
    while !due.is_empty() {
        for name in due {
            let of = runs.entry(name).or_default();
            of.extend(run(&known[name], of.len() as u64));
        }
        let open = statements.iter().filter(|statement| !unseen(statement, &runs).is_empty());
        due = open.flat_map(|statement| &statement.scenarios).filter(|name| (runs[name].len() as u64) < SEEDS_MAX).collect();
    }
    let mut page = head();
    for statement in &statements {
        wrong.extend(unseen(statement, &runs).into_iter().map(|what| format!("{}: {what}", statement.id)));
        page += &row(statement, &runs);
    }
    assert!(wrong.is_empty(), "ci/statements.toml:\n{}", wrong.join("\n"));
    let path = root().join("docs/tables/statements.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, page).unwrap();
    } else {
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == page, "`UPDATE_DOCS=1 cargo test -p ipam-sim --test harness statements` makes docs/tables/statements.md anew");
    }
}

#[test]
fn a_statement_that_nothing_can_show_is_told() {
    let known = must_hold();
    let statement = |reached: &str, judged: &str, scenario: &str| Statement {
        id: "x".to_owned(),
        says: "y".to_owned(),
        reference: "A §4".to_owned(),
        reached: vec![reached.to_owned()],
        judged: vec![judged.to_owned()],
        scenarios: vec![scenario.to_owned()],
    };
    let told = |statement: Statement| problems(&statement, &BTreeSet::from(["p".to_owned()]), &known);
    assert_eq!(told(statement("p", "counts-equal-records", "spiderpool-swarm")), Vec::<String>::new());
    assert_eq!(told(statement("q", "counts-equal-records", "spiderpool-swarm")), ["there is no coverage point `q`"]);
    assert_eq!(told(statement("p", "counts-differ", "spiderpool-swarm")).len(), 2);
    assert_eq!(told(statement("p", "counts-equal-records", "nowhere")), ["there is no scenario `nowhere` among those that must hold"]);
    assert_eq!(told(statement("p", "counts-equal-records", "spiderpool-calm")), ["`spiderpool-calm` has no faults"]);
    assert_eq!(told(statement("p", "no-increment-is-lost", "spiderpool-swarm")), ["`spiderpool-swarm` names none of its claims"]);
    let uncited = Statement { reference: "4".to_owned(), ..statement("p", "counts-equal-records", "spiderpool-swarm") };
    assert_eq!(told(uncited), ["`4` cites no place of the reference"]);
}
