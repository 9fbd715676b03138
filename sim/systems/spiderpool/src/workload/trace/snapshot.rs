//! A trace from one or more outputs of `kubectl get pods -A -o json` or `-o yaml`.
//!
//! A snapshot has the pods that exist. Pods that had gone before the first one, or came and went between two, are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sim_config::manifest::{self, Manifest};
use sim_config::{Position, Problem, Problems, source};

use super::super::spelling::check_name;
use super::lives::{Life, Lives, Since, Until};

/// The pods of one snapshot.
struct Snapshot {
    /// The latest time in the snapshot: it was taken then, or later.
    taken: Timestamp,
    pods: Vec<Pod>,
}

struct Pod {
    /// The UID of the pod, or else its name and creation.
    id: String,
    life: Life,
}

/// The IDs of pods that notes mention.
#[derive(Default)]
struct Told {
    on_host: BTreeSet<String>,
    ended: BTreeSet<String>,
    going: BTreeSet<String>,
}

/// Reads snapshots, one file each; `-` is standard input.
///
/// # Errors
/// A file without pods, or a pod that cannot come from a cluster, with its place.
pub fn from_pods(paths: &[PathBuf]) -> Result<Lives, Problems> {
    let mut problems = Problems::new();
    let mut told = Told::default();
    let mut snapshots: Vec<Snapshot> = paths.iter().filter_map(|path| problems.collect(snapshot(path, &mut told))).collect();
    problems.or(())?;
    snapshots.sort_by_key(|snapshot| snapshot.taken);
    let lives = joined(&snapshots, &told);
    if lives.pods.is_empty() {
        let file = paths.first().map_or_else(String::new, |path| source::name(path));
        return Err(Problem::of_file(&file, "all its pods are on the host network, and need no address", "a snapshot of all pods").into());
    }
    Ok(lives)
}

fn snapshot(path: &Path, told: &mut Told) -> Result<Snapshot, Problems> {
    let manifests = manifest::read(&[path.to_owned()])?;
    let mut problems = Problems::new();
    let mut snapshot = Snapshot { taken: Timestamp::MIN, pods: Vec::new() };
    let mut pods = 0;
    for manifest in manifests.iter().filter(|manifest| manifest.kind == "Pod" && manifest.api_version == "v1") {
        pods += 1;
        match pod(manifest, &mut snapshot.taken, told) {
            Ok(pod) => snapshot.pods.extend(pod),
            Err(problem) => problems.push(problem),
        }
    }
    if pods == 0 && problems.is_empty() {
        let (wrong, right) = ("holds no pod", "what `kubectl get pods -A -o json` or `-o yaml` prints");
        problems.push(Problem::at(&source::name(path), Position::START, wrong, right));
    }
    problems.or(snapshot)
}

