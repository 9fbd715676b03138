//! The ConfigMap of the pool and the node of a process, found from the process's surroundings.

use thiserror::Error;

use super::policy::Policy;

/// The ConfigMap's name unless `POOL_CONFIGMAP_NAME` says otherwise. The shipped RBAC rules know only this one (B §1.1).
pub const DEFAULT_CONFIG_MAP: &str = "byom-ip-pool-state";

/// The ConfigMap's namespace if no source names one.
pub const DEFAULT_NAMESPACE: &str = "confidential-containers-system";

/// The sources for the ConfigMap's namespace; `None` = absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamespaceSources<'a> {
    /// The flag `pool-namespace` or the environment variable `POOL_NAMESPACE`.
    pub setting: Option<&'a str>,
    /// The content of the service account's namespace file.
    pub service_account: Option<&'a str>,
    /// The environment variable `POD_NAMESPACE`.
    pub pod_namespace: Option<&'a str>,
}

impl<'a> NamespaceSources<'a> {
    /// The namespace: the first source that is not blank, in the order of the fields, else [`DEFAULT_NAMESPACE`].
    pub fn resolve(self) -> &'a str {
        let files = [self.service_account, self.pod_namespace].into_iter().flatten().map(str::trim);
        self.setting.into_iter().chain(files).find(|name| !name.is_empty()).unwrap_or(DEFAULT_NAMESPACE)
    }
}

/// The ConfigMap's name, given the flag `pool-configmap-name` or the environment variable `POOL_CONFIGMAP_NAME`.
pub fn config_map_name(setting: Option<&str>) -> &str {
    setting.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_CONFIG_MAP)
}

/// The sources for the node's name; `None` = absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeSources<'a> {
    /// The environment variable `NODE_NAME`.
    pub env: Option<&'a str>,
    /// The content of `/etc/podinfo/nodename`.
    pub podinfo: Option<&'a str>,
    /// The content of `/etc/hostname`: in a pod without host network, the name of the *pod*.
    pub hostname: Option<&'a str>,
}

/// `ErrNodeNameDetection`: nothing names the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cannot detect the node name: neither NODE_NAME nor /etc/podinfo/nodename nor /etc/hostname names it")]
pub struct NoNodeName;

impl<'a> NodeSources<'a> {
    /// The node: the first source that is not blank, in the order of the fields (B §4.1). With `byom-lenient-settings` a blank `NODE_NAME`
    /// names the node whose name is empty.
    ///
    /// # Errors
    /// No source names the node.
    pub fn resolve(self, policy: &Policy) -> Result<&'a str, NoNodeName> {
        if policy.lenient_settings && self.env.is_some_and(|name| !name.is_empty() && name.trim().is_empty()) {
            return Ok("");
        }
        let sources = [self.env, self.podinfo, self.hostname].into_iter().flatten().map(str::trim);
        sources.into_iter().find(|name| !name.is_empty()).ok_or(NoNodeName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_is_looked_for_in_order() {
        let all = NamespaceSources { setting: Some("set"), service_account: Some(" sa\n"), pod_namespace: Some(" pod ") };
        assert_eq!(all.resolve(), "set");
        assert_eq!(NamespaceSources { setting: Some(""), ..all }.resolve(), "sa");
        assert_eq!(NamespaceSources { setting: None, service_account: Some(" \n"), ..all }.resolve(), "pod");
        assert_eq!(NamespaceSources { pod_namespace: Some("  "), ..NamespaceSources::default() }.resolve(), DEFAULT_NAMESPACE);
        assert_eq!(NamespaceSources::default().resolve(), "confidential-containers-system");
        assert_eq!(
            (config_map_name(None), config_map_name(Some("")), config_map_name(Some("x"))),
            (DEFAULT_CONFIG_MAP, DEFAULT_CONFIG_MAP, "x")
        );
    }

    #[test]
    fn the_node_is_looked_for_in_order() {
        let all = NodeSources { env: Some(" a "), podinfo: Some("b\n"), hostname: Some("c\n") };
        for policy in [Policy::hardened(), Policy::upstream()] {
            assert_eq!(all.resolve(&policy), Ok("a"));
            assert_eq!(NodeSources { env: Some(""), ..all }.resolve(&policy), Ok("b"));
            assert_eq!(NodeSources { env: None, podinfo: None, ..all }.resolve(&policy), Ok("c"));
            assert_eq!(NodeSources { env: None, podinfo: Some("\n"), ..all }.resolve(&policy), Ok("c"));
            assert_eq!(NodeSources::default().resolve(&policy), Err(NoNodeName));
        }
    }

    #[test]
    fn only_upstream_takes_a_blank_name() {
        let blank = NodeSources { env: Some("  "), podinfo: Some("b"), hostname: None };
        assert_eq!(blank.resolve(&Policy::upstream()), Ok(""));
        assert_eq!(blank.resolve(&Policy::hardened()), Ok("b"));
    }
}
