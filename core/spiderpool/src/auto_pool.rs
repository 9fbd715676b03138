//! Names and sizes of the pools that are cut out of a subnet for an application (A §8.2, §8.3, §1.1, §1.3).

use thiserror::Error;

use super::Policy;
use super::ranges::IpVersion;

/// The maximum length of an object's name.
const MAX_NAME: usize = 253;

/// The name of the pool of a NIC of an application: `auto4-<controller>-<nic>-<5 characters of the UID>`, in lower case,
/// with the controller's name cut so that the whole has at most 253 characters.
///
/// With `upstream-ranges` 254 characters, which no API server accepts (A §14.2).
pub fn auto_pool_name(controller: &str, nic: &str, uid: &str, version: IpVersion, policy: &Policy) -> String {
    let suffix = suffix(uid);
    let fixed = format!("auto{}---", version.number()).len() + nic.len() + suffix.len();
    let max = if policy.upstream_ranges { MAX_NAME + 1 } else { MAX_NAME };
    let mut name = prefix(controller, max.saturating_sub(fixed));
    if !policy.upstream_ranges && name.len() < controller.len() {
        // A cut must not leave `.-`, which no name may contain.
        name = name.trim_end_matches(['.', '-']);
    }
    format!("auto{}-{name}-{nic}-{suffix}", version.number()).to_lowercase()
}

/// Whether an auto pool's name is one that this incarnation of its application would choose, whatever the NIC.
pub fn is_named_after(pool: &str, uid: &str) -> bool {
    pool.rsplit('-').next() == Some(&suffix(uid).to_lowercase())
}

/// The suffix that distinguishes the pools of one incarnation of an application from those of another.
fn suffix(uid: &str) -> &str {
    prefix(uid.rsplit('-').next().unwrap_or_default(), 5)
}

/// The longest prefix of at most `length` bytes that ends at a character boundary.
fn prefix(text: &str, length: usize) -> &str {
    &text[..text.floor_char_boundary(length)]
}

/// The value of the label `owner-application-gv`: `apps_v1` of `apps/v1`, `v1` of `v1`.
pub fn application_label_gv(api_version: &str) -> String {
    api_version.replacen('/', "_", 1)
}

/// The API version that such a label names; `None` if it has more than two parts.
pub fn parse_application_gv(text: &str) -> Option<String> {
    match text.split('_').collect::<Vec<_>>()[..] {
        [version] | ["", version] => Some(version.to_owned()),
        [group, version] => Some(format!("{group}/{version}")),
        _ => None,
    }
}

/// The field `application` of a pre-allocation: `apps_v1_Deployment_default_web`.
pub fn application_key(api_version: &str, kind: &str, namespace: &str, name: &str) -> String {
    format!("{}_{kind}_{namespace}_{name}", application_label_gv(api_version))
}

/// The value of the annotation `ippool-ip-number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolIpNumber {
    /// Whether `number` is added to the number of pods (`+2`); otherwise it is the number of addresses.
    pub flexible: bool,
    /// The number itself; not negative, except with `upstream-ranges`.
    pub number: i64,
}

/// A text that is no [`PoolIpNumber`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no number of addresses; write `5`, or `+2` for so many more than pods")]
pub struct BadIpNumber(pub String);

impl PoolIpNumber {
    /// Parses the annotation. With `upstream-ranges` the text before the `+` is ignored (A §14.8), and numbers may be negative.
    ///
    /// # Errors
    /// `text` is no such number.
    pub fn parse(text: &str, policy: &Policy) -> Result<Self, BadIpNumber> {
        let bad = || BadIpNumber(text.to_owned());
        let (before, number, flexible) = text.split_once('+').map_or(("", text, false), |(before, number)| (before, number, true));
        if number.contains('+') || !policy.upstream_ranges && (!before.is_empty() || number.starts_with('-')) {
            return Err(bad());
        }
        Ok(Self { flexible, number: number.parse().map_err(|_| bad())? })
    }
}

/// The number of pods that a Job is for (A §8.3): `completions`, else `parallelism`, else one; zero counts as one.
pub fn job_pod_number(parallelism: Option<i32>, completions: Option<i32>) -> i32 {
    completions.or(parallelism).filter(|number| *number != 0).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_at_the_limit() {
        let uid = "3f2a1b4c-5d6e-4f70-8192-A3b4c5d6e7f8";
        let name = |controller: &str, policy| auto_pool_name(controller, "net1", uid, IpVersion::V6, &policy);
        assert_eq!(name("Web", Policy::hardened()), "auto6-web-net1-a3b4c");
        for (policy, length) in [(Policy::hardened(), 253), (Policy::upstream(), 254)] {
            assert_eq!(name(&"x".repeat(length - 17), policy).len(), length);
            assert_eq!(name(&"x".repeat(length - 16), policy).len(), length);
        }
        let dotted = format!("{}.yz", "x".repeat(235));
        assert_eq!(name(&dotted, Policy::hardened()), format!("auto6-{}-net1-a3b4c", "x".repeat(235)));
    }

    #[test]
    fn keys_of_applications_are_read_back() {
        for (api_version, label) in [("apps/v1", "apps_v1"), ("v1", "v1")] {
            assert_eq!(application_label_gv(api_version), label);
            assert_eq!(parse_application_gv(label).as_deref(), Some(api_version));
        }
        assert_eq!(parse_application_gv("a_b_c"), None);
        assert_eq!(application_key("apps/v1", "Deployment", "default", "web"), "apps_v1_Deployment_default_web");
    }

    #[test]
    fn only_upstream_reads_sloppy_numbers() {
        let parse = |text, policy| PoolIpNumber::parse(text, &policy).ok().map(|number| (number.flexible, number.number));
        for (text, upstream, hardened) in [
            ("5", Some((false, 5)), Some((false, 5))),
            ("+2", Some((true, 2)), Some((true, 2))),
            ("x+4", Some((true, 4)), None),
            ("+-1", Some((true, -1)), None),
            ("-1", Some((false, -1)), None),
            ("++1", None, None),
            ("+", None, None),
            ("", None, None),
        ] {
            assert_eq!((parse(text, Policy::upstream()), parse(text, Policy::hardened())), (upstream, hardened), "{text}");
        }
    }

    #[test]
    fn a_job_is_for_its_completions() {
        for (parallelism, completions, pods) in
            [(None, None, 1), (Some(3), None, 3), (Some(0), None, 1), (Some(3), Some(5), 5), (None, Some(0), 1), (Some(3), Some(0), 1)]
        {
            assert_eq!(job_pod_number(parallelism, completions), pods);
        }
    }
}
