//! The result of `shrink`: the smaller plan, and the parts of it that the failure needs. The JSON form is `ipam-sim/shrink/1`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::claim_kind::Kind;
use crate::schema::{self, ReadError, ShrinkSchema};
use crate::{Digest, Seconds, exit, human};

/// The result of one `shrink`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShrinkReport {
    /// The mark of the format, always `ipam-sim/shrink/1`; reading anything else is an error.
    pub schema: ShrinkSchema,
    /// The scenario from which the plan was drawn.
    pub scenario: String,
    /// The seed from which the plan was drawn.
    pub seed: u64,
    /// The plan file that was shrunk.
    pub plan: String,
    /// The claim that both plans violate.
    pub claim: String,
    /// The kind of the claim: `always` or `eventually`.
    pub kind: Kind,
    /// The time at which the smaller plan violates it, in model time.
    #[serde(rename = "at_s")]
    pub at: Seconds,
    /// The details, such as who holds what since when, in the run of the smaller plan: one sentence a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detail: Vec<String>,
    /// The parts of the smaller plan that the failure needs; unset if shrinking was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
    /// The smaller plan: its file, its size, and the effort.
    pub shrunk: Shrunk,
    /// The exit code of the process; see [`exit`].
    pub exit_code: u8,
}

impl ShrinkReport {
    /// The exit code: 0 when there is a plan that still fails, 130 when the user interrupted shrinking.
    pub fn judge(&self) -> u8 {
        if self.shrunk.cut_off == Some(CutOff::Interrupted) { exit::INTERRUPTED } else { exit::HELD }
    }

    /// Reads the JSON form.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        schema::read(text, ShrinkSchema::NAME)
    }
}

/// A shrunk plan that still violates the same claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shrunk {
    /// The plan file; null when it could not be written.
    pub plan: Option<String>,
    /// The digest of its run.
    pub digest: Digest,
    /// The size of the plan.
    #[serde(flatten)]
    pub size: Size,
    /// The size of the original plan.
    pub from: Size,
    /// The number of runs that shrinking took, including those that find out the needs.
    pub runs: u64,
    /// The reason why shrinking stopped before nothing more could be left out, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_off: Option<CutOff>,
}

impl fmt::Display for Shrunk {
    /// Writes `from 43 operations, 7 faults, 5 actors, 1 min 30 s to 3 operations, 1 fault, 2 actors, 4.1 s in 212 runs`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {} in {}", self.from, self.size, human::plural(self.runs, "run", "runs"))?;
        match self.cut_off {
            Some(cut_off) => write!(f, " ({cut_off})"),
            None => Ok(()),
        }
    }
}

/// The limit that stopped shrinking early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CutOff {
    /// The permitted number of runs.
    Runs,
    /// The permitted number of events in these runs.
    Events,
    /// The permitted amount of time.
    Time,
    /// An interruption by the user.
    Interrupted,
}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CutOff::Runs => "cut off by the number of runs",
            CutOff::Events => "cut off by the number of events",
            CutOff::Time => "cut off by time",
            CutOff::Interrupted => "interrupted",
        })
    }
}

/// The size of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Size {
    /// The number of operations of the workload.
    pub ops: u64,
    /// The number of faults in the plan, with or without effect.
    pub faults: u64,
    /// The number of processes, including those of the cluster.
    pub actors: u64,
    /// The number of deviations of the system under test.
    pub deviations: u64,
    /// The model time from the beginning of its run to the end.
    #[serde(rename = "time_s")]
    pub time: Seconds,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ops = human::plural(self.ops, "operation", "operations");
        let faults = human::plural(self.faults, "fault", "faults");
        let actors = human::plural(self.actors, "actor", "actors");
        write!(f, "{ops}, {faults}, {actors}")?;
        if self.deviations > 0 {
            write!(f, ", {}", human::plural(self.deviations, "mutation", "mutations"))?;
        }
        write!(f, ", {}", human::duration(self.time))
    }
}

/// The parts of a plan that its failure needs: without them the claim holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    /// The faults of the plan, in their order.
    pub faults: Vec<Need>,
    /// The deviations of the plan, in their order.
    pub deviations: Vec<Need>,
    /// Whether the claim holds without any fault. True of a plan without faults only if it does not fail.
    pub holds_without_faults: bool,
    /// Pairs of faults such that the claim holds without both, although it does not hold without either one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<[String; 2]>,
}

