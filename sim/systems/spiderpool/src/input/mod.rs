//! Input from users about Spiderpool: its manifests, settings and CNI configurations.

pub mod admission;
pub mod cluster;
pub mod cni;
pub mod form;
mod restless;
pub mod settings;
pub mod stored;
mod webhooks;

pub(crate) use restless::restless;
