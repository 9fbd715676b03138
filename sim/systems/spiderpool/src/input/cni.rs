//! A network configuration as a container runtime has it: one plugin (`.conf`), or a list of plugins (`.conflist`), in JSON.

use std::path::Path;

use ipam_spiderpool::select::NetworkConfig;
use sim_config::decode::decode;
pub use sim_config::expected::{Language, meant, names};
pub use sim_config::node::{Entry, Node, Value};
use sim_config::problem::{Position, Problem, Problems};
use sim_config::{source, yaml};

/// The type of the IPAM plugin that is looked for in a list of plugins.
const SPIDERPOOL: &str = "spiderpool";

/// The versions that Spiderpool's plugin accepts (A §1.5).
const VERSIONS: [&str; 4] = ["0.3.0", "0.3.1", "0.4.0", "1.0.0"];

/// The fields of `ipam` that no decision reads, with their types (A §1.5).
const OTHERS: [(&str, &str); 7] = [
    ("type", TEXT),
    ("ipam_unix_socket_path", TEXT),
    ("log_level", TEXT),
    ("log_file_path", TEXT),
    ("log_file_max_size", NUMBER),
    ("log_file_max_age", NUMBER),
    ("log_file_max_count", NUMBER),
];
const TEXT: &str = "a string";
const NUMBER: &str = "a whole number";
/// The fields of `ipam` that a decision reads.
const READ: [&str; 4] = ["default_ipv4_ippool", "default_ipv6_ippool", "clean_gateway", "match_master_subnet"];

/// Reads a file, and reports its oddities. Of a list it takes the `ipam` section of the first plugin whose `ipam` is Spiderpool's, else of
/// the first that has any.
///
/// # Errors
/// The problems of the file: content that Spiderpool's plugin would not accept, and a network whose addresses Spiderpool does not assign.
pub fn read(path: &Path) -> Result<(NetworkConfig, Problems), Problems> {
    let (file, bytes) = (source::name(path), source::read(path)?);
    parse(&file, source::text(&file, &bytes)?)
}

fn parse(file: &str, text: &str) -> Result<(NetworkConfig, Problems), Problems> {
    // Almost all JSON is YAML, but not all YAML is JSON.
    if let Some(problem) = source::not_json(file, text) {
        return Err(problem.into());
    }
    let (mut documents, problems) = yaml::documents(file, text);
    let document = documents.pop().unwrap_or_else(|| Node::new(Position::START, Value::Table(Vec::new())));
    problems.or(())?;
    let (mut problems, mut odd) = (Problems::new(), Problems::new());
    if let Some(version) = document.get("cniVersion")
        && !version.as_str().is_some_and(|version| VERSIONS.contains(&version))
    {
        let wrong = format!("`cniVersion` is {}", Language::Yaml.found(version));
        problems.push(Problem::at(file, version.at, wrong, format!("expected one of {}", names(&VERSIONS))));
    }
    let chosen = match document.get("plugins").map(|plugins| &plugins.value) {
        Some(Value::List(plugins)) => plugin(plugins),
        _ => Some(&document),
    };
    match chosen.and_then(|plugin| plugin.get("ipam")) {
        Some(ipam) => check_ipam(file, ipam, &mut problems, &mut odd),
        None if matches!(document.value, Value::Table(_)) => {
            let at = document.get("plugins").map_or(document.at, |plugins| plugins.at);
            let right = format!("expected a plugin with `ipam` of the type `{SPIDERPOOL}`");
            problems.push(Problem::at(file, at, "no plugin assigns addresses here", right));
        }
        None => {}
    }
    let mut chosen = chosen.unwrap_or(&document).clone();
    chosen.number();
    let network = problems.collect(decode(file, &chosen, Language::Yaml)).map(|decoded| decoded.value).unwrap_or_default();
    problems.sort();
    problems.or((network, odd))
}

fn plugin(plugins: &[Node]) -> Option<&Node> {
    let is_ours = |plugin: &&Node| plugin.get("ipam").and_then(|ipam| ipam.get("type")).and_then(Node::as_str) == Some(SPIDERPOOL);
    plugins.iter().find(is_ours).or_else(|| plugins.iter().find(|plugin| plugin.get("ipam").is_some()))
}

