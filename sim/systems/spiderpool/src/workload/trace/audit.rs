//! A trace from the audit log of an API server: JSON lines of `audit.k8s.io` events.
//!
//! ```text
//!  create, binding, delete, eviction, anything else about a pod ─► Sight ─(by name and time)─► Life
//! ```
//! At the level `Metadata` the event that creates a pod lacks the name if the server generates it; the binding names the pod a moment
//! later.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;
use sim_config::{Position, Problem, Problems, toml as input_text};

use super::super::spelling::check_name;
use super::audit_log::{self, Event};
use super::lives::{Life, Lives, Since, Until};

/// The kind of an event about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Created,
    Bound,
    Deleted,
    Seen,
}

/// A pod in an event.
struct Sight {
    at: Timestamp,
    what: What,
    namespace: String,
    name: String,
    uid: Option<String>,
    /// The creation time in its object.
    created: Option<Timestamp>,
    on_host_network: Option<bool>,
}

/// The gaps of a log.
#[derive(Default)]
struct Wanting {
    events: usize,
    about_pods: usize,
    without_time: usize,
    without_response: usize,
    /// Requests about pods that were received and have not ended yet, by audit ID.
    open: BTreeSet<String>,
    unnamed: usize,
    collections: usize,
    unordered: usize,
    cut: Option<(String, usize)>,
    /// The place of the first event that lacks something.
    first: Option<(String, usize)>,
    span: Option<(Timestamp, Timestamp)>,
}

/// Reads audit logs: files of JSON lines, `-` for standard input; several files are one log, in any order.
///
/// # Errors
/// A line that is no event, or logs that say nothing about pods, with the place.
pub fn from_audit(paths: &[PathBuf]) -> Result<Lives, Problems> {
    let (mut sights, mut wanting) = (Vec::new(), Wanting::default());
    let mut first_file = None;
    for path in paths {
        let (file, text) = input_text::text(path)?;
        read(&file, &text, &mut sights, &mut wanting)?;
        first_file.get_or_insert(file);
    }
    let file = first_file.unwrap_or_default();
    wanting.without_response += wanting.open.len();
    wanting.about_pods += wanting.open.len();
    sights.sort_by_key(|sight| sight.at);
    let decides = |sight: &Sight| sight.what != What::Seen;
    if !sights.iter().any(decides) {
        return Err(nothing(&file, &wanting).into());
    }
    let mut lives = told(sights, &wanting);
    lives.settle();
    if lives.pods.is_empty() {
        return Err(
            Problem::of_file(&file, "all pods of the log are on the host network, and need no address", "a log of other pods").into()
        );
    }
    Ok(lives)
}

/// The problem of a log that says nothing about pods.
fn nothing(file: &str, wanting: &Wanting) -> Problem {
    let at = |wrong: String, right: &str| match &wanting.first {
        Some((file, line)) => Problem::at(file, Position { line: u32::try_from(*line).unwrap_or(u32::MAX), column: 1 }, wrong, right),
        None => Problem::of_file(file, wrong, right),
    };
    if wanting.events == 0 {
        Problem::at(file, Position::START, "the log has no event", "JSON lines of audit.k8s.io, an event each")
    } else if wanting.about_pods > 0 && wanting.without_time == wanting.about_pods {
        at("no event about a pod has a time stamp".to_owned(), "events with `requestReceivedTimestamp` or `stageTimestamp`")
    } else if wanting.about_pods > 0 && wanting.without_response + wanting.without_time == wanting.about_pods {
        at("no event about a pod says how its request ended".to_owned(), "an audit policy that does not omit the stage `ResponseComplete`")
    } else {
        let events = wanting.events;
        Problem::of_file(
            file,
            format!("none of its {events} events creates, binds or deletes a pod"),
            "an audit policy with a rule for `pods` and `pods/binding`, at the level `Metadata` or above",
        )
    }
}

fn read(file: &str, text: &str, sights: &mut Vec<Sight>, wanting: &mut Wanting) -> Result<(), Problems> {
    let mut latest: Option<Timestamp> = None;
    let cut = audit_log::events(file, text, |event, place| {
        wanting.events += 1;
        let (received, stage) = event.times(place)?;
        if let Some(stage) = stage.or(received) {
            wanting.span = Some(wanting.span.map_or((stage, stage), |(from, until)| (from.min(stage), until.max(stage))));
            // Servers write in turn, and may be a few milliseconds out of order.
            wanting.unordered += usize::from(latest.is_some_and(|latest| latest.duration_since(stage).as_millis() > 1_000));
            latest = Some(latest.map_or(stage, |latest| latest.max(stage)));
        }
        if let Some(sight) = sight(event, received.or(stage), (file, place.line), wanting) {
            if let Some(invalid) = check_name(&format!("{}.{}", sight.namespace, sight.name)).err() {
                return Err(place.problem(1, invalid.wrong, invalid.right).into());
            }
            sights.push(sight);
        }
        Ok(())
    })?;
    if let Some(line) = cut {
        wanting.cut = Some((file.to_owned(), line));
    }
    Ok(())
}

