//! How the tool reaches its users, checked: what a registry, a container build, a cluster and GitHub would refuse, before they do.
//!
//! Each check looks at the text of the repository's files and gives findings: what is wrong, and what would be right.
//!
//! | check | what it wants |
//! |---|---|
//! | [`packages`] | `cargo package` takes every package, and each holds what its code includes |
//! | [`container`] | images are pinned, what is copied is there, no compiler and no root at run time |
//! | [`kubernetes`] | manifests have no field that Kubernetes does not know; jobs are bounded and have no rights |
//! | [`workflows`] | workflows and actions are well-formed, what they use is pinned, what they run exists |
//! | [`shell`] | scripts are such |

pub mod container;
pub mod kubernetes;
pub mod packages;
pub mod shell;
pub mod workflows;
pub mod yaml;
