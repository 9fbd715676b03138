//! External names never reach a terminal, annotation, table or page unescaped, whatever writes them.

use ipam_reports::conformance::{CaseCounts, DifferingCase, DifferingPlace, LeftCase, ThemeResult, UnneededLine};
use ipam_reports::gate::{annotations, junit, markdown};
use ipam_reports::pool::{PoolCall, PoolRun};
use ipam_reports::reclaim::ReclaimRun;
use ipam_reports::rows::Rows;
use ipam_reports::{ExplainReclaimReport, ExplainReport, GateReport, SeedRecord, Timeline, timeline};
use proptest::prelude::*;
use serde_json::Value;
use sim_spiderpool::explain::text as explain_text;

use super::records::{held, negative, two_owners, vacuous, violated};
use super::*;

/// Pieces of which hostile names are made.
const PIECES: [&str; 14] = [
    "\u{1b}[31m",
    "\u{1b}[2J",
    "\u{1b}]0;title\u{7}",
    "\n::error file=x::y",
    "\r\n::stop-commands::z",
    "\u{9b}2J",
    "\u{202e}",
    "\u{2028}",
    "\t",
    "\u{0}",
    "\u{7f}",
    "=cmd|' /C calc'!A0",
    "`<b>&]]>",
    "web-0",
];

fn hostile() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(PIECES.to_vec()), 1..5).prop_map(|pieces| pieces.concat())
}

/// Collects the paths of all strings in a value.
fn strings(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(path.to_owned()),
        Value::Array(items) => items.iter().enumerate().for_each(|(at, item)| strings(item, &format!("{path}/{at}"), found)),
        Value::Object(members) => members.iter().for_each(|(key, member)| strings(member, &format!("{path}/{key}"), found)),
        _ => {}
    }
}

/// The strings of a record that may have any value: those that are not numbers, formats or kinds.
fn free_strings<T: Serialize + DeserializeOwned>(record: &T) -> (Value, Vec<String>) {
    let value = serde_json::to_value(record).unwrap();
    let mut found = Vec::new();
    strings(&value, "", &mut found);
    found.retain(|path| {
        let mut changed = value.clone();
        *changed.pointer_mut(path).unwrap() = Value::String("anything".to_owned());
        serde_json::from_value::<T>(changed).is_ok()
    });
    assert!(!found.is_empty(), "a record without names shows nothing");
    (value, found)
}

/// The record with `name` in all of these strings.
fn with<T: DeserializeOwned>((value, found): &(Value, Vec<String>), name: &str) -> T {
    let mut value = value.clone();
    found.iter().for_each(|path| *value.pointer_mut(path).unwrap() = Value::String(name.to_owned()));
    serde_json::from_value(value).unwrap()
}

/// A character that a terminal would obey, or that a reader would not see, apart from colour codes if `painted`.
fn obeyed(text: &str, painted: bool) -> Option<String> {
    let mut rest = text.to_owned();
    for code in ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"].iter().filter(|_| painted) {
        rest = rest.replace(code, "");
    }
    let line =
        |line: &&str| line.trim_start().starts_with("::") || line.contains(|c: char| c.is_control() || "\u{202e}\u{2028}".contains(c));
    rest.split('\n').find(line).map(str::to_owned)
}

fn painted(verbs: &dyn Verbs, line: &str) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let paint = Paint::COLOURED;
    let mut console = Console { paint_out: paint, paint_err: paint, ..Console::plain(&mut out, &mut err) };
    dispatch(std::iter::once("ipam-sim").chain(line.split_whitespace()).map(OsString::from), verbs, &mut console);
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// Verbs that answer with a record containing this name.
type Answered = Box<dyn Fn(&str) -> Prepared>;

/// Verbs that answer with this record and any names in it.
fn telling<T: Serialize + DeserializeOwned + 'static>(
    line: &'static str,
    record: &T,
    verbs: fn(T) -> Prepared,
) -> (&'static str, Answered) {
    let free = free_strings(record);
    (line, Box::new(move |name| verbs(with(&free, name))))
}

