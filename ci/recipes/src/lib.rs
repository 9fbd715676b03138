//! Checks of the ways in which the tool reaches its users: they find in advance what a registry, a container build, a cluster or GitHub
//! would refuse.
//!
//! Each check reads the repository's files and returns findings: the problem, and what would be right.
//!
//! | check | requirement |
//! |---|---|
//! | [`packages`] | `cargo package` takes every package, and each holds what its code includes |
//! | [`container`] | images are pinned, copied files exist, no compiler and no root at run time |
//! | [`kubernetes`] | manifests have no field that Kubernetes does not know; jobs are bounded and have no rights |
//! | [`workflows`] | workflows and actions are well-formed, the actions they use are pinned, the scripts they run exist |
//! | [`shell`] | scripts are accepted by bash, and the scripts they name exist |

pub mod container;
pub mod kubernetes;
pub mod packages;
pub mod shell;
pub mod workflows;
pub mod yaml;
