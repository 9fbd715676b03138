//! `report calibrate`.

use super::{Folder, done, file, refused};

fn log() -> String {
    file("scenarios/traces/requests.jsonl")
}

#[test]
fn the_drawn_log_gives_the_server_that_it_was_drawn_from() {
    let out = Folder::missing("calibrate-drawn");
    let json: serde_json::Value =
        serde_json::from_str(&done("calibrate", &format!("{} --network 300us --format json", log()), &out.0)).unwrap();
    let number = |path: &str| json.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("{path}"));
    let near = |path: &str, expected: f64, part: f64| {
        let found = number(path);
        assert!((found / expected - 1.0).abs() < part, "{path}: {found}, expected {expected}");
    };
    // The values of the script that made the log: 1 ms and 2 ms on one processor, the same time outside it, 0.5 ms for a conflict.
    near("/fit/read/mean_s", 0.002, 0.03);
    near("/fit/write/mean_s", 0.004, 0.03);
    near("/fit/conflict_s", 0.000_5, 0.2);
    near("/fit/width/value", 1.0, 0.0001);
    near("/fit/width/share", 0.5, 0.1);
    near("/fit/width/per_second/value", 667.0, 0.1);
    for name in ["settings.toml", "latency.svg", "latency.png", "levels.csv", "report.json", "index.html"] {
        assert!(out.0.join(name).exists(), "{name}");
    }
    assert!(out.text("levels.csv").lines().count() > 8);
    let again = Folder::missing("calibrate-again");
    done("calibrate", &format!("{} --network 300us", log()), &again.0);
    assert_eq!(out.text("settings.toml"), again.text("settings.toml"));
    assert_eq!(out.text("levels.csv"), again.text("levels.csv"));
}

#[test]
fn the_settings_are_taken_by_the_reports_and_by_nothing_that_says_the_same() {
    let server = Folder::missing("calibrate-server");
    done("calibrate", &format!("{} --network 300us", log()), &server.0);
    let settings = server.0.join("settings.toml").display().to_string();
    let out = Folder::missing("calibrate-conflicts");
    let asked = "--vary instances=8 --vary retry=default-backoff --seeds 40 --precision 50%";
    let with = done("conflicts", &format!("--servers {settings} {asked}"), &out.0);
    assert!(with.contains("servers that work on 1 at a time"), "{with}");
    let points = out.text("points.csv");
    let cell = |name: &str| {
        let at = points.lines().next().unwrap().split(',').position(|head| head == name).unwrap();
        points.lines().nth(1).unwrap().split(',').nth(at).unwrap().parse::<f64>().unwrap()
    };
    // Two links of 0.3 ms and 2 ms at the server.
    assert!((cell("read_s") - 0.002_6).abs() < 0.000_1, "{}", cell("read_s"));
    assert!((cell("write_s") - 0.004_6).abs() < 0.000_15, "{}", cell("write_s"));
    for one in ["width=2", "latency=4ms"] {
        refused("conflicts", &format!("--servers {settings} --vary {one}"), &out.0, "says what servers are like; give one of them");
    }
    refused(
        "conflicts",
        &format!("--servers {}", file("scenarios/chaos/byom-overload.toml")),
        &out.0,
        "its servers have another size from run to run",
    );
    refused("conflicts", "--servers none.toml", &out.0, "none.toml");
}

#[test]
fn what_is_wrong_with_a_log_gets_one_sentence_and_its_place() {
    let folder = Folder::missing("calibrate-wrong");
    std::fs::create_dir_all(&folder.0).unwrap();
    let path = folder.0.join("a.log");
    let out = folder.0.join("out");
    let whole = std::fs::read_to_string(log()).unwrap();
    let first = whole.lines().next().unwrap();
    let cases: [(Vec<u8>, &str); 5] = [
        (Vec::new(), "a.log:1:1: the log has no event"),
        (first.replace("requestReceivedTimestamp", "x").into(), "a.log:1:1: no event has the times of its arrival and its answer"),
        (format!("{first}\n{{\"kind\":1}}\n{first}\n").into(), "a.log:2:"),
        (vec![0x1f, 0x8b, 8, 0], "a.log:1:1: the log is packed with gzip"),
        (first.replace("\"code\":200", "\"code\":403").into(), "none of its 1 events has the latency of a request that was carried out"),
    ];
    for (bytes, expected) in cases {
        std::fs::write(&path, bytes).unwrap();
        refused("calibrate", &path.display().to_string(), &out, expected);
        assert!(!out.exists(), "nothing is half done");
    }
    // Cut within a line, with the last hour first: that is reported, and the log is used.
    let (early, late) = whole.split_at(whole[..whole.len() / 2].rfind('\n').unwrap() + 1);
    std::fs::write(&path, format!("{late}{}", &early[..early.len() - 20])).unwrap();
    let said = done("calibrate", &path.display().to_string(), &out);
    assert!(said.contains("more than a second after a later one; they are sorted"), "{said}");
    assert!(said.contains("the last line is cut, and left out"), "{said}");
    refused("calibrate", &format!("{} --resource pods", log()), &out, "no request is about `pods`; there are configmaps");
}
