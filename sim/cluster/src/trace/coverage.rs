//! Coverage points: which rows of decision tables, rules, reasons and errors of the system under test a run reached.
//!
//! They are no events: the digest does not have them, and nobody listens.

use std::fmt;

use kube_machinery::FxHashMap;

/// A point that runs can reach. Only names that the program has itself, so that reaching it costs no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoveragePoint {
    /// What it is one of, after the system: `counter/refused` for the errors of a call.
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

/// The points that a run reached, and how often.
#[derive(Debug, Default)]
pub struct Coverage(FxHashMap<CoveragePoint, u32>);

impl Coverage {
    /// The run reaches `point`.
    pub fn reach(&mut self, point: CoveragePoint) {
        let times = self.0.entry(point).or_default();
        *times = times.saturating_add(1);
    }

    /// All that it reached, sorted.
    pub fn sorted(&self) -> Vec<CoveragePoint> {
        self.counts().into_iter().map(|(point, _)| point).collect()
    }

    /// All that it reached, sorted, and how often it came by.
    pub fn counts(&self) -> Vec<(CoveragePoint, u32)> {
        let mut counts: Vec<(CoveragePoint, u32)> = self.0.iter().map(|(point, times)| (*point, *times)).collect();
        counts.sort_unstable();
        counts
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
        assert_eq!(coverage.counts().iter().map(|(_, times)| *times).collect::<Vec<_>>(), [1, 2]);
    }
}
