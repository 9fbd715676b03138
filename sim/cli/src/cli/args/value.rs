//! Values that more than one verb takes.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use sim_config::Setting;
use sim_harness::deviation::Profile;

/// Reads `KEY=VALUE` of `--set`: the key without blanks around it and not empty, the value as it stands.
pub(in super::super) fn setting(text: &str) -> Result<Setting, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok(Setting { key: key.trim().to_owned(), value: value.to_owned() }),
        _ => Err("expected KEY=VALUE, e.g. cluster.nodes=5".to_owned()),
    }
}

/// The names of the profiles on the command line.
const HARDENED: &str = "hardened";
const UPSTREAM: &str = "upstream";

/// The name of a profile.
pub(super) fn profile() -> impl TypedValueParser<Value = Profile> {
    let profile = |name: String| if name == UPSTREAM { Profile::Upstream } else { Profile::Hardened };
    PossibleValuesParser::new([HARDENED, UPSTREAM]).map(profile)
}

/// A seed, decimal or with `0x`.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16),
        _ => text.parse(),
    };
    parsed.map_err(|_| format!("expected a seed from 0 to {}", u64::MAX))
}

/// A file that is written: the result goes to standard output, and nothing else does.
pub(super) fn output_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("expected a file, and `-` is none: ./- is a file of that name, /dev/stdout what is printed".to_owned()),
        "" => Err("expected a file".to_owned()),
        file => Ok(file.into()),
    }
}

pub(in super::super) fn positive(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| "expected a number from 1 on".to_owned())
}

pub(in super::super) fn jobs(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| (1..=4_096).contains(number)).ok_or_else(|| "expected a number from 1 to 4096".to_owned())
}
