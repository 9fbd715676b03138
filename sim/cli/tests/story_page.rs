//! The page of a run: whatever it leads to is there, and a link to an event and its filters shows just that.
//!
//! What the page's program makes of a link is asked of a browser, where one is installed (`BROWSER`, or chromium or google-chrome on the path); that
//! every link has its target is asked of the page's data in any case.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The page of the first seed of a scenario that fails under these flags.
fn page_of(name: &str, run: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("story-page").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let program = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_ipam-sim")).current_dir(root()).args(args).output().unwrap();
    let plans = folder.join("plans").display().to_string();
    program(&[&["run"], run, &["--no-shrink", "--out", &plans]].concat());
    let plan =
        std::fs::read_dir(&plans).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.extension() == Some("toml".as_ref()));
    let plan = plan.min().unwrap_or_else(|| panic!("{name}: no seed fails")).display().to_string();
    let page = folder.join("story.html");
    program(&["replay", &plan, "--html", &page.display().to_string()]);
    page
}

/// Made once for all tests: two that write the same folder would be in each other's way.
fn pages() -> &'static [PathBuf; 2] {
    static PAGES: OnceLock<[PathBuf; 2]> = OnceLock::new();
    PAGES.get_or_init(|| {
        [
            page_of("byom", &["scenarios/smoke/byom-two.toml", "--profile", "upstream", "--seed", "1"]),
            page_of("spiderpool", &["scenarios/chaos/spiderpool-swarm.toml", "--deviation", "one-record-per-pod", "--seeds", "4"]),
        ]
    })
}

/// What the program of a page draws.
fn data(page: &Path) -> Value {
    let text = std::fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// Lists of an object, which leave out what is empty.
fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], |list| list.as_slice())
}

/// Everything in the data that leads to an event, a lane or an object which is not there.
fn dangling(data: &Value) -> Vec<String> {
    let first = data["first"].as_u64().unwrap();
    let (events, lanes, objects) = (list(data, "events"), list(data, "lanes"), list(data, "objects"));
    let mut wrong = Vec::new();
    let mut leads = |from: String, to: &Value, first: u64, count: usize| {
        if let Some(to) = to.as_u64().filter(|to| !(first..first + count as u64).contains(to)) {
            wrong.push(format!("{from} leads to {to}"));
        }
    };
    for (number, event) in (first..).zip(events) {
        leads(format!("the lane of #{number}"), &event["l"], 0, lanes.len());
        leads(format!("the arrow of #{number}"), &event["p"], 0, lanes.len());
        leads(format!("the object of #{number}"), &event["o"], 0, objects.len());
        for cause in list(event, "b") {
            leads(format!("a cause of #{number}"), &cause["event"], first, events.len());
        }
    }
    for call in list(data, "calls") {
        leads("the lane of a call".to_owned(), &call["l"], 0, lanes.len());
        for part in [&call["q"], &call["a"]].into_iter().chain(list(call, "c")) {
            leads("a call".to_owned(), part, first, events.len());
        }
    }
    for (what, of) in [("a violation", "violations"), ("a fault", "faults"), ("an outage", "outages")] {
        for entry in list(data, of) {
            leads(what.to_owned(), &entry["from"], first, events.len());
            leads(what.to_owned(), &entry["to"], first, events.len());
            leads(what.to_owned(), &entry["lane"], 0, lanes.len());
            for lane in list(entry, "lanes") {
                leads(format!("the lanes of {what}"), lane, 0, lanes.len());
            }
        }
    }
    for object in objects {
        for version in list(object, "versions") {
            leads(format!("a version of {}", object["name"]), &version["n"], first, events.len());
        }
    }
    wrong
}

#[test]
fn whatever_a_page_leads_to_is_there() {
    for page in pages() {
        let data = data(page);
        assert_eq!(dangling(&data), Vec::<String>::new(), "{}", page.display());
        let causes: usize = list(&data, "events").iter().map(|event| list(event, "b").len()).sum();
        assert!(causes > 50 && list(&data, "violations").len() > 1, "{}: there is something to follow", page.display());
        // A cause that is cut off, a lane that is not there: each would be told.
        let mut broken = data.clone();
        let last = list(&broken, "events").len() - 1;
        broken["events"][last]["b"] = serde_json::json!([{"event": 1_000_000, "how": "because"}]);
        broken["events"][last]["l"] = serde_json::json!(99);
        assert_eq!(dangling(&broken).len(), 2);
        // In its markup the page leads nowhere but to itself.
        let text = std::fs::read_to_string(page).unwrap();
        assert!(!text.contains("href=") && !text.contains("src="), "{}", page.display());
    }
}

