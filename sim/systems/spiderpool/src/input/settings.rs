//! The settings of a cluster: ConfigMap keys and environment names (A §10), as TOML or as the ConfigMap `spiderpool-conf`.
//!
//! A ConfigMap holds the names themselves, or, as upstream's chart writes it, YAML under the one key `conf.yml`.

use std::path::Path;

use ipam_spiderpool::Policy;
use ipam_spiderpool::ipam::AgentSettings;
use ipam_spiderpool::reclaim::ReclaimSettings;
use ipam_spiderpool::select::{ELSEWHERE, SettingType, Settings, type_elsewhere};
pub use sim_config::expected::{Language, meant, names};
use sim_config::manifest::Manifest;
pub use sim_config::node::{Entry, Node, Value};
use sim_config::problem::{Position, Problem, Problems};
use sim_config::{source, toml, yaml};

/// The name of upstream's ConfigMap.
const CONFIG_MAP: &str = "spiderpool-conf";
/// The key under which upstream's ConfigMap holds its settings.
const CONF: &str = "conf.yml";
/// Upstream's key, beside `CONF`, for the agents' setting `MULTUS_CLUSTER_NETWORK`.
const CLUSTER_NETWORK: &str = "clusterNetwork";

/// The settings of a file, by the component that reads them.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSettings {
    /// Settings of the selection of pools.
    pub select: Settings,
    /// Settings of reclaim in the controller; the hardened defaults where the file says nothing.
    pub reclaim: ReclaimSettings,
    /// Other settings of agents; its `select` is ignored.
    pub agent: AgentSettings,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        let policy = Policy::hardened();
        Self { select: Settings::default(), reclaim: ReclaimSettings::new(&policy), agent: AgentSettings::new(&policy) }
    }
}

/// Reads a file: a manifest if its name ends in `.yaml`, `.yml` or `.json`, else TOML.
///
/// # Errors
/// All problems of the file: unknown names, and values that a setting cannot have.
pub fn read(path: &Path) -> Result<ClusterSettings, Problems> {
    let (file, bytes) = (source::name(path), source::read(path)?);
    let is_manifest = path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known));
    parse(&file, source::text(&file, &bytes)?, is_manifest)
}

/// The settings of a cluster from the manifest of its ConfigMap.
///
/// # Errors
/// As [`read`].
pub fn of_manifest(manifest: &Manifest) -> Result<ClusterSettings, Problems> {
    let (file, text) = (manifest.file(), manifest.text());
    let mut reader = Reader { file, text, settings: ClusterSettings::default(), set_namespace: false, problems: Problems::new() };
    reader.document(manifest.node());
    reader.problems.sort();
    reader.problems.or(reader.settings)
}

/// Checks the settings of a cluster, if the object is the ConfigMap that holds them.
///
/// # Errors
/// Unknown names, and values that a setting cannot have.
pub fn check(manifest: &Manifest) -> Result<(), Problems> {
    let is_config = (manifest.api_version.as_str(), manifest.kind.as_str(), manifest.name.as_str()) == ("v1", "ConfigMap", CONFIG_MAP);
    // A ConfigMap without data sets nothing, which is no error when the user did not name it.
    if !is_config || manifest.node().get("data").is_none_or(|data| matches!(data.value, Value::Null)) {
        return Ok(());
    }
    of_manifest(manifest).map(drop)
}

fn parse(file: &str, text: &str, is_manifest: bool) -> Result<ClusterSettings, Problems> {
    let mut reader = Reader { file, text, settings: ClusterSettings::default(), set_namespace: false, problems: Problems::new() };
    if is_manifest {
        let (documents, problems) = yaml::documents(file, text);
        reader.problems.append(problems);
        match &documents[..] {
            [document] => reader.document(document),
            [] if !reader.problems.is_empty() => {}
            _ => {
                let right = "expected one ConfigMap, or one mapping of settings";
                let at = documents.get(1).map_or(Position::START, |second| second.at);
                reader.problems.append(Problem::at(file, at, format!("holds {} documents", documents.len()), right).into());
            }
        }
    } else {
        reader.table(&toml::parse(file, text)?, Language::Toml, &|at| at);
    }
    reader.problems.sort();
    reader.problems.or(reader.settings)
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    settings: ClusterSettings,
    /// Whether `agentNamespace` was there.
    set_namespace: bool,
    problems: Problems,
}

