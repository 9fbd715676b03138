//! The result of `hunt`: a search guided by the coverage of its runs.

use serde::{Deserialize, Serialize};

/// A guided search through the plans of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunt {
    /// The first seed of the search: with the number of runs it determines everything but times.
    pub seed: u64,
    /// The number of runs before this search went on; 0 = it began with it.
    pub runs_before: u64,
    /// The number of plans drawn from seeds.
    pub drawn: u64,
    /// The number of plans made by editing kept plans.
    pub edited: u64,
    /// The number of plans taken over from other corpora, or from this one as another build had left it.
    pub taken_over: u64,
    /// The number of edited plans whose run was identical to that of the plan that they were made of.
    pub unchanged: u64,
    /// The number of plans that are kept.
    pub corpus: u64,
    /// The folder of the corpus; unset = it was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The numbers of features reached, by kind.
    pub features: Vec<FeatureCount>,
    /// The numbers of features reached after numbers of runs, earlier runs included.
    pub curve: Vec<CurvePoint>,
    /// The result of each kind of edit.
    pub edits: Vec<EditCount>,
    /// The coverage points of the system, and the claims and faults of the scenario, that no run reached, each with its kind in front.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub never: Vec<String>,
    /// The claims that were violated without an excuse, with the first run that violated each, earlier runs included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finds: Vec<Find>,
}

/// The number of features of a kind that were reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureCount {
    /// The kind of the features: `point`, `claim`, `writes`, `answer`, `step`.
    pub kind: String,
    /// The number of its features that some run had.
    pub reached: u64,
}

/// The number of features that were reached after some runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The number of runs by then.
    pub runs: u64,
    /// The number of features that they had, each counted once.
    pub features: u64,
}

/// The result of a kind of edit of plans.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EditCount {
    /// The kind of change, in words.
    pub edit: String,
    /// The number of plans with this edit, alone or with others.
    pub tried: u64,
    /// The number of these that reached something new.
    pub kept: u64,
}

/// A claim that was violated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Find {
    /// The name of the claim.
    pub claim: String,
    /// The first run that violated it, from 0 on.
    pub run: u64,
    /// The changes to the plan from which its plan was made; empty = it was drawn from a seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<String>,
}
