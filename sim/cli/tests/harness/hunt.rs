//! The edits that a guided search tries, and its use of earlier results.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kube_sim::fault::Fault;
use proptest::prelude::*;
use sim_config::Source;
use sim_config::draw::{Concern, Draw};
use sim_config::kinds::Kinds;
use sim_config::time::{SimTime, Span};
use sim_harness::engine::hunt::corpus::{Corpus, Entry, Known};
use sim_harness::engine::hunt::disk::{Folder, Saved};
use sim_harness::engine::hunt::edit::{Edit, Individual, apply, child};
use sim_harness::engine::hunt::{BATCH, run};
use sim_harness::engine::load::{LoadOptions, Ready, scenarios};
use sim_harness::engine::progress::Unobserved;
use sim_harness::engine::{Error, HuntOptions};
use sim_harness::plan::Plan;
use sim_harness::scenario::{FaultContext, FaultSource, Scenario};
use sim_harness::swarm::{PATTERNS, is_pattern};

/// Scenarios of every system, with fault rows, swarms, patterns, changes of objects, a core that is never changed, and scripts.
const SCENARIOS: [&str; 8] = [
    "smoke/counter-faults.toml",
    "chaos/counter-swarm.toml",
    "chaos/byom-swarm.toml",
    "chaos/byom-faults.toml",
    "chaos/byom-at-changes.toml",
    "chaos/spiderpool-swarm.toml",
    "chaos/reclaim-swarm.toml",
    "chaos/subnets-swarm.toml",
];

fn ready(file: &str) -> Ready {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(file);
    let mut all = scenarios(&LoadOptions { scenarios: vec![path], ..LoadOptions::default() }).unwrap();
    all.swap_remove(0)
}

fn groups(individual: &Individual) -> BTreeMap<FaultSource, Vec<Fault>> {
    let mut groups: BTreeMap<FaultSource, Vec<Fault>> = BTreeMap::new();
    for (source, fault) in individual.sources.iter().zip(&individual.plan.fault) {
        groups.entry(source.clone()).or_default().push(fault.clone());
    }
    groups
}

/// Asserts that the scenario could have drawn a plan, as far as the plan shows it.
fn assert_could_be_drawn(scenario: &Scenario, individual: &Individual) {
    let Individual { plan, sources } = individual;
    let problems = plan.problems(Source::new("plan", ""));
    assert!(problems.is_empty(), "{problems}");
    let text = plan.to_toml();
    let read: Plan = sim_config::toml::from_str("plan.toml", &text).unwrap();
    assert!(read.to_toml() == text, "the file says the same");
    assert_eq!(sources.len(), plan.fault.len());
    // No plan has more servers, more time, other claims, excuses or mutations than the scenario allows.
    let (fewest, most) = scenario.cluster.api_servers.bounds();
    assert!((*fewest..=*most).contains(&plan.cluster.api_servers));
    let safety = Span(plan.heal_at.since(SimTime::ZERO));
    let (shortest, longest) = scenario.phases.safety.bounds();
    assert!((*shortest..=*longest).contains(&safety));
    assert_eq!((&plan.check, &plan.excuses, &plan.deviations), (&scenario.check, &scenario.excuses, &scenario.deviations));
    for (source, faults) in groups(individual) {
        assert!(faults.iter().all(|fault| fault.common.at <= plan.heal_at), "{source}");
        match &source {
            FaultSource::Row(row) => {
                let draft = &scenario.fault[*row];
                assert!(scenario.may_have(&source, faults.len()), "{source}: {}", faults.len());
                assert!(faults.iter().all(|fault| fault.kind.kind() == draft.kind.kind()));
                let (shortest, longest) = draft.common.lasts.bounds();
                let lasts = faults.iter().filter_map(|fault| fault.common.lasts);
                assert!(lasts.into_iter().all(|lasts| (shortest.of(safety)..=longest.of(safety)).contains(&lasts)), "{source}");
            }
            FaultSource::Swarm(name) if is_pattern(name) => {
                let made_of = PATTERNS.iter().find(|pattern| pattern.name() == name).unwrap().faults();
                assert!(faults.iter().all(|fault| made_of.split(", ").any(|kind| kind == fault.kind.kind())), "{source}");
            }
            FaultSource::Swarm(name) => {
                let swarm = scenario.swarm.as_ref().unwrap();
                assert!(swarm.wants(name) && faults.iter().all(|fault| fault.kind.kind() == name), "{source}");
                assert!(swarm.admits(&faults, safety), "{source}: {faults:?}");
                assert!(faults.iter().all(|fault| fault.common.when.len() <= 1 && fault.common.when.iter().all(|when| when.nth <= 6)));
            }
            FaultSource::Core => {
                let lost: BTreeSet<String> = plan.lost_for_good();
                let stays = (0..plan.cluster.api_servers).any(|number| !lost.contains(&format!("apiserver-{number}")));
                assert!(stays, "an API server stays: {lost:?}");
            }
        }
    }
}