/// The browser, if there is one.
fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("BROWSER").map(PathBuf::from).filter(|path| path.is_file()) {
        return Some(named);
    }
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    names.iter().flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name))).find(|file| file.is_file())
}

/// The markup that the page's program has made of a link, in a window of this width.
fn shown(browser: &Path, page: &Path, link: &str, width: u32) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("file://{}{link}", page.display()))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, app) = text.split_once("<div id=\"app\">").unwrap_or_else(|| panic!("{link}: {}", String::from_utf8_lossy(&output.stderr)));
    app.split_once("<noscript").unwrap().0.to_owned()
}

/// What stands between two texts, wherever it does.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    text.split(open).skip(1).filter_map(|rest| rest.split_once(close)).map(|(inner, _)| inner).collect()
}

#[test]
fn a_link_shows_its_event_and_its_filters() {
    let Some(browser) = browser() else {
        return println!("no browser is installed: what the page makes of a link was not looked at");
    };
    for page in pages() {
        let data = data(page);
        let (events, first) = (list(&data, "events"), data["first"].as_u64().unwrap());
        let kind = |event: &Value| {
            match event["k"].as_str().unwrap() {
                "begin" | "end" | "fire" => "fault",
                kind @ ("request" | "answer" | "commit" | "deliver" | "note") => kind,
                _ => "process",
            }
            .to_owned()
        };
        let grouped = |count: usize| if count < 1000 { count.to_string() } else { format!("{},{:03}", count / 1000, count % 1000) };
        let number = first + events.len() as u64 / 2;
        let kept = events.iter().filter(|event| !["request", "answer"].contains(&&*kind(event))).count();
        let mut causes = BTreeSet::new();
        let mut waiting = vec![number];
        while let Some(next) = waiting.pop() {
            if causes.insert(next) {
                waiting.extend(list(&events[(next - first) as usize], "b").iter().map(|cause| cause["event"].as_u64().unwrap()));
            }
        }
        let count_of = |shown: &str| between(shown, "<span class=\"count\">", "</span>")[0].to_owned();
        let heading = |shown: &str| between(shown, "<h2>", "</h2>")[0].to_owned();
        let of = |count: usize| format!("{} of {} events", grouped(count), grouped(events.len()));

        let plain = shown(&browser, page, "", 1400);
        let violated = data["violations"][0]["to"].as_u64().unwrap();
        assert!(heading(&plain).starts_with(&format!("#{violated} at ")), "without a link it begins at the violation: {}", heading(&plain));
        assert_eq!(count_of(&plain), format!("{} events", grouped(events.len())));
        let claims: BTreeMap<&str, usize> = list(&data, "violations").iter().fold(BTreeMap::new(), |mut claims, violation| {
            *claims.entry(violation["claim"].as_str().unwrap()).or_default() += 1;
            claims
        });
        let buttons = between(&plain, "<button class=\"jump\"", "</button>");
        assert_eq!(buttons.len(), claims.len(), "a button a claim");
        for (claim, times) in claims {
            let button = buttons.iter().find(|button| button.contains(&format!("{claim}  "))).unwrap_or_else(|| panic!("{claim}"));
            assert_eq!(button.ends_with(&format!(" \u{d7}{times}")), times > 1, "{button}");
        }

        let filtered = shown(&browser, page, &format!("#{number}&hide=request,answer"), 1400);
        assert!(heading(&filtered).starts_with(&format!("#{number} at ")), "{}", heading(&filtered));
        assert_eq!(count_of(&filtered), of(kept));
        let chain = shown(&browser, page, &format!("#{number}&causes"), 1400);
        assert_eq!(count_of(&chain), of(causes.len()));
        for button in between(&chain, "<button class=\"mono\">#", "</button>") {
            let to: u64 = button.parse().unwrap();
            assert!((first..first + events.len() as u64).contains(&to), "a leap to #{to}");
        }
        // A link of another run, or of nobody, shows the page.
        let nothing = shown(&browser, page, "#99999999&lane=nobody&object=x&hide=weather", 1400);
        assert_eq!((heading(&nothing), count_of(&nothing)), (heading(&plain), count_of(&plain)));
        // A narrow window shows the same row of the event at the cursor.
        let narrow = shown(&browser, page, &format!("#{number}"), 500);
        assert!(narrow.contains("class=\"row at\"") || narrow.contains("class=\"row at "), "the event is in sight");
    }
}
