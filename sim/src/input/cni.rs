//! A network configuration as a runtime has it: one plugin (`.conf`), or a list of plugins (`.conflist`), in JSON.

use std::path::Path;

use ipam_core::spiderpool::select::NetworkConfig;

use super::decode::decode;
use super::expected::Language;
use super::node::{Node, Value};
use super::problem::{Position, Problem, Problems};
use super::source::{self, saturate};
use super::yaml;

/// The plugin for address management whose part of a list is meant, if there are several.
const SPIDERPOOL: &str = "spiderpool";

/// Reads a file. Of a list the part for address management is that of the first plugin whose `ipam` is Spiderpool's, else of the
/// first that has any; without any it says nothing.
///
/// # Errors
/// What is wrong in the file.
pub fn read(path: &Path) -> Result<NetworkConfig, Problems> {
    let (file, bytes) = (source::name(path), source::read(path)?);
    parse(&file, source::text(&file, &bytes)?)
}

fn parse(file: &str, text: &str) -> Result<NetworkConfig, Problems> {
    // Almost all JSON is YAML, but not all YAML is JSON.
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        let at = Position { line: saturate(error.line().max(1)), column: saturate(error.column().max(1)) };
        let message = error.to_string();
        let wrong = message.split(" at line ").next().unwrap_or_default();
        return Err(Problem::at(file, at, format!("not JSON: {wrong}"), "").into());
    }
    let (mut documents, problems) = yaml::documents(file, text);
    let document = documents.pop().unwrap_or_else(|| Node::new(Position::START, Value::Table(Vec::new())));
    problems.or(())?;
    let mut chosen = match document.get("plugins").map(|plugins| &plugins.value) {
        Some(Value::List(plugins)) => plugin(plugins).cloned().unwrap_or(document),
        _ => document,
    };
    chosen.number();
    decode(file, &chosen, Language::Yaml).map(|decoded| decoded.value)
}

fn plugin(plugins: &[Node]) -> Option<&Node> {
    let is_ours = |plugin: &&Node| plugin.get("ipam").and_then(|ipam| ipam.get("type")).and_then(Node::as_str) == Some(SPIDERPOOL);
    plugins.iter().find(is_ours).or_else(|| plugins.iter().find(|plugin| plugin.get("ipam").is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_and_a_list_of_plugins_say_the_same() {
        let ipam = r#""ipam":{"type":"spiderpool","default_ipv4_ippool":["a","b*"],"clean_gateway":true,"log_level":"DEBUG"}"#;
        let plugin = parse("c", &format!(r#"{{"cniVersion":"0.3.1","name":"macvlan","type":"macvlan",{ipam}}}"#)).unwrap();
        let other = r#"{"type":"bridge","ipam":{"type":"host-local","default_ipv4_ippool":"no"}}"#;
        let list =
            parse("c", &format!("{{\"plugins\":[{{\"type\":\"coordinator\"}},\t{other},{{\"type\":\"macvlan\",{ipam}}}]}}")).unwrap();
        assert_eq!((plugin.ipam.clone(), plugin.name.as_str()), (list.ipam, "macvlan"));
        assert!(plugin.ipam.clean_gateway && plugin.ipam.default_ipv4_ippool == ["a", "b*"]);
        assert_eq!(parse("c", r#"{"plugins":[{"type":"bridge"}]}"#).unwrap(), NetworkConfig::default());
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        let wrong = |text| parse("c.json", text).unwrap_err().to_string();
        insta::assert_snapshot!(wrong("{\"ipam\": {\n  \"default_ipv4_ippool\": \"a\"}}"), @r#"c.json:2:26: `ipam.default_ipv4_ippool` is the string "a"; expected a list"#);
        insta::assert_snapshot!(wrong("{\"ipam\": {\n  \"clean_gateway\": true,}}"), @"c.json:2:25: not JSON: key must be a string");
        insta::assert_snapshot!(wrong("ipam: {}"), @"c.json:1:1: not JSON: expected value");
        insta::assert_snapshot!(wrong("[]"), @"c.json:1:1: the document is a list; expected a mapping");
    }
}
