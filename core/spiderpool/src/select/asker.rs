//! Who asks for an address.

use crate::Policy;

/// Who asks for an address, and under which limits.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The UID of the pod.
    pub pod_uid: &'a str,
    /// The NIC, which the record must name; one that names none is of any NIC.
    pub nic: &'a str,
    /// The most records of a pool.
    pub max_records: u64,
    /// The form of Spiderpool.
    pub policy: &'a Policy,
}
