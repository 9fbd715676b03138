//! The result of `report capacity` for bursts, as data.

use serde::{Deserialize, Serialize};

/// The objectives of a search, and the largest number of each curve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Searched {
    /// The objectives, all of which have to hold.
    pub objectives: Vec<String>,
    /// The result for each curve.
    pub curves: Vec<Limit>,
}

/// The largest number of writers that one pool serves, along a curve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The name of the curve, as its points use it.
    pub series: String,
    /// The largest number that certainly meets all objectives; 0 = not even the fewest that were tried do.
    pub holds_for: u32,
    /// The number above which one is certainly missed; unset = unknown up to the most that were tried.
    pub at_most: Option<u32>,
}