/// The sight of a pod in an event; `None` = the event is not about a pod, or has no use.
fn sight(event: &Event, at: Option<Timestamp>, place: (&str, usize), wanting: &mut Wanting) -> Option<Sight> {
    let reference = event.object_ref.as_ref().filter(|reference| reference.resource.as_deref() == Some("pods"))?;
    if matches!(event.stage.as_deref(), Some("ResponseStarted" | "Panic"))
        || event.request_uri.as_deref().is_some_and(|uri| uri.contains("dryRun="))
    {
        return None;
    }
    let verb = event.verb.as_deref().unwrap_or_default();
    if matches!(verb, "list" | "watch") {
        return None;
    }
    // A stage before the last says nothing that the last does not.
    match (event.stage.as_deref(), &event.audit_id) {
        (Some("RequestReceived"), Some(id)) => {
            wanting.open.insert(id.clone());
            wanting.first.get_or_insert((place.0.to_owned(), place.1));
            return None;
        }
        (_, Some(id)) => drop(wanting.open.remove(id)),
        (_, None) => {}
    }
    wanting.about_pods += 1;
    let mut too_little = || {
        wanting.first.get_or_insert((place.0.to_owned(), place.1));
    };
    let Some(at) = at else {
        wanting.without_time += 1;
        too_little();
        return None;
    };
    let Some(code) = event.response_status.as_ref().and_then(|status| status.code) else {
        wanting.without_response += 1;
        too_little();
        return None;
    };
    if !(200..300).contains(&code) {
        return None;
    }
    let what = match (verb, reference.subresource.as_deref().unwrap_or_default()) {
        ("create", "") => What::Created,
        ("create", "binding") => What::Bound,
        ("create", "eviction") | ("delete", "") => What::Deleted,
        ("deletecollection", _) => {
            wanting.collections += 1;
            return None;
        }
        _ => What::Seen,
    };
    // The object of a binding or an eviction is not the pod; the request of a patch is not, either.
    let is_pod = |object: &&Value| object.get("kind").is_none_or(|kind| kind == "Pod") && object.get("metadata").is_some();
    let pods = [&event.response_object, &event.request_object].map(|object| object.as_ref().filter(is_pod));
    let field = |path: &str| pods.iter().flatten().find_map(|pod| pod.pointer(path));
    let text = |path: &str| field(path).and_then(Value::as_str).map(str::to_owned);
    let name = reference.name.clone().filter(|name| !name.is_empty()).or_else(|| text("/metadata/name"));
    let namespace = reference.namespace.clone().or_else(|| text("/metadata/namespace")).unwrap_or_else(|| "default".to_owned());
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        wanting.unnamed += usize::from(what == What::Created);
        return None;
    };
    let created = text("/metadata/creationTimestamp").and_then(|text| text.parse().ok());
    let uid = reference.uid.clone().or_else(|| text("/metadata/uid"));
    let on_host_network =
        pods.iter().flatten().find_map(|pod| pod.get("spec")).map(|spec| spec.get("hostNetwork") == Some(&Value::Bool(true)));
    Some(Sight { at, what, namespace, name, uid, created, on_host_network })
}

/// A pod that is being assembled from its sights.
struct Known {
    life: Life,
    uid: Option<String>,
    last_seen: Timestamp,
    on_host_network: Option<bool>,
}

impl Known {
    fn is_another(&self, sight: &Sight) -> bool {
        match sight.what {
            What::Created => true,
            _ if self.uid.is_some() && sight.uid.is_some() => self.uid != sight.uid,
            // A pod is bound once in its life.
            What::Bound => self.life.scheduled.is_some() || self.life.deleted.is_some(),
            // A kubelet reports the end of its pod, and then deletes it again.
            What::Deleted | What::Seen => false,
        }
    }
}

