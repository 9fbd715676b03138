//! Reading of the earlier report.

use super::Kind;
use crate::schema::{self, ReadError};
use crate::statistics::Estimate;

/// An earlier report of a kind, and the path that the user named.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline<T> {
    /// The path of its file or folder.
    pub from: String,
    /// The report, as it was read.
    pub report: T,
}

/// The verb that prints results of each schema.
const VERBS: [(&str, &str); 9] = [
    ("ipam-sim/report-conflicts/1", "report conflicts` or `report capacity"),
    ("ipam-sim/report-demand/1", "report capacity SCENARIO"),
    ("ipam-sim/report-reclaim/1", "report reclaim"),
    ("ipam-sim/report-metrics/1", "report metrics"),
    ("ipam-sim/run/1", "run"),
    ("ipam-sim/gate/1", "gate"),
    ("ipam-sim/replay/1", "replay"),
    ("ipam-sim/selftest/1", "selftest"),
    ("ipam-sim/shrink/1", "shrink"),
];

impl<T: Kind> Baseline<T> {
    /// Reads the JSON of a report, as `--format json` prints it.
    ///
    /// # Errors
    /// It is not a report, it is of another kind, or it contradicts itself; with the position where that is known.
    pub fn read(from: &str, text: &str) -> Result<Self, ReadError> {
        let refused = |reason: String| ReadError { line: 0, column: 0, reason };
        match schema::of(text)? {
            Some(found) if found == T::SCHEMA => {}
            Some(found) => {
                let of = VERBS.iter().find(|(schema, _)| *schema == found).map(|(_, verb)| format!("a result of `{verb}`"));
                let of = of.unwrap_or_else(|| "something else".to_owned());
                return Err(refused(format!("it is {of} (`{found}`), and only one of `{}` can be compared", T::VERB)));
            }
            None => return Err(refused(format!("there is no field `schema`: it is not what `{} --format json` prints", T::VERB))),
        }
        let report: T = serde_json::from_str(text)?;
        match report.contradiction() {
            Some(wrong) => Err(refused(wrong)),
            None => Ok(Self { from: from.to_owned(), report }),
        }
    }
}

/// The contradiction in a figure, if any: a value outside its interval, or a share outside 0 to 1.
pub(crate) fn of_estimate(name: &str, found: Estimate, is_share: bool) -> Option<String> {
    let beside = found.low.is_some_and(|low| low > found.value) || found.high.is_some_and(|high| high < found.value);
    if beside {
        let end = |end: Option<f64>| end.map_or_else(|| "?".to_owned(), |end| end.to_string());
        Some(format!("`{name}` is {}, which is not within {} to {}", found.value, end(found.low), end(found.high)))
    } else if is_share && !(0.0..=1.0).contains(&found.value) {
        Some(format!("`{name}` is {}, which is no share from 0 to 1", found.value))
    } else {
        None
    }
}
