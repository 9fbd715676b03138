//! Values that more than one verb takes.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use sim_config::Setting;
use sim_harness::deviation::Profile;

/// Parses `KEY=VALUE` of `--set`: the key is trimmed and not empty, the value is taken literally.
pub(in super::super) fn setting(text: &str) -> Result<Setting, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok(Setting { key: key.trim().to_owned(), value: value.to_owned() }),
        _ => Err("expected KEY=VALUE, e.g. cluster.nodes=5".to_owned()),
    }
}

/// The names of the profiles on the command line.
const HARDENED: &str = "hardened";
const UPSTREAM: &str = "upstream";

/// A parser of the name of a profile.
pub(super) fn profile() -> impl TypedValueParser<Value = Profile> {
    let profile = |name: String| if name == UPSTREAM { Profile::Upstream } else { Profile::Hardened };
    PossibleValuesParser::new([HARDENED, UPSTREAM]).map(profile)
}

/// Parses a seed, decimal or with `0x`.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16),
        _ => text.parse(),
    };
    parsed.map_err(|_| format!("expected a seed from 0 to {}", u64::MAX))
}

/// Parses the path of an output file; `-` is refused, because standard output is for the result alone.
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
