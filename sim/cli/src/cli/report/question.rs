//! What several reports are asked in the same words: who shares a pool, and which form of a scenario.

use std::path::Path;

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
}

impl Sharing {
    /// What a command line says of it.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let system = (self.system != System::default()).then(|| format!("--system {}", self.system.name()));
        system.into_iter().chain(self.vary.iter().map(|vary| format!("--vary {vary}")))
    }
}

/// `byom` or `spiderpool`.
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
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting, requires = "scenario")]
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