/// Asserts that each plan in a line of descent could have been drawn.
fn assert_children_could_be_drawn(file: &str, seed: u64, word: u64) {
    let scenario = ready(file).scenario;
    let mate = Individual::drawn(&scenario, seed + 1);
    let mut individual = Individual::drawn(&scenario, seed);
    assert_could_be_drawn(&scenario, &individual);
    let mut draw = Draw::new(word, Concern::Search, 0);
    for _ in 0..12 {
        let Some((next, edits)) = child(&scenario, &individual, &mate, &mut draw) else { continue };
        assert!(!edits.is_empty() && next != individual, "{edits:?}");
        assert_could_be_drawn(&scenario, &next);
        individual = next;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_made_of_plans_is_what_their_scenario_could_have_drawn(which in 0..SCENARIOS.len(), seed in 0..1_000_000u64, word: u64) {
        assert_children_could_be_drawn(SCENARIOS[which], seed, word);
    }
}

#[test]
fn edits_of_which_one_undoes_the_other_make_no_child() {
    assert_children_could_be_drawn("chaos/byom-at-changes.toml", 657_675, 3_371_227_596_683_224_220);
}

#[test]
fn every_edit_changes_some_plan() {
    let all = [
        Edit::Latencies,
        Edit::RedrawFaults,
        Edit::DropFaults,
        Edit::RetimeFault,
        Edit::RetargetFault,
        Edit::RetriggerFaults,
        Edit::DropFault,
        Edit::DuplicateFault,
        Edit::SpliceFaults,
        Edit::SpliceWorkload,
        Edit::RedrawWorkload,
        Edit::VaryOperations,
        Edit::RedrawKnobs,
    ];
    let scenario = ready("chaos/byom-swarm.toml").scenario;
    let mate = Individual::drawn(&scenario, 99);
    let mut changed = BTreeSet::new();
    for seed in 0..60 {
        let individual = Individual::drawn(&scenario, seed);
        for edit in all {
            let mut draw = Draw::new(seed, Concern::Search, 1);
            let edited = apply(&scenario, &individual, &mate, edit, &mut draw);
            changed.extend(edited.filter(|edited| *edited != individual).map(|_| edit));
        }
    }
    assert_eq!(changed, BTreeSet::from(all));
}

#[test]
fn a_source_by_itself_draws_what_the_whole_plan_has_of_it() {
    for file in ["smoke/counter-faults.toml", "chaos/byom-faults.toml"] {
        let scenario = ready(file).scenario;
        let mut compared = 0;
        for seed in 0..20 {
            let individual = Individual::drawn(&scenario, seed);
            let context = FaultContext::of(&individual.plan);
            for (source, faults) in groups(&individual) {
                let mut alone = scenario.draw_source(&source, seed, &context);
                alone.sort_by_key(|fault| fault.common.at);
                assert_eq!(alone, faults, "{file} {source} seed {seed}");
                compared += 1;
            }
        }
        assert!(compared > 20, "{file}: {compared}");
    }
}

fn entry(number: u64, features: Vec<u32>) -> Entry {
    let individual = Individual::drawn(&ready("chaos/counter-swarm.toml").scenario, number);
    Entry { number, individual, parent: None, edits: Vec::new(), kept_for: features.clone(), features, chosen: 0 }
}

fn known(text: &str, hits: u32) -> Known {
    Known { text: text.to_owned(), hits }
}

#[test]
fn what_was_reached_before_is_not_new() {
    let mut corpus = Corpus::default();
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    assert_eq!(corpus.count(&texts(&["a", "b"])), (vec![0, 1], vec![0, 1]));
    assert_eq!(corpus.count(&texts(&["b", "c"])), (vec![1, 2], vec![2]));
    assert_eq!(corpus.features.iter().map(|known| known.hits).collect::<Vec<_>>(), [1, 2, 1]);
    assert!(corpus.has("c") && !corpus.has("d"));
}

#[test]
fn rare_plans_are_chosen_more_often_until_they_were_chosen() {
    let mut corpus = Corpus::new(vec![entry(0, vec![0]), entry(1, vec![0, 1])], vec![known("common", 1_000), known("rare", 1)]);
    let rare = |corpus: &Corpus| {
        let (energies, mut draw) = (corpus.energies(), Draw::new(0, Concern::Search, 0));
        (0..1_000).filter(|_| energies.pick(&mut draw) == Some(1)).count()
    };
    assert!(rare(&corpus) > 950, "{}", rare(&corpus));
    corpus.entries[1].chosen = 1_000;
    assert!((100..900).contains(&rare(&corpus)), "{}", rare(&corpus));
    assert_eq!(Corpus::default().energies().pick(&mut Draw::new(0, Concern::Search, 0)), None);
}

#[test]
fn a_corpus_that_is_written_and_read_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let entries =
        vec![entry(3, vec![0]), Entry { parent: Some(3), edits: vec!["other latencies".to_owned()], chosen: 4, ..entry(8, vec![0, 1]) }];
    let corpus = Corpus::new(entries, vec![known("point a/b", 7), known("answer get pods: ok", 1)]);
    let saved = Saved { build: "b".to_owned(), config: "c".to_owned(), seed: 5, runs: 9, corpus, ..Saved::default() };
    Folder::new(folder.path(), "counter-swarm").write("counter-swarm", &saved).unwrap();
    let read = Folder::new(folder.path(), "counter-swarm").read("counter-swarm", "c").unwrap().unwrap();
    assert_eq!(read, saved);
    let plan = fs::read_to_string(folder.path().join("counter-swarm/000008.toml")).unwrap();
    assert!(plan.starts_with("# Run 8, made of run 3: other latencies. It was the first to reach:\n#   point a/b\n"), "{plan}");
}

