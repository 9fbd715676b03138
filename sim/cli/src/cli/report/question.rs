//! Arguments that several reports have in common: the writers that share a pool, and the form of a scenario.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use ipam_reports::conflicts::System;
use sim_config::time::Span;
use sim_harness::engine::LoadOptions;

use super::vary::Vary;
use crate::cli::args::{Setting, setting};

/// The writers that share a pool, and their circumstances.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Sharing {
    /// System that shares the pool: byom (adaptors) or spiderpool (nodes with an agent each)
    #[arg(long, value_name = "SYSTEM", value_parser = system, default_value = "byom", conflicts_with = "from")]
    pub system: System,
    /// Axis to vary: instances, pool, fill, spread, latency, think, width, service, faults; retry, update, selection, throttle; of
    /// spiderpool nodes, pods, pool, spread, latency, width, service, faults, start, policy; repeatable
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "from")]
    pub vary: Vec<Vary>,
    /// Take servers and links from a scenario, e.g. of `report calibrate`
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub servers: Option<PathBuf>,
    /// Apply the faults of a scenario to bursts: its [[fault]] rows and its [swarm]
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub faults: Option<PathBuf>,
}

impl Sharing {
    /// The words of a command line for these arguments.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let system = (self.system != System::default()).then(|| format!("--system {}", self.system.name()));
        let servers = self.servers.iter().map(|file| format!("--servers {}", file.display()));
        let faults = self.faults.iter().map(|file| format!("--faults {}", file.display()));
        system.into_iter().chain(self.vary.iter().map(|vary| format!("--vary {vary}"))).chain(servers).chain(faults)
    }
}

/// Traces in addition to the recorded one.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct OtherTraces {
    /// Find the size for N traces with arrivals resampled in blocks
    #[arg(long, value_name = "N", value_parser = resamples, conflicts_with = "from")]
    pub resample: Option<u64>,
    /// Length of a block, e.g. 10m [default: follows from the trace]
    #[arg(long, value_name = "DURATION", requires = "resample")]
    pub block: Option<Span>,
    /// Find the size for these multiples of the pods, e.g. 1.5,2
    #[arg(long, value_name = "FACTORS", conflicts_with = "from")]
    pub growth: Option<Growth>,
}

impl OtherTraces {
    /// The words of a command line for these arguments.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let resample = self.resample.map(|many| format!("--resample {many}"));
        let block = self.block.map(|block| format!("--block {block}"));
        let growth = self.growth.as_ref().map(|growth| format!("--growth {}", growth.text()));
        [resample, block, growth].into_iter().flatten()
    }
}

/// The allowed number of resampled traces: from 20 on, one of twenty can be determined, and more than the maximum take too long.
const RESAMPLES: std::ops::RangeInclusive<u64> = 20..=10_000;

fn resamples(text: &str) -> Result<u64, String> {
    let many = text.parse().ok().filter(|many| RESAMPLES.contains(many));
    many.ok_or_else(|| format!("`{text}` is no whole number from {} to {}", RESAMPLES.start(), RESAMPLES.end()))
}

/// Factors for the number of pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth(pub Vec<f64>);

/// The allowed factors: a twentieth of a trace says little, and a twentyfold one is another cluster.
const FACTORS: std::ops::RangeInclusive<f64> = 0.05..=20.0;

impl Growth {
    fn text(&self) -> String {
        self.0.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
    }
}

impl FromStr for Growth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut factors: Vec<f64> = Vec::new();
        for one in text.split(',') {
            let factor = one.trim().parse().ok().filter(|factor| FACTORS.contains(factor));
            let factor =
                factor.ok_or_else(|| format!("`{}` is no factor from {} to {}, e.g. 1.5", one.trim(), FACTORS.start(), FACTORS.end()))?;
            if factors.contains(&factor) {
                return Err(format!("`{}` stands there twice", one.trim()));
            }
            factors.push(factor);
        }
        Ok(Self(factors))
    }
}

/// A trace of pods, with their arrivals and departures.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Trace {
    /// CSV of pods with arrivals and departures, one row each; - is standard input
    #[arg(long, value_name = "FILE", group = "pods", conflicts_with_all = ["from", "system"])]
    pub trace: Option<PathBuf>,
    /// Names of its columns, e.g. arrival=created,departure=gone
    #[arg(long, value_name = "KEY=NAME", requires = "pods")]
    pub columns: Option<Columns>,
}

impl Trace {
    /// The settings that a trace changes in a scenario.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let trace = self.trace.iter().map(|file| Setting { key: "workload.trace".to_owned(), value: text(&file.display().to_string()) });
        let columns = self.columns.iter().map(|columns| {
            let pairs: Vec<String> = columns.0.iter().map(|(key, name)| format!("{key} = {}", text(name))).collect();
            Setting { key: "workload.trace_columns".to_owned(), value: format!("{{ {} }}", pairs.join(", ")) }
        });
        trace.chain(columns).collect()
    }

    /// The words of a command line for these arguments.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let trace = self.trace.iter().map(|file| format!("--trace {}", file.display()));
        let columns = self.columns.iter().map(|columns| {
            let pairs: Vec<String> = columns.0.iter().map(|(key, name)| format!("{key}={name}")).collect();
            format!("--columns '{}'", pairs.join(","))
        });
        trace.chain(columns)
    }
}

/// The names of a trace's columns, by the keys of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns(pub BTreeMap<String, String>);

/// The columns of a trace, by their short and their full names.
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

/// Parses the name of a system that shares a pool: `byom` or `spiderpool`.
fn system(text: &str) -> Result<System, String> {
    [System::Byom, System::Spiderpool]
        .into_iter()
        .find(|system| system.name() == text)
        .ok_or_else(|| format!("there is no system `{text}`; there are byom, spiderpool"))
}

/// The form of a scenario: its variant and its settings.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct Form {
    /// Use only the variant of this name
    #[arg(long, value_name = "NAME", requires = "scenario")]
    pub variant: Option<String>,
    /// Change a setting of the scenario; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting, requires = "pods")]
    pub set: Vec<Setting>,
}

impl Form {
    /// The options with which the scenarios of a file are loaded.
    pub(crate) fn load_options(&self, scenario: &Path) -> LoadOptions {
        LoadOptions { scenarios: vec![scenario.to_owned()], variant: self.variant.clone(), set: self.set.clone(), ..LoadOptions::default() }
    }

    /// The words of a command line for these arguments.
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
    fn factors_and_numbers_of_traces_that_make_no_sense_get_one_sentence() {
        assert_eq!("1,1.5, 2".parse(), Ok(Growth(vec![1.0, 1.5, 2.0])));
        for text in ["0", "", "-1", "1e9", "nan", "inf", "two", "1,,2"] {
            let error = text.parse::<Growth>().unwrap_err();
            assert!(error.contains("is no factor from 0.05 to 20, e.g. 1.5"), "{text}: {error}");
        }
        assert_eq!("2,2.0".parse::<Growth>(), Err("`2.0` stands there twice".to_owned()));
        assert_eq!(resamples("20"), Ok(20));
        for text in ["0", "19", "10001", "-1", "many"] {
            assert_eq!(resamples(text), Err(format!("`{text}` is no whole number from 20 to 10000")));
        }
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
