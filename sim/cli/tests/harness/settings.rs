//! Every setting is drawn by a chaos scenario, or `ci/settings.toml` gives the reason why not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ipam_reports::reference;
use ipam_spiderpool::Policy;
use ipam_spiderpool::controller::ControllerSettings;
use ipam_spiderpool::ipam::AgentSettings;
use ipam_spiderpool::reclaim::ReclaimSettings;
use ipam_spiderpool::select::ELSEWHERE;
use serde::Deserialize;
use toml::{Table, Value};

/// The number of scenarios that the table names for a setting.
const SOME: usize = 6;

/// The content of the file `ci/settings.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    undrawn: Vec<Undrawn>,
    key: Vec<Key>,
}

/// Settings that no chaos scenario draws.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Undrawn {
    names: Vec<String>,
    why: String,
}

/// An environment variable of BYOM and the scenario key that varies its value.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    name: String,
    /// The key in the table of the workload, dotted if it is in a nested table.
    key: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read() -> File {
    let text = std::fs::read_to_string(root().join("ci/settings.toml")).unwrap();
    sim_config::toml::from_str("ci/settings.toml", &text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The values that chaos scenarios write for a key, including those in operations, and the scenarios that do.
#[derive(Default)]
struct Drawn {
    values: BTreeSet<String>,
    by: BTreeSet<String>,
}

impl Drawn {
    /// Whether the value varies: over the seeds of a scenario, or between scenarios.
    fn varies(&self) -> bool {
        self.values.len() > 1 || self.values.iter().any(|value| value.contains(".."))
    }
}

/// Whether this value of a setting differs from the default.
fn differs(name: &str, value: &str) -> bool {
    let policy = Policy::hardened();
    let (mut agent, mut reclaim, mut controller) =
        (AgentSettings::new(&policy), ReclaimSettings::new(&policy), ControllerSettings::new(policy));
    let defaults = (agent.clone(), reclaim.clone(), format!("{controller:?}"));
    let known = [agent.set(name, value), reclaim.set(name, value), controller.set(name, value)];
    assert!(known.iter().all(Result::is_ok), "{name} = {value}: {known:?}");
    (agent, reclaim, format!("{controller:?}")) != defaults
}

/// The possible values of a key in a scenario, which may be a list, a range or one value.
fn values(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => all.iter().flat_map(values).collect(),
        Value::String(text) => vec![text.clone()],
        other => vec![other.to_string()],
    }
}

/// The drawn values by kind of workload and key.
fn drawn() -> BTreeMap<(String, String), Drawn> {
    let mut drawn: BTreeMap<(String, String), Drawn> = BTreeMap::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(root().join("scenarios/chaos")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
        let file: Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
        let kind = file["workload"]["kind"].as_str().unwrap().to_owned();
        let of_variants = file.get("variant").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table);
        for scenario in std::iter::once(&file).chain(of_variants) {
            let name = scenario["name"].as_str().unwrap();
            let mut see = |key: String, value: &Value| {
                let drawn = drawn.entry((kind.clone(), key)).or_default();
                drawn.values.extend(values(value));
                drawn.by.insert(name.to_owned());
            };
            for op in scenario.get("op").and_then(Value::as_array).into_iter().flatten() {
                let stated = op.get("settings").and_then(Value::as_table).into_iter().flatten();
                stated.for_each(|(setting, value)| see(format!("settings.{setting}"), value));
            }
            for (key, value) in scenario.get("workload").and_then(Value::as_table).into_iter().flatten() {
                match value.as_table() {
                    Some(table) => table.iter().for_each(|(inner, value)| see(format!("{key}.{inner}"), value)),
                    None => see(key.clone(), value),
                }
            }
        }
    }
    drawn
}

/// All settings that Spiderpool's processes know.
fn known() -> BTreeSet<String> {
    let elsewhere = ELSEWHERE.iter().map(|(name, _)| *name);
    let all = elsewhere.chain(AgentSettings::NAMES).chain(ReclaimSettings::NAMES).chain(ControllerSettings::NAMES);
    all.map(str::to_owned).collect()
}

/// The words of a page that have one of these beginnings and look like names.
fn named_in(page: &str, begins: &[&str]) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("docs/reference").join(page)).unwrap();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| begins.iter().any(|first| word.len() > first.len() + 2 && word.starts_with(first))).map(str::to_owned).collect()
}

