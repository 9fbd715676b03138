//! Kubernetes objects as `kubectl get -o yaml` and `-o json` print them.
//!
//! Files hold one or many documents, a `List` or a typed list (`PodList`). A directory stands for its `*.yaml`, `*.yml` and `*.json` files
//! in the order of their names, `-` for standard input. An object keeps the place of each of its fields, so that later problems can be
//! located.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::decode::decode;
use super::expected::Language;
use super::node::{Entry, Node, Value};
use super::problem::{Position, Problem, Problems};
use super::{source, yaml};

/// A Kubernetes object in a file.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Group and version, or only the version for the core group.
    pub api_version: String,
    /// As in `kind`: `Pod`; never empty. Of a list, only its items are kept.
    pub kind: String,
    /// The namespace, if the object names one.
    pub namespace: Option<String>,
    /// As in `metadata.name`; never empty.
    pub name: String,
    /// The whole object as JSON, with the fields that its type does not know.
    pub value: serde_json::Value,
    file: Arc<str>,
    /// The whole text of the file, shared by its objects.
    text: Arc<str>,
    node: Node,
}

/// Reads files, directories and standard input (`-`), or returns the problems of all of them.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>, Problems> {
    let mut problems = Problems::new();
    let mut manifests = Vec::new();
    for path in paths {
        let (files, named) = match directory(path) {
            None => (vec![path.clone()], true),
            Some(Ok(files)) => (files, false),
            Some(Err(problem)) => {
                problems.append(problem.into());
                continue;
            }
        };
        for file in files {
            let name = source::name(&file);
            let found = source::read(&file).map_err(Problems::from).and_then(|bytes| parse_documents(&name, &bytes));
            if let Some((documents, found)) = problems.collect(found) {
                if documents == 0 && named {
                    problems.append(
                        Problem::at(&name, Position::START, "holds no object", "expected what `kubectl get -o yaml` prints").into(),
                    );
                }
                manifests.extend(found);
            }
        }
    }
    problems.or(manifests)
}

/// Reads the objects of one input; `file` is its name in problems.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Vec<Manifest>, Problems> {
    parse_documents(file, bytes).map(|(_, manifests)| manifests)
}

/// The files of a directory; `None` if `path` is not a directory.
fn directory(path: &Path) -> Option<Result<Vec<PathBuf>, Problem>> {
    if !path.is_dir() {
        return None;
    }
    Some(source::entries(path).and_then(|mut files| {
        files.retain(|file| file.is_file() && file.extension().is_some_and(|ext| ext == "yaml" || ext == "yml" || ext == "json"));
        if files.is_empty() {
            Err(Problem::of_file(&source::name(path), "is a directory without *.yaml, *.yml or *.json files", ""))
        } else {
            Ok(files)
        }
    }))
}

/// The number of documents and their objects.
fn parse_documents(file: &str, bytes: &[u8]) -> Result<(usize, Vec<Manifest>), Problems> {
    let text = source::text(file, bytes)?;
    let (documents, mut problems) = yaml::documents(file, text);
    // Almost all JSON is YAML. Users who write JSON get the errors of a JSON parser.
    if !problems.is_empty()
        && file.ends_with(".json")
        && let Some(problem) = source::not_json(file, text)
    {
        problems = problem.into();
    }
    let count = documents.len();
    let mut reader = Reader { file: file.into(), text: text.into(), manifests: Vec::new(), problems };
    for document in documents {
        reader.object(document, None);
    }
    reader.problems.sort();
    reader.problems.or((count, reader.manifests))
}

struct Reader {
    file: Arc<str>,
    text: Arc<str>,
    manifests: Vec<Manifest>,
    problems: Problems,
}

/// The fields that every object has; optional here, to report all that are missing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Option<HeadMetadata>,
}

#[derive(Deserialize)]
struct HeadMetadata {
    name: Option<String>,
    namespace: Option<String>,
}

/// The type of the items of a typed list.
struct ItemType {
    api_version: String,
    kind: String,
}