/// The record that the program itself prints for a command line.
fn real<T: DeserializeOwned>(line: &str) -> T {
    let scenarios = format!("{}/../../scenarios", env!("CARGO_MANIFEST_DIR"));
    let Ran { out, err, .. } = ran(&Simulator, &format!("{} --format json", line.replace('@', &scenarios)));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{line}: {error}: {err}"))
}

fn replay_report() -> ReplayReport {
    let mut report = ReplayReport::new(3, ipam_reports::Digest(7), 12);
    report.violations = vec![two_owners()];
    report.remarks = vec!["a remark".to_owned()];
    report.scenario = Some("s".to_owned());
    report
}

fn gate_report() -> GateReport {
    let mut report = GateReport::from(RunReport::new(vec![held("calm"), vacuous(), violated(), negative("must-fail", false)], false));
    report.remarks = vec!["a remark".to_owned()];
    report.exit_code = report.judge();
    report
}

fn conformance_report() -> ConformanceReport {
    let text = |text: &str| text.to_owned();
    let place =
        DifferingPlace { step: 1, does: text("GET /a"), path: text("body.b"), recorded: text("c").into(), actual: text("d").into() };
    ConformanceReport {
        themes: vec![ThemeResult { theme: text("watch"), counts: CaseCounts { differing: 1, ..CaseCounts::default() } }],
        differing: vec![DifferingCase { case: text("case"), theme: text("watch"), why: text("why"), places: vec![place] }],
        not_compared: vec![LeftCase { case: text("other"), why: text("not run") }],
        unneeded: vec![UnneededLine { file: text("allow.txt"), line: 3, allows: text("case *:*") }],
        exit_code: 1,
        ..ConformanceReport::default()
    }
}

/// Every verb that answers with a record.
fn verbs() -> Vec<(&'static str, Answered)> {
    let run = RunReport::new(vec![held("calm"), vacuous(), violated(), negative("must-fail", false)], false);
    vec![
        telling("run a.toml", &run, running),
        telling("replay a.toml", &replay_report(), replaying),
        telling("gate", &gate_report(), |report| Prepared { gate: Some(Ok(report)), ..Prepared::default() }),
        telling("list", &real::<ListReport>("list scenarios @/smoke"), |report| Prepared { list: Some(Ok(report)), ..Prepared::default() }),
        telling("check x", &real::<CheckReport>("check @/manifests"), |report| Prepared { check: Some(Ok(report)), ..Prepared::default() }),
        telling("conformance", &conformance_report(), |report| Prepared { conformance: Some(Ok(report)), ..Prepared::default() }),
        telling("explain --pod a/b", &real::<ExplainReport>("explain --manifests @/manifests --pod shop/reasons"), |report| {
            explaining(report.clone(), report.warnings, explain_text::explain)
        }),
        telling(
            "explain --reclaim",
            &real::<ExplainReclaimReport>("explain --reclaim --now 2026-01-15T12:00:00Z --manifests @/dumps/reclaim.yaml"),
            |report| explaining(report.clone(), report.warnings, explain_text::explain_reclaim),
        ),
    ]
}

