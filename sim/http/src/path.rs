//! The paths of the API.

use percent_encoding::percent_decode_str;

/// The path of an object, a collection or a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// The API group; empty for the core group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The old form of a watch: `/api/v1/watch/...`.
    pub(crate) watch: bool,
}

/// The meaning of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Resource(ResourcePath),
    /// Discovery, health, or nothing at all, as the parts of the path.
    Other(Vec<String>),
}

impl Path {
    /// Parses the path of a URL. Escapes are resolved before the path is split into parts, as in Go's server.
    pub(crate) fn parse(path: &str) -> Self {
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        let trimmed = path.trim_start_matches('/');
        let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
        let parts: Vec<&str> = trimmed.split('/').collect();
        let resource = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ResourcePath::parse("", version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => ResourcePath::parse(group, version, rest),
            _ => None,
        };
        resource.map_or_else(|| Path::Other(parts.into_iter().map(str::to_owned).collect()), Path::Resource)
    }
}

impl ResourcePath {
    fn parse(group: &str, version: &str, rest: &[&str]) -> Option<Self> {
        let (watch, rest) = match rest {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            rest => (false, rest),
        };
        let (namespace, rest) = match rest {
            // A namespace itself and its subresources.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] if group.is_empty() => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let owned = |text: &&str| (*text).to_owned();
        let (plural, name, subresource) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(owned(name)), None),
            [plural, name, subresource @ ..] => (plural, Some(owned(name)), Some(subresource.join("/"))),
            [] => return None,
        };
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: owned(plural),
            namespace: namespace.map(str::to_owned),
            name,
            subresource,
            watch,
        })
    }

    /// `group/version`, or `version` for the core group.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str) -> String {
        match Path::parse(path) {
            Path::Other(parts) => format!("other {}", parts.join("|")),
            Path::Resource(path) => {
                let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
                let watch = if path.watch { " watch" } else { "" };
                format!(
                    "{} {} {} {} {}{watch}",
                    path.api_version(),
                    path.plural,
                    or(&path.namespace),
                    or(&path.name),
                    or(&path.subresource)
                )
            }
        }
    }

    #[test]
    fn paths_name_collections_objects_and_subresources() {
        for (path, expected) in [
            ("/api/v1/namespaces/shop/pods", "v1 pods shop - -"),
            ("/api/v1/namespaces/shop/pods/web-0/status", "v1 pods shop web-0 status"),
            ("/api/v1/namespaces/shop", "v1 namespaces - shop -"),
            ("/api/v1/namespaces/shop/", "v1 namespaces - shop -"),
            ("/api/v1/namespaces/shop/finalize", "v1 namespaces - shop finalize"),
            ("/api/v1/nodes/n/proxy/metrics", "v1 nodes - n proxy/metrics"),
            ("/apis/apps/v1/statefulsets", "apps/v1 statefulsets - - -"),
            ("/apis/example.com/v1/namespaces/shop/pools/p", "example.com/v1 pools shop p -"),
            ("/api/v1/watch/namespaces/shop/pods", "v1 pods shop - - watch"),
            ("/api/v1/namespaces/shop/configmaps/a%2Fb", "v1 configmaps shop a b"),
            ("/api/v1", "other api|v1"),
            ("/apis/apps", "other apis|apps"),
            ("/healthz/ping", "other healthz|ping"),
            ("/", "other "),
        ] {
            assert_eq!(told(path), expected, "{path}");
        }
    }
}
