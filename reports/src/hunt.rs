//! What `hunt` reached: a search that is guided by what its runs cover.

use serde::{Deserialize, Serialize};

/// A guided search through the plans of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunt {
    /// The first seed of the search: with it and the number of runs, everything follows but for times.
    pub seed: u64,
    /// How many runs there were before this search went on; 0 = it began with it.
    pub runs_before: u64,
    /// How many plans were drawn from seeds.
    pub drawn: u64,
    /// How many plans were made of plans that were kept.
    pub edited: u64,
    /// How many plans were taken over from other corpora, or from this one as another build had left it.
    pub taken_over: u64,
    /// How many of the edited plans gave the very run of the plan that they were made of.
    pub unchanged: u64,
    /// How many plans are kept.
    pub corpus: u64,
    /// The folder of the corpus; unset = it was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// How many features of each kind were reached.
    pub features: Vec<FeatureCount>,
    /// How many features were reached after how many runs, those of before included.
    pub curve: Vec<CurvePoint>,
    /// What each edit came to.
    pub edits: Vec<EditCount>,
    /// The coverage points of the system, and the claims and faults of the scenario, that no run reached, each after its kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub never: Vec<String>,
    /// Each claim that was violated without an excuse, and by which run first, those of before included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finds: Vec<Find>,
}

/// How many features of a kind were reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureCount {
    /// What they are about: `point`, `claim`, `writes`, `answer`, `step`.
    pub kind: String,
    /// How many of its features some run had.
    pub reached: u64,
}

/// How many features were reached after some runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// How many runs there were by then.
    pub runs: u64,
    /// How many features they had, each counted once.
    pub features: u64,
}

/// What an edit of plans came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EditCount {
    /// What was changed, in words.
    pub edit: String,
    /// In how many plans, alone or with others.
    pub tried: u64,
    /// How many of these reached something new.
    pub kept: u64,
}

/// A claim that was violated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Find {
    /// The name of the claim.
    pub claim: String,
    /// The first run that violated it, from 0 on.
    pub run: u64,
    /// What was changed in the plan that its plan was made of; none = a seed drew it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<String>,
}
