//! The result of `shrink`: what of a failing plan is left, and what of that the failure needs. The JSON form is `ipam-sim/shrink/1`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::claim_kind::Kind;
use crate::schema::{self, ReadError, ShrinkSchema};
use crate::{Digest, Seconds, exit, human};

/// The result of one `shrink`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShrinkReport {
    /// Mark of the format, always `ipam-sim/shrink/1`; reading anything else is an error.
    pub schema: ShrinkSchema,
    /// The scenario that the plan was drawn from.
    pub scenario: String,
    /// The seed that it was drawn from.
    pub seed: u64,
    /// The plan file that was shrunk.
    pub plan: String,
    /// The claim that both plans violate.
    pub claim: String,
    /// Whether the claim is to hold `always` or `eventually`.
    pub kind: Kind,
    /// When the smaller plan violates it, in model time.
    #[serde(rename = "at_s")]
    pub at: Seconds,
    /// Who holds what since when, in the run of the smaller plan: one sentence a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detail: Vec<String>,
    /// What of the smaller plan the failure needs; not known if making it smaller was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Needs>,
    /// The smaller plan: where it is, how large, and what it took.
    pub shrunk: Shrunk,
    /// What the process exits with; see [`exit`].
    pub exit_code: u8,
}

impl ShrinkReport {
    /// 0 when there is a plan that still fails, 130 when the user had enough of making it smaller.
    pub fn judge(&self) -> u8 {
        if self.shrunk.cut_off == Some(CutOff::Interrupted) { exit::INTERRUPTED } else { exit::HELD }
    }

    /// Reads the JSON form.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        schema::read(text, ShrinkSchema::NAME)
    }
}

/// A plan that was made smaller and still violates the same claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shrunk {
    /// The plan file; null when it could not be written.
    pub plan: Option<String>,
    /// The digest of its run.
    pub digest: Digest,
    /// How large it is.
    #[serde(flatten)]
    pub size: Size,
    /// How large the plan was that it was made from.
    pub from: Size,
    /// How many runs that took, those for what the failure needs included.
    pub runs: u64,
    /// Why it was given up, if it was before nothing more could be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_off: Option<CutOff>,
}

impl fmt::Display for Shrunk {
    /// `from 43 operations, 7 faults, 5 actors, 1 min 30 s to 3 operations, 1 fault, 2 actors, 4.1 s in 212 runs`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {} in {}", self.from, self.size, human::plural(self.runs, "run", "runs"))?;
        match self.cut_off {
            Some(cut_off) => write!(f, " ({cut_off})"),
            None => Ok(()),
        }
    }
}

/// Why a plan was not made as small as it could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CutOff {
    /// As many runs as were allowed.
    Runs,
    /// As many events in these runs as were allowed.
    Events,
    /// As much time as was allowed.
    Time,
    /// The user had enough.
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

/// How large a plan is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Size {
    /// Operations of the workload.
    pub ops: u64,
    /// Faults in the plan, whether they do something or not.
    pub faults: u64,
    /// Processes, those of the cluster included.
    pub actors: u64,
    /// Deviations of the system under test.
    pub deviations: u64,
    /// Model time from the beginning of its run to the end.
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

/// What of a plan its failure needs: that without which the claim holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    /// Its faults, in their order.
    pub faults: Vec<Need>,
    /// Its deviations, in their order.
    pub deviations: Vec<Need>,
    /// Whether the claim holds when there is no fault at all. True of a plan without faults only if it does not fail.
    pub holds_without_faults: bool,
    /// Pairs of faults without which the claim holds, although it does not hold without one of the two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<[String; 2]>,
}

/// A part of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// The fault in words, with its time; or the name of the deviation.
    pub what: String,
    /// The same without its time: what is needed in another plan may be the same at another time. Empty where it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub timeless: String,
    /// Whether the claim holds without it.
    pub needed: bool,
}

impl Needs {
    /// What the failure comes of, as far as that tells it from others: the faults, without their times, and the deviations that it needs.
    /// `None` where nothing in particular is needed: such failures have nothing to be told apart by but their plans.
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

/// What a cause, or a fault of it, has in common with those that hit others of the same kind: `partition(client-, apiserver-)`.
pub fn cause_class(cause: &str) -> String {
    cause.chars().filter(|c| !c.is_ascii_digit()).collect()
}

impl Needs {
    /// What has to be left out for the claim to hold: its faults, and its deviations. Faults are named without their times, and either all
    /// of one list go or none. `None` where nothing in particular is needed.
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
    /// Its name without its time.
    fn name(&self) -> &str {
        if self.timeless.is_empty() { &self.what } else { &self.timeless }
    }
}

impl fmt::Display for Needs {
    /// What the line `needs` of a failure block says.
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

/// `a, b and c; passes without any one of them`
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
        // What needs nothing in particular, or some of many, is not known by that.
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
