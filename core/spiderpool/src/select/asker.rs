//! The requester of an address.

use crate::Policy;

/// The requester of an address, with the limits of the request.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The UID of the pod.
    pub pod_uid: &'a str,
    /// The NIC, which the record must name; a record that names none is of any NIC.
    pub nic: &'a str,
    /// The maximum number of records of a pool.
    pub max_records: u64,
    /// The mutations that are on.
    pub policy: &'a Policy,
}