/// The lives of the pods that were seen, in chronological order.
fn told(sights: Vec<Sight>, wanting: &Wanting) -> Lives {
    let begins = wanting.span.map(|(from, _)| from);
    // If neither creations nor bindings are logged, the log does not show that a pod existed before it was first seen.
    let names_arrivals = sights.iter().any(|sight| matches!(sight.what, What::Created | What::Bound));
    let mut known: BTreeMap<(String, String), Known> = BTreeMap::new();
    let mut done: Vec<Known> = Vec::new();
    let mut ended_unseen = 0;
    for sight in sights {
        let key = (sight.namespace.clone(), sight.name.clone());
        if let Some(mut before) = known.remove(&key) {
            if before.is_another(&sight) {
                if before.life.deleted.is_none() {
                    ended_unseen += 1;
                    before.life.deleted = Some((before.last_seen, Until::Seen));
                }
                done.push(before);
            } else {
                known.insert(key.clone(), before);
            }
        }
        let at = sight.at;
        let one = known.entry(key).or_insert_with(|| {
            let created = match (sight.what, sight.created) {
                (What::Created, _) => (at, Since::Create),
                (_, Some(created)) => (created, Since::Object),
                (What::Bound, _) => (at, Since::Binding),
                _ => (begins.filter(|_| names_arrivals).unwrap_or(at), Since::Seen),
            };
            let life = Life { namespace: sight.namespace.clone(), pod: sight.name.clone(), created, scheduled: None, deleted: None };
            Known { life, uid: None, last_seen: at, on_host_network: None }
        });
        one.last_seen = at;
        one.uid = one.uid.take().or(sight.uid);
        one.on_host_network = one.on_host_network.or(sight.on_host_network);
        match sight.what {
            What::Bound => one.life.scheduled = one.life.scheduled.or(Some(at)),
            What::Deleted if one.life.deleted.is_none() => one.life.deleted = Some((at, Until::Delete)),
            _ => {}
        }
        // A pod that a kubelet reports, or that existed before the log, was on a node.
        if one.life.scheduled.is_none() && one.life.created.1 == Since::Seen {
            one.life.scheduled = Some(one.life.created.0);
        }
    }
    done.extend(known.into_values());
    let on_host = done.iter().filter(|one| one.on_host_network == Some(true)).count();
    let of_unknown_network = done.iter().filter(|one| one.on_host_network.is_none()).count();
    done.retain(|one| one.on_host_network != Some(true));
    let mut lives = Lives { pods: done.into_iter().map(|one| one.life).collect(), notes: Vec::new() };
    lives.notes = notes(&lives.pods, wanting, ended_unseen, (on_host, of_unknown_network));
    lives
}

/// A count with its noun: `one pod`, `3 pods`.
fn many(count: usize, one: &str, several: &str) -> String {
    ipam_reports::human::plural(count as u64, one, several)
}

