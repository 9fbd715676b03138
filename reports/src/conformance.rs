//! The report of `conformance`. The JSON form is `ipam-sim/conformance/1`.

use serde::{Deserialize, Serialize};

use crate::exit;
use crate::schema::ConformanceSchema;

/// The comparison of an API server's answers with those recorded from a real one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConformanceReport {
    /// The mark of the format, always `ipam-sim/conformance/1`.
    pub schema: ConformanceSchema,
    /// The exit code of the process.
    pub exit_code: u8,
    /// The themes of the cases, in their order.
    pub themes: Vec<ThemeResult>,
    /// Cases with a difference that is not allowed, in their order.
    pub differing: Vec<DifferingCase>,
    /// Cases that could not be compared, in their order.
    pub not_compared: Vec<LeftCase>,
    /// Known differences that no longer occur.
    pub unneeded: Vec<UnneededLine>,
    /// Sentences on what could not be written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unwritten: Vec<String>,
}

impl ConformanceReport {
    /// The exit code: [`exit::VIOLATED`] if there is a difference that is not allowed.
    pub fn judge(&self) -> u8 {
        if self.differing.is_empty() { exit::HELD } else { exit::VIOLATED }
    }

    /// The numbers of all themes added up.
    pub fn total(&self) -> CaseCounts {
        self.themes.iter().fold(CaseCounts::default(), |sum, theme| CaseCounts {
            agreed: sum.agreed + theme.counts.agreed,
            differing: sum.differing + theme.counts.differing,
            allowed: sum.allowed + theme.counts.allowed,
            not_compared: sum.not_compared + theme.counts.not_compared,
        })
    }
}

/// The results of the cases of a theme.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThemeResult {
    /// The name of the theme.
    pub theme: String,
    /// The numbers of its cases by result.
    #[serde(flatten)]
    pub counts: CaseCounts,
}

/// Numbers of cases by their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseCounts {
    /// Cases in which nothing differs.
    pub agreed: u64,
    /// Cases with a difference that is not allowed.
    pub differing: u64,
    /// Cases in which only known differences occur.
    pub allowed: u64,
    /// Cases without answers on one of the two sides.
    pub not_compared: u64,
}

/// A case with a difference that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferingCase {
    /// The id of the case.
    pub case: String,
    /// The theme that it belongs to.
    pub theme: String,
    /// The purpose of the case, in a sentence.
    pub why: String,
    /// The places that differ, in the order of steps and names.
    pub places: Vec<DifferingPlace>,
}

/// A place in which two records differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferingPlace {
    /// The step, from 1; 0 for the record as a whole.
    pub step: u64,
    /// The action of the step.
    pub does: String,
    /// The path in the step's record: names and numbers with dots between them.
    pub path: String,
    /// The answer of a real server there; `<absent>` for nothing.
    pub recorded: serde_json::Value,
    /// The answer that is there instead.
    pub actual: serde_json::Value,
}

/// A case that could not be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftCase {
    /// The id of the case.
    pub case: String,
    /// The reason why there is nothing to compare.
    pub why: String,
}

/// A line of known differences that no difference needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnneededLine {
    /// The file with the line.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The case and place, as they are written there.
    pub allows: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_theme_is_flat_in_json_and_a_difference_decides() {
        let counts = CaseCounts { agreed: 3, differing: 1, allowed: 2, not_compared: 4 };
        let theme = ThemeResult { theme: "watch".to_owned(), counts };
        let json = serde_json::to_string(&theme).unwrap();
        assert_eq!(json, r#"{"theme":"watch","agreed":3,"differing":1,"allowed":2,"not_compared":4}"#);
        let mut report = ConformanceReport { themes: vec![theme.clone(), theme], ..ConformanceReport::default() };
        assert_eq!(report.total(), CaseCounts { agreed: 6, differing: 2, allowed: 4, not_compared: 8 });
        assert_eq!(report.judge(), exit::HELD);
        let text = String::new;
        report.differing = vec![DifferingCase { case: text(), theme: text(), why: text(), places: Vec::new() }];
        assert_eq!(report.judge(), exit::VIOLATED);
    }
}
