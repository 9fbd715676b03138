//! Names of the JSON formats, checked when a file is read.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The reason why a text is not the expected record.
#[derive(Debug, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct ReadError {
    /// Line, from 1; 0 when the text as a whole is meant.
    pub line: usize,
    /// Column, from 1; 0 when the line as a whole is meant.
    pub column: usize,
    /// The error and the expectation, without the position.
    pub reason: String,
}

impl From<serde_json::Error> for ReadError {
    fn from(error: serde_json::Error) -> Self {
        let (line, column, text) = (error.line(), error.column(), error.to_string());
        let reason = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text).to_owned();
        Self { line, column, reason }
    }
}

#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

/// The schema that a JSON text states, if it states one.
pub fn of(text: &str) -> Result<Option<String>, ReadError> {
    Ok(serde_json::from_str::<Head>(text)?.schema)
}

/// Reads a record, checking its schema first, so that a file of another kind gets a clear error.
pub(crate) fn read<T: DeserializeOwned>(text: &str, schema: &str) -> Result<T, ReadError> {
    match of(text)? {
        Some(found) if found == schema => Ok(serde_json::from_str(text)?),
        Some(found) => Err(ReadError { line: 0, column: 0, reason: format!("the schema is `{found}`, expected `{schema}`") }),
        None => Err(ReadError { line: 0, column: 0, reason: format!("there is no field `schema`, expected `{schema}`") }),
    }
}

/// Does as [`read`] does, for a record of which nothing may be lost: a key that this version does not know is an error.
pub(crate) fn read_known<T: DeserializeOwned>(text: &str, schema: &str) -> Result<T, ReadError> {
    let mut unknown = None;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let known = serde_ignored::deserialize::<_, _, T>(&mut deserializer, |path| {
        unknown.get_or_insert_with(|| path.to_string());
    });
    // Other errors are reported as for any record.
    let record = match known {
        Ok(record) if of(text)?.as_deref() == Some(schema) => record,
        _ => read(text, schema)?,
    };
    match unknown {
        Some(path) => {
            let reason = format!("there is no key `{path}` in `{schema}`: was the file edited, or written by a later version?");
            Err(ReadError { line: 0, column: 0, reason })
        }
        None => Ok(record),
    }
}

macro_rules! schema {
    ($name:ident, $text:literal) => {
        #[doc = concat!("The mark `", $text, "`; reading anything else is an error.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl $name {
            /// The mark in its written form.
            pub const NAME: &str = $text;
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(Self::NAME)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let found = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                if found == Self::NAME {
                    Ok(Self)
                } else {
                    Err(D::Error::custom(format_args!("the schema is `{found}`, expected `{}`", Self::NAME)))
                }
            }
        }
    };
}

schema!(RunSchema, "ipam-sim/run/1");
schema!(GateSchema, "ipam-sim/gate/1");
schema!(ReplaySchema, "ipam-sim/replay/1");
schema!(ShrinkSchema, "ipam-sim/shrink/1");
schema!(ListSchema, "ipam-sim/list/1");
schema!(CheckSchema, "ipam-sim/check/1");
schema!(ConformanceSchema, "ipam-sim/conformance/1");
schema!(ExplainSchema, "ipam-sim/explain/1");
schema!(ExplainReclaimSchema, "ipam-sim/explain-reclaim/1");
schema!(MatrixSchema, "ipam-sim/selftest/1");
schema!(ConflictsSchema, "ipam-sim/report-conflicts/1");
schema!(ReclaimReportSchema, "ipam-sim/report-reclaim/1");
schema!(ReclaimPathsSchema, "ipam-sim/reclaim-paths/1");
schema!(DemandReportSchema, "ipam-sim/report-demand/1");
schema!(CalibrateSchema, "ipam-sim/report-calibrate/1");
schema!(LevelsSchema, "ipam-sim/levels/1");
schema!(MetricsReportSchema, "ipam-sim/report-metrics/1");
schema!(MetricsSchema, "ipam-sim/metrics/1");
schema!(MetricValuesSchema, "ipam-sim/metric-values/1");
schema!(SizesSchema, "ipam-sim/sizes/1");
schema!(ResamplesSchema, "ipam-sim/resamples/1");
schema!(UsageSchema, "ipam-sim/usage/1");
schema!(PointsSchema, "ipam-sim/points/1");
schema!(AdviceSchema, "ipam-sim/advice/1");
schema!(AdviceBurstsSchema, "ipam-sim/advice-bursts/1");
schema!(RunsSchema, "ipam-sim/runs/1");
schema!(CallsSchema, "ipam-sim/calls/1");
schema!(ReclaimsSchema, "ipam-sim/reclaims/1");