impl Reader {
    /// Adds a document or an item of a list.
    fn object(&mut self, mut node: Node, item: Option<&ItemType>) {
        if let (Value::Table(entries), Some(item)) = (&mut node.value, item) {
            // A typed list states the type of its items once.
            for (key, value) in [("apiVersion", &item.api_version), ("kind", &item.kind)] {
                if !entries.iter().any(|entry| entry.key == key) {
                    let value = Node::new(node.at, Value::String(value.clone()));
                    entries.push(Entry { key: key.to_owned(), at: node.at, node: value });
                }
            }
        }
        node.number();
        // A `List` holds objects and nothing else; a custom kind may have such a name, too, and is a list if it has items.
        let is_list = node
            .get("kind")
            .and_then(Node::as_str)
            .is_some_and(|kind| kind == "List" || kind.ends_with("List") && node.get("items").is_some());
        let head = match decode::<Head>(&self.file, &node, Language::Yaml) {
            Ok(head) => head.value,
            Err(problems) => return self.problems.append(problems),
        };
        let mut missing = Problems::new();
        let mut need = |value: Option<String>, path: &str, at: Position| {
            let value = value.filter(|value| !value.is_empty());
            if value.is_none() {
                missing.push(Problem::at(&self.file, at, format!("the object has no `{path}`"), ""));
            }
            value.unwrap_or_default()
        };
        let api_version = need(head.api_version, "apiVersion", node.at);
        let kind = need(head.kind, "kind", node.at);
        if is_list {
            self.problems.append(missing);
            return self.items(node, api_version, kind);
        }
        let metadata_at = node.get("metadata").map_or(node.at, |metadata| metadata.at);
        let (name, namespace) = head.metadata.map_or((None, None), |metadata| (metadata.name, metadata.namespace));
        let name = need(name, "metadata.name", metadata_at);
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        if !missing.is_empty() {
            return self.problems.append(missing);
        }
        let (file, text) = (self.file.clone(), self.text.clone());
        self.manifests.push(Manifest { api_version, kind, namespace, name, value: node.to_json(), file, text, node });
    }

    fn items(&mut self, list: Node, api_version: String, kind: String) {
        let item_kind = kind.strip_suffix("List").unwrap_or_default().to_owned();
        let item = (!item_kind.is_empty()).then_some(ItemType { api_version, kind: item_kind });
        let Value::Table(entries) = list.value else { return };
        for Entry { key, at, node } in entries {
            match node.value {
                Value::List(items) if key == "items" => items.into_iter().for_each(|node| self.object(node, item.as_ref())),
                Value::Null => {}
                _ if key == "items" => {
                    let found = Language::Yaml.found(&node);
                    self.problems.push(Problem::at(&self.file, at, format!("`items` is {found}"), "expected a list"));
                }
                _ => {}
            }
        }
    }
}

impl Manifest {
    /// The file as the user named it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The object with the places of its values.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The beginning of the object.
    pub fn position(&self) -> Position {
        self.node.at
    }

    /// The place of a field, given its path as Kubernetes writes it: `spec.ips[0]`, `metadata.annotations[ipam.spidernet.io/subnet]`. If
    /// the field is not there, the place of the nearest field around it.
    pub fn locate(&self, path: &str) -> Position {
        let mut node = &self.node;
        let mut rest = path;
        while !rest.is_empty() {
            let (step, after) = match rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
                Some((step, after)) => (step, after),
                None => rest.split_at(rest.find(['.', '[']).filter(|&end| end > 0).unwrap_or(rest.len())),
            };
            let child = match (&node.value, step.parse::<usize>()) {
                (Value::List(items), Ok(index)) => items.get(index),
                _ => node.get(step),
            };
            let Some(child) = child else { break };
            node = child;
            rest = after.strip_prefix('.').unwrap_or(after);
        }
        node.at
    }

    /// A problem with a field of this object.
    pub fn problem(&self, path: &str, wrong: impl Into<String>, right: impl Into<String>) -> Problem {
        Problem::at(&self.file, self.locate(path), wrong, right)
    }

    /// Decodes the object into its type. Fields that the type does not know are ignored.
    pub fn decode<K: DeserializeOwned>(&self) -> Result<K, Problems> {
        self.decode_with_unknown().map(|(object, _)| object)
    }

    /// Like [`Manifest::decode`], and returns the fields that the type does not know.
    pub fn decode_with_unknown<K: DeserializeOwned>(&self) -> Result<(K, Problems), Problems> {
        let decoded = decode(&self.file, &self.node, Language::Yaml)?;
        // Derived types do not read the fields that chose them.
        let chosen_by = ["unknown field `apiVersion`", "unknown field `kind`"];
        let mut unknown = Problems::new();
        for problem in decoded.ignored.iter().filter(|problem| !chosen_by.contains(&problem.wrong.as_str())) {
            unknown.push(problem.clone());
        }
        Ok((decoded.value, unknown))
    }
}