/// Some values as a cell of the table.
fn cell(texts: &BTreeSet<String>) -> String {
    texts.iter().map(|text| if text.is_empty() { "empty".to_owned() } else { format!("`{text}`") }).collect::<Vec<_>>().join(", ")
}

/// A few names, and the number of further ones.
fn some(names: &BTreeSet<String>) -> String {
    let (few, more) = (names.iter().take(SOME).cloned().collect(), names.len().saturating_sub(SOME));
    if more == 0 { cell(&few) } else { format!("{} and {more} more", cell(&few)) }
}

fn head() -> String {
    "<!-- Made by `UPDATE_DOCS=1 cargo test -p ipam-sim --test harness settings`; edits by hand do not last. -->\n\n\
     # Settings\n\n\
     Every setting of the systems, environment variables and keys of ConfigMaps, with the values that scenarios in `scenarios/chaos` \
     write, of which each run draws one, and scenarios that do; or why none does. The test that makes the table fails if a setting is \
     neither drawn nor listed in `ci/settings.toml`.\n\n"
        .to_owned()
}

#[test]
fn every_setting_is_drawn_by_a_chaos_scenario_or_it_is_said_why_not() {
    let (File { undrawn, key }, drawn) = (read(), drawn());
    let reasons: BTreeMap<&str, &str> = undrawn.iter().flat_map(|row| row.names.iter().map(|name| (&**name, &*row.why))).collect();
    let of = |kind: &str, key: &str| drawn.get(&(kind.to_owned(), key.to_owned()));
    let (mut wrong, mut page) = (Vec::new(), head());
    page += "## Spiderpool\n\n| setting | values | drawn by |\n|---|---|---|\n";
    for name in known() {
        let drawn = of("spiderpool", &format!("settings.{name}"));
        let drawn = drawn.filter(|drawn| drawn.varies() || drawn.values.iter().any(|value| differs(&name, value)));
        match (drawn, reasons.get(&*name)) {
            (Some(drawn), None) => page += &format!("| `{name}` | {} | {} |\n", cell(&drawn.values), some(&drawn.by)),
            (None, Some(why)) => page += &format!("| `{name}` | | {} |\n", reference::markdown(why, "../")),
            (Some(_), Some(_)) => wrong.push(format!("{name} is drawn: it needs no reason why it is not")),
            (None, None) => wrong.push(format!("no chaos scenario draws {name}")),
        }
    }
    page += "\n## BYOM\n\n| setting | key | values | drawn by |\n|---|---|---|---|\n";
    for Key { name, key } in &key {
        match of("byom", key).filter(|drawn| drawn.varies()) {
            Some(drawn) => page += &format!("| `{name}` | `{key}` | {} | {} |\n", cell(&drawn.values), some(&drawn.by)),
            None => wrong.push(format!("no chaos scenario leaves `workload.{key}` open, which is what {name} says")),
        }
    }
    let known = known();
    let mut named = named_in("allocation.md", &["SPIDERPOOL_", "enable", "clusterSubnet"]);
    named.extend(named_in("reclaim.md", &["SPIDERPOOL_", "enable"]));
    // English words of the text, and common beginnings of names that follow.
    let no_names = |name: &String| name.chars().all(|letter| letter.is_lowercase() || letter == '_') || name.ends_with('_');
    named.retain(|name| !no_names(name));
    let there = |name: &str| known.contains(name) || named.contains(name);
    wrong.extend(reasons.keys().filter(|name| !there(name)).map(|name| format!("there is no setting {name}")));
    let unknown = named.difference(&known).filter(|name| !reasons.contains_key(&***name));
    wrong.extend(unknown.map(|name| format!("the reference names {name}, which nothing knows")));
    let of_byom: BTreeSet<&str> = key.iter().map(|key| &*key.name).collect();
    for name in named_in("byom.md", &["POOL_", "POD_", "NODE_", "VM_POOL_", "MAX_RANGE_"]) {
        if !of_byom.contains(&*name) {
            wrong.push(format!("the reference names {name}, and `ci/settings.toml` has no key for it"));
        }
    }
    assert!(wrong.is_empty(), "settings:\n{}", wrong.join("\n"));
    let path = root().join("docs/tables/settings.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, page).unwrap();
    } else {
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == page, "`UPDATE_DOCS=1 cargo test -p ipam-sim --test harness settings` makes docs/tables/settings.md anew");
    }
}