/// A pod of a snapshot; `None` = it needs no address. `taken` is moved to the latest time of the pod.
fn pod(manifest: &Manifest, taken: &mut Timestamp, told: &mut Told) -> Result<Option<Pod>, Problem> {
    let value = &manifest.value;
    let time = |path: &str| -> Result<Option<Timestamp>, Problem> {
        let text = value.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_str);
        let Some(text) = text else { return Ok(None) };
        let wrong = || manifest.problem(path, format!("`{text}` is no date"), "RFC 3339, such as 2026-01-15T12:00:00Z");
        text.parse().map(Some).map_err(|_| wrong())
    };
    let created = time("metadata.creationTimestamp")?.ok_or_else(|| {
        let right = "a pod as a cluster has it: what `kubectl get` prints, not what is applied";
        manifest.problem("metadata", format!("the pod `{}` has no `creationTimestamp`", manifest.name), right)
    })?;
    let namespace = manifest.namespace.clone().unwrap_or_else(|| "default".to_owned());
    check_name(&format!("{namespace}.{}", manifest.name))
        .map_err(|invalid| manifest.problem("metadata.name", invalid.wrong, invalid.right))?;
    let gone = time("metadata.deletionTimestamp")?.map(|gone| {
        // The timestamp is the end of the grace period.
        let grace = value.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default();
        gone.checked_sub(SignedDuration::from_secs(grace.clamp(0, 1 << 32))).unwrap_or(gone).max(created)
    });
    let list = |path: &str| value.pointer(path).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let date = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    let conditions = list("/status/conditions");
    let containers = || ["/status/containerStatuses", "/status/initContainerStatuses"].into_iter().flat_map(list);
    let ends = || containers().filter_map(|container| date(container, "/state/terminated/finishedAt"));
    let starts = containers().filter_map(|container| date(container, "/state/running/startedAt"));
    let changes = conditions.iter().filter_map(|condition| date(condition, "/lastTransitionTime"));
    *taken = ends().chain(starts).chain(changes).chain([created]).chain(gone).fold(*taken, Timestamp::max);
    let uid = value.pointer("/metadata/uid").and_then(Value::as_str);
    let id = uid.map_or_else(|| format!("{namespace}/{} {created}", manifest.name), str::to_owned);
    if value.pointer("/spec/hostNetwork") == Some(&Value::Bool(true)) {
        told.on_host.insert(id);
        return Ok(None);
    }
    let phase = value.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    let ended = ends().max().filter(|_| matches!(phase, "Succeeded" | "Failed"));
    match (ended, gone) {
        (Some(_), _) => drop(told.ended.insert(id.clone())),
        (None, Some(_)) => drop(told.going.insert(id.clone())),
        (None, None) => {}
    }
    let bound = conditions.iter().find(|condition| {
        condition.get("type").is_some_and(|kind| kind == "PodScheduled") && condition.get("status").is_some_and(|status| status == "True")
    });
    let has_node = value.pointer("/spec/nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty());
    let scheduled = bound.and_then(|condition| date(condition, "/lastTransitionTime")).or(has_node.then_some(created));
    let deleted = ended.into_iter().chain(gone).min().map(|at| (at, Until::Object));
    let life = Life { namespace, pod: manifest.name.clone(), created: (created, Since::Object), scheduled, deleted };
    Ok(Some(Pod { id, life }))
}

/// The pods of all snapshots, which are in chronological order.
fn joined(snapshots: &[Snapshot], told: &Told) -> Lives {
    let mut known: BTreeMap<&str, (Life, usize)> = BTreeMap::new();
    for (number, snapshot) in snapshots.iter().enumerate() {
        for pod in &snapshot.pods {
            let (life, last) = known.entry(&pod.id).or_insert_with(|| (pod.life.clone(), number));
            // The later snapshot knows more.
            life.deleted = life.deleted.or(pod.life.deleted);
            life.scheduled = life.scheduled.or(pod.life.scheduled);
            *last = number;
        }
    }
    let mut vanished = 0;
    let mut lives = Lives::default();
    for (mut life, last) in known.into_values() {
        if let (None, Some(next)) = (life.deleted, snapshots.get(last + 1)) {
            vanished += 1;
            life.deleted = Some((next.taken.max(life.created.0), Until::Seen));
        }
        lives.pods.push(life);
    }
    lives.notes = notes(snapshots, &lives.pods, told, vanished);
    lives.settle();
    lives
}

