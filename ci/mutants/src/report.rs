//! The verdicts on the mutants: by module, and each survivor.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::site::Site;
use crate::sweep::Verdict;

/// The bounds of the classes of seeds in [`text`].
const WITHIN: [u64; 6] = [1, 5, 15, 30, 50, 200];

/// A mutant and the verdict of the sweeps.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Judged {
    #[serde(flatten)]
    pub(crate) site: Site,
    #[serde(flatten)]
    pub(crate) verdict: Verdict,
    /// The reason why no sweep can notice it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) argued: Option<String>,
}

/// A mutant that behaves like the original, as far as sweeps can see.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Argued {
    file: String,
    function: String,
    code: String,
    instead: String,
    #[serde(default)]
    repeated: usize,
    /// The reason why no sweep can distinguish it from the original.
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArguedFile {
    #[serde(default)]
    mutant: Vec<Argued>,
}

/// The [ranks](Site::rank) of the survivors in a `mutants.json`: they are valid whatever their lines are by now.
///
/// # Errors
/// The file cannot be read, or was not written by an earlier run.
pub(crate) fn left_by(path: &Path) -> Result<BTreeSet<u64>, Box<dyn Error>> {
    #[derive(Deserialize)]
    struct One {
        #[serde(flatten)]
        site: Site,
        verdict: String,
    }
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let all: Vec<One> = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(all.into_iter().filter(|one| one.verdict != "noticed").map(|one| one.site.rank()).collect())
}

impl Argued {
    /// Reads the entries of a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a list of entries.
    pub(crate) fn read(path: &Path) -> Result<Vec<Self>, Box<dyn Error>> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file: ArguedFile = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(file.mutant)
    }

    /// Whether it is about this mutant.
    pub(crate) fn is_about(&self, site: &Site) -> bool {
        let same = (&self.file, &self.function, &self.code, &self.instead, self.repeated);
        same == (&site.file, &site.function, &site.code, &site.instead, site.repeated)
    }

    /// The reason why it cannot be noticed.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    /// A description of the mutant, for a message.
    pub(crate) fn told(&self) -> String {
        format!("{}: {}: `{}` to `{}`", self.file, self.function, self.code, self.instead)
    }
}

/// The numbers of mutants by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    noticed: usize,
    survive: usize,
    not_reached: usize,
    only_upstream: usize,
    argued: usize,
}

impl Counts {
    /// The counts of these mutants.
    pub(crate) fn of<'a>(judged: impl IntoIterator<Item = &'a Judged>) -> Self {
        let mut counts = Self::default();
        for one in judged {
            match &one.verdict {
                Verdict::Noticed { .. } => counts.noticed += 1,
                Verdict::OnlyUpstream => counts.only_upstream += 1,
                _ if one.argued.is_some() => counts.argued += 1,
                Verdict::Survives { .. } => counts.survive += 1,
                Verdict::NotReached => counts.not_reached += 1,
            }
        }
        counts
    }

    /// The noticed part of the mutants, without those that are argued or that only deviations reach. 1 if there are none.
    pub(crate) fn score(&self) -> f64 {
        let all = self.noticed + self.survive + self.not_reached;
        if all == 0 { 1.0 } else { self.noticed as f64 / all as f64 }
    }

    fn cells(&self) -> [String; 6] {
        let [noticed, survive, not_reached, argued, upstream] =
            [self.noticed, self.survive, self.not_reached, self.argued, self.only_upstream].map(|count| count.to_string());
        [format!("{:.0} %", 100.0 * self.score()), noticed, survive, not_reached, argued, upstream]
    }
}

/// The scenarios in which a surviving mutant changed the runs, in parentheses.
pub(crate) fn where_it_differs(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Survives { scenarios, differ } => match differ.first() {
            Some(first) => format!("(runs differ in {} of {scenarios} scenarios, as in {first})", differ.len()),
            None => format!("(no run differs, of {scenarios} scenarios)"),
        },
        _ => String::new(),
    }
}

