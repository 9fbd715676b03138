//! Results of `list` and `check`. The JSON forms are `ipam-sim/list/1` and `ipam-sim/check/1`.

use serde::{Deserialize, Serialize};

use crate::exit;
use crate::finding::Kind;
use crate::schema::{CheckSchema, ListSchema};

/// The result of `list`. A part that was not asked for is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListReport {
    /// The mark of the format, always `ipam-sim/list/1`; reading anything else is an error.
    pub schema: ListSchema,
    /// The scenarios of the files that were searched; a file with variants has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenarios: Option<Vec<ScenarioEntry>>,
    /// The claims that a scenario can check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<Vec<ClaimEntry>>,
    /// The excuses of the claims, listed with these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excuses: Option<Vec<ExcuseEntry>>,
    /// The faults that a scenario can draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<Vec<FaultEntry>>,
    /// The deviations that can be switched on, to see that the claims find them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviations: Option<Vec<DeviationEntry>>,
}

/// A scenario of a file, or of one of its variants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioEntry {
    /// The name of the scenario, as results use it.
    pub name: String,
    /// The path of its file, which begins with the path that was searched.
    pub file: String,
    /// The number of seeds that it runs by default.
    pub seeds: u64,
    /// The claim that it must violate, if it is negative.
    pub expect: Option<String>,
    /// The purpose of the scenario, in a sentence.
    pub why: String,
}

/// A claim that scenarios can check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimEntry {
    /// The name of the claim, as in `expect` of a scenario and in results.
    pub name: String,
    /// The suite to which the claim belongs; `SUITE/*` in `check.always` names all claims of the suite.
    #[serde(default)]
    pub suite: String,
    /// The kind of the claim: it is to hold always, eventually, or in some run.
    pub kind: Kind,
    /// The property that it checks, in a sentence.
    pub about: String,
    /// The property of the reference to which the claim corresponds.
    pub reference: Option<String>,
    /// The link to that property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_url: Option<String>,
}

/// One excuse: a documented hazard in which a claim may be violated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExcuseEntry {
    /// The name of the excuse, as in `excuses` of a scenario.
    pub name: String,
    /// The system whose claims have it.
    pub system: String,
    /// The hazard that it permits.
    pub about: String,
    /// The condition that begins the excused interval, a sentence.
    pub begins: String,
    /// The condition that ends the excused interval, a sentence.
    pub ends: String,
    /// The place of the reference that names the hazard.
    pub reference: Option<String>,
    /// The link to that place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_url: Option<String>,
}

/// A kind of fault, or a pattern of several that only swarms have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultEntry {
    /// The name, as in `kind` of a fault; of a pattern, as in swarms.
    pub name: String,
    /// The effect of the fault, in a sentence.
    #[serde(default)]
    pub about: String,
    /// The parameters that a scenario can set; none for a pattern.
    pub parameters: Vec<Parameter>,
    /// The real event that it models.
    pub event: String,
    /// The link to the place of the reference that describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_url: Option<String>,
}

/// One parameter of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// The key that sets it in the table of the fault.
    pub name: String,
    /// The range from which it is drawn by default.
    pub default: String,
}

/// A mutation: a way in which the system under test can be made to misbehave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviationEntry {
    /// The name of the mutation, as in `--mutation` and in `deviations` of a scenario.
    pub name: String,
    /// The change in the behaviour of the system, in a sentence.
    pub about: String,
    /// The means by which it is found: `claim`, `crash`, `figure`, `control` or `test`.
    #[serde(default)]
    pub how: String,
    /// The link to its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_url: Option<String>,
}

/// The result of `check`, file by file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// The mark of the format, always `ipam-sim/check/1`; reading anything else is an error.
    pub schema: CheckSchema,
    /// Every file that was checked.
    pub files: Vec<CheckedFile>,
}

impl CheckReport {
    /// The exit code: [`exit::USAGE`] if any file has an error, or if there was no file.
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
    /// The path of the file, which begins with the one that was given; `-` is standard input.
    pub file: String,
    /// The kind of the file: `scenario`, `plan`, `manifest`; `nothing` where there is nothing to check.
    pub kind: String,
    /// The findings in the file, by position.
    pub findings: Vec<Finding>,
}

/// An error or a warning about a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The severity: an error makes the check fail, a warning does not.
    pub severity: Severity,
    /// Line, from 1; `None` when the file as a whole is meant.
    pub line: Option<u64>,
    /// Column, from 1, in characters; `None` when the file as a whole is meant.
    pub column: Option<u64>,
    /// The finding, as a fragment of a sentence.
    pub found: String,
    /// A hint at the correct form.
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

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably does not say what its author meant.
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
