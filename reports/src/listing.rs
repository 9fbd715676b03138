//! What `list` and `check` answer. The JSON forms are `ipam-sim/list/1` and `ipam-sim/check/1`.

use serde::{Deserialize, Serialize};

use crate::exit;
use crate::finding::Kind;
use crate::schema::{CheckSchema, ListSchema};

/// What there is. A part that was not asked for is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListReport {
    /// Mark of the format, always `ipam-sim/list/1`; reading anything else is an error.
    pub schema: ListSchema,
    /// Scenarios of the files that were looked through; a file with variants has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenarios: Option<Vec<ScenarioEntry>>,
    /// Claims that a scenario can check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Vec<ClaimEntry>>,
    /// The excuses that claims have: listed with the claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excuses: Option<Vec<ExcuseEntry>>,
    /// Faults that a scenario can draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Vec<FaultEntry>>,
    /// Deviations that can be switched on, to see that the claims find them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviations: Option<Vec<DeviationEntry>>,
}

/// A scenario that a file, or one of its variants, stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioEntry {
    /// Its name, under which results tell of it.
    pub name: String,
    /// The path of its file, which begins with the path that was looked through.
    pub file: String,
    /// How many seeds it runs by default.
    pub seeds: u64,
    /// The claim that it must violate, if it is a negative one.
    pub expect: Option<String>,
    /// Why it exists, in a sentence.
    pub why: String,
}

/// A claim that scenarios can check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimEntry {
    /// Its name, as `expect` of a scenario and results have it.
    pub name: String,
    /// The suite that it belongs to; `SUITE/*` in `check.always` stands for all of it.
    #[serde(default)]
    pub suite: String,
    /// Whether it is to hold always, eventually, or in some run.
    pub kind: Kind,
    /// What it says, in a sentence.
    pub about: String,
    /// The property of the reference that it stands for.
    pub reference: Option<String>,
    /// Where that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_url: Option<String>,
}

/// One excuse: a documented hazard in which a claim may be violated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcuseEntry {
    /// Its name, as `excuses` of a scenario writes it.
    pub name: String,
    /// The system whose claims have it.
    pub system: String,
    /// The hazard that it permits.
    pub about: String,
    /// The condition that begins the interval in which it excuses, a sentence.
    pub begins: String,
    /// The condition that ends that interval, a sentence.
    pub ends: String,
    /// Where the reference names the hazard.
    pub reference: Option<String>,
    /// Where that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_url: Option<String>,
}

/// A kind of fault, or a pattern of several that only swarms have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultEntry {
    /// As in `kind` of a fault; of a pattern, what swarms call it.
    pub name: String,
    /// What it does, in a sentence.
    #[serde(default)]
    pub about: String,
    /// What a scenario can set of it; nothing for a pattern.
    pub parameters: Vec<Parameter>,
    /// The real event that it stands for.
    pub event: String,
    /// Where the reference tells of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_url: Option<String>,
}

/// One parameter of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// The key that sets it in the table of the fault.
    pub name: String,
    /// The range it is drawn from by default.
    pub default: String,
}

/// A mutation: something that the system under test can be made to do wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviationEntry {
    /// Its name, as `--mutation` and `deviations` of a scenario have it.
    pub name: String,
    /// What it makes the system do differently, in a sentence.
    pub about: String,
    /// How it is found: `claim`, `crash`, `figure`, `control` or `test`.
    #[serde(default)]
    pub how: String,
    /// Where it is described.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_url: Option<String>,
}

/// What `check` found, file by file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Mark of the format, always `ipam-sim/check/1`; reading anything else is an error.
    pub schema: CheckSchema,
    /// Every file that was checked.
    pub files: Vec<CheckedFile>,
}

impl CheckReport {
    /// [`exit::USAGE`] if any file has an error, or if there was no file.
    pub fn exit_code(&self) -> u8 {
        let wrong = self.findings().any(|(_, finding)| finding.severity == Severity::Error);
        if wrong || self.files.is_empty() { exit::USAGE } else { exit::HELD }
    }

    /// All findings with their files.
    pub fn findings(&self) -> impl Iterator<Item = (&CheckedFile, &Finding)> {
        self.files.iter().flat_map(|file| file.findings.iter().map(move |finding| (file, finding)))
    }
}

/// A checked file, or a path at which there is nothing to check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedFile {
    /// Its path, which begins with the one that was given; `-` is standard input.
    pub file: String,
    /// What it is: `scenario`, `plan`, `manifest`; `nothing` where there is nothing to check.
    pub kind: String,
    /// What is wrong with it, by position.
    pub findings: Vec<Finding>,
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Whether it makes the check fail, or is only odd.
    pub severity: Severity,
    /// Line, from 1; `None` when the file as a whole is meant.
    pub line: Option<u64>,
    /// Column, from 1, in characters; `None` when the file as a whole is meant.
    pub column: Option<u64>,
    /// What was found, as a fragment of a sentence.
    pub found: String,
    /// What would be right.
    pub hint: Option<String>,
    /// The rule of admission that is broken, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<BrokenRule>,
}

/// A rule of admission that an object breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenRule {
    /// The kind and the name of the object: `SpiderIPPool/blue`.
    pub object: String,
    /// The path of the field, as Kubernetes writes it: `spec.ips[1]`.
    pub field: String,
    /// The type of the cause, as Kubernetes writes it (`FieldValueInvalid`), or `AlreadyExists`.
    pub fault: String,
}

/// How wrong something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably does not say what was meant.
    Warning,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_make_a_check_fail() {
        let file = |severity| CheckedFile {
            file: "f".into(),
            kind: "scenario".into(),
            findings: vec![Finding { severity, line: Some(1), column: Some(1), found: "x".into(), hint: None, rule: None }],
        };
        let code = |files| CheckReport { files, ..CheckReport::default() }.exit_code();
        assert_eq!(code(vec![file(Severity::Warning)]), exit::HELD);
        assert_eq!(code(vec![file(Severity::Warning), file(Severity::Error)]), exit::USAGE);
        assert_eq!(code(vec![]), exit::USAGE);
    }
}
