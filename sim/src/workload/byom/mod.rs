//! The BYOM pool at work: adaptors share one ConfigMap, and hand its VMs to pods.

mod note;
pub mod pods;

pub use note::{Failure, PoolNote, ReleasedBy, VmChange};
