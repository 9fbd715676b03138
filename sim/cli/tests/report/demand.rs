//! `report capacity` of a trace of pods.

use ipam_reports::demand;

use super::{Folder, cut, done, file, refused};

/// Six pods that live for an hour each, two of which arrive when two have gone.
const TRACE: &str = "name,creation_time,deletion_time,scheduled_time\n\
                     a,0,600,0\nb,0,600,0\nc,10,,10\nd,10,,10\ne,1200,,1200\nf,1200,,1200\n";

/// A scenario with that trace, in a separate folder. Half an hour of the trace takes three minutes.
pub(super) fn scenario(folder: &Folder, more: &str) -> String {
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(folder.0.join("pods.csv"), TRACE).unwrap();
    let text = format!(
        "name = \"six\"\nwhy = \"a test\"\nseeds = 3\n[phases]\nsafety = \"180s\"\nliveness = \"60s\"\n\
         [workload]\nkind = \"spiderpool\"\nnodes = 2\n\
         families = \"ipv4\"\npools = 1\ndefault_pools = 1\naddresses = 9\ntrace = \"pods.csv\"\ntrace_compression = 10\nreclaim = true\n\
         settings = {{ SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY = \"100\" }}\n{more}[check]\nalways = [\"no-address-is-recorded-twice\"]\n"
    );
    let path = folder.0.join("six.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

pub(super) const LOST: &str = "[[fault]]\nkind = \"cni-del-lost\"\nprocess = \"kubelet-*\"\nchance = 1.0\nat = \"0s\"\nfor = \"100%\"\n";

#[test]
fn leaks_cost_addresses_for_as_long_as_they_are_recorded() {
    let (input, out) = (Folder::missing("demand-in"), Folder::missing("demand-out"));
    let asked = format!("{} --objective refused<1%", scenario(&input, LOST));
    let said = done("capacity", &asked, &out.0);
    // Without a leak four addresses suffice; with leaks those of `a` and `b` are still recorded when `e` and `f` arrive.
    for expected in [
        "as it is: refused < 1 % holds with 6 addresses in all of 3 runs",
        "5 are too few",
        "every DEL arrives: refused < 1 % holds with 4 addresses in all of 3 runs",
        "Reclaim delay costs 2 addresses: 6 instead of 4 (50.0 % more).",
        "A run that shows it:",
        "passes 10 times as fast",
    ] {
        assert!(said.contains(expected), "{expected}:\n{said}");
    }
    let trials = demand::sizes_of(&out.text("sizes.csv")).unwrap().trials;
    let given = trials.iter().find(|trial| trial.form == "as it is" && trial.addresses == 9).unwrap();
    assert_eq!((given.asked, given.peak, given.peak_leaked, given.refused), (6, 6, 2, 0.0));
    // When repeated, nothing is simulated; a report that was cut off is continued.
    let files = || ["sizes.csv", "usage.csv", "runs.csv", "reclaims.csv", "index.html"].map(|name| out.text(name));
    let whole = files();
    assert_eq!(done("capacity", &asked, &out.0), said);
    assert!(whole == files());
    cut(&out, "sizes.csv", 3);
    assert_eq!(done("capacity", &asked, &out.0), said);
    assert!(whole == files(), "what was finished is kept, and the rest is what it would have been");
    assert!(out.0.join("usage-2.png").exists() && out.0.join("head-room.svg").exists());
    // When drawn again, the text and the plots are the same.
    let again = Folder::missing("demand-again");
    let from = format!("--from {}", out.0.join("sizes.csv").display());
    assert_eq!(done("capacity", &from, &again.0), said);
    for plot in ["usage-1.svg", "usage-2.png", "head-room.svg", "sizes.svg"] {
        assert!(std::fs::read(again.0.join(plot)).unwrap() == std::fs::read(out.0.join(plot)).unwrap(), "{plot}");
    }
    let other = format!("{from} --objective unserved<1%");
    refused("capacity", &other, &again.0, "its sizes were searched for refused < 1 %, which says nothing of unserved < 1 %");
}

#[test]
fn an_interruption_costs_only_the_runs_that_are_under_way() {
    let (input, out, whole) = (Folder::missing("broken-in"), Folder::missing("broken-out"), Folder::missing("broken-whole"));
    let asked = format!("{} --objective refused<1%", scenario(&input, LOST));
    let said = done("capacity", &asked, &whole.0).replace(&*whole.0.to_string_lossy(), "OUT");
    // As if it had been stopped in the first size: its tables are empty, and two of its runs are stored.
    done("capacity", &asked, &out.0);
    for table in ["sizes.csv", "usage.csv", "runs.csv", "reclaims.csv"] {
        cut(&out, table, 1);
    }
    let held =
        r#"{"capacity":9,"peak":9,"peak_living":8,"peak_ending":0,"peak_leaked":7,"asked":6,"refused":0,"waited":[0.5],"samples":[]}"#;
    let run = format!("{{\"size\":\"as it is/9\",\"seed\":1,\"held\":{held},\"runs\":\"\",\"reclaims\":\"\"}}\n");
    std::fs::write(out.0.join("unfinished.jsonl"), run).unwrap();
    let resumed = done("capacity", &asked, &out.0).replace(&*out.0.to_string_lossy(), "OUT");
    assert!(resumed != said && resumed.contains("up to 8 of living pods"), "the run that was kept is not simulated again:\n{resumed}");
    assert!(!out.0.join("unfinished.jsonl").exists());
}

#[test]
fn a_pool_that_is_too_small_has_no_smallest_one() {
    let (input, out) = (Folder::missing("small-in"), Folder::missing("small-out"));
    let said = done("capacity", &format!("{} --objective refused<1% --set workload.addresses=3 --seeds 1", scenario(&input, "")), &out.0);
    assert!(said.contains("as it is: refused < 1 % does not hold even with 3 addresses"), "{said}");
}

#[test]
fn what_is_wrong_gets_one_sentence_and_nothing_is_done() {
    let (input, out) = (Folder::missing("wrong-in"), Folder::missing("wrong-out"));
    let six = scenario(&input, "");
    let byom = file("scenarios/smoke/byom-calm.toml");
    std::fs::write(input.0.join("empty.csv"), "").unwrap();
    let empty = input.0.join("empty.csv").display().to_string();
    for (arguments, expected) in [
        (format!("{six} --objective exhausted<1%"), "is asked of bursts, not of the pods of a scenario"),
        ("--objective refused<1%".to_owned(), "is asked of the pods of a scenario, and none is named"),
        (format!("{byom} --objective refused<1%"), "get no addresses from Spiderpool"),
        (format!("{six} --objective refused<1% --vary nodes=2..4"), "`nodes` is varied of bursts at one pool"),
        (format!("{six} --objective refused<1% --faults {byom}"), "has faults of its own, and --faults"),
        (format!("{six} --objective refused<1% --vary faults=mixed"), "`faults` is varied of bursts at one pool"),
        (format!("{six} --objective refused<1% --set workload.trace=none.csv"), "none.csv"),
        (format!("{six} --objective refused<1% --set workload.addresses=0"), "a pool without addresses is enough for nothing"),
        (format!("{six} --objective refused<1% --set workload.trace={empty}"), "the trace is empty"),
        (six.clone(), "--objective"),
        (format!("--from {six}"), "it is no table of sizes and no table of points"),
        (format!("--from {six} --seeds 3"), "cannot be used with"),
        (format!("{six} --from points.csv"), "cannot be used with"),
        ("--from /does/not/exist.csv".to_owned(), "/does/not/exist.csv: cannot be read: no such file"),
    ] {
        refused("capacity", &arguments, &out.0, expected);
    }
    assert!(!out.0.exists());
}

#[test]
fn a_trace_in_dates_asks_for_what_it_asks_for_in_seconds() {
    let (input, seconds, dates, from_pipe) =
        (Folder::missing("dates-in"), Folder::missing("dates-s"), Folder::missing("dates-d"), Folder::missing("dates-p"));
    std::fs::create_dir_all(&input.0).unwrap();
    let path = |name: &str| input.0.join(name).display().to_string();
    std::fs::write(path("s.csv"), "name,creation_time,deletion_time,scheduled_time\na,0,600,0\nb,60,,60\nc,600,900,\n").unwrap();
    // The time of binding matters only for the pod that was never bound.
    let written = "pod,born,gone,bound\na,2026-01-15T12:00:00Z,2026-01-15T12:10:00Z,2026-01-15T12:00:00Z\n\
                   b,2026-01-15T13:01:00+01:00,,2026-01-15T12:01:00Z\nc,2026-01-15T12:10:00Z,2026-01-15T12:15:00Z,\n";
    std::fs::write(path("d.csv"), written).unwrap();
    let asked = "--objective refused<1% --seeds 2";
    let told = |folder: &Folder, said: String| said.replace(&*folder.0.to_string_lossy(), "OUT");
    let said = told(&seconds, done("capacity", &format!("--trace {} {asked}", path("s.csv")), &seconds.0));
    assert!(said.contains("as it is: 2 pods ask for addresses; at most 2 are recorded at a time"), "{said}");
    let columns = "--columns name=pod,arrival=born,departure=gone,scheduled=bound";
    assert_eq!(told(&dates, done("capacity", &format!("--trace {} {columns} {asked}", path("d.csv")), &dates.0)), said);
    // A pipe gives the same result.
    let out = from_pipe.0.display().to_string();
    let arguments: Vec<&str> =
        ["report", "capacity", "--trace", "-", "--out", &out].into_iter().chain(columns.split(' ')).chain(asked.split(' ')).collect();
    let output = piped(&arguments, written.as_bytes());
    assert_eq!(told(&from_pipe, String::from_utf8(output.stdout).unwrap()), said);
}

#[test]
fn a_trace_that_cannot_be_gets_its_place() {
    let (input, out) = (Folder::missing("bad-trace-in"), Folder::missing("bad-trace-out"));
    std::fs::create_dir_all(&input.0).unwrap();
    let file = input.0.join("t.csv");
    for (rows, expected) in [
        ("a,2026-01-15T12:00:00Z,\nb,60,\n", "t.csv:3:3: `60` is in seconds, and the time in line 2 in dates"),
        ("a,2026-01-15,\n", "t.csv:2:3: `2026-01-15` is no date: it has no time of day"),
        ("a,2026-01-15T12:00:00,\n", "t.csv:2:3: `2026-01-15T12:00:00` is no date: it has no offset from UTC"),
        ("a,2026-13-15T12:00:00Z,\n", "t.csv:2:3: `2026-13-15T12:00:00Z` is no date: there is no such day or time"),
        ("a,2026-01-15T12:00:00Z,2026-01-15T11:59:59Z\n", "t.csv:2:24: a pod is deleted before it is created"),
        ("", "t.csv:2:1: the trace has no pod"),
    ] {
        std::fs::write(&file, format!("name,created,gone\n{rows}")).unwrap();
        let asked = format!("--trace {} --columns arrival=created,departure=gone --objective refused<1%", file.display());
        refused("capacity", &asked, &out.0, expected);
    }
    let asked = format!("--trace {} --columns arrival=born --objective refused<1%", file.display());
    refused("capacity", &asked, &out.0, "t.csv:1:1: the trace has no column `born`; one of name, created, gone");
    refused("capacity", "--columns arrival=born --objective refused<1%", &out.0, "<SCENARIO|--trace <FILE>>");
    assert!(!out.0.exists());
}

/// Runs the program with this input on standard input.
fn piped(arguments: &[&str], input: &[u8]) -> std::process::Output {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ipam-sim"))
        .args(arguments)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn an_audit_log_goes_through_a_pipe_into_the_size_of_a_pool() {
    let out = Folder::missing("audit");
    let log = std::fs::read(file("scenarios/traces/audit.jsonl")).unwrap();
    let trace = piped(&["trace", "from-audit", "-"], &log);
    let notes = String::from_utf8(trace.stderr).unwrap();
    assert_eq!(trace.status.code(), Some(0), "{notes}");
    // Of eight existing pods four arrived again, and thirty new ones arrived.
    assert_eq!(trace.stdout.iter().filter(|byte| **byte == b'\n').count(), 1 + 8 + 4 + 30);
    assert!(notes.contains("30 pods: no name in the event of the creation") && !notes.contains("sorted by their time stamps"), "{notes}");
    let folder = out.0.display().to_string();
    let asked = ["report", "capacity", "--trace", "-", "--objective", "refused<1%", "--seeds", "2", "--out", &folder];
    let report = piped(&asked, &trace.stdout);
    let said = String::from_utf8(report.stdout).unwrap();
    assert_eq!(report.status.code(), Some(0), "{}", String::from_utf8_lossy(&report.stderr));
    assert!(
        said.contains("as it is: 42 pods ask for addresses") && said.contains("every DEL arrives: refused < 1 % holds with 19 addresses"),
        "{said}"
    );
}

#[test]
fn a_trace_is_written_where_it_is_asked_for_or_nothing_is() {
    let out = Folder::missing("trace-out");
    std::fs::create_dir_all(&out.0).unwrap();
    let (csv, log) = (out.0.join("pods.csv"), out.0.join("cut.jsonl"));
    let (pods, csv_name, log_name) = (file("scenarios/traces/pods.yaml"), csv.display().to_string(), log.display().to_string());
    let done = piped(&["trace", "from-pods", &pods, "--out", &csv_name], b"");
    assert_eq!((done.status.code(), done.stdout.len()), (Some(0), 0));
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 5);
    std::fs::remove_file(&csv).unwrap();
    std::fs::write(&log, "{\"kind\":\"Event\"").unwrap();
    let refused = piped(&["trace", "from-audit", &log_name, "--out", &csv_name], b"");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && said.contains("cut.jsonl:1:15: no audit event: EOF"), "{said}");
    assert!(!csv.exists());
}