fn notes(pods: &[Life], wanting: &Wanting, ended_unseen: usize, (on_host, of_unknown_network): (usize, usize)) -> Vec<String> {
    let since = |since: Since| pods.iter().filter(|life| life.created.1 == since).count();
    let living = pods.iter().filter(|life| life.deleted.is_none()).count();
    let mut notes = Vec::new();
    if let Some((from, until)) = wanting.span {
        notes.push(format!(
            "{} in {} from {from:.0} to {until:.0}",
            many(pods.len(), "pod", "pods"),
            many(wanting.events, "event", "events")
        ));
    }
    let mut say = |count: usize, what: &dyn Fn(String) -> String| {
        if count > 0 {
            notes.push(what(many(count, "pod", "pods")));
        }
    };
    say(since(Since::Binding), &|pods| {
        format!(
            "{pods}: no name in the event of the creation; each counts from its binding to a node, and came earlier if it waited for one"
        )
    });
    say(since(Since::Object), &|pods| format!("{pods}: created before the log begins; each counts from when its object says"));
    say(since(Since::Seen), &|pods| {
        format!("{pods}: there before the log begins, since when is not known; each counts from the first event")
    });
    say(ended_unseen, &|pods| format!("{pods}: no deletion, but another pod of the name came later; each counts until it was seen last"));
    say(living, &|pods| format!("{pods}: no deletion in the log; each lives on"));
    say(on_host, &|pods| format!("{pods} left out: on the host network, which needs no address"));
    say(of_unknown_network, &|pods| {
        format!(
            "{pods}: on the host network or not, which only a log of the level `Request` or above says; each \
             counts as one that needs an address"
        )
    });
    let mut say = |count: usize, what: &dyn Fn(String) -> String| {
        if count > 0 {
            notes.push(what(many(count, "event", "events")));
        }
    };
    say(wanting.unordered, &|events| format!("{events} more than a second after a later one; they are sorted by their time stamps"));
    say(wanting.without_time, &|events| format!("{events} about pods without a time stamp, left out"));
    say(wanting.without_response, &|events| {
        format!("{events} about pods without a response, left out: whether the request was carried out is not known")
    });
    say(wanting.collections, &|events| {
        format!("{events} delete a collection of pods without naming them; each counts until its kubelet deletes it")
    });
    if let Some((file, line)) = &wanting.cut {
        notes.push(format!("{file}:{line}: the last line is cut, and left out"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::TraceRows;
    use super::*;

    const POD: &str =
        r#"{"kind":"Pod","metadata":{"name":"a","namespace":"shop","uid":"1","creationTimestamp":"2026-01-15T11:00:00Z"},"spec":{}}"#;

    /// An event at a second, about `shop/a` unless the name is empty.
    fn event(second: u32, verb: &str, name: &str, subresource: &str, code: u32, more: &str) -> String {
        let name = if name.is_empty() { String::new() } else { format!(r#""name":"{name}","#) };
        let time = format!("2026-01-15T12:{:02}:{:02}.000000Z", second / 60, second % 60);
        format!(
            r#"{{"kind":"Event","level":"Metadata","stage":"ResponseComplete","verb":"{verb}","objectRef":{{"resource":"pods","namespace":"shop",{name}"subresource":"{subresource}"}},"responseStatus":{{"code":{code}}},{more}"requestReceivedTimestamp":"{time}","stageTimestamp":"{time}"}}"#
        ) + "\n"
    }

    fn read(text: &str) -> Result<Lives, String> {
        let folder = testkit::Folder::new("audit");
        let path = folder.file("log.jsonl", text);
        from_audit(&[PathBuf::from(&path)]).map_err(|problems| problems.to_string().replace(&path, "LOG"))
    }

    /// Seconds after noon of creation, binding and deletion, and the evidence of the first and the last.
    type Told = (i64, Option<i64>, Option<i64>, &'static str, &'static str);

    fn told(lives: &Lives) -> Vec<Told> {
        let noon: Timestamp = "2026-01-15T12:00:00Z".parse().unwrap();
        let second = |at: Timestamp| at.as_second() - noon.as_second();
        let one = |life: &Life| {
            let until = life.deleted.map_or("", |(_, until)| until.name());
            (second(life.created.0), life.scheduled.map(second), life.deleted.map(|(at, _)| second(at)), life.created.1.name(), until)
        };
        lives.pods.iter().map(one).collect()
    }

    #[test]
    fn a_pod_lives_from_its_creation_to_the_first_request_that_deletes_it() {
        let log = event(1, "create", "a", "", 201, "")
            + &event(2, "create", "a", "binding", 201, "")
            + &event(5, "patch", "a", "status", 200, "")
            + &event(60, "create", "a", "eviction", 201, "")
            + &event(65, "patch", "a", "status", 200, "")
            + &event(70, "delete", "a", "", 200, "")
            // Another pod of the same name.
            + &event(80, "create", "a", "", 201, "")
            + &event(81, "create", "a", "binding", 201, "");
        assert_eq!(told(&read(&log).unwrap()), [(1, Some(2), Some(60), "create", "delete"), (80, Some(81), None, "create", "")]);
    }

    #[test]
    fn what_is_missing_is_taken_from_the_first_and_the_last_sight() {
        // One pod without a name in the event that creates it, one that existed before the log, one that is replaced without a deletion.
        let log = event(1, "get", "old", "", 200, "")
            + &event(3, "create", "", "", 201, "")
            + &event(4, "create", "b", "binding", 201, "")
            + &event(9, "patch", "b", "status", 200, "")
            + &event(20, "create", "b", "binding", 201, "")
            + &event(30, "delete", "old", "", 200, "");
        let lives = read(&log).unwrap();
        let expected = [
            (1, Some(1), Some(30), "first-sight", "delete"),
            (4, Some(4), Some(9), "binding", "last-sight"),
            (20, Some(20), None, "binding", ""),
        ];
        assert_eq!(told(&lives), expected);
        insta::assert_snapshot!(lives.notes.join("\n"));
        // At a higher level the object has the time of its creation.
        let log =
            event(1, "create", "b", "binding", 201, "") + &event(5, "patch", "a", "status", 200, &format!(r#""responseObject":{POD},"#));
        assert_eq!(told(&read(&log).unwrap())[0], (-3_600, None, None, "object", ""));
    }

    #[test]
    fn what_did_not_happen_does_not_count() {
        let host = r#""requestObject":{"kind":"Pod","metadata":{"name":"h"},"spec":{"hostNetwork":true}},"#;
        let log = event(1, "create", "a", "", 201, "")
            + &event(2, "create", "refused", "", 403, "")
            + &event(3, "create", "h", "", 201, host)
            + &event(4, "create", "tried", "", 201, r#""requestURI":"/api/v1/namespaces/shop/pods?dryRun=All","#)
            + &event(5, "delete", "a", "", 409, "")
            + &event(6, "list", "", "", 200, "").replace("pods", "nodes");
        assert_eq!(told(&read(&log).unwrap()), [(1, None, None, "create", "")]);
    }

    #[test]
    fn what_is_cut_unordered_or_without_times_is_said() {
        let whole = event(50, "delete", "a", "", 200, "") + &event(1, "create", "a", "", 201, "") + &event(60, "create", "b", "", 201, "");
        let untimed = event(5, "create", "c", "", 201, "").replace("requestReceivedTimestamp", "x").replace("stageTimestamp", "y");
        let open = event(5, "create", "d", "", 201, r#""auditID":"7","#).replace("ResponseComplete", "RequestReceived");
        let lives = read(&(whole.clone() + &untimed + &open + &whole[..80])).unwrap();
        assert_eq!(told(&lives), [(1, None, Some(50), "create", "delete"), (60, None, None, "create", "")]);
        insta::assert_snapshot!(
            lives.notes.join("\n").replace(&*std::env::temp_dir().display().to_string(), "TMP").split("TMP").next().unwrap()
        );
        assert!(lives.notes.last().unwrap().ends_with("jsonl:6: the last line is cut, and left out"), "{:?}", lives.notes);
    }

    #[test]
    fn a_log_of_which_nothing_can_be_said_is_refused_with_its_place() {
        let one = event(1, "create", "a", "", 201, "");
        let second = event(2, "delete", "a", "", 200, "");
        for (log, expected) in [
            (String::new(), "LOG:1:1: the log has no event"),
            (one.replace("requestReceivedTimestamp", "x").replace("stageTimestamp", "y"), "LOG:1:1: no event about a pod has a time stamp"),
            (one.replace("responseStatus", "x"), "LOG:1:1: no event about a pod says how its request ended"),
            (one.replace("\"pods\"", "\"nodes\""), "LOG: none of its 1 events creates, binds or deletes a pod"),
            (one[..60].to_owned(), "LOG:1:60: no audit event: EOF"),
            (one[..60].to_owned() + "\n" + &second, "LOG:1:60: no audit event: EOF"),
            (one.clone() + "{\"kind\":\"Pod\"}\n", "LOG:2:1: no audit event: its kind is `Pod`"),
            (one.clone() + "[1]\n", "LOG:2:"),
            (one.clone() + &one[..60] + "\n" + &second, "LOG:2:60: no audit event: EOF"),
            (one.replace("12:00:01.000000Z", "noon"), "`2026-01-15Tnoon` is no date"),
            (one.replace("\"a\"", "\"A b\""), "LOG:1:1: no object can be called `shop.A b`"),
        ] {
            let error = read(&log).unwrap_err();
            assert!(error.contains(expected), "{log}: {error}");
        }
    }

    proptest! {
        /// Whatever happens to a few pods, a scenario accepts the trace, which has a row for each life.
        #[test]
        fn every_trace_reads_back(
            events in prop::collection::vec((0u32..600, 0usize..6, 0usize..3), 1..40),
        ) {
            let kinds = [("create", ""), ("create", "binding"), ("delete", ""), ("create", "eviction"), ("patch", "status"), ("get", "")];
            let log: String = events.iter().map(|(second, kind, pod)| {
                let (verb, subresource) = kinds[*kind];
                event(*second, verb, ["a", "b", "c"][*pod], subresource, 200, "")
            }).collect();
            if let Ok(lives) = read(&log) {
                let folder = testkit::Folder::new("audit-back");
                let rows = TraceRows::read(folder.file("pods.csv", &lives.to_csv()).as_ref(), &BTreeMap::new());
                prop_assert!(rows.is_ok(), "{}\n{}", rows.unwrap_err(), lives.to_csv());
                prop_assert_eq!(rows.unwrap().size().pods, lives.pods.len());
            }
        }
    }
}
