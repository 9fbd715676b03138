//! What several reports are asked in the same words: who shares a pool, and which form of a scenario.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use ipam_reports::conflicts::System;
use sim_harness::engine::LoadOptions;

use super::vary::Vary;
use crate::cli::args::{Setting, setting};

/// Who shares a pool, and in which circumstances.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Sharing {
    /// Who shares the pool: byom (adaptors) or spiderpool (nodes with an agent each)
    #[arg(long, value_name = "SYSTEM", value_parser = system, default_value = "byom", conflicts_with = "from")]
    pub system: System,
    /// What to vary: instances, pool, fill, spread, latency, think, width, service; retry, update,
    /// selection, throttle; of spiderpool nodes, pods, pool, spread, latency, width, service, start,
    /// policy; repeatable
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "from")]
    pub vary: Vec<Vary>,
    /// Take API servers and links from a scenario: the settings.toml of `report calibrate`
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub servers: Option<PathBuf>,
}

impl Sharing {
    /// What a command line says of it.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let system = (self.system != System::default()).then(|| format!("--system {}", self.system.name()));
        let servers = self.servers.iter().map(|file| format!("--servers {}", file.display()));
        system.into_iter().chain(self.vary.iter().map(|vary| format!("--vary {vary}"))).chain(servers)
    }
}

/// Pods that come and go.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Trace {
    /// Pods that come and go, a row each, as CSV; - is standard input
    #[arg(long, value_name = "FILE", group = "pods", conflicts_with_all = ["from", "system", "vary"])]
    pub trace: Option<PathBuf>,
    /// Names of its columns, e.g. arrival=created,departure=gone
    #[arg(long, value_name = "KEY=NAME", requires = "pods")]
    pub columns: Option<Columns>,
}

impl Trace {
    /// What is changed in a scenario.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let trace = self.trace.iter().map(|file| Setting { key: "workload.trace".to_owned(), value: text(&file.display().to_string()) });
        let columns = self.columns.iter().map(|columns| {
            let pairs: Vec<String> = columns.0.iter().map(|(key, name)| format!("{key} = {}", text(name))).collect();
            Setting { key: "workload.trace_columns".to_owned(), value: format!("{{ {} }}", pairs.join(", ")) }
        });
        trace.chain(columns).collect()
    }

    /// What a command line says of it.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let trace = self.trace.iter().map(|file| format!("--trace {}", file.display()));
        let columns = self.columns.iter().map(|columns| {
            let pairs: Vec<String> = columns.0.iter().map(|(key, name)| format!("{key}={name}")).collect();
            format!("--columns '{}'", pairs.join(","))
        });
        trace.chain(columns)
    }
}

/// What the columns of a trace are called, by what a scenario calls them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns(pub BTreeMap<String, String>);

/// The columns of a trace, by their short and their whole names.
const COLUMNS: [(&str, &str); 4] =
    [("name", "name"), ("arrival", "creation_time"), ("departure", "deletion_time"), ("scheduled", "scheduled_time")];

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut columns = BTreeMap::new();
        for pair in text.split(',') {
            let wrong = || format!("`{pair}` maps nothing; expected KEY=NAME, e.g. arrival=created,departure=deleted");
            let (key, name) = pair.split_once('=').filter(|(_, name)| !name.trim().is_empty()).ok_or_else(wrong)?;
            let (key, name) = (key.trim(), name.trim());
            let (_, column) = COLUMNS.into_iter().find(|(short, whole)| key == *short || key == *whole).ok_or_else(|| {
                let all: Vec<&str> = COLUMNS.iter().map(|(short, _)| *short).collect();
                format!("a trace has no column `{key}` to map; there are {}", all.join(", "))
            })?;
            if columns.insert(column.to_owned(), name.to_owned()).is_some() {
                return Err(format!("`{key}` is mapped twice"));
            }
        }
        Ok(Self(columns))
    }
}

/// Who shares a pool: `byom` or `spiderpool`.
fn system(text: &str) -> Result<System, String> {
    [System::Byom, System::Spiderpool]
        .into_iter()
        .find(|system| system.name() == text)
        .ok_or_else(|| format!("there is no system `{text}`; there are byom, spiderpool"))
}

/// Which form of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Form {
    /// Only the variant of this name
    #[arg(long, value_name = "NAME", requires = "scenario")]
    pub variant: Option<String>,
    /// Change a setting of the scenario; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting, requires = "pods")]
    pub set: Vec<Setting>,
}

impl Form {
    /// What is loaded of the scenarios of a file.
    pub(crate) fn load_options(&self, scenario: &Path) -> LoadOptions {
        LoadOptions { scenarios: vec![scenario.to_owned()], variant: self.variant.clone(), set: self.set.clone(), ..LoadOptions::default() }
    }

    /// What a command line says of it.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let variant = self.variant.iter().map(|name| format!("--variant {name}"));
        variant.chain(self.set.iter().map(|setting| format!("--set '{}={}'", setting.key, setting.value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_mapped_by_short_and_by_whole_names() {
        let read: Columns = "arrival=created at, deletion_time=gone,name=pod".parse().unwrap();
        let expected = [("creation_time", "created at"), ("deletion_time", "gone"), ("name", "pod")];
        assert_eq!(read.0, expected.map(|(key, name)| (key.to_owned(), name.to_owned())).into());
        let trace = Trace { trace: Some("a \"b\".csv".into()), columns: Some(read) };
        let settings: Vec<String> = trace.settings().into_iter().map(|setting| format!("{}={}", setting.key, setting.value)).collect();
        assert_eq!(settings[0], "workload.trace='a \"b\".csv'");
        assert_eq!(settings[1], "workload.trace_columns={ creation_time = \"created at\", deletion_time = \"gone\", name = \"pod\" }");
    }

    #[test]
    fn what_maps_nothing_gets_one_sentence() {
        for (text, expected) in [
            ("", "`` maps nothing; expected KEY=NAME"),
            ("arrival", "`arrival` maps nothing"),
            ("arrival=", "`arrival=` maps nothing"),
            ("cpu=milli", "a trace has no column `cpu` to map; there are name, arrival, departure, scheduled"),
            ("arrival=a,creation_time=b", "`creation_time` is mapped twice"),
        ] {
            let error = text.parse::<Columns>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