/// Decodes an object from JSON, by the same code as manifests: the decoders of Kubernetes' types are large, and one of each is enough.
pub fn decode_value<K: DeserializeOwned>(value: serde_json::Value) -> Result<K, String> {
    let mut node = Node::from_json(value);
    node.number();
    match decode("", &node, Language::Yaml) {
        Ok(decoded) => Ok(decoded.value),
        Err(problems) => Err(problems.iter().map(|problem| problem.wrong.as_str()).collect::<Vec<_>>().join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use proptest::prelude::*;

    use super::*;

    const POD: &str = r#"apiVersion: v1
kind: Pod
metadata:
  annotations:
    ipam.spidernet.io/ippool: '{"ipv4": ["p1"]}'
  creationTimestamp: null
  labels:
  name: web-0
  namespace: default
spec:
  containers:
  - image: nginx
    name: web
    ports:
    - containerPort: 80
    resources:
      limits:
        cpu: 100m
  hostNetwork: false
  terminationGracePeriodSeconds: 30
status:
  phase: Running
  podIPs:
  - ip: 10.0.0.7
"#;

    fn problems(text: &str) -> String {
        parse("x.yaml", text.as_bytes()).map_or_else(|problems| problems.to_string(), |manifests| format!("{} objects", manifests.len()))
    }

    fn only(text: &str) -> Manifest {
        let mut manifests = parse("x.yaml", text.as_bytes()).unwrap();
        assert_eq!(manifests.len(), 1);
        manifests.remove(0)
    }

    #[test]
    fn an_object_reads_and_decodes() {
        let manifest = only(POD);
        assert_eq!((manifest.kind.as_str(), manifest.namespace.as_deref(), manifest.name.as_str()), ("Pod", Some("default"), "web-0"));
        assert_eq!(manifest.value["spec"]["containers"][0]["ports"][0]["containerPort"], 80);
        let (pod, unknown) = manifest.decode_with_unknown::<Pod>().unwrap();
        assert!(unknown.is_empty());
        assert_eq!(pod.spec.unwrap().containers[0].resources.as_ref().unwrap().limits.as_ref().unwrap()["cpu"].0, "100m");
        assert_eq!(pod.status.unwrap().pod_ips.unwrap()[0].ip, "10.0.0.7");
    }

    #[test]
    fn json_and_yaml_are_the_same() {
        let json = serde_json::to_string_pretty(&only(POD).value).unwrap();
        assert_eq!(only(&json).value, only(POD).value);
        assert_eq!(only(&json.replace("  ", "\t")).value, only(POD).value);
    }

    #[test]
    fn fields_have_a_place() {
        let manifest = only(POD);
        for (path, line, column) in [
            ("", 1, 1),
            ("metadata.name", 8, 9),
            ("metadata.annotations[ipam.spidernet.io/ippool]", 5, 31),
            ("spec", 10, 1),
            ("spec.containers[0]", 12, 5),
            ("spec.containers[0].ports[0].containerPort", 15, 22),
            ("spec.containers[1].name", 11, 3),
            ("spec.nodeName", 10, 1),
            ("status.podIPs[0].ip", 24, 9),
            ("[", 1, 1),
            ("..", 1, 1),
        ] {
            assert_eq!(manifest.locate(path), Position { line, column }, "{path}");
        }
        insta::assert_snapshot!(manifest.problem("spec.containers[0].image", "the image is old", "use a new one"), @"x.yaml:12:12: the image is old; use a new one");
    }

    #[test]
    fn lists_of_any_sort_are_taken_apart() {
        let list = |kind: &str, api_version: &str, items: &str| {
            format!("apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  resourceVersion: ''\nitems:\n{items}")
        };
        let kinds = |text: &str| {
            let manifests = parse("x.yaml", text.as_bytes()).map_err(|problems| problems.to_string())?;
            Ok::<_, String>(manifests.iter().map(|m| format!("{} {} {}", m.api_version, m.kind, m.name)).collect::<Vec<_>>().join(", "))
        };
        let typed = "- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Node, metadata: {name: b}}\n";
        let bare = "- {metadata: {name: a}}\n- {metadata: {name: b}}\n";
        assert_eq!(kinds(&list("List", "v1", typed)).unwrap(), "v1 Pod a, v1 Node b");
        assert_eq!(kinds(&list("PodList", "v1", bare)).unwrap(), "v1 Pod a, v1 Pod b");
        let pools = list("SpiderIPPoolList", "spiderpool.spidernet.io/v2beta1", bare);
        assert_eq!(
            kinds(&pools).unwrap(),
            "spiderpool.spidernet.io/v2beta1 SpiderIPPool a, spiderpool.spidernet.io/v2beta1 SpiderIPPool b"
        );
        assert_eq!(kinds(&list("List", "v1", "  []")).unwrap(), "");
        assert_eq!(kinds(&list("List", "v1", "")).unwrap(), "");
        assert_eq!(kinds("apiVersion: v1\nkind: List\n").unwrap(), "");
        insta::assert_snapshot!(kinds(&list("List", "v1", bare)).unwrap_err(), @r"
        x.yaml:6:3: the object has no `apiVersion`
        x.yaml:6:3: the object has no `kind`
        x.yaml:7:3: the object has no `apiVersion`
        x.yaml:7:3: the object has no `kind`
        ");
        insta::assert_snapshot!(kinds(&list("List", "v1", "  a: 1")).unwrap_err(), @"x.yaml:5:1: `items` is a mapping; expected a list");
    }

    #[test]
    fn what_every_object_needs_is_asked_for_at_once() {
        let text = "metadata:\n  name: a\n---\nkind: Pod\napiVersion: v1\nmetadata:\n  namespace: x\n---\nkind: 3\napiVersion: v1\n\
                    metadata: []\n---\n- a\n---\nhello\n---\napiVersion: v1\nkind: ''\nmetadata: {name: 007}\n---\nkind: Pod\n";
        insta::assert_snapshot!(problems(text), @r#"
        x.yaml:1:1: the object has no `apiVersion`
        x.yaml:1:1: the object has no `kind`
        x.yaml:6:1: the object has no `metadata.name`
        x.yaml:9:7: `kind` is the number 3; expected a string
        x.yaml:11:11: `metadata` is a list; expected a mapping
        x.yaml:13:1: the document is a list; expected a mapping
        x.yaml:15:1: the document is the string "hello"; expected a mapping
        x.yaml:19:18: `metadata.name` is the number 7; expected a string
        x.yaml:21:1: the object has no `apiVersion`
        x.yaml:21:1: the object has no `metadata.name`
        "#);
    }

    #[test]
    fn values_of_the_wrong_type_are_not_converted() {
        let text = r#"apiVersion: v1
kind: Pod
metadata:
  name: a
  annotations:
    one: true
    two: 3
    three: "true"
spec:
  hostNetwork: "false"
  nodeName: 7
  containers:
    name: web
  terminationGracePeriodSeconds: soon
  activeDeadlineSeconds: 1.5
  volume: []
status:
  podIPs:
  - ip: 10
  startTime: yesterday
"#;
        insta::assert_snapshot!(only(text).decode::<Pod>().unwrap_err(), @r#"
        x.yaml:6:10: `metadata.annotations.one` is the boolean true; expected a string
        x.yaml:7:10: `metadata.annotations.two` is the number 3; expected a string
        x.yaml:10:16: `spec.hostNetwork` is the string "false"; expected true or false
        x.yaml:11:13: `spec.nodeName` is the number 7; expected a string
        x.yaml:12:3: `spec.containers` is a mapping; expected a list
        x.yaml:14:34: `spec.terminationGracePeriodSeconds` is the string "soon"; expected a whole number
        x.yaml:15:26: `spec.activeDeadlineSeconds` is the number 1.5; expected a whole number
        x.yaml:19:9: `status.podIPs[0].ip` is the number 10; expected a string
        x.yaml:20:14: `status.startTime` is the string "yesterday": failed to parse four digit integer as year: invalid digit, expected 0-9 but got y
        "#);
        insta::assert_snapshot!(only("apiVersion: v1\nkind: Pod\nmetadata: {name: a}").decode::<ConfigMap>().unwrap_err(), @r#"x.yaml:2:7: `kind` is the string "Pod"; expected `ConfigMap`"#);
        insta::assert_snapshot!(only("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nbinaryData: {x: '?'}").decode::<ConfigMap>().unwrap_err(), @r#"x.yaml:4:17: `binaryData.x` is the string "?": Invalid symbol 63, offset 0"#);
    }

    #[test]
    fn unknown_fields_are_named_but_pass() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, nme: b}\nspec:\n  containers:\n  - name: web\n    imge: nginx\n";
        insta::assert_snapshot!(only(text).decode_with_unknown::<Pod>().unwrap().1, @r"
        x.yaml:3:21: unknown field `metadata.nme`
        x.yaml:7:5: unknown field `spec.containers[0].imge`
        ");
    }

    #[test]
    fn a_missing_field_is_reported_at_its_object() {
        // A Kubernetes type of k8s-openapi would take the zero value, as Go does; derived types such as Spiderpool's report it.
        #[derive(Debug, Deserialize)]
        struct Pool {
            #[expect(dead_code)]
            spec: Spec,
        }
        #[derive(Debug, Deserialize)]
        #[expect(dead_code)]
        struct Spec {
            subnet: String,
            ips: Vec<String>,
        }
        let head = "apiVersion: v1\nkind: Pool\nmetadata: {name: a}\n";
        insta::assert_snapshot!(only(&format!("{head}spec:\n  ips: [1]\n")).decode::<Pool>().unwrap_err(), @r"
        x.yaml:4:1: missing field `subnet` in `spec`
        x.yaml:5:9: `spec.ips[0]` is the number 1; expected a string
        ");
        insta::assert_snapshot!(only(&format!("{head}spec: {{subnet: null}}\n")).decode::<Pool>().unwrap_err(), @r"
        x.yaml:4:7: missing field `subnet` in `spec`
        x.yaml:4:7: missing field `ips` in `spec`
        ");
        insta::assert_snapshot!(only(head).decode::<Pool>().unwrap_err(), @"x.yaml:1:1: missing field `spec`");
    }

    #[test]
    fn files_and_directories_are_read_in_order() {
        let folder = testkit::Folder::new("manifests");
        let dir = folder.0.clone();
        std::fs::create_dir(dir.join("empty")).unwrap();
        let object = |name: &str| format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n");
        for (file, text) in [
            ("b.yml", object("b")),
            ("a.yaml", object("a")),
            ("c.json", r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"c"}}"#.into()),
            ("notes.txt", "?".into()),
        ] {
            folder.file(file, &text);
        }
        let names: Vec<_> = read(&[dir.join("c.json"), dir.clone()]).unwrap().into_iter().map(|manifest| manifest.name).collect();
        assert_eq!(names, ["c", "a", "b", "c"]);
        folder.file("a.yaml", "# nothing\n");
        folder.file("c.json", "{\"apiVersion\": \"v1\",\n \"kind\": \"Node\"");
        let wrong = read(&[dir.join("c.json"), dir.join("a.yaml"), dir.join("empty"), dir.join("none.yaml"), dir.join("notes.txt")])
            .unwrap_err()
            .to_string();
        insta::assert_snapshot!(wrong.replace(&dir.display().to_string(), "dir"), @r"
        dir/c.json:2:15: not JSON: EOF while parsing an object
        dir/a.yaml:1:1: holds no object; expected what `kubectl get -o yaml` prints
        dir/empty: is a directory without *.yaml, *.yml or *.json files
        dir/none.yaml: cannot be read: no such file or directory
        dir/notes.txt:1:2: a key that is no text; write the key in quotes
        ");
    }

    fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
        let found = match parse("x.yaml", bytes) {
            Ok(manifests) => {
                let mut found = Problems::new();
                for manifest in &manifests {
                    prop_assert!(manifest.locate("spec.containers[0]").line >= 1);
                    found.collect(manifest.decode::<Pod>());
                }
                found
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                problems
            }
        };
        for problem in &found {
            let at = problem.at.unwrap();
            prop_assert!(at.line >= 1 && at.column >= 1, "{problem}");
        }
        Ok(())
    }

    /// Pieces of almost valid manifests.
    fn nearly() -> impl Strategy<Value = String> {
        let pieces = [
            "apiVersion: v1\n",
            "kind: Pod\n",
            "kind: List\n",
            "items:\n",
            "metadata:\n",
            "  name: a\n",
            "- ",
            "  ",
            "\t",
            "\n",
            "---\n",
            "...\n",
            "{",
            "}",
            "[",
            "]",
            ",",
            ": ",
            "? ",
            "&a ",
            "*a",
            "<<: ",
            "!!str ",
            "!x ",
            "|\n",
            ">-\n",
            "'",
            "\"",
            "\\u00",
            "# c",
            "%YAML 1.2\n",
            "null",
            "1e400",
            "é",
            "\u{feff}",
            "\r\n",
            "\0",
            "@",
            "`",
        ];
        proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            check(&bytes)?;
        }

        #[test]
        fn no_near_miss_makes_the_reader_panic(text in nearly()) {
            check(text.as_bytes())?;
        }

        #[test]
        fn a_cut_object_never_panics(at in 0..POD.len(), by in 0..30usize) {
            let mut bytes = POD.as_bytes().to_vec();
            bytes.drain(at..(at + by).min(POD.len()));
            check(&bytes)?;
        }

        #[test]
        fn no_path_makes_the_search_panic(path in "[a-z.\\[\\]0-9é]{0,12}") {
            only(POD).locate(&path);
        }
    }
}
