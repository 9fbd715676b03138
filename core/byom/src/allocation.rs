//! The record of one allocation.

use std::fmt::{self, Write};
use std::sync::Arc;

use super::address::Address;
use super::go_json::write_string;
use super::seconds::Seconds;

/// A value of `allocatedIPs` (B §1.2). Cheap to clone.
#[derive(Clone, Debug)]
pub struct IpAllocation {
    /// The same as the key under which the record stands, unless somebody edited it by hand.
    pub allocation_id: Arc<str>,
    /// The VM: canonical as the hardened form records it, but any text can stand in a document.
    pub ip: Address,
    /// The node of the process that made the record.
    pub node_name: Arc<str>,
    /// The pod as in `metadata.name`, for which the VM was allocated.
    pub pod_name: Arc<str>,
    /// The namespace of the pod. The code upstream has no such field, its document has; `None` = not written.
    pub pod_namespace: Option<Arc<str>>,
    /// When the record was made, by the clock of the process that made it.
    pub allocated_at: Seconds,
}

/// As Go's zero value.
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

/// Equal if they are written alike.
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

/// The allocation ID of a sandbox (B A1). A retry of the kubelet is a new sandbox, hence a new ID.
pub fn allocation_id(pod_name: &str, sandbox_id: &str) -> Arc<str> {
    format!("{pod_name}-{sandbox_id}").into()
}
