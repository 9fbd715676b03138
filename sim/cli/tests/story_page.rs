//! The page of a run: the target of each reference exists, and a link to an event with filters shows exactly that.
//!
//! The effect of a link on the page's program is tested in a browser, if one is installed (`BROWSER`, or chromium or google-chrome on the
//! path); the targets of all links are checked in the page's data in any case.

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

/// The pages, made once for all tests: two tests that write the same folder would disturb each other.
fn pages() -> &'static [PathBuf; 2] {
    static PAGES: OnceLock<[PathBuf; 2]> = OnceLock::new();
    PAGES.get_or_init(|| {
        [
            page_of("byom", &["scenarios/smoke/byom-two.toml", "--profile", "upstream", "--seed", "1"]),
            page_of("spiderpool", &["scenarios/chaos/spiderpool-swarm.toml", "--mutation", "one-record-per-pod", "--seeds", "4"]),
        ]
    })
}

/// The data that the program of a page draws.
fn data(page: &Path) -> Value {
    let text = std::fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// The list `key` of an object; it is left out of the data if it is empty.
fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], |list| list.as_slice())
}

/// All references in the data to an event, a lane or an object that does not exist.
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
        // A cause that is cut off and a lane that does not exist: each is reported.
        let mut broken = data.clone();
        let last = list(&broken, "events").len() - 1;
        broken["events"][last]["b"] = serde_json::json!([{"event": 1_000_000, "how": "because"}]);
        broken["events"][last]["l"] = serde_json::json!(99);
        assert_eq!(dangling(&broken).len(), 2);
        // The markup of the page refers only to the page itself.
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

/// The document that the page's program makes for a link, in a window of this size.
fn document(browser: &Path, page: &Path, link: &str, (width, height): (u32, u32)) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("file://{}{link}", page.display()))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("<div id=\"app\">"), "{link}: {}", String::from_utf8_lossy(&output.stderr));
    text
}

/// The markup that the page's program makes for a link, in a window of this width.
fn shown(browser: &Path, page: &Path, link: &str, width: u32) -> String {
    let text = document(browser, page, link, (width, 900));
    let (_, app) = text.split_once("<div id=\"app\">").unwrap();
    app.split_once("<noscript").unwrap().0.to_owned()
}

/// The return value of a function body that runs in the page after its program, in a window of this size.
fn measured(browser: &Path, page: &Path, link: &str, size: (u32, u32), body: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let probed = folder.path().join("story.html");
    let text = std::fs::read_to_string(page).unwrap();
    let (before, _) = text.rsplit_once("</body>").unwrap();
    let probe = format!(
        "<style>* {{ transition: none !important; }}</style>\n<script>\nconst measured = (() => {{ {body} }})();\n\
         const note = document.createElement(\"pre\");\nnote.id = \"measured\";\nnote.textContent = JSON.stringify(measured);\n\
         document.body.append(note);\n</script>\n"
    );
    std::fs::write(&probed, format!("{before}{probe}</body>\n</html>\n")).unwrap();
    let document = document(browser, &probed, link, size);
    let said = between(&document, "<pre id=\"measured\">", "</pre>");
    let said = said.first().unwrap_or_else(|| panic!("{link}: nothing was measured"));
    serde_json::from_str(&said.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).unwrap()
}

/// All texts between two delimiters.
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
        // A link of another run, or one with unknown names, shows the page.
        let nothing = shown(&browser, page, "#99999999&lane=nobody&object=x&hide=nothing", 1400);
        assert_eq!((heading(&nothing), count_of(&nothing)), (heading(&plain), count_of(&plain)));
        // A narrow window shows the same row of the event at the cursor.
        let narrow = shown(&browser, page, &format!("#{number}"), 500);
        assert!(narrow.contains("class=\"row at\"") || narrow.contains("class=\"row at "), "the event is in sight");
    }
}