proptest! {
    // Few cases suffice: each one writes every record in every form.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_verb_lets_a_name_through(name in hostile()) {
        thread_local!(static VERBS: Vec<(&'static str, Answered)> = verbs());
        VERBS.with(|verbs| -> Result<(), TestCaseError> {
            for (line, answered) in verbs {
                let (out, err) = painted(&answered(&name), line);
                prop_assert_eq!(obeyed(&out, true), None, "{}: {}", line, out);
                prop_assert_eq!(obeyed(&err, true), None, "{}: {}", line, err);
                let plain = ran(&answered(&name), line);
                prop_assert_eq!(obeyed(&plain.out, false), None, "{}", line);
                // A line break in a name starts no new line.
                let harmless = ran(&answered("x"), line);
                prop_assert_eq!(plain.out.lines().count(), harmless.out.lines().count(), "{}: {}", line, plain.out);
                let json = ran(&answered(&name), &format!("{line} --format json")).out;
                prop_assert_eq!(obeyed(&json, false), None, "{}", line);
                let value: Value = serde_json::from_str(&json).unwrap();
                let mut places = Vec::new();
                strings(&value, "", &mut places);
                let is_kept = places.iter().any(|place| value.pointer(place).and_then(Value::as_str) == Some(&*name));
                prop_assert!(is_kept, "{}: JSON keeps it", line);
            }
            Ok(())
        })?;
    }

    #[test]
    fn nothing_for_other_programs_holds_a_raw_name(name in hostile()) {
        let report: GateReport = with(&free_strings(&gate_report()), &name);
        let story = |case: &ipam_reports::GateCase, verdict| {
            text::findings(&case.result, verdict, &mut text::Told::default(), Paint::PLAIN)
        };
        for text in [junit(&report, &story), markdown(&report, &story)] {
            prop_assert_eq!(obeyed(&text, false), None, "{}", text);
        }
        for line in annotations(&report) {
            prop_assert!(line.starts_with("::error ") && !line.contains(char::is_control), "{line:?}");
        }
    }

    #[test]
    fn no_cell_of_a_table_holds_a_raw_name_or_a_formula(name in hostile()) {
        let call = PoolCall {
            process: name.clone(),
            id: name.clone(),
            outcome: name.clone(),
            address: Some(name.clone()),
            ..PoolCall::default()
        };
        let pool = PoolRun { calls: vec![call], ..PoolRun::default() };
        let mut reclaim = ReclaimRun::default();
        reclaim.records.push(reclaimed(&name));
        let mut rows = Rows::default();
        rows.add(&name, "{\"a\":\"\u{7f}\u{9b}\"}", &SeedRecord { pool: Some(pool), reclaim: Some(reclaim), ..SeedRecord::default() });
        for table in [&rows.runs, &rows.calls, &rows.reclaims] {
            let text = std::str::from_utf8(table).unwrap();
            prop_assert_eq!(obeyed(text, false), None, "{}", text);
            prop_assert_eq!(text.lines().count(), 1);
            prop_assert!(!text.split([',', '"']).any(|cell| cell.starts_with(['=', '@'])), "{text}");
        }
    }

    #[test]
    fn the_page_of_a_run_holds_no_raw_name(name in hostile()) {
        let empty = Timeline {
            scenario: "s".to_owned(),
            replay: "ipam-sim replay".to_owned(),
            remarks: vec!["a remark".to_owned()],
            lanes: vec![timeline::Lane { name: "agent-0".to_owned(), role: timeline::Role::Actor }],
            ..Timeline::default()
        };
        let timeline: Timeline = with(&free_strings(&empty), &name);
        let page = timeline::page(&timeline);
        prop_assert_eq!(page.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}'), None);
    }
}

fn reclaimed(name: &str) -> ipam_reports::reclaim::Reclaimed {
    ipam_reports::reclaim::Reclaimed {
        at: ipam_reports::Seconds::ZERO,
        path: ipam_reports::reclaim::ReclaimPath::Scan,
        row: name.to_owned().into(),
        pool: name.into(),
        address: [10, 0, 0, 1].into(),
        pod: name.into(),
        margin: None,
        answered: false,
        delay: None,
        end: None,
        bound: None,
    }
}

#[test]
fn errors_warnings_and_notes_hold_no_raw_name() {
    for piece in PIECES {
        let failing =
            Prepared { check: Some(Err(CliError::usage(format!("a {piece}")).hint(format!("b {piece}")))), ..Prepared::default() };
        let (out, err) = painted(&failing, "check x");
        assert_eq!((out.as_str(), obeyed(&err, true)), ("", None), "{err}");
    }
    let folder = testkit::Folder::new("printable");
    let file = folder.file("wrong.toml", "name = \"a\\u001b[2J\\n::error file=x::y\"\n");
    let Ran { code, err, .. } = ran(&Simulator, &format!("check {file}"));
    assert_eq!((code, obeyed(&err, false)), (2, None), "{err}");
}