fn notes(snapshots: &[Snapshot], pods: &[Life], told: &Told, vanished: usize) -> Vec<String> {
    let many = |count: usize| ipam_reports::human::plural(count as u64, "pod", "pods");
    let times: Vec<String> = snapshots.iter().map(|snapshot| format!("{:.0}", snapshot.taken)).collect();
    let of = ipam_reports::human::plural(snapshots.len() as u64, "snapshot", "snapshots");
    let first = times.first().cloned().unwrap_or_default();
    let mut notes = vec![
        format!("{} in {of}, taken at {} or later", many(pods.len()), times.join(", ")),
        if snapshots.len() > 1 {
            format!("pods that had gone before {first}, or came and went between two snapshots, are missing")
        } else {
            format!(
                "pods that had gone before {first} are missing: of the time before there are only those that are left, and a pool may have \
                 held more; an audit log has them all"
            )
        },
    ];
    let mut say = |count: usize, what: &str| {
        if count > 0 {
            notes.push(format!("{}{what}", many(count)));
        }
    };
    say(vanished, ": gone when the next snapshot was taken; each counts until then, which may be too long");
    say(told.ended.len(), " ended, and kept as objects; each counts until its last container ended");
    say(told.going.len(), " being deleted, since the date of deletion less the grace");
    say(told.on_host.len(), " left out: on the host network, which needs no address");
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: u32, created: &str, more: &str) -> String {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: shop\n  uid: u{uid}\n  \
             creationTimestamp: \"2026-01-15T{created}Z\"\n\
             {more}spec:\n  nodeName: n1\n"
        )
    }

    fn read(texts: &[String]) -> Result<Lives, String> {
        let folder = testkit::Folder::new("snapshot");
        let paths: Vec<PathBuf> = (0..).zip(texts).map(|(number, text)| folder.file(&format!("{number}.yaml"), text).into()).collect();
        from_pods(&paths).map_err(|problems| problems.to_string())
    }

    fn times(lives: &Lives) -> Vec<(String, String)> {
        let clock = |at: Timestamp| at.to_string()[11..19].to_owned();
        let one =
            |life: &Life| (clock(life.created.0), life.deleted.map_or_else(String::new, |(at, by)| format!("{} {}", clock(at), by.name())));
        lives.pods.iter().map(one).collect()
    }

    #[test]
    fn pods_that_are_in_no_later_snapshot_count_until_that() {
        let going = "  deletionTimestamp: \"2026-01-15T12:30:30Z\"\n  deletionGracePeriodSeconds: 30\n";
        let first = pod("a", 1, "11:00:00", "") + &pod("b", 2, "12:00:00", "");
        let second = pod("b", 2, "12:00:00", going) + &pod("c", 3, "12:20:00", "");
        let both = [first, second];
        let lives = read(&both).unwrap();
        let expected = [("11:00:00", "12:30:00 last-sight"), ("12:00:00", "12:30:00 object"), ("12:20:00", "")];
        assert_eq!(times(&lives), expected.map(|(from, until)| (from.to_owned(), until.to_owned())));
        assert_eq!(
            read(&both.map(|text| text).into_iter().rev().collect::<Vec<_>>()).unwrap(),
            lives,
            "the order of the files does not count"
        );
        insta::assert_snapshot!(lives.notes.join("\n"));
    }

    #[test]
    fn a_pod_that_has_another_of_its_name_ends_before_it() {
        let both = [pod("db-0", 1, "11:00:00", ""), pod("db-0", 2, "12:00:00", "") + &pod("late", 3, "12:40:00", "")];
        let expected = [("11:00:00", "12:00:00 last-sight"), ("12:00:00", ""), ("12:40:00", "")];
        assert_eq!(times(&read(&both).unwrap()), expected.map(|(from, until)| (from.to_owned(), until.to_owned())));
    }

    #[test]
    fn what_is_no_snapshot_gets_its_place() {
        for (text, expected) in [
            ("apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n".to_owned(), "1:1: holds no pod"),
            (pod("a", 1, "11:00:00", "").replace("creationTimestamp", "created"), "the pod `a` has no `creationTimestamp`"),
            (pod("a", 1, "25:00:00", ""), ":8:22: `2026-01-15T25:00:00Z` is no date"),
            (pod("a", 1, "11:00:00", "").replace("nodeName: n1", "hostNetwork: true"), "all its pods are on the host network"),
            ("{\"kind\": \"List\"".to_owned(), ":1:"),
        ] {
            let error = read(&[text]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