/// Hunts in `file`, and returns the resulting corpus, file by file.
fn hunt(file: &str, corpus: &Path, runs: u64, jobs: usize) -> BTreeMap<PathBuf, String> {
    let options = options(corpus, runs, jobs);
    let report = run(&[ready(file)], &options, &Unobserved).unwrap();
    assert_eq!(report.exit_code, 0, "{:?}", report.scenarios[0].failures);
    let folder = corpus.join(&report.scenarios[0].name);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let relative = |path: &PathBuf| path.strip_prefix(corpus).unwrap().to_owned();
    // The command that replays a plan names its folder.
    let text = |path: &PathBuf| fs::read_to_string(path).unwrap().replace(&corpus.display().to_string(), "CORPUS");
    files.iter().map(|path| (relative(path), text(path))).collect()
}

fn options(corpus: &Path, runs: u64, jobs: usize) -> HuntOptions {
    HuntOptions {
        seed: None,
        runs: Some(runs),
        budget: None,
        jobs,
        corpus: vec![corpus.to_owned()],
        out: corpus.join("../out"),
        shrink: false,
        guided: true,
        first: false,
    }
}

#[test]
fn neither_workers_nor_a_pause_change_what_a_search_finds() {
    let [alone, together, paused] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let file = "smoke/counter-faults.toml";
    let expected = hunt(file, alone.path(), 4 * BATCH, 1);
    assert!(expected.len() > 10, "{} files", expected.len());
    assert!(expected.values().any(|text| text.contains("made of run")), "a child reached something");
    assert_eq!(hunt(file, together.path(), 4 * BATCH, 3), expected);
    hunt(file, paused.path(), BATCH, 2);
    hunt(file, paused.path(), BATCH, 1);
    assert_eq!(hunt(file, paused.path(), 2 * BATCH, 2), expected);
}

