//! Loading of scenarios: settings, profiles, mutations.

use std::path::Path;

use sim_config::Setting;
use sim_harness::deviation::{DeviationName, Profile};
use sim_harness::engine::load::*;
use sim_harness::engine::{Error, LoadOptions};
use sim_harness::system::systems;
use testkit::Folder;

/// The scenarios of a file that holds this text, with these values set.
fn loaded(name: &str, text: &str, set: &[(&str, &str)]) -> Result<Vec<Ready>, Error> {
    let folder = Folder::new("scenarios");
    let file = folder.file(&format!("{name}.toml"), text).into();
    let set = set.iter().map(|(key, value)| Setting { key: (*key).to_owned(), value: (*value).to_owned() }).collect();
    scenarios(&LoadOptions { scenarios: vec![file], set, ..LoadOptions::default() })
}

fn text(clients: &str) -> String {
    let calm = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/smoke/counter-calm.toml");
    let text = std::fs::read_to_string(calm).unwrap();
    let lines = text.lines().map(|line| if line.starts_with("clients") { format!("clients = {clients}") } else { line.to_owned() });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_setting_hides_nothing_that_is_wrong_with_the_file() {
    let set: &[_] = &[("workload.clients", "2")];
    let ready = loaded("right", &text("3"), set).unwrap();
    assert!(ready[0].scenario.draw(0).process_names().iter().filter(|name| name.starts_with("client-")).count() == 2);
    let error = loaded("wrong", &text("'many'"), set).err().unwrap();
    assert!(matches!(&error, Error::BadInput(_)) && error.to_string().contains("/wrong.toml:"), "{error}");
    let error = loaded("unset", &text("3"), &[("workload.clients", "many")]).err().unwrap();
    assert!(error.to_string().starts_with("--set workload.clients=many: "), "{error}");
}

#[test]
fn what_is_added_comes_after_the_profile_and_what_is_left_out_comes_last() {
    let names = |change: DeviationChange, active: &[&str]| {
        let mut active: Vec<_> = active.iter().filter_map(|name| DeviationName::new(name)).collect();
        change.apply(&mut active);
        active.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let name = |name| DeviationName::new(name).unwrap();
    let upstream = systems().mutations().iter().find(|deviation| deviation.upstream).unwrap().name;
    let counter = sim_counter::DECIDES_ONCE;
    assert_eq!(names(DeviationChange::default(), &[upstream, upstream]), [upstream]);
    let hardened = DeviationChange { profile: Some(Profile::Hardened), add: vec![name(counter)], without: Vec::new() };
    assert_eq!(names(hardened, &[upstream]), [counter]);
    let but_one = DeviationChange { profile: Some(Profile::Upstream), add: vec![name(counter)], without: vec![name(upstream)] };
    let all = names(but_one, &[]);
    assert!(all.len() > 10 && all.iter().any(|one| one == counter) && all.iter().all(|one| one != upstream), "{all:?}");
}
