//! Coverage points: which rows of decision tables, rules, reasons and errors of the system under test a run reached.
//!
//! They are no events: the digest does not have them, and nobody listens.

use std::fmt;

use kube_machinery::FxHashSet;

/// A point that runs can reach. Only names that the program has itself, so that reaching it costs no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoveragePoint {
    /// What it is one of, after the system: `spiderpool/reclaim` for the rows of that table, `byom/refused` for the errors of a call.
    pub group: &'static str,
    /// Its name in there.
    pub name: &'static str,
}

impl fmt::Display for CoveragePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.name)
    }
}

/// A function that names the variants of an enumeration for coverage, and the list of all names: one that is left out does not compile.
#[macro_export]
macro_rules! coverage_names {
    ($(#[$about:meta])* $function:ident, $all:ident: $of:ty { $($variant:pat => $name:literal,)* }) => {
        $(#[$about])*
        fn $function(value: &$of) -> &'static str {
            match value {
                $($variant => $name,)*
            }
        }

        const $all: &[&str] = &[$($name),*];
    };
}

/// The points that a run reached.
#[derive(Debug, Default)]
pub struct Coverage(FxHashSet<CoveragePoint>);

impl Coverage {
    /// The run reaches `point`.
    pub fn reach(&mut self, point: CoveragePoint) {
        self.0.insert(point);
    }

    /// All that it reached, sorted.
    pub fn sorted(&self) -> Vec<CoveragePoint> {
        let mut points: Vec<CoveragePoint> = self.0.iter().copied().collect();
        points.sort_unstable();
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_kept_once_and_sorted() {
        let mut coverage = Coverage::default();
        for (group, name) in [("tier", "namespace"), ("rule", "node-name"), ("tier", "namespace")] {
            coverage.reach(CoveragePoint { group, name });
        }
        let told: Vec<String> = coverage.sorted().iter().map(CoveragePoint::to_string).collect();
        assert_eq!(told, ["rule/node-name", "tier/namespace"]);
    }
}
