//! Four times the pods take about four times as long to read and explain, not sixteen times.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use super::scratch;

/// The number of pods in the smaller cluster; the larger one has [`TIMES`] as many.
const PODS: usize = 3_000;
const TIMES: usize = 4;
/// The highest allowed ratio: between the 4 of linear time and the 16 of every pod against every pod, with room for a busy machine.
const MAX: f64 = 8.0;

/// A cluster with a pool, and pods of which every second one has an address in it.
fn cluster(pods: usize) -> String {
    let (mut items, mut records) = (String::new(), String::new());
    for pod in 0..pods {
        let (high, low) = (pod / 200, pod % 200 + 1);
        let comma = if pod > 0 { "," } else { "" };
        let _ = write!(
            items,
            r#"{comma}{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web-{pod}","namespace":"shop","uid":"u{pod}"}},
               "spec":{{"nodeName":"n1","containers":[{{"name":"c","image":"c"}}]}}}}"#
        );
        if pod % 2 == 0 {
            let comma = if pod > 0 { "," } else { "" };
            let _ = write!(
                records,
                r#"{comma}\"10.{high}.0.{low}\":{{\"interface\":\"eth0\",\"pod\":\"shop/web-{pod}\",\"podUid\":\"u{pod}\"}}"#
            );
        }
    }
    format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[
           {{"apiVersion":"spiderpool.spidernet.io/v2beta1","kind":"SpiderIPPool","metadata":{{"name":"p"}},
             "spec":{{"subnet":"10.0.0.0/8","ips":["10.0.0.1-10.99.255.254"],"default":true}},"status":{{"allocatedIPs":"{{{records}}}"}}}},
           {{"apiVersion":"v1","kind":"Node","metadata":{{"name":"n1"}}}},{items}]}}"#
    )
}

/// The CPU seconds that the program takes, the minimum of three runs.
fn takes(words: &str) -> f64 {
    let script = format!("TIMEFORMAT=%U; time {} {words} > /dev/null", env!("CARGO_BIN_EXE_ipam-sim"));
    let once = || {
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{words}: {err}");
        err.lines().last().and_then(|line| line.parse::<f64>().ok()).unwrap_or_else(|| panic!("{err}"))
    };
    (0..3).map(|_| once()).fold(f64::INFINITY, f64::min)
}

#[test]
fn explaining_takes_time_in_proportion_to_the_pods() {
    let folder = scratch("linear");
    let [few, many] = [PODS, PODS * TIMES].map(|pods| {
        let file = folder.join(format!("{pods}.json"));
        fs::write(&file, cluster(pods)).unwrap();
        file.display().to_string()
    });
    for words in ["explain --pod shop/web-1 --manifests", "explain --reclaim --manifests", "check"] {
        let [short, long] = [&few, &many].map(|file| takes(&format!("{words} {file}")));
        // The fixed cost of the process makes the small cluster seem more expensive: a small bias in favour of the program.
        assert!(long < short * MAX, "{words}: {PODS} pods take {short} s, {TIMES} times as many {long} s");
    }
}
