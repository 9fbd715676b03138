//! The part of a sweep that a job does.

use std::str::FromStr;

use sim_harness::engine::Shard;

/// The value of `--shard`: the part itself, or only the number of shards, if the environment of the job tells which one this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardChoice {
    /// The shard that the user names, as in `--shard 2/4`.
    Is(Shard),
    /// The number of shards, at least 1, as in `--shard /4`; the environment tells which one this is.
    Of(u32),
}

impl FromStr for ShardChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('/').map(|total| total.parse()) {
            Some(Ok(total)) if total > 0 => Ok(Self::Of(total)),
            _ => text.parse().map(Self::Is),
        }
    }
}