/// A part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The fault in words, with its time; or the name of the deviation.
    pub what: String,
    /// The fault without its time: another plan may need it at another time. Empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timeless: String,
    /// Whether the claim holds without it.
    pub needed: bool,
}

impl Needs {
    /// The cause of the failure, as far as it tells it from others: the faults, without their times, and the deviations that it needs.
    /// `None` where nothing in particular is needed: only their plans tell such failures apart.
    pub fn cause(&self) -> Option<String> {
        let name = |need: &Need| need.name().to_owned();
        let needed = |parts: &[Need]| parts.iter().filter(|part| part.needed).map(name).collect::<Vec<_>>();
        let mut causes = Vec::new();
        if self.holds_without_faults {
            causes = needed(&self.faults);
            let timeless = |what: &String| self.faults.iter().find(|fault| fault.what == *what).map_or_else(|| what.clone(), name);
            if causes.is_empty() {
                causes.extend(self.together.iter().map(|pair| pair.each_ref().map(timeless).join(" or ")));
            }
            if causes.is_empty() {
                return None;
            }
        }
        causes.sort();
        causes.dedup();
        causes.extend(needed(&self.deviations));
        (!causes.is_empty()).then(|| causes.join(" + "))
    }
}

/// The class of a cause, or of a fault of it, which is the same for targets of the same kind: `partition(client-, apiserver-)`.
pub fn cause_class(cause: &str) -> String {
    cause.chars().filter(|c| !c.is_ascii_digit()).collect()
}

impl Needs {
    /// The faults and the deviations that have to be left out for the claim to hold. Faults are named without their times, and either all
    /// of one list are left out or none. `None` where nothing in particular is needed.
    pub fn parts(&self) -> Option<(Vec<&str>, Vec<&str>)> {
        let needed = |parts: &[Need]| parts.iter().filter(|part| part.needed).count() > 0;
        let mut faults: Vec<&str> = Vec::new();
        if self.holds_without_faults {
            let in_pair = |need: &Need| self.together.iter().flatten().any(|what| *what == need.what);
            let any = needed(&self.faults);
            faults = self.faults.iter().filter(|need| if any { need.needed } else { in_pair(need) }).map(Need::name).collect();
            if faults.is_empty() {
                return None;
            }
        }
        let deviations: Vec<&str> = self.deviations.iter().filter(|need| need.needed).map(Need::name).collect();
        (!faults.is_empty() || !deviations.is_empty()).then_some((faults, deviations))
    }
}

impl Need {
    /// The name of the part, without its time.
    fn name(&self) -> &str {
        if self.timeless.is_empty() { &self.what } else { &self.timeless }
    }
}

impl fmt::Display for Needs {
    /// Writes the line `needs` of a failure block.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = |parts: &[Need]| parts.iter().filter(|part| part.needed).map(|part| part.what.clone()).collect::<Vec<_>>();
        let deviations: Vec<String> = needed(&self.deviations).into_iter().map(|name| format!("the mutation {name}")).collect();
        let faults = needed(&self.faults);
        if !self.holds_without_faults {
            f.write_str("no fault")?;
            return if deviations.is_empty() { Ok(()) } else { write!(f, ", but {}", with_remark(&deviations)) };
        }
        if !faults.is_empty() {
            return f.write_str(&with_remark(&[faults, deviations].concat()));
        }
        if self.together.is_empty() {
            write!(f, "some of its {} faults; passes without all of them", self.faults.len())?;
        } else {
            let pairs: Vec<String> = self.together.iter().map(|[one, other]| format!("{one} or {other}")).collect();
            write!(f, "{}; passes without both", pairs.join(", and "))?;
        }
        if deviations.is_empty() { Ok(()) } else { write!(f, "; and {}", with_remark(&deviations)) }
    }
}

