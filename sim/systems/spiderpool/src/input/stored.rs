//! A check of stored objects for content that no webhook looks at and no type describes: the text of records, and settings.
//!
//! `run` and `check` use it, and refuse what cannot be read: otherwise the cluster would fail for a reason that has nothing to do with the
//! question.

use std::fmt::Display;

use ipam_spiderpool::{PoolIPAllocation, RecordKey, SpiderIPPool, SpiderSubnet};
use sim_config::manifest::Manifest;
use sim_config::problem::{Problem, Problems};

use super::{admission, settings};

/// The field of a pool that holds its records.
const RECORDS: &str = "status.allocatedIPs";
/// The field of a subnet that holds its shares.
const SHARES: &str = "status.controlledIPPools";

/// Oddities of a stored object that are no errors.
///
/// # Errors
/// Content that cannot be read: records of a pool, shares of a subnet, settings of the cluster.
pub fn check(manifest: &Manifest) -> Result<Problems, Problems> {
    settings::check(manifest)?;
    let mut odd = Problems::new();
    match admission::kind_of(manifest) {
        Some("SpiderIPPool") if manifest.value["status"]["allocatedIPs"].is_string() => {
            // Whoever decodes the manifest reports that it is no pool.
            let Ok(pool) = manifest.decode::<SpiderIPPool>() else { return Ok(odd) };
            match pool.status.unwrap_or_default().allocated_ips.parse() {
                Ok(records) => {
                    let keys = records.others().map(|(key, _)| key);
                    keys.for_each(|key| odd.push(about(manifest, RECORDS, &no_address(key))));
                    records.iter().filter_map(lost).for_each(|lost| odd.push(about(manifest, RECORDS, &lost)));
                }
                Err(error) => return Err(about(manifest, RECORDS, &error).into()),
            }
        }
        Some("SpiderSubnet") if manifest.value["status"]["controlledIPPools"].is_string() => {
            let Ok(subnet) = manifest.decode::<SpiderSubnet>() else { return Ok(odd) };
            if let Err(error) = subnet.status.unwrap_or_default().controlled_ippools.parse() {
                return Err(about(manifest, SHARES, &error).into());
            }
        }
        _ => {}
    }
    Ok(odd)
}

/// A problem that names the object, like those of admission.
fn about(manifest: &Manifest, field: &str, wrong: &dyn Display) -> Problem {
    manifest.problem(field, format!("{} {}: {field}: {wrong}", manifest.kind, manifest.name), "")
}

/// The warning about a key of `status.allocatedIPs` that is no address in its usual form.
pub fn no_address(key: &RecordKey) -> String {
    let text = key.to_string();
    match text.parse::<std::net::IpAddr>() {
        Ok(address) => format!("the key `{text}` is not the usual form of {}, whose record it therefore is not", address.to_canonical()),
        Err(_) => format!("the key `{text}` is no address, so its record holds none"),
    }
}

/// The warning about a record that is never taken away, because no pod can have its name (S-0); `None` for others.
pub fn lost((key, record): (&RecordKey, &PoolIPAllocation)) -> Option<String> {
    let (address, name) = (key.address()?, &record.pod);
    (name.matches('/').count() > 1).then(|| {
        format!(
            "the record of {address} names `{name}`, and no pod is called so: reclaim leaves it alone, and the address is \
             lost until an operator removes the record"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_config::manifest;

    fn checked(object: &str) -> String {
        let manifests = manifest::parse("x.yaml", object.as_bytes()).unwrap();
        check(&manifests[0]).map_or_else(|problems| format!("error: {problems}"), |odd| odd.to_string())
    }

    fn pool(records: &str) -> String {
        format!(
            "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {{name: p}}\nspec: {{subnet: 10.0.0.0/24}}\n\
             status:\n  allocatedIPs: {records}\n"
        )
    }

    #[test]
    fn records_that_cannot_be_read_are_an_error_and_keys_that_are_no_addresses_are_odd() {
        assert_eq!(checked(&pool(r#"'{"10.0.0.1":{"pod":"a/b","podUid":"c"}}'"#)), "");
        insta::assert_snapshot!(checked(&pool("'{'")), @"error: x.yaml:6:17: SpiderIPPool p: status.allocatedIPs: unreadable JSON text: EOF while parsing an object at line 1 column 1");
        insta::assert_snapshot!(checked(&pool(r#"'{"zz":{"pod":"a/b"},"010.0.0.2":{"pod":"a/b"},"fd00::0":{"pod":"a/b"}}'"#)), @r"
        x.yaml:6:17: SpiderIPPool p: status.allocatedIPs: the key `zz` is no address, so its record holds none
        x.yaml:6:17: SpiderIPPool p: status.allocatedIPs: the key `fd00::0` is not the usual form of fd00::, whose record it therefore is not
        x.yaml:6:17: SpiderIPPool p: status.allocatedIPs: the key `010.0.0.2` is no address, so its record holds none
        ");
    }

    #[test]
    fn a_record_that_names_nothing_is_an_address_that_is_lost() {
        assert_eq!(
            checked(&pool(r#"'{"10.0.0.1":{"pod":"gone"},"10.0.0.2":{"pod":"a/UPPER"},"zz":{"pod":"a/b"}}'"#)).lines().count(),
            1,
            "only zz is odd"
        );
        insta::assert_snapshot!(checked(&pool(r#"'{"10.0.0.1":{"pod":"shop/a/b","podUid":"c"}}'"#)), @"x.yaml:6:17: SpiderIPPool p: status.allocatedIPs: the record of 10.0.0.1 names `shop/a/b`, and no pod is called so: reclaim leaves it alone, and the address is lost until an operator removes the record");
    }

    #[test]
    fn shares_that_cannot_be_read_are_an_error() {
        let subnet = |shares: &str| {
            format!(
                "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderSubnet\nmetadata: {{name: s}}\nspec: {{subnet: 10.0.0.0/24}}\n\
                 status: {{controlledIPPools: '{shares}'}}\n"
            )
        };
        assert_eq!(checked(&subnet(r#"{"p":{"ips":["10.0.0.1"]}}"#)), "");
        insta::assert_snapshot!(checked(&subnet("[]")), @"error: x.yaml:5:29: SpiderSubnet s: status.controlledIPPools: unreadable JSON text: invalid type: sequence, expected a map at line 1 column 0");
    }

    #[test]
    fn settings_have_their_place_in_a_list_of_manifests() {
        let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: spiderpool-conf}\n  \
                    data:\n    conf.yml: |\n      enableIPv4: true\n      enableIPv6: maybe\n      enableIPv66: true\n";
        insta::assert_snapshot!(checked(text), @r#"
        error: x.yaml:10:19: enableIPv6 cannot be the string "maybe"; expected true or false
        x.yaml:11:7: unknown setting `enableIPv66`; did you mean `enableIPv6`?
        "#);
        assert_eq!(checked(&text.replace("spiderpool-conf", "other")), "");
        assert_eq!(checked("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: spiderpool-conf}\n"), "");
    }
}
