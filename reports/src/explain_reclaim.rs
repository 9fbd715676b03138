//! The result of `explain --reclaim`: the action of reclaim on each address of a cluster. The JSON form is `ipam-sim/explain-reclaim/1`.
//!
//! ## Names in it
//!
//! * `action` of a record: `keep`, `release`, `track` (the pod is traced until `at`), and `crash` where upstream's process would end.
//! * `action` of an endpoint: `keep`, `delete`, `remove-finalizer` (it is terminating already, and only held).
//! * `row` is the row of the decision table (S-1 … for a record without pod, P- and G- for the state of a pod, U- for another UID in the
//!   record, E- for the endpoint, `C8` for an endpoint to which no record leads); `reason` is the row and a sentence.

use serde::{Deserialize, Serialize};

use crate::schema::{self, ExplainReclaimSchema, ReadError};

/// The answer of `explain --reclaim`, for each record and each endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainReclaimReport {
    /// The mark of the format, always `ipam-sim/explain-reclaim/1`; reading anything else is an error.
    pub schema: ExplainReclaimSchema,
    /// The form of Spiderpool that was asked about: `hardened` or `upstream`.
    pub profile: String,
    /// The deviations that are on, if they are not exactly those of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviations: Option<Vec<String>>,
    /// The time of the scan, RFC 3339.
    pub now: String,
    /// Every recorded address, by pool and address.
    pub records: Vec<RecordAnswer>,
    /// Every endpoint, by namespace and name.
    pub endpoints: Vec<EndpointAnswer>,
    /// Further remarks for the reader, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Problems of objects that were looked at, a sentence each; also printed on standard error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The action that reclaim would take on a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordAnswer {
    /// The name of the SpiderIPPool that holds the record.
    pub pool: String,
    /// The address in the record.
    pub ip: String,
    /// `namespace/name` in the record.
    pub pod: String,
    /// The UID in the record.
    pub uid: String,
    /// The action of reclaim on the record: `keep`, `release`, `track` or `crash`.
    pub action: String,
    /// The end of the pod's entitlement to the address, past or future, where time decides it; RFC 3339.
    pub at: Option<String>,
    /// The row of the decision table that decided.
    #[serde(default)]
    pub row: String,
    /// The row and a sentence.
    pub reason: String,
}

/// The action that reclaim would take on an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointAnswer {
    /// The SpiderEndpoint as `namespace/name`.
    pub endpoint: String,
    /// The action of reclaim on the endpoint: `keep`, `delete` or `remove-finalizer`.
    pub action: String,
    /// The row that decided; empty where none did.
    #[serde(default)]
    pub row: String,
    /// The row and a sentence.
    pub reason: String,
}

impl ExplainReclaimReport {
    /// Reads the JSON form.
    ///
    /// # Errors
    /// The text is no such record.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        schema::read(text, ExplainReclaimSchema::NAME)
    }
}
