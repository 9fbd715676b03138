//! The record of one allocation.

use std::fmt::{self, Write};
use std::sync::Arc;

use super::address::Address;
use super::go_json::write_string;
use super::seconds::Seconds;

/// One value of `allocatedIPs` (B §1.2). Cheap to clone.
#[derive(Clone, Debug)]
pub struct IpAllocation {
    /// The same as the key of the record, unless the document was edited by hand.
    pub allocation_id: Arc<str>,
    /// The VM: in canonical spelling as recorded by the hardened form, but a document can hold any text.
    pub ip: Address,
    /// The node of the process that wrote the record.
    pub node_name: Arc<str>,
    /// The `metadata.name` of the pod for which the VM was allocated.
    pub pod_name: Arc<str>,
    /// The namespace of the pod. Upstream's document has this field, its code does not; `None` = not written.
    pub pod_namespace: Option<Arc<str>>,
    /// The time at which the record was made, by the clock of the process that made it.
    pub allocated_at: Seconds,
}

/// Go's zero value.
impl Default for IpAllocation {
    fn default() -> Self {
        let empty: Arc<str> = "".into();
        Self {
            allocation_id: empty.clone(),
            ip: Address::new(""),
            node_name: empty.clone(),
            pod_name: empty,
            pod_namespace: None,
            allocated_at: Seconds::ZERO,
        }
    }
}

/// Records are equal if they are written alike.
impl PartialEq for IpAllocation {
    fn eq(&self, other: &Self) -> bool {
        self.allocation_id == other.allocation_id
            && self.ip.text() == other.ip.text()
            && self.node_name == other.node_name
            && self.pod_name == other.pod_name
            && self.pod_namespace == other.pod_namespace
            && self.allocated_at == other.allocated_at
    }
}

impl Eq for IpAllocation {}

impl IpAllocation {
    /// Writes `key` and this record as one entry of `allocatedIPs`, from the indentation to the closing brace.
    pub(super) fn write_entry(&self, key: &str, out: &mut impl Write) -> fmt::Result {
        out.write_str("    ")?;
        write_string(out, key)?;
        out.write_str(": {\n      \"allocationID\": ")?;
        write_string(out, &self.allocation_id)?;
        out.write_str(",\n      \"ip\": ")?;
        write_string(out, self.ip.text())?;
        out.write_str(",\n      \"nodeName\": ")?;
        write_string(out, &self.node_name)?;
        out.write_str(",\n      \"podName\": ")?;
        write_string(out, &self.pod_name)?;
        if let Some(namespace) = &self.pod_namespace {
            out.write_str(",\n      \"podNamespace\": ")?;
            write_string(out, namespace)?;
        }
        out.write_str(",\n      \"allocatedAt\": ")?;
        self.allocated_at.write_json(out)?;
        out.write_str("\n    }")
    }
}

/// Returns the allocation ID of a sandbox (B A1). A retry of the kubelet makes a new sandbox, hence a new ID.
pub fn allocation_id(pod_name: &str, sandbox_id: &str) -> Arc<str> {
    format!("{pod_name}-{sandbox_id}").into()
}