/// Joins parts with a remark: `a, b and c; passes without any one of them`
fn with_remark(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => format!("{one}; passes without it"),
        [one, other] => format!("{one} and {other}; passes without either"),
        [most @ .., last] => format!("{} and {last}; passes without any one of them", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(ops: u64, faults: u64, actors: u64, micros: u64) -> Size {
        Size { ops, faults, actors, deviations: 0, time: Seconds::from_micros(micros) }
    }

    fn shrunk() -> Shrunk {
        Shrunk {
            plan: Some("a-min.toml".into()),
            digest: Digest(15),
            size: size(3, 1, 2, 4_100_000),
            from: size(43, 7, 5, 90_000_000),
            runs: 212,
            cut_off: None,
        }
    }

    #[test]
    fn a_shrunk_plan_says_what_was_left_out() {
        let text = "from 43 operations, 7 faults, 5 actors, 1 min 30 s to 3 operations, 1 fault, 2 actors, 4.1 s in 212 runs";
        assert_eq!(shrunk().to_string(), text);
        assert_eq!(Shrunk { cut_off: Some(CutOff::Time), ..shrunk() }.to_string(), format!("{text} (cut off by time)"));
    }

    #[test]
    fn the_json_has_the_documented_fields() {
        let value = serde_json::to_value(shrunk()).unwrap();
        for (field, expected) in [("ops", 3), ("faults", 1), ("actors", 2), ("runs", 212)] {
            assert_eq!(value[field], expected, "{field}");
        }
        assert_eq!((&value["plan"], &value["digest"]), (&"a-min.toml".into(), &"0000000000000000000000000000000f".into()));
        assert_eq!(serde_json::from_value::<Shrunk>(value).unwrap(), shrunk());
    }

    #[test]
    fn what_a_failure_needs_reads_as_a_sentence() {
        let parts = |parts: &[(&str, bool)]| -> Vec<Need> {
            parts.iter().map(|&(what, needed)| Need { what: what.to_owned(), timeless: String::new(), needed }).collect()
        };
        let text = |faults: &[(&str, bool)], deviations: &[(&str, bool)], holds_without_faults, together: &[[&str; 2]]| {
            let together = together.iter().map(|pair| pair.map(str::to_owned)).collect();
            Needs { faults: parts(faults), deviations: parts(deviations), holds_without_faults, together }.to_string()
        };
        assert_eq!(text(&[], &[], false, &[]), "no fault");
        assert_eq!(text(&[("a", false)], &[("d", true), ("e", false)], false, &[]), "no fault, but the mutation d; passes without it");
        assert_eq!(text(&[("a", true), ("b", false)], &[], true, &[]), "a; passes without it");
        assert_eq!(text(&[("a", true)], &[("d", true)], true, &[]), "a and the mutation d; passes without either");
        assert_eq!(text(&[("a", true), ("b", true), ("c", true)], &[], true, &[]), "a, b and c; passes without any one of them");
        assert_eq!(text(&[("a", false), ("b", false)], &[], true, &[["a", "b"]]), "a or b; passes without both");
        assert_eq!(text(&[("a", false), ("b", false), ("c", false)], &[], true, &[]), "some of its 3 faults; passes without all of them");
    }

    #[test]
    fn failures_that_need_the_same_have_one_cause_whenever_it_comes() {
        let need = |timeless: &str, at: &str, needed| Need { what: format!("{timeless} at {at}"), timeless: timeless.into(), needed };
        let deviation = |what: &str| Need { what: what.into(), timeless: String::new(), needed: true };
        let one = Needs {
            faults: vec![need("cut(a)", "1 s", true), need("cut(b)", "2 s", false)],
            holds_without_faults: true,
            ..Needs::default()
        };
        let other = Needs { faults: vec![need("cut(a)", "5 s", true)], holds_without_faults: true, ..Needs::default() };
        assert_eq!(one.cause().as_deref(), Some("cut(a)"));
        assert_eq!(one.cause(), other.cause());
        let mutation = Needs { deviations: vec![deviation("d")], ..other.clone() };
        assert_eq!(mutation.cause().as_deref(), Some("cut(a) + d"));
        assert_eq!(Needs { holds_without_faults: false, ..mutation }.cause().as_deref(), Some("d"), "no fault is needed");
        // A failure that needs nothing in particular, or some of many faults, has no cause.
        assert_eq!(Needs::default().cause(), None);
        assert_eq!(Needs { faults: vec![need("cut(a)", "1 s", false)], ..one.clone() }.cause(), None);
        let pair = Needs {
            faults: vec![need("b", "1 s", false), need("a", "2 s", false)],
            together: vec![["b at 1 s".into(), "a at 2 s".into()]],
            ..one
        };
        assert_eq!(pair.cause().as_deref(), Some("b or a"));
    }
}
