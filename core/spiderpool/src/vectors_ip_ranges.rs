//! Answers of upstream's functions for ranges, CIDRs, names and numbers, recorded by running them (its commit `a7fbd3b2`).
//!
//! The 1089 lines are in `core/spiderpool/tests/data/ip-ranges.jsonl`; others are in the folder that `IPAM_VECTORS` names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::{Value, json};

use super::auto_pool::*;
use super::ranges::*;
use super::{Policy, wildcard_match};

#[path = "../tests/recorded/mod.rs"]
mod recorded;

const FILE: &str = "ip-ranges.jsonl";

/// One line of the file.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "fn")]
    function: String,
    input: Value,
    /// Absent if the answer is an error.
    output: Option<Value>,
    /// The oddities of the input.
    #[serde(default)]
    quirk: Vec<String>,
}

/// The lines, with their numbers as IDs.
fn lines() -> Option<Vec<Value>> {
    let mut lines = recorded::cases(FILE)?;
    for (at, line) in lines.iter_mut().enumerate().filter(|(_, line)| line.get("id").is_none()) {
        line["id"] = json!(at + 1);
    }
    Some(lines)
}

/// The fields of an input.
struct Input<'a>(&'a Value);

impl Input<'_> {
    fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_else(|| panic!("{key} is a text in {}", self.0))
    }

    fn texts(&self, key: &str) -> Vec<&str> {
        let list = self.0[key].as_array().unwrap_or_else(|| panic!("{key} is a list in {}", self.0));
        list.iter().map(|item| item.as_str().unwrap()).collect()
    }

    fn ips(&self, key: &str) -> Vec<IpAddr> {
        self.texts(key).iter().map(|text| text.parse().unwrap()).collect()
    }

    fn version(&self) -> i64 {
        self.0["version"].as_i64().expect("a version")
    }

    fn number(&self, key: &str) -> Option<i32> {
        serde_json::from_value(self.0[key].clone()).unwrap()
    }
}

fn addresses<'a>(ranges: impl IntoIterator<Item = &'a IpRange>) -> Value {
    ranges.into_iter().flat_map(|range| range.iter()).map(|ip| ip.to_string()).collect()
}

/// The total as upstream's big integer, which can also count all of IPv6.
fn total_text(checked: &CheckedRanges) -> String {
    match checked.ranges[..] {
        [ref all] if all.range.numbers() == (0, u128::MAX) => "340282366920938463463374607431768211456".to_owned(),
        _ => checked.total().to_string(),
    }
}