/// A measurement of the layout: the room of the list and the panel, and content that extends beyond their edges.
const ROOM: &str = r##"
    const list = document.getElementById("stage"), panel = document.querySelector("aside");
    const names = [...document.querySelectorAll("#heads .names button")].map((button) => button.getBoundingClientRect()).filter((box) => box.width);
    names.sort((one, other) => one.left - other.left);
    // A part of a title is cut only where it has a line of its own, and never stands over the edge.
    const titles = [...panel.querySelectorAll(".object > div")].flatMap((title) => [...title.children].filter((part) =>
        part.getBoundingClientRect().right > title.getBoundingClientRect().right
            || (part.scrollWidth > part.clientWidth + 1 && part.clientWidth < title.clientWidth - 24 && part.tagName !== "BUTTON")));
    return {
        text: Math.min(...[...document.querySelectorAll(".row:not(.pause) .text")].map((text) => text.clientWidth)),
        list: list.clientHeight,
        sideways: document.documentElement.scrollWidth > innerWidth || list.scrollWidth > list.clientWidth || panel.scrollWidth > panel.clientWidth,
        overlapping: names.filter((box, i) => i > 0 && box.left < names[i - 1].right - 0.5).length,
        titles: titles.map((part) => part.textContent),
        negative: [...document.querySelectorAll("rect")].filter((rect) => rect.getAttribute("width") < 0 || rect.getAttribute("height") < 0).length,
    };
"##;

#[test]
fn texts_have_room_in_every_window() {
    let Some(browser) = browser() else {
        return println!("no browser is installed: nothing was measured");
    };
    for page in pages() {
        let data = data(page);
        // The object with the longest title is the first of the panel at an event about it.
        let first = data["first"].as_u64().unwrap();
        let title = |event: &Value| {
            let object = &data["objects"][usize::try_from(event["o"].as_u64().unwrap()).unwrap()];
            object["kind"].as_str().unwrap().len() + object["name"].as_str().unwrap().len()
        };
        let about = (first..).zip(list(&data, "events")).filter(|(_, event)| event["o"].is_u64()).max_by_key(|(_, event)| title(event));
        let link = format!("#{}", about.unwrap().0);
        for size in [(500, 600), (600, 900), (700, 500), (1000, 900), (1110, 900), (1400, 900)] {
            let room = measured(&browser, page, &link, size, ROOM);
            let whole = format!("{} at {size:?}: {room}", page.display());
            assert!(room["text"].as_u64().unwrap() >= 290, "the texts have room in {whole}");
            assert!(room["list"].as_u64().unwrap() >= 250, "the list has room in {whole}");
            assert_eq!(room["sideways"], false, "nothing scrolls sideways in {whole}");
            assert_eq!(room["overlapping"], 0, "no name of a lane stands on another in {whole}");
            assert_eq!(room["titles"], serde_json::json!([]), "titles keep within their objects in {whole}");
            assert_eq!(room["negative"], 0, "every rectangle has a size in {whole}");
        }
    }
}

