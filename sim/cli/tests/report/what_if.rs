//! `report capacity` and `report reclaim` for situations that were not recorded: resampled traces, more pods, and other changes.

use ipam_reports::demand;
use serde_json::Value;

use super::demand::{LOST, scenario};
use super::{Folder, cut, done, file, refused};

/// Thirty pods in ten minutes, three at a time and one more that stays, each of them for 40 s, in a separate folder.
fn trace(folder: &Folder) -> String {
    std::fs::create_dir_all(&folder.0).unwrap();
    let pods: String = (0..30).map(|number| format!("p{number},{},{}\n", 60 * (number / 3), 60 * (number / 3) + 40)).collect();
    let path = folder.0.join("waves.csv");
    std::fs::write(&path, format!("name,creation_time,deletion_time\n{pods}stays,0,\n")).unwrap();
    path.display().to_string()
}

fn json(folder: &Folder) -> Value {
    serde_json::from_str(&folder.text("report.json")).unwrap()
}

#[test]
fn resampled_traces_say_how_far_the_recorded_one_carries() {
    let (input, out, other) = (Folder::missing("resample-in"), Folder::missing("resample-out"), Folder::missing("resample-two"));
    let asked = format!("--trace {} --objective refused<1% --seeds 1 --resample 20", trace(&input));
    let said = done("capacity", &format!("{asked} --jobs 2"), &out.0);
    let headline = said.lines().next().unwrap();
    assert!(
        headline.contains("addresses are enough so that refused < 1 % holds for ")
            && headline.contains(" of 20 resampled traces (blocks of 40 s), with 95 % confidence for at least ")
            && headline.ends_with("(pods come as in the trace, with the faults of the scenario, servers without a queue)."),
        "{headline}"
    );
    assert!(said.contains("over 20 traces of the same pods") && said.contains("the pod that is never deleted stays where it is"), "{said}");
    let (drawn, traces) = demand::resamples_of(&out.text("resamples.csv")).unwrap();
    assert_eq!((drawn.block_s, drawn.staying, drawn.passing, drawn.of, traces.len()), (40.0, 1, 30, 20, 20));
    // With fewer than a hundred pods none may be refused, so that the number of concurrent records is the number needed.
    for trace in &traces {
        assert!(trace.addresses == Some(trace.peak) && trace.living <= trace.peak && trace.living >= 1, "{trace:?}");
    }
    let mut sizes: Vec<u64> = traces.iter().filter_map(|trace| trace.addresses).collect();
    sizes.sort_unstable();
    let report = json(&out);
    assert_eq!(
        (&report["headline"], &report["resampled"]["median"], &report["resampled"]["enough"]),
        (&headline.into(), &sizes[9].into(), &sizes[18].into())
    );
    assert!(sizes[0] < sizes[19], "as a trace may well be otherwise: {sizes:?}");
    let html = out.text("index.html");
    assert!(html.contains("<p class=\"headline\">") && html.contains("resamples.svg"));
    // The number of threads, interruptions and drawing again change nothing.
    done("capacity", &format!("{asked} --jobs 1"), &other.0);
    assert_eq!(other.text("resamples.csv"), out.text("resamples.csv"));
    cut(&out, "resamples.csv", 8);
    assert_eq!(done("capacity", &asked, &out.0), said);
    assert_eq!(other.text("resamples.csv"), out.text("resamples.csv"));
    let again = Folder::missing("resample-again");
    assert_eq!(done("capacity", &format!("--from {}", out.0.join("sizes.csv").display()), &again.0), said);
    // Longer blocks are another question.
    refused("capacity", &format!("{asked} --block 2m"), &out.0, "holds a report on something else");
}