impl Reader<'_> {
    /// Reads a ConfigMap, or the settings themselves.
    fn document(&mut self, document: &Node) {
        let Some(kind) = document.get("kind").and_then(Node::as_str) else {
            return self.table(document, Language::Yaml, &|at| at);
        };
        if kind != "ConfigMap" {
            let at = document.get("kind").map_or(document.at, |kind| kind.at);
            return self.problems.push(Problem::at(self.file, at, format!("the object is a {kind}"), "expected a ConfigMap"));
        }
        let Some(data) = document.get("data") else {
            return self.problems.push(Problem::at(self.file, document.at, "the ConfigMap has no `data`", ""));
        };
        self.table(data, Language::Yaml, &|at| at);
        // Agents run in the namespace of their ConfigMap.
        let namespace = document.get("metadata").and_then(|metadata| metadata.get("namespace")).and_then(Node::as_str);
        if let Some(namespace) = namespace.filter(|_| !self.set_namespace) {
            namespace.clone_into(&mut self.settings.select.agent_namespace);
        }
    }

    /// Reads names with values; `place` maps a position to its place in the file.
    fn table(&mut self, node: &Node, language: Language, place: &dyn Fn(Position) -> Position) {
        let Value::Table(entries) = &node.value else {
            let wrong = format!("the settings are {}", language.found(node));
            return self.problems.push(Problem::at(self.file, place(node.at), wrong, "expected names with values"));
        };
        for entry in entries {
            match (entry.key.as_str(), &entry.node.value) {
                (CONF, Value::String(text)) if language == Language::Yaml => self.conf(entry, text),
                (CLUSTER_NETWORK, Value::String(text)) if language == Language::Yaml => {
                    self.settings.select.multus_cluster_network = Some(text.clone()).filter(|text| !text.is_empty());
                }
                _ => self.entry(entry, language, place),
            }
        }
    }

    /// Reads YAML embedded in a string.
    fn conf(&mut self, entry: &Entry, text: &str) {
        let (documents, problems) = yaml::documents(self.file, text);
        let file_text = self.text;
        // A block of text is indented below its key.
        let place = |at: Position| {
            let line = |text: &str, number: u32| text.lines().nth((number as usize).saturating_sub(1)).map(str::to_owned);
            let indent = |line: &str| line.chars().take_while(|character| *character == ' ').count() as u32;
            let inner = line(text, at.line).unwrap_or_default();
            // Only the first line of a block is known, or the line above it.
            let first = entry.node.at.line + at.line;
            let outer = [first.saturating_sub(1), first].into_iter().find_map(|number| {
                let outer = line(file_text, number).filter(|outer| outer.trim() == inner.trim())?;
                Some(Position { line: number, column: at.column + indent(&outer).saturating_sub(indent(&inner)) })
            });
            outer.unwrap_or(entry.node.at)
        };
        for problem in &problems {
            self.problems.push(Problem { at: problem.at.map(place), ..problem.clone() });
        }
        for document in &documents {
            self.table(document, Language::Yaml, &place);
        }
    }

    fn entry(&mut self, Entry { key, at, node }: &Entry, language: Language, place: &dyn Fn(Position) -> Position) {
        if !is_known(key) {
            let elsewhere = ELSEWHERE.iter().map(|(name, _)| *name).chain(ReclaimSettings::NAMES);
            let known: Vec<&'static str> = Settings::NAMES.into_iter().chain(elsewhere).collect();
            // All of them would fill a page.
            let others = || format!("a setting of Spiderpool; those that matter here are {}", names(&Settings::NAMES));
            let right = meant(key, &known).map_or_else(others, |name| format!("did you mean `{name}`?"));
            return self.problems.push(Problem::at(self.file, place(*at), format!("unknown setting `{key}`"), right));
        }
        let text = match &node.value {
            Value::Null => return,
            Value::Bool(value) => value.to_string(),
            Value::Integer(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            Value::String(text) => text.clone(),
            Value::Table(_) | Value::List(_) if type_elsewhere(key) == Some(SettingType::Table) => return,
            Value::Table(_) | Value::List(_) => {
                let wrong = format!("{key} is {}", language.found(node));
                return self.problems.push(Problem::at(self.file, place(node.at), wrong, "expected one value"));
            }
        };
        let ClusterSettings { select, reclaim, agent } = &mut self.settings;
        match select.set(key, &text).and_then(|_| reclaim.set(key, &text)).and_then(|_| agent.set(key, &text)) {
            Ok(_) => self.set_namespace |= key == "agentNamespace",
            Err(error) => {
                let wrong = format!("{} cannot be {}", error.name, language.found(node));
                self.problems.push(Problem::at(self.file, place(node.at), wrong, format!("expected {}", error.wanted)));
            }
        }
    }
}

