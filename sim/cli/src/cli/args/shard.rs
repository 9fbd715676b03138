//! The part of a sweep that a job does.

use std::str::FromStr;

use sim_harness::engine::Shard;

/// What `--shard` says: the part itself, or only how many there are, while the job's environment knows which one this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardChoice {
    /// As in `--shard 2/4`: the user says which shard this is.
    Is(Shard),
    /// As in `--shard /4`: how many shards there are, at least 1; the environment says which one this is.
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