#[test]
fn a_corpus_of_another_build_runs_again_and_keeps_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let file = "smoke/counter-faults.toml";
    hunt(file, folder.path(), 2 * BATCH, 2);
    let index = folder.path().join("counter-faults/corpus.json");
    let text = fs::read_to_string(&index).unwrap();
    let build = sim_harness::engine::build();
    fs::write(&index, text.replace(&format!("\"build\":\"{build}\""), "\"build\":\"older\"")).unwrap();
    let report = run(&[ready(file)], &options(folder.path(), BATCH, 2), &Unobserved).unwrap();
    let hunted = report.scenarios[0].hunt.clone().unwrap();
    assert!(hunted.taken_over > 5 && hunted.runs_before == 2 * BATCH, "{hunted:?}");
    assert_eq!(hunted.taken_over + hunted.drawn + hunted.edited, BATCH);
}

#[test]
fn what_several_have_kept_comes_together() {
    let [mine, theirs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let file = "smoke/counter-faults.toml";
    hunt(file, mine.path(), BATCH, 2);
    let other = HuntOptions { seed: Some(70_000), ..options(theirs.path(), 3 * BATCH, 2) };
    let kept = run(&[ready(file)], &other, &Unobserved).unwrap().scenarios[0].hunt.clone().unwrap().corpus;
    let both = HuntOptions { corpus: vec![mine.path().to_owned(), theirs.path().to_owned()], ..options(mine.path(), kept, 2) };
    let report = run(&[ready(file)], &both, &Unobserved).unwrap();
    let hunted = report.scenarios[0].hunt.clone().unwrap();
    assert_eq!((hunted.taken_over, hunted.drawn + hunted.edited), (kept, 0), "their plans come first");
    let reached = hunted.curve.last().unwrap().features;
    let before = hunted.curve.iter().rfind(|point| point.runs <= BATCH).unwrap().features;
    assert!(reached > before, "{before} to {reached}");
}

#[test]
fn what_is_no_corpus_of_the_scenario_is_refused_before_anything_runs() {
    let refusal = |folder: &Path, file: &str| match run(&[ready(file)], &options(folder, BATCH, 1), &Unobserved) {
        Err(Error::Usage { message, .. }) => message,
        other => panic!("{:?}", other.map(|report| report.exit_code)),
    };
    let folder = tempfile::tempdir().unwrap();
    let counter = "smoke/counter-faults.toml";
    fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    assert!(refusal(folder.path(), counter).ends_with("is no corpus: it holds `notes.txt`"));
    fs::remove_file(folder.path().join("notes.txt")).unwrap();
    hunt(counter, folder.path(), BATCH, 2);
    let own = folder.path().join("counter-faults");
    let index = fs::read_to_string(own.join("corpus.json")).unwrap();
    let with = |from: &str, to: &str| fs::write(own.join("corpus.json"), index.replacen(from, to, 1)).unwrap();
    fs::write(own.join("notes.txt"), "mine").unwrap();
    assert!(refusal(folder.path(), counter).ends_with("is no corpus: it holds `notes.txt`"));
    fs::remove_file(own.join("notes.txt")).unwrap();
    with("ipam-sim/corpus/1", "ipam-sim/corpus/2");
    assert!(refusal(folder.path(), counter).contains("the schema is `ipam-sim/corpus/2`, and this version reads `ipam-sim/corpus/1`"));
    with("\"scenario\":\"counter-faults\"", "\"scenario\":\"other\"");
    assert!(refusal(folder.path(), counter).contains("the corpus is of the scenario `other`, not of `counter-faults`"));
    with("\"config\":\"", "\"config\":\"0");
    assert!(refusal(folder.path(), counter).contains("the corpus is of `counter-faults` with other values or mutations"));
    with("", "");
    let plan = own.join("000000.toml");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replacen("scenario = \"counter-faults\"", "scenario = \"other\"", 1)).unwrap();
    assert!(refusal(folder.path(), counter).contains("the plan is of the scenario `other`, not of `counter-faults`"));
    fs::write(&plan, text.replacen("heal_at = \"30s\"", "heal_at = \"29s\"", 1)).unwrap();
    assert!(refusal(folder.path(), counter).ends_with("the plan was edited since it was kept"));
    fs::write(&plan, &text).unwrap();
    run(&[ready(counter)], &options(folder.path(), BATCH, 1), &Unobserved).unwrap();
}