/// Checks what the decoder ignores: the type of the `ipam` section, and the fields that are for the plugin alone.
fn check_ipam(file: &str, ipam: &Node, problems: &mut Problems, odd: &mut Problems) {
    let Value::Table(entries) = &ipam.value else { return };
    match ipam.get("type") {
        Some(found) if found.as_str().is_some_and(|found| found != SPIDERPOOL) => {
            let wrong = format!("`ipam.type` is {}", Language::Yaml.found(found));
            problems.push(Problem::at(
                file,
                found.at,
                wrong,
                format!("expected `{SPIDERPOOL}`, which gives the addresses of this network"),
            ));
        }
        _ => {}
    }
    for Entry { key, at, node } in entries {
        let Some((_, wanted)) = OTHERS.iter().find(|(name, _)| name == key) else {
            if !READ.contains(&key.as_str()) {
                let known: Vec<&str> = READ.into_iter().chain(OTHERS.map(|(name, _)| name)).collect();
                let right = meant(key, &known).map_or_else(String::new, |name| format!("did you mean `{name}`?"));
                odd.push(Problem::at(file, *at, format!("unknown field `ipam.{key}`"), right));
            }
            continue;
        };
        let fits = match node.value {
            Value::Null => true,
            Value::String(_) => *wanted == TEXT,
            Value::Integer(_) => *wanted == NUMBER,
            _ => false,
        };
        if !fits {
            let wrong = format!("`ipam.{key}` is {}", Language::Yaml.found(node));
            problems.push(Problem::at(file, node.at, wrong, format!("expected {wanted}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_and_a_list_of_plugins_say_the_same() {
        let ipam = r#""ipam":{"type":"spiderpool","default_ipv4_ippool":["a","b*"],"clean_gateway":true,"log_level":"DEBUG"}"#;
        let plugin = parse("c", &format!(r#"{{"cniVersion":"0.3.1","name":"macvlan","type":"macvlan",{ipam}}}"#)).unwrap().0;
        let other = r#"{"type":"bridge","ipam":{"type":"host-local","default_ipv4_ippool":"no"}}"#;
        let list =
            parse("c", &format!("{{\"plugins\":[{{\"type\":\"coordinator\"}},\t{other},{{\"type\":\"macvlan\",{ipam}}}]}}")).unwrap().0;
        assert_eq!((plugin.ipam.clone(), plugin.name.as_str()), (list.ipam, "macvlan"));
        assert!(plugin.ipam.clean_gateway && plugin.ipam.default_ipv4_ippool == ["a", "b*"]);
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        let wrong = |text| parse("c.json", text).unwrap_err().to_string();
        insta::assert_snapshot!(wrong("{\"ipam\": {\n  \"default_ipv4_ippool\": \"a\"}}"), @r#"c.json:2:26: `ipam.default_ipv4_ippool` is the string "a"; expected a list"#);
        insta::assert_snapshot!(wrong("{\"ipam\": {\n  \"clean_gateway\": true,}}"), @"c.json:2:25: not JSON: key must be a string");
        insta::assert_snapshot!(wrong("ipam: {}"), @"c.json:1:1: not JSON: expected value");
        insta::assert_snapshot!(wrong("[]"), @"c.json:1:1: the document is a list; expected a mapping");
    }
    #[test]
    fn what_the_plugin_would_not_take_and_a_network_of_somebody_else_are_refused() {
        let wrong = |text: &str| parse("c", text).unwrap_err().to_string();
        let version = |version: &str| format!(r#"{{"cniVersion":{version},"ipam":{{"type":"spiderpool"}}}}"#);
        for known in VERSIONS {
            parse("c", &version(&format!("{known:?}"))).unwrap();
        }
        insta::assert_snapshot!(wrong(&version("\"0.2.0\"")), @r#"c:1:15: `cniVersion` is the string "0.2.0"; expected one of `0.3.0`, `0.3.1`, `0.4.0`, `1.0.0`"#);
        insta::assert_snapshot!(wrong(&version("1")), @"c:1:15: `cniVersion` is the number 1; expected one of `0.3.0`, `0.3.1`, `0.4.0`, `1.0.0`");
        insta::assert_snapshot!(wrong(r#"{"cniVersion":"1.1.0","plugins":[{"ipam":{"type":"host-local"}}]}"#), @r#"
        c:1:15: `cniVersion` is the string "1.1.0"; expected one of `0.3.0`, `0.3.1`, `0.4.0`, `1.0.0`
        c:1:50: `ipam.type` is the string "host-local"; expected `spiderpool`, which gives the addresses of this network
        "#);
        insta::assert_snapshot!(wrong(r#"{"plugins":[]}"#), @"c:1:12: no plugin assigns addresses here; expected a plugin with `ipam` of the type `spiderpool`");
        insta::assert_snapshot!(wrong(r#"{"type":"bridge"}"#), @"c:1:1: no plugin assigns addresses here; expected a plugin with `ipam` of the type `spiderpool`");
        insta::assert_snapshot!(wrong(r#"{"ipam":{"type":"spiderpool","log_level":7,"log_file_max_age":"9"}}"#), @r#"
        c:1:42: `ipam.log_level` is the number 7; expected a string
        c:1:63: `ipam.log_file_max_age` is the string "9"; expected a whole number
        "#);
    }

    #[test]
    fn a_field_that_the_plugin_does_not_know_is_odd() {
        let (network, odd) =
            parse("c", r#"{"ipam":{"type":"spiderpool","default_ipv4_ipool":["a"],"speed":1,"log_file_max_age":9}}"#).unwrap();
        assert_eq!(network, NetworkConfig::default());
        insta::assert_snapshot!(odd, @r"
        c:1:30: unknown field `ipam.default_ipv4_ipool`; did you mean `default_ipv4_ippool`?
        c:1:57: unknown field `ipam.speed`
        ");
    }
}