#[test]
fn more_pods_need_more_addresses_and_fewer_need_fewer() {
    let (input, out) = (Folder::missing("growth-in"), Folder::missing("growth-out"));
    std::fs::create_dir_all(&input.0).unwrap();
    let pods: String = (0..8).map(|number| format!("p{number},{},\n", 10 * number)).collect();
    let path = input.0.join("all-stay.csv");
    std::fs::write(&path, format!("name,creation_time,deletion_time\n{pods}")).unwrap();
    let asked = format!("--trace {} --objective refused<1% --seeds 2 --growth 0.5,1,1.5,2", path.display());
    let said = done("capacity", &asked, &out.0);
    let forms: Vec<(String, u64)> = json(&out)["forms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|form| (form["name"].as_str().unwrap().to_owned(), form["smallest"].as_u64().unwrap()))
        .collect();
    let expected =
        [("as it is", 8), ("every DEL arrives", 8), ("0.5 times the pods", 4), ("1.5 times the pods", 12), ("2 times the pods", 16)];
    assert_eq!(forms, expected.map(|(name, size)| (name.to_owned(), size)));
    assert!(said.contains("2 times the pods") && said.contains("+100.0 %"), "{said}");
}

#[test]
fn a_setting_of_the_scenario_is_varied_beside_the_scenario_as_it_is() {
    let (input, out) = (Folder::missing("vary-in"), Folder::missing("vary-out"));
    let six = scenario(&input, LOST);
    let asked = format!("{six} --objective refused<1% --vary workload.settings.SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY=0,100");
    let said = done("capacity", &asked, &out.0);
    assert!(said.starts_with("6 addresses are enough so that refused < 1 % holds, with 95 % confidence in at least "), "{said}");
    let report = json(&out);
    let changes = report["what_if"].as_array().unwrap();
    let needed: Vec<&Value> = changes.iter().filter(|change| change["figure"] == "addresses needed").collect();
    let [needed] = needed[..] else { panic!("with 100 s it is the scenario as it is: {changes:?}") };
    assert_eq!(
        (&needed["place"], &needed["old"]["value"], &needed["new"]["value"]),
        (&"SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY 0".into(), &6.0.into(), &4.0.into()),
        "leaks of `a` and `b` are gone when `e` and `f` come"
    );
    assert!(out.text("index.html").contains("What if"));
    let again = Folder::missing("vary-again");
    assert_eq!(done("capacity", &format!("--from {}", out.0.join("sizes.csv").display()), &again.0), said);
}

#[test]
fn pool_shape_and_size_of_the_servers_are_varied_in_every_combination() {
    let (input, out) = (Folder::missing("shape-in"), Folder::missing("shape-out"));
    let six = scenario(&input, "");
    let asked = "--objective refused<1% --seeds 1 --vary workload.pools=1,2 --vary cluster.capacity.width=1,2";
    let said = done("capacity", &format!("{six} {asked} --set workload.default_pools=2"), &out.0);
    let names: Vec<String> = json(&out)["forms"].as_array().unwrap().iter().map(|form| form["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["as it is", "pools 1, width 1", "pools 1, width 2", "pools 2, width 1", "pools 2, width 2"]);
    let two = json(&out)["forms"].as_array().unwrap().iter().find(|form| form["name"] == "pools 2, width 1").unwrap().clone();
    assert_eq!((&two["step"], two["smallest"].as_u64().unwrap() % 2), (&2.into(), 0), "both pools have as many: {said}");
    let again = Folder::missing("shape-again");
    assert_eq!(done("capacity", &format!("--from {}", out.0.join("sizes.csv").display()), &again.0), said);
}

#[test]
fn a_delay_of_reclaim_is_varied_beside_the_usual_one() {
    let out = Folder::missing("reclaim-vary");
    let said = done("reclaim", "--seeds 6 --vary workload.settings.SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY=30", &out.0);
    let headline = said.lines().next().unwrap();
    assert!(
        headline.starts_with("99 % of leaked addresses are back within ")
            && headline.contains(" with 95 % confidence (reclaim-leaks")
            && headline.ends_with("applications come over 1 min, with the faults of the scenario, servers without a queue)."),
        "{headline}"
    );
    let report = json(&out);
    let half = |change: &&Value| {
        change["figure"] == "reclaim delay, p50" && change["place"] == "reclaim-leaks, SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY 30, trace"
    };
    let change = report["what_if"].as_array().unwrap().iter().find(half).unwrap();
    let (old, new) = (change["old"]["value"].as_f64().unwrap(), change["new"]["value"].as_f64().unwrap());
    assert!((29.0..31.0).contains(&(new - old)) && change["significant"] == true, "{change}");
    let again = Folder::missing("reclaim-vary-again");
    assert_eq!(done("reclaim", &format!("--from {}", out.0.join("reclaims.csv").display()), &again.0), said);
}

#[test]
fn every_answer_begins_with_one_number_its_confidence_and_what_it_rests_on() {
    let out = Folder::missing("headline-conflicts");
    let said = done("conflicts", "--vary instances=8 --vary retry=default-backoff --vary width=2 --seeds 100", &out.0);
    let headline = said.lines().next().unwrap();
    assert!(
        headline.starts_with("With 8 adaptors ")
            && headline.contains(" % of the calls give up, ")
            && headline.contains(" with 95 % confidence (all at once, servers that work on 2 at a time, 1 ms on a read, as "),
        "{headline}"
    );
    assert_eq!(json(&out)["headline"], headline);
    assert!(out.text("index.html").contains("<p class=\"headline\">With 8 adaptors "));
    let out = Folder::missing("headline-capacity");
    let said = done("capacity", "--objective exhausted<1% --vary instances=2..8 --vary retry=default-backoff --seeds 500", &out.0);
    let expected = "Up to 4 adaptors can share one pool so that exhausted < 1 % holds, with 95 % confidence (all at once, servers without \
                    a queue, as all move in lock step).";
    assert_eq!(said.lines().next(), Some(expected));
    assert_eq!(json(&out)["headline"], expected);
}

#[test]
fn what_is_wrong_gets_one_sentence_and_nothing_is_done() {
    let (input, out) = (Folder::missing("what-if-wrong-in"), Folder::missing("what-if-wrong-out"));
    let (six, waves) = (scenario(&input, ""), trace(&input));
    let write = |name: &str, rows: &str| {
        let path = input.0.join(name);
        std::fs::write(&path, format!("name,creation_time,deletion_time\n{rows}")).unwrap();
        format!("--trace {} --objective refused<1%", path.display())
    };
    let (stay, at_once, one) =
        (write("stay.csv", "a,0,\nb,50,\n"), write("once.csv", "a,5,50\nb,5,60\n"), write("one.csv", "a,5,50\nb,9,\n"));
    let drawn = write_drawn(&input);
    let pods = format!("--trace {waves} --objective refused<1%");
    for (arguments, expected) in [
        (format!("{pods} --resample 0"), "`0` is no whole number from 20 to 10000"),
        (format!("{pods} --resample 19"), "`19` is no whole number from 20 to 10000"),
        (format!("{pods} --resample 1000000"), "`1000000` is no whole number from 20 to 10000"),
        (format!("{pods} --block 1m"), "--resample"),
        (format!("{pods} --resample 20 --block 1h"), "--block 3600s is no part of the 9 min in which the pods of the trace come"),
        (format!("{pods} --resample 20 --block 0s"), "--block 0s is no part of the 9 min in which the pods of the trace come"),
        (format!("{pods} --resample 20 --block soon"), "`soon` is not a duration"),
        (format!("{pods} --growth 0"), "`0` is no factor from 0.05 to 20, e.g. 1.5"),
        (format!("{pods} --growth 1000000"), "`1000000` is no factor from 0.05 to 20, e.g. 1.5"),
        (format!("{pods} --growth 2,2"), "`2` stands there twice"),
        (format!("{stay} --resample 20"), "none of the trace is ever deleted"),
        (format!("{one} --resample 20"), "only one of the trace is ever deleted"),
        (format!("{at_once} --resample 20"), "all of the trace come at the same time"),
        (format!("{drawn} --objective refused<1% --resample 20"), "--resample draws the pods of a trace again, and `drawn` has none"),
        (format!("{drawn} --objective refused<1% --growth 2"), "--growth makes more of the pods of a trace, and `drawn` has none"),
        ("--objective exhausted<1% --resample 20".to_owned(), "--resample is about the pods of a trace, and none is named"),
        ("--objective exhausted<1% --growth 2".to_owned(), "--growth is about the pods of a trace, and none is named"),
        ("--objective exhausted<1% --vary workload.nodes=2".to_owned(), "`workload.nodes` is a key of a scenario, and these are bursts"),
        (format!("{six} --objective refused<1% --vary nodes=2..4"), "`nodes` is varied of bursts at one pool"),
        (format!("{six} --objective refused<1% --vary workload.addresses=5"), "`workload.addresses` is what is searched for"),
        (format!("{six} --objective refused<1% --vary workload.speed=5"), "--vary workload.speed=5: unknown key `speed`"),
        (format!("{six} --objective refused<1% --vary cluster.capacity.width=0"), "`cluster.capacity.width` is 0"),
        (format!("{six} --objective refused<1% --vary workload.replicas=1,2"), "no value of `workload.replicas` changes anything"),
        (
            format!("{six} --objective refused<1% --resample 20 --set phases.safety=30s --set phases.liveness=60s"),
            "are created after the run ends",
        ),
        ("--from sizes.csv --resample 20".to_owned(), "cannot be used with"),
    ] {
        refused("capacity", &arguments, &out.0, expected);
    }
    for (arguments, expected) in [
        ("--vary retry=twelve", "`retry` is varied of bursts at one pool"),
        ("--vary workload.grace=", "is empty"),
        ("--vary workload.trace_compression=2", "no value of `workload.trace_compression` changes anything"),
        ("--vary workload.nowhere=2", "--vary workload.nowhere=2: unknown key `nowhere`"),
    ] {
        refused("reclaim", arguments, &out.0, expected);
    }
    assert!(!out.0.exists());
}

/// Writes a scenario that draws its pods.
fn write_drawn(folder: &Folder) -> String {
    let text = "name = \"drawn\"\nwhy = \"a test\"\n[phases]\nsafety = \"60s\"\nliveness = \"60s\"\n[workload]\nkind = \"spiderpool\"\n\
                [check]\nalways = [\"no-address-is-recorded-twice\"]\n";
    let path = folder.0.join("drawn.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn agents_meet_at_the_servers_that_are_named() {
    let (servers, plain, sized) = (Folder::missing("agents-servers"), Folder::missing("agents-plain"), Folder::missing("agents-sized"));
    done("calibrate", &format!("{} --network 300us", file("scenarios/traces/requests.jsonl")), &servers.0);
    let asked = "--system spiderpool --vary nodes=8 --vary pods=2 --vary start=together --vary policy=hardened --seeds 12";
    done("conflicts", asked, &plain.0);
    let said = done("conflicts", &format!("{asked} --servers {}", servers.0.join("settings.toml").display()), &sized.0);
    let point = |folder: &Folder| ipam_reports::conflicts::table::read(&folder.text("points.csv")).unwrap().points.remove(0);
    let (plain, sized) = (point(&plain), point(&sized));
    assert_eq!((plain.setting.width, sized.setting.width), (0, 1));
    assert!(
        said.contains("servers that work on 1 at a time, 962 µs on a read") && said.lines().next().unwrap().contains("requests queue"),
        "{said}"
    );
    // Sixteen pods that start at the same instant wait for each other.
    let wait = |point: &ipam_reports::conflicts::Point| point.value(ipam_reports::conflicts::Metric::ServerWait);
    assert!(wait(&plain) == 0.0 && wait(&sized) > 0.001, "{} and {}", wait(&plain), wait(&sized));
}