/// Whether there is a setting of this name.
fn is_known(name: &str) -> bool {
    Settings::NAMES.contains(&name) || ReclaimSettings::NAMES.contains(&name) || type_elsewhere(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml(text: &str) -> String {
        parse("s.toml", text, false).map_or_else(|problems| problems.to_string(), |settings| format!("{settings:?}"))
    }

    #[test]
    fn toml_and_both_forms_of_the_config_map_say_the_same() {
        let expected = Settings {
            enable_ipv6: false,
            agent_namespace: "spider".to_owned(),
            multus_cluster_network: Some("kube-system/macvlan".to_owned()),
            max_allocated_ips: 7,
            ..Settings::default()
        };
        let flat = "enableIPv6 = false\nagentNamespace = \"spider\"\nMULTUS_CLUSTER_NETWORK = \"kube-system/macvlan\"\n\
                    SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS = 7\nSPIDERPOOL_GC_IP_ENABLED = true\n[podResourceInject]\nenabled = true\n";
        assert_eq!(parse("s.toml", flat, false).unwrap().select, expected);
        let keys = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: spiderpool-conf, namespace: spider}\ndata:\n  enableIPv6: 'false'\n  \
                    MULTUS_CLUSTER_NETWORK: kube-system/macvlan\n  SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS: '7'\n";
        assert_eq!(parse("s.yaml", keys, true).unwrap().select, expected);
        let chart = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: spiderpool-conf, namespace: spider}\ndata:\n  \
                     clusterNetwork: kube-system/macvlan\n  conf.yml: |\n    ipamUnixSocketPath: /var/run/spidernet/spiderpool.sock\n    \
                     enableIPv6: false\n    SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS: 7\n    podResourceInject:\n      enabled: false\n";
        assert_eq!(parse("s.yaml", chart, true).unwrap().select, expected);
    }

    #[test]
    fn settings_of_reclaim_are_read_from_the_same_file() {
        let reclaim =
            parse("s.toml", "SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION = 30\nSPIDERPOOL_GC_CHANNEL_BUFFER = 1\n", false).unwrap().reclaim;
        assert_eq!((reclaim.interval.as_secs(), reclaim.channel), (30, 1));
        insta::assert_snapshot!(toml("SPIDERPOOL_GC_MAX_PODENTRY_DB_CAP = \"many\"\n"), @r#"s.toml:1:37: SPIDERPOOL_GC_MAX_PODENTRY_DB_CAP cannot be the string "many"; expected a number"#);
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        let wrong = "enableIPv4 = true\nenableIPV6 = false\nenableStatefulSet = \"maybe\"\nagentNamespace = [1]\nnonsense = [1]\n";
        insta::assert_snapshot!(toml(wrong), @r#"
        s.toml:2:1: unknown setting `enableIPV6`; did you mean `enableIPv6`?
        s.toml:3:21: enableStatefulSet cannot be the string "maybe"; expected true or false
        s.toml:4:18: agentNamespace is an array; expected one value
        s.toml:5:1: unknown setting `nonsense`; a setting of Spiderpool; those that matter here are `enableIPv4`, `enableIPv6`, `enableSpiderSubnet`, `enableAutoPoolForApplication`, `agentNamespace`, `MULTUS_CLUSTER_NETWORK`, `SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS`
        "#);
        let chart = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n\
                     data:\n  conf.yml: |\n    enableIPv4: true\n    enableSpiderSubnets: 1\n    enableIPv6: often\n";
        insta::assert_snapshot!(parse("s.yaml", chart, true).unwrap_err(), @r#"
        s.yaml:7:5: unknown setting `enableSpiderSubnets`; did you mean `enableSpiderSubnet`?
        s.yaml:8:17: enableIPv6 cannot be the string "often"; expected true or false
        "#);
        insta::assert_snapshot!(parse("s.yaml", "kind: Secret\n", true).unwrap_err(), @"s.yaml:1:7: the object is a Secret; expected a ConfigMap");
        insta::assert_snapshot!(parse("s.yaml", "enableIPv4: true\n---\nenableIPv6: true\n", true).unwrap_err(), @"s.yaml:3:1: holds 2 documents; expected one ConfigMap, or one mapping of settings");
    }
}