/// The numbers of seeds after which the noticed mutants were noticed.
fn within(judged: &[Judged]) -> String {
    let seeds = |one: &Judged| match one.verdict {
        Verdict::Noticed { seeds, .. } => Some(seeds),
        _ => None,
    };
    let mut seeds: Vec<u64> = judged.iter().filter_map(seeds).collect();
    seeds.sort_unstable();
    if seeds.is_empty() {
        return String::new();
    }
    let part = |most: &u64| format!("{most}: {}", seeds.partition_point(|seeds| seeds <= most));
    let parts: Vec<String> = WITHIN.iter().map(part).collect();
    format!("\nNoticed within so many seeds of a scenario: {}; of {}\n", parts.join(", "), seeds.len())
}

/// A table by module, and the mutants that nothing notices.
pub(crate) fn text(judged: &[Judged]) -> String {
    let mut modules: BTreeMap<String, Vec<&Judged>> = BTreeMap::new();
    for one in judged {
        modules.entry(one.site.module()).or_default().push(one);
    }
    let mut rows = vec![["module", "score", "noticed", "survive", "not reached", "argued", "only upstream"].map(str::to_owned)];
    let row = |name: &str, counts: Counts| {
        let [a, b, c, d, e, f] = counts.cells();
        [name.to_owned(), a, b, c, d, e, f]
    };
    rows.extend(modules.iter().map(|(name, judged)| row(name, Counts::of(judged.iter().copied()))));
    rows.push(row("all", Counts::of(judged)));
    let mut text = String::new();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
            let _ = if column == 0 { write!(text, "{cell:<width$}") } else { write!(text, "  {cell:>width$}") };
        }
        text = text.trim_end().to_owned() + "\n";
    }
    text.push_str(&within(judged));
    for (title, wanted) in [("Survive", false), ("Not reached", true)] {
        let mut left = judged.iter().filter(|one| {
            let unreached = matches!(one.verdict, Verdict::NotReached);
            one.argued.is_none() && (matches!(one.verdict, Verdict::Survives { .. }) || unreached) && unreached == wanted
        });
        let Some(first) = left.next() else { continue };
        let _ = writeln!(text, "\n{title}");
        for one in std::iter::once(first).chain(left) {
            let Site { file, line, function, code, instead, .. } = &one.site;
            let differs = where_it_differs(&one.verdict);
            let _ = writeln!(text, "{}", format!("  {file}:{line}: {function}: `{code}` to `{instead}` {differs}").trim_end());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(file: &str, verdict: Verdict, argued: Option<&str>) -> Judged {
        let site = Site {
            file: file.to_owned(),
            line: 7,
            function: "f".to_owned(),
            code: "a < b".to_owned(),
            instead: "a <= b".to_owned(),
            repeated: 0,
        };
        Judged { site, verdict, argued: argued.map(str::to_owned) }
    }

    fn noticed() -> Verdict {
        Verdict::Noticed { scenario: "s".to_owned(), by: "c".to_owned(), seeds: 3 }
    }

    #[test]
    fn the_score_leaves_out_what_cannot_be_noticed() {
        let survives = Verdict::Survives { scenarios: 3, differ: vec!["a".to_owned(), "b".to_owned()] };
        let all = [
            judged("core/byom/src/decide.rs", noticed(), None),
            judged("core/byom/src/decide.rs", survives.clone(), None),
            judged("core/byom/src/decide.rs", survives, Some("equal")),
            judged("core/byom/src/decide.rs", Verdict::OnlyUpstream, None),
            judged("core/kube/src/leader.rs", Verdict::NotReached, None),
        ];
        assert_eq!(Counts::of(&all[..4]).score(), 0.5);
        assert_eq!(Counts::of(&all[4..]).score(), 0.0);
        assert_eq!(
            text(&all),
            "module       score  noticed  survive  not reached  argued  only upstream\n\
             byom/decide   50 %        1        1            0       1              1\n\
             kube/leader    0 %        0        0            1       0              0\n\
             all           33 %        1        1            1       1              1\n\
             \n\
             Noticed within so many seeds of a scenario: 1: 0, 5: 1, 15: 1, 30: 1, 50: 1, 200: 1; of 1\n\
             \n\
             Survive\n  core/byom/src/decide.rs:7: f: `a < b` to `a <= b` (runs differ in 2 of 3 scenarios, as in a)\n\
             \n\
             Not reached\n  core/kube/src/leader.rs:7: f: `a < b` to `a <= b`\n"
        );
    }
}