/// The answer to a line, or an error message.
fn answer(line: &Line, policy: &Policy) -> Result<Value, String> {
    let input = Input(&line.input);
    let version = || input.version();
    let cidr = |key| Cidr::parse_version(input.text(key), version(), policy).map_err(text);
    fn text(error: impl ToString) -> String {
        error.to_string()
    }
    match &*line.function {
        "is_ip" => Ok(parse_ip(input.text("ip"), version(), policy).is_ok().into()),
        "is_ip_range" => Ok(check_range(input.text("range"), version(), policy).is_ok().into()),
        "is_cidr" => Ok(cidr("cidr").is_ok().into()),
        "is_canonical_cidr" => Ok(Cidr::is_canonical(input.text("cidr"), policy).into()),
        "is_route" => Ok(check_route(input.text("dst"), input.text("gw"), version(), policy).is_ok().into()),
        "is_route_any" => Ok(check_route_of_any_version(input.text("dst"), input.text("gw"), policy).is_ok().into()),
        "parse_ip_range" => parse_range(input.text("range"), version(), policy).map(|range| addresses([&range])).map_err(text),
        "parse_ip_ranges" => parse_ranges(&input.texts("ranges"), version(), policy).map(|ranges| addresses(&ranges)).map_err(text),
        "merge_ip_ranges" => merge_ranges(&input.texts("ranges"), version(), policy).map(Value::from).map_err(text),
        "assemble_total_ips" => {
            let total = total_ips(&input.texts("ips"), &input.texts("exclude_ips"), version(), policy);
            total.map(|ranges| addresses(&ranges)).map_err(text)
        }
        "find_available_ips" => {
            // The function takes no family; a pool has one.
            let version = if input.texts("ranges").first().is_some_and(|range| range.contains(':')) { 6 } else { 4 };
            let used: IpSet = input.ips("used").into_iter().collect();
            let pool = PoolAddresses::new(&input.texts("ranges"), &[], &used, version, policy).map_err(text)?;
            let count = input.number("count").unwrap() as usize;
            Ok(pool.usable().iter().flat_map(|range| range.iter()).take(count).map(|ip| ip.to_string()).collect())
        }
        "ips_diff_set_sorted" => Ok(diff_sorted(&input.ips("source"), &input.ips("exclude")).iter().map(ToString::to_string).collect()),
        "parse_cidr" => cidr("cidr").map(|cidr| cidr.to_string().into()),
        "cidr_to_label" => cidr_label(input.text("cidr"), version(), policy).map(Value::from).map_err(text),
        "contains_cidr" => Ok(cidr("cidr1")?.contains_cidr(&cidr("cidr2")?, policy).into()),
        "cidr_overlap" => Ok(cidr("cidr1")?.overlaps(&cidr("cidr2")?, policy).into()),
        "contains_ip" => Ok(cidr("cidr")?.contains(parse_ip(input.text("ip"), version(), policy).map_err(text)?).into()),
        "contains_ip_range" => Ok(cidr("cidr")?.contains_range(&parse_range(input.text("range"), version(), policy).map_err(text)?).into()),
        "ip_range_contains_ip" => range_contains(input.text("range"), input.text("ip"), version(), policy).map(Value::from).map_err(text),
        "ip_range_overlap" => ranges_overlap(input.text("range1"), input.text("range2"), version(), policy).map(Value::from).map_err(text),
        "new_cidr" => {
            let checked =
                CheckedRanges::parse(input.text("subnet"), &input.texts("ips"), &input.texts("exclude_ips"), policy).map_err(text)?;
            let range = |piece: &CheckedRange| {
                let (first, last) = (piece.range.first().to_string(), piece.range.last().to_string());
                json!({"start": first, "end": last, "raw": piece.text})
            };
            let ranges: Vec<_> = checked.ranges.iter().map(range).collect();
            let (total, count) = (total_text(&checked), checked.total_ip_count().to_string());
            Ok(json!({"ranges": ranges, "total": total, "total_ip_count": count}))
        }
        "new_cidr_overlap" => {
            let parse = |ips, exclude| CheckedRanges::parse(input.text("subnet"), &input.texts(ips), &input.texts(exclude), policy);
            let (one, other) = (parse("ips1", "exclude_ips1").map_err(text)?, parse("ips2", "exclude_ips2").map_err(text)?);
            let raws: Vec<_> = one.overlaps(&other).collect();
            Ok(json!({"overlap": !raws.is_empty(), "raws": raws}))
        }
        "wildcard_match" => wildcard_match(input.text("pattern"), input.text("name")).map(Value::from).map_err(text),
        "auto_pool_name" => {
            let version = IpVersion::try_from(version()).map_err(text)?;
            Ok(auto_pool_name(input.text("controller"), input.text("nic"), input.text("uid"), version, policy).into())
        }
        "application_label_gv" => Ok(application_label_gv(input.text("api_version")).into()),
        "parse_application_gv" => parse_application_gv(input.text("text")).map(Value::from).ok_or("not of two parts".to_owned()),
        "application_key" => {
            Ok(application_key(input.text("api_version"), input.text("kind"), input.text("namespace"), input.text("name")).into())
        }
        "pool_ip_number" => PoolIpNumber::parse(input.text("text"), policy)
            .map(|number| json!({"flexible": number.flexible, "number": number.number}))
            .map_err(text),
        "job_pod_number" => Ok(job_pod_number(input.number("parallelism"), input.number("completions")).into()),
        other => panic!("nobody answers for `{other}`"),
    }
}

