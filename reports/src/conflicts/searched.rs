//! What `report capacity` found for bursts, as data.

use serde::{Deserialize, Serialize};

/// What was searched for, and the largest number of each curve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Searched {
    /// What has to hold, all of it.
    pub objectives: Vec<String>,
    /// What was found for each curve.
    pub curves: Vec<Limit>,
}

/// The largest number of writers that one pool serves, along a curve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The curve, as its points call it.
    pub series: String,
    /// So many meet all objectives for certain; 0 = not even the fewest that were tried.
    pub holds_for: u32,
    /// More than so many miss one for certain; unset = that is not known up to the most that were tried.
    pub at_most: Option<u32>,
}
