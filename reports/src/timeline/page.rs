//! A timeline as one HTML file. It loads nothing: style, script and data are in it, and its policy forbids any request.

use std::fmt::Write;

use super::{Role, Timeline};
use crate::{Provenance, human, printable};

const STYLE: &str = include_str!("page.css");
/// The scripts of the page, one for each part of it. They share one scope, in this order.
const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("page/data.js"),
    include_str!("page/elements.js"),
    include_str!("page/layout.js"),
    include_str!("page/filter.js"),
    include_str!("page/link.js"),
    include_str!("page/header.js"),
    include_str!("page/tools.js"),
    include_str!("page/rows.js"),
    include_str!("page/lanes.js"),
    include_str!("page/overview.js"),
    include_str!("page/panel.js"),
    include_str!("page/moving.js"),
    include_str!("page/theme.js"),
    include_str!("page/main.js"),
    "})();\n",
);

/// The HTML text of the page.
///
/// The names and texts of a run may contain anything: text is escaped as markup, and the data contain no `<`.
pub fn page(timeline: &Timeline) -> String {
    let timeline = &*printable::paragraphs(timeline);
    let title = format!("{}, seed {}", timeline.scenario, timeline.seed);
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{} \u{b7} ipam-sim</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n",
        escape(&title)
    );
    page.push_str(&without_script(timeline, &title));
    let _ = writeln!(page, "<script type=\"application/json\" id=\"data\">{}</script>", data(timeline));
    let _ = write!(page, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

/// The verdict, for readers whose browser runs no scripts.
fn without_script(timeline: &Timeline, title: &str) -> String {
    let mut text =
        format!("<noscript>\n<h1>{}</h1>\n<p>The picture needs JavaScript. What it would show first:</p>\n<ul>\n", escape(title));
    for violated in &timeline.violations {
        let violation = &violated.violation;
        let detail: Vec<String> = violation.detail.iter().map(|line| escape(line)).collect();
        let _ = writeln!(text, "<li><b>{}</b> at {}<br>{}</li>", escape(&violation.claim), violation.at, detail.join("<br>"));
    }
    if timeline.violations.is_empty() {
        text.push_str("<li>Nothing was violated.</li>\n");
    }
    let processes = timeline.lanes.iter().filter(|lane| lane.role != Role::Store).count() as u64;
    let (events, processes) = (human::plural(timeline.total, "event", "events"), human::plural(processes, "process", "processes"));
    let _ = write!(text, "</ul>\n<p>{events}, {processes}, {} simulated.</p>\n", human::duration(timeline.simulated));
    if let Some(from @ Provenance { faults, version, build, .. }) = &timeline.provenance {
        let listed: String = faults.iter().map(|fault| format!("<li>{}</li>\n", escape(fault))).collect();
        let faults = if faults.is_empty() { " none.</p>".to_owned() } else { format!("</p>\n<ul>\n{listed}</ul>") };
        let _ = writeln!(text, "<p>By {}; faults:{faults}", escape(&from.behaviour()));
        // The name of a build usually begins with the version.
        let version = if build.starts_with(version.as_str()) { String::new() } else { format!("Version {}. ", escape(version)) };
        let _ = writeln!(text, "<p>{version}Build {}.</p>", escape(build));
    }
    let _ = write!(text, "<p><code>{}</code></p>\n</noscript>\n", escape(&timeline.replay));
    text
}

/// The data as JSON that cannot end the element that contains it.
fn data(timeline: &Timeline) -> String {
    let json = serde_json::to_string(timeline).unwrap_or_else(|error| unreachable!("a timeline is strings and numbers: {error}"));
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Escapes a text, so that it is shown literally in markup.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Kind, Violation};
    use crate::timeline::{Lane, Violated};
    use crate::{Digest, Seconds};

    fn hostile() -> Timeline {
        let violation = Violation {
            claim: "no-<b>".into(),
            kind: Kind::Always,
            at: Seconds::from_micros(5),
            event: Some(0),
            excuse: None,
            detail: vec!["web & \"db\" </script><script>alert(1)</script>".into()],
            needs: None,
        };
        Timeline {
            scenario: "</title><script>alert(1)</script>".into(),
            digest: Digest(1),
            replay: "ipam-sim replay 'a<b>.toml'".into(),
            lanes: vec![Lane { name: "client-<0>".into(), role: Role::Actor }],
            violations: vec![Violated { violation, from: 0, to: 0 }],
            ..Timeline::default()
        }
    }

    #[test]
    fn each_fault_has_its_line_and_the_version_is_said_once() {
        let faults = vec!["partition(a, <b>) at 1.000 s".to_owned(), "crash(c) at 2.000 s".to_owned()];
        let from = Provenance { version: "0.1.0".into(), build: "0.1.0-abc".into(), faults, ..Provenance::default() };
        let page = page(&Timeline { provenance: Some(from), ..Timeline::default() });
        let text = between(&page, "<noscript>", "</noscript>");
        assert!(text.contains("<li>partition(a, &lt;b&gt;) at 1.000 s</li>\n<li>crash(c) at 2.000 s</li>"), "{text}");
        assert_eq!(text.matches("0.1.0").count(), 1, "{text}");
    }

    /// The text between `open` and `close`, which must both occur once.
    fn between<'a>(page: &'a str, open: &str, close: &str) -> &'a str {
        let (_, rest) = page.split_once(open).unwrap_or_else(|| panic!("{open} is missing"));
        rest.split_once(close).unwrap_or_else(|| panic!("{close} is missing")).0
    }

    #[test]
    fn whatever_a_run_is_called_the_page_stays_whole() {
        let page = page(&hostile());
        assert_eq!(page.matches("<script").count(), 2, "the data and the program");
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("alert(1)</script>"));
        assert_eq!(between(&page, "<title>", "</title>"), "&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;, seed 0 \u{b7} ipam-sim");
        let json = between(&page, "id=\"data\">", "</script>");
        assert_eq!(serde_json::from_str::<Timeline>(json).unwrap(), hostile(), "the data come through unharmed");
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = page(&hostile());
        let namespace = "http://www.w3.org/2000/svg";
        // A pattern within the same picture is referenced by `url(#...)`.
        let rest = page.replace(namespace, "").replace("url(#", "");
        for outside in ["http://", "https://", "src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("] {
            assert!(!rest.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn every_element_of_the_page_is_closed() {
        let page = page(&hostile());
        let markup = page.replace(SCRIPT, "").replace(STYLE, "");
        let mut open: Vec<&str> = Vec::new();
        for tag in markup.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
            let name = tag.split([' ', '\n']).next().unwrap();
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "</{name}> closes another element"),
                None if ["!doctype", "meta", "br"].contains(&name) => {}
                None => open.push(name),
            }
        }
        assert!(open.is_empty(), "{open:?} stay open");
    }

    #[test]
    fn a_reader_without_programs_gets_the_verdict() {
        let page = page(&hostile());
        let text = between(&page, "<noscript>", "</noscript>");
        assert!(text.contains("no-&lt;b&gt;") && text.contains("web &amp; &quot;db&quot;"), "{text}");
        assert!(super::page(&Timeline::default()).contains("Nothing was violated."));
    }
}