#[test]
fn upstream_agrees_with_every_recorded_answer() {
    let Some(lines) = lines() else { return };
    let mut mismatches = recorded::Mismatches::new(FILE);
    for line in &lines {
        mismatches.attempt(line, |mismatches, id| {
            let read: Line = serde_json::from_value(line.clone()).expect("a line is a case");
            let given = answer(&read, &Policy::upstream());
            let outcome = |output: Option<&Value>| output.map_or_else(|| json!({"error": true}), |output| json!({"output": output}));
            mismatches.compare(
                id,
                &format!(" {} {}", read.function, read.input),
                &outcome(read.output.as_ref()),
                &outcome(given.as_ref().ok()),
            );
        });
    }
    mismatches.none_in(lines.len());
}

/// The hardened form's answers to lines whose `quirk` says that the input is odd: the kind, the function, a piece of the line, and the
/// answer (`null` is an error). To every other odd input, and so to all of the kind `odd-version`, which are errors, it answers as upstream
/// does.
#[rustfmt::skip]
const INSTEAD: &[(&str, &str, &str, &str)] = &[
    // A number decides what is IPv4: a dot in an IPv6 address makes no IPv4 address, and an IPv4-mapped one is always one.
    ("v4-in-v6-text", "is_ip_range", r#""range":"::10.0.0.1","version":4"#, "false"),
    ("v4-in-v6-text", "is_ip", r#""ip":"::ffff:a00:1","version":4"#, "true"),
    ("v4-in-v6-text", "is_ip", r#""ip":"fd00::1.2.3.4","version":4"#, "false"),
    ("v4-in-v6-text", "parse_ip_range", r#""range":"::ffff:10.0.0.1","version":6"#, "null"),
    ("v4-in-v6-text", "parse_ip_range", r#""range":"::ffff:a00:1","version":6"#, "null"),
    ("v4-in-v6-text", "ip_range_overlap", r#""range2":"::ffff:a00:1","version":6"#, "null"),
    // A prefix that cuts into the marker of IPv4-mapped addresses leaves no IPv4 CIDR.
    ("v4-in-v6-text", "cidr_to_label", r#""cidr":"::ffff:10.0.0.0/24","version":4"#, "null"),
    // Addresses with a leading zero byte have neighbours like any others, and all addresses are a range.
    ("leading-zero-byte", "merge_ip_ranges", r#"["::1","::2"]"#, r#"["::1-::2"]"#),
    ("end-of-space", "find_available_ips", r#""count":1,"ranges":["::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]"#, r#"["::"]"#),
    ("end-of-space", "find_available_ips", r#""count":4,"ranges":["::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]"#, r#"["::","::1","::2","::3"]"#),
    // A range has one family.
    ("mixed-family-range", "find_available_ips", r#""ranges":["10.0.0.1-fd00::9"]"#, "[]"),
];

/// The hardened form's answers to other inputs that upstream accepts and should not, or accepts more of than it should.
fn instead_by_rule(line: &Line) -> Option<Value> {
    let input = Input(&line.input);
    let reversed = |list: Vec<&str>| list.into_iter().any(|range| matches!(plain(range), Some((first, last)) if first > last));
    match &*line.function {
        // Addresses are a set: ascending, each once, whatever the order of the list.
        "assemble_total_ips" => {
            let mut ips: Vec<IpAddr> = serde_json::from_value(line.output.clone()?).unwrap();
            ips.sort();
            ips.dedup();
            Some(ips.iter().map(ToString::to_string).collect())
        }
        // As above, and so the lowest come first; a bad entry, or one of the other family, holds nothing.
        "find_available_ips" => {
            let texts = input.texts("ranges");
            let ipv4 = !texts.first().is_some_and(|range| range.contains(':'));
            let canonical = |(first, last): (IpAddr, IpAddr)| (first.to_canonical(), last.to_canonical());
            let serves = |(first, last): &(IpAddr, IpAddr)| first <= last && [first, last].into_iter().all(|ip| ip.is_ipv4() == ipv4);
            let ranges: Vec<_> = texts.into_iter().filter_map(plain).map(canonical).filter(serves).collect();
            let number = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_bits().into(),
                IpAddr::V6(ip) => ip.to_bits(),
            };
            let mut free: BTreeSet<u128> = ranges.iter().flat_map(|(first, last)| number(*first)..=number(*last)).collect();
            for ip in input.ips("used").into_iter().filter(|ip| ip.is_ipv4() == ipv4) {
                free.remove(&number(ip));
            }
            let version = if ipv4 { IpVersion::V4 } else { IpVersion::V6 };
            let first = free.into_iter().take(input.number("count").unwrap() as usize);
            Some(first.map(|number| version.address(number).to_string()).collect())
        }
        // A reversed range is no range.
        "new_cidr" => (reversed(input.texts("ips")) || reversed(input.texts("exclude_ips"))).then_some(Value::Null),
        // A name has at most 253 characters; only the end of the application's name is cut.
        "auto_pool_name" => {
            let name = line.output.as_ref()?.as_str().unwrap();
            let (_, kept) = name.rsplit_once(&format!("-{}-", input.text("nic").to_lowercase())).unwrap();
            let cut = name.len() - kept.len() - input.text("nic").len() - 3;
            (name.len() > 253).then(|| format!("{}{}", &name[..cut], &name[cut + 1..]).into())
        }
        // A number is digits, and one `+` before them.
        "pool_ip_number" => {
            let text = input.text("text");
            let digits = text.strip_prefix('+').unwrap_or(text);
            (digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(Value::Null)
        }
        _ => None,
    }
}

/// Both ends of a range, in any order.
fn plain(range: &str) -> Option<(IpAddr, IpAddr)> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[test]
fn the_hardened_form_agrees_but_for_what_it_says() {
    // The table above knows the lines by their inputs.
    let Some(lines) = lines().filter(|_| recorded::is_own_copy()) else { return };
    assert_eq!(lines.len(), 1089);
    let mut wrong = Vec::new();
    let (mut rows, mut rules) = (vec![0; INSTEAD.len()], BTreeMap::new());
    for line in lines {
        let text = line.to_string();
        let line: Line = serde_json::from_value(line).expect("a line is a case");
        let row = INSTEAD.iter().position(|(kind, function, piece, _)| {
            line.function == *function && line.quirk.iter().any(|quirk| quirk == kind) && text.contains(piece)
        });
        let recorded = line.output.clone().unwrap_or_default();
        let expected = if let Some(row) = row {
            rows[row] += 1;
            serde_json::from_str(INSTEAD[row].3).unwrap()
        } else if let Some(other) = instead_by_rule(&line).filter(|other| *other != recorded) {
            *rules.entry(line.function.clone()).or_insert(0) += 1;
            other
        } else {
            recorded
        };
        let given = answer(&line, &Policy::hardened());
        if given.clone().unwrap_or_default() != expected {
            wrong.push(format!("{text}\n  answered {given:?}\n  instead of {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), wrong.join("\n"));
    assert!(rows.iter().all(|lines| *lines > 0), "a row is about nothing: {rows:?}");
    let expected = ["assemble_total_ips", "auto_pool_name", "find_available_ips", "new_cidr", "pool_ip_number"];
    assert!(rules.keys().eq(expected), "the rules are about {rules:?}");
    assert!(rules.values().sum::<i32>() < 100, "the rules are about too much: {rules:?}");
}