#[test]
fn what_is_filtered_can_be_told_shared_and_undone() {
    let Some(browser) = browser() else {
        return println!("no browser is installed: no filter was looked at");
    };
    let [page, _] = pages();
    let data = data(page);
    let (events, first) = (list(&data, "events"), data["first"].as_u64().unwrap());
    let count = |shown: &str| between(shown, "<span class=\"count\">", "</span>")[0].to_owned();
    let heading = |shown: &str| between(shown, "<h2>", "</h2>")[0].to_owned();

    // A narrow window has no lanes: the count names the one that is shown, and a button shows the others again.
    let lane =
        data["lanes"][usize::try_from(events.iter().find_map(|event| event["l"].as_u64()).unwrap()).unwrap()]["name"].as_str().unwrap();
    let undone = r#"
        const count = () => document.querySelector(".count").textContent, button = document.getElementById("clear");
        const before = count(), offered = button.offsetParent !== null;
        button.click();
        const off = document.querySelectorAll(".toggle:not(.only)[aria-pressed=false]").length;
        return { before, offered, after: count(), off, hidden: button.offsetParent === null, link: location.hash };
    "#;
    let told = measured(&browser, page, &format!("#{first}&lane={lane}&hide=request"), (500, 900), undone);
    assert!(told["before"].as_str().unwrap().ends_with(&format!(" events, {lane} only")), "{told}");
    assert_eq!((&told["offered"], &told["hidden"], &told["off"]), (&Value::Bool(true), &Value::Bool(true), &Value::from(0)), "{told}");
    assert_eq!(told["link"], format!("#{first}"), "{told}");
    let all = told["after"].as_str().unwrap();
    assert!(all.ends_with(" events") && !all.contains(" of "), "{told}");

    // A link shows the causes of the event for which they were requested, wherever the cursor is.
    let whose = (first..).zip(events).filter(|(_, event)| !list(event, "b").is_empty()).last().unwrap().0;
    let asked = shown(&browser, page, &format!("#{whose}&causes={whose}"), 1400);
    let moved = shown(&browser, page, &format!("#{first}&causes={whose}"), 1400);
    assert!(heading(&moved).starts_with(&format!("#{first} at ")), "{}", heading(&moved));
    assert_eq!(count(&moved), count(&asked));
    assert_ne!(count(&shown(&browser, page, &format!("#{first}&causes={first}"), 1400)), count(&asked), "another event has other causes");

    // A number selects that event, and not every number that begins with it.
    let number = (first + 12).to_string();
    let longer = (first..).take(events.len()).filter(|other| other.to_string().starts_with(&number)).count();
    assert!(longer > 1, "only #{number} begins so");
    assert!(count(&shown(&browser, page, &format!("#{first}&text=%23{number}"), 1400)).starts_with("1 of "));

    // A violation stays in the list whatever kinds are hidden, with its time.
    let violation = &data["violations"][0];
    let kinds = "request,answer,commit,deliver,note,fault,process";
    let bare = shown(&browser, page, &format!("#{}&hide={kinds}", violation["to"]), 1400);
    assert!(count(&bare).starts_with("0 of "), "{}", count(&bare));
    let at = format!("{:.6}", violation["at_s"].as_f64().unwrap());
    let (seconds, micros) = at.split_once('.').unwrap();
    let claim = violation["claim"].as_str().unwrap();
    let rows: Vec<&str> = bare.split("<div class=\"row violated\"").skip(1).collect();
    let time = format!("<b>{seconds}</b>.{micros}</span>");
    assert!(rows.iter().any(|row| row.contains(&time) && row.contains(claim)), "{claim} at {at}: {rows:?}");
}

/// Texts whose contrast with their background is below 4.5 (WCAG 2, level AA), in either theme. Texts in pictures are left out.
const FAINT: &str = r##"
    const parse = (color) => {
        const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
        return color.startsWith("color(") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
    };
    const over = (above, below, opacity = 1) => [0, 1, 2].map((i) => above[i] * above[3] * opacity + below[i] * (1 - above[3] * opacity)).concat(1);
    const luminance = (color) => {
        const [r, g, b] = color.slice(0, 3).map((part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (one, other) => {
        const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
        return (light + 0.05) / (dark + 0.05);
    };
    const faint = [];
    let looked = 0;
    for (const button of document.querySelectorAll(".toggle:not(.only)")) if (/answers|faults/.test(button.textContent)) button.click();
    for (const details of document.querySelectorAll("details")) details.open = true;
    for (const theme of ["light", "dark"]) {
        document.documentElement.dataset.theme = theme;
        for (const element of document.querySelectorAll("#app *")) {
            const own = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.textContent).join("").trim();
            if (!own || element.closest("svg") || !element.getClientRects().length) continue;
            const around = [];
            for (let each = element; each; each = each.parentElement) around.unshift(getComputedStyle(each));
            // What is half transparent lets through what lies behind it, its text too.
            let back = [255, 255, 255, 1], behind = back, opacity = 1;
            for (const style of around) {
                if (style.opacity < 1) [behind, opacity] = [back, opacity * style.opacity];
                back = over(parse(style.backgroundColor), back);
            }
            const text = over(parse(getComputedStyle(element).color), back);
            const ratio = contrast(over(text, behind, opacity), over(back, behind, opacity));
            looked += 1;
            if (ratio < 4.5) faint.push(`${theme}: ${ratio.toFixed(2)} ${element.className} ${own.slice(0, 30)}`);
        }
    }
    return { looked, faint };
"##;

#[test]
fn every_text_stands_out_in_both_themes() {
    let Some(browser) = browser() else {
        return println!("no browser is installed: no colour was looked at");
    };
    for page in pages() {
        let found = measured(&browser, page, "", (1400, 900), FAINT);
        assert!(found["looked"].as_u64().unwrap() > 100, "{found}");
        assert_eq!(found["faint"], serde_json::json!([]), "{}", page.display());
    }
}
