//! The result of a sweep: a line per scenario, the failures, and a final line.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use ipam_reports::command::{mutation_score_command, replay_command};
use ipam_reports::finding::{ClaimCount, Failure, Problem, ProblemKind};
use ipam_reports::placements::Placements;
use ipam_reports::run::CrashPoints;
use ipam_reports::shrink::cause_class;
use ipam_reports::{Finding, RunReport, ScenarioResult, Seconds, SeedRange, Verdict, exit, human};

use super::Paint;
use super::failure::Block;
use super::hunt::hunt;
use super::metric::metrics;
use super::pool::pools;
use super::reclaim::reclaims;
use super::table::{Align, Table};

/// The maximum number of failure blocks per scenario; the rest are counted.
const BLOCKS_MAX: usize = 3;
/// The maximum number of further seeds that are named.
const SEEDS_NAMED_MAX: usize = 5;

/// The whole report as text: the verdict first, then the findings.
pub fn run(report: &RunReport, paint: Paint) -> String {
    let mut lines = overview(report, paint);
    let pools = pools(report, paint);
    if !pools.is_empty() {
        lines.push(String::new());
        lines.extend(pools);
    }
    let reclaims = reclaims(report, paint);
    if !reclaims.is_empty() {
        lines.push(String::new());
        lines.extend(reclaims);
    }
    let metrics = metrics(report, paint);
    if !metrics.is_empty() {
        lines.push(String::new());
        lines.extend(metrics);
    }
    let mut told = Told::default();
    for scenario in &report.scenarios {
        let about = findings(scenario, report.verdict(scenario), &mut told, paint);
        if !about.is_empty() {
            lines.push(String::new());
            lines.push(format!("{}  {}", paint.bold(&scenario.name), paint.dim(&scenario.file)));
            lines.extend(about);
        }
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push(summary(report, paint));
    lines.join("\n") + "\n"
}

/// One aligned line per scenario.
fn overview(report: &RunReport, paint: Paint) -> Vec<String> {
    if report.scenarios.is_empty() {
        return vec![];
    }
    const VERDICT: usize = 0;
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Right, Right, Right, Right, Right, Left, Left]);
    let head = ["", "scenario", "seeds", "simulated", "requests", "conflicts", "seeds/s", "digest", ""];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    for scenario in &report.scenarios {
        let verdict = report.verdict(scenario);
        let cut = verdict == Verdict::Incomplete && scenario.placements.is_some();
        let cells = [
            if cut { "CUT" } else { word(verdict) }.to_owned(),
            scenario.name.clone(),
            human::count(scenario.seeds),
            human::duration(scenario.simulated),
            human::count(scenario.api.requests),
            human::count(scenario.api.conflicts),
            scenario.seeds_per_second().map(human::rate).unwrap_or_default(),
            scenario.digest.short(),
            note(scenario, verdict),
        ];
        table.painted(cells, move |column, text| if column == VERDICT { painted(verdict, text, paint) } else { text.to_owned() });
    }
    table.lines()
}

pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held | Verdict::Found | Verdict::NotNoticed => "ok",
        Verdict::Violated | Verdict::NotFound | Verdict::NotEventually | Verdict::ExcusedTooOften => "FAIL",
        Verdict::Vacuous => "VACUOUS",
        Verdict::NotRun | Verdict::Incomplete => "NOT RUN",
        Verdict::CutShort => "ok",
        Verdict::LeftOut => "cut",
        Verdict::Open => "open",
        Verdict::Nondeterministic => "NONDET",
        Verdict::Broken => "BUG",
    }
}

pub(super) fn painted(verdict: Verdict, text: &str, paint: Paint) -> String {
    match verdict {
        Verdict::Held | Verdict::Found | Verdict::NotNoticed | Verdict::CutShort => paint.good(text),
        Verdict::Vacuous | Verdict::NotRun | Verdict::Incomplete | Verdict::LeftOut | Verdict::Open => paint.warn(text),
        _ => paint.bad(text),
    }
}

/// The end of a scenario's line.
fn note(scenario: &ScenarioResult, verdict: Verdict) -> String {
    let mut notes = Vec::new();
    match verdict {
        Verdict::Found => notes.push("fails as it must".to_owned()),
        Verdict::NotFound => notes.push("must fail, but does not".to_owned()),
        Verdict::Open => notes.push("judged when the shards are merged".to_owned()),
        _ => {}
    }
    if scenario.violated > 0 {
        notes.push(format!("{} violated", human::count(scenario.violated)));
    }
    if scenario.excused > 0 {
        notes.push(format!("{} excused", human::count(scenario.excused)));
    }
    notes.join(", ")
}

/// All remarks about a scenario that ended with this verdict; nothing if it simply held.
pub(crate) fn findings(scenario: &ScenarioResult, verdict: Verdict, told: &mut Told, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(scenario.left_out.iter().map(|sentence| format!("{}   {sentence}", paint.warn("note "))));
    lines.extend(scenario.crash_points.iter().flat_map(crash_points));
    lines.extend(scenario.placements.iter().flat_map(|covered| placements(covered, scenario.violated)));
    lines.extend(scenario.hunt.iter().flat_map(hunt));
    scenario.problems.iter().take(BLOCKS_MAX).for_each(|found| lines.extend(problem(scenario, found, paint)));
    let more = (scenario.broken + scenario.nondeterministic).saturating_sub(scenario.problems.len().min(BLOCKS_MAX) as u64);
    if more > 0 {
        lines.push(format!("also    {} more", human::plural(more, "such seed", "such seeds")));
    }
    if let (Verdict::NotFound, Some(expected)) = (verdict, &scenario.expect) {
        let seeds = human::plural(scenario.seeds, "seed", "seeds");
        lines.push(format!("{} {} must be violated    not found in {seeds}", paint.bad("FAIL "), paint.bold(expected)));
    }
    lines.extend(failures(scenario, verdict, told, paint));
    if verdict == Verdict::ExcusedTooOften {
        let (excused, seeds) = (human::count(scenario.excused), human::plural(scenario.seeds, "seed", "seeds"));
        let wrong = "more than one of ten, and the scenario does not say why";
        lines.push(format!("{} excused in {excused} of {seeds}    {wrong}: see `why_excused`", paint.bad("FAIL ")));
    }
    for excuse in &scenario.excuses {
        let seeds = human::plural(excuse.seeds, "seed", "seeds");
        lines.push(format!("excused {} by {}: {seeds}, the first is {}", excuse.claim, excuse.excuse, excuse.first_seed));
    }
    if scenario.excused > 0 {
        lines.extend(scenario.why_excused.iter().map(|why| format!("        {why}")));
    }
    // Coverage is not required of a negative scenario that fails as it must.
    let asked = !matches!(verdict, Verdict::NotRun | Verdict::Found | Verdict::Open);
    if asked && scenario.no_address_given {
        let why = match scenario.allocations.attempted {
            0 => "no pod asked for one".to_owned(),
            1 => "the only request was refused".to_owned(),
            attempted => format!("all {} requests were refused", human::count(attempted)),
        };
        lines.push(format!("{} {:<9}  no address was ever given: {why}", paint.warn("○    "), "addresses"));
    }
    if asked && scenario.brought {
        let unseen = unseen(scenario);
        let names = unseen.join(", ");
        lines.extend((!unseen.is_empty()).then(|| format!("note    the cluster of the manifests does not show {names}")));
        if verdict == Verdict::Held {
            let command = mutation_score_command(&scenario.file);
            lines.push(format!("note    which mutations such runs would notice on this cluster: {command}"));
        }
    } else if asked {
        for claim in scenario.never_held() {
            let seeds = human::plural(scenario.seeds, "seed", "seeds");
            lines.push(format!("{} {:<9}  {}    held in none of {seeds}", paint.warn("○    "), claim.kind, paint.bold(&claim.claim)));
        }
        for fault in scenario.never_fired() {
            let plans = human::plural(fault.drawn_in, "plan", "plans");
            lines.push(format!("{} {:<9}  {}    did nothing in any of {plans}", paint.warn("○    "), "fault", paint.bold(&fault.fault)));
        }
        for claim in scenario.never_judged() {
            let seeds = human::plural(scenario.seeds, "seed", "seeds");
            lines.push(format!("{} {:<9}  {}    had nothing to judge in {seeds}", paint.warn("○    "), "always", paint.bold(&claim.claim)));
        }
    }
    lines
}

/// The claims and faults that a cluster of manifests gave no occasion for.
fn unseen(scenario: &ScenarioResult) -> Vec<&str> {
    let held = scenario.never_held().map(|claim| claim.claim.as_str());
    let fired = scenario.never_fired().map(|fault| fault.fault.as_str());
    held.chain(fired).chain(scenario.never_judged().map(|claim| claim.claim.as_str())).collect()
}

/// The crash points that were tried, process by process.
fn crash_points(points: &CrashPoints) -> Vec<String> {
    let CrashPoints { points, tried, reached, processes } = points;
    let all = if tried == points { "all tried".to_owned() } else { format!("{} tried", human::count(*tried)) };
    let mut lines = vec![format!("crash points: {}, {all}, {} reached", human::count(*points), human::count(*reached))];
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Right]);
    for process in processes.iter().filter(|process| process.writes > 0) {
        let failed = if process.failed > 0 { format!("{} failed", human::count(process.failed)) } else { String::new() };
        let writes = human::plural(process.writes, "write", "writes");
        table.row([format!("      {}", process.process), writes, format!("{} reached", human::count(process.reached)), failed]);
    }
    lines.extend(table.lines());
    lines
}

/// The coverage of all placements of disturbances, and the results of each effect.
fn placements(covered: &Placements, violated: u64) -> Vec<String> {
    let (tried, equivalent) = (covered.tried(), covered.equivalent());
    let of = format!("of up to {}", human::plural(covered.disturbances.into(), "disturbance", "disturbances"));
    let told = match (covered.complete, violated) {
        (true, 0) => format!("all {} {of} hold", human::count(tried)),
        (true, violated) => format!("all {} {of} tried, {} violated", human::count(tried), human::count(violated)),
        (false, _) => format!("{} {of} tried before time was up, NOT all", human::count(tried)),
    };
    let mut lines = vec![format!("placements: {told}; {} gave a run that was known", human::count(equivalent))];
    let mut table = Table::new([Align::Left, Align::Right, Align::Right, Align::Right, Align::Right]);
    let some = |count: u64, what: &str| if count > 0 { format!("{} {what}", human::count(count)) } else { String::new() };
    for level in &covered.levels {
        let tried = if level.tried == level.placements { "all tried".to_owned() } else { format!("{} tried", human::count(level.tried)) };
        table.row([
            format!("      {}", human::plural(level.disturbances.into(), "disturbance", "disturbances")),
            human::plural(level.placements, "placement", "placements"),
            tried,
            some(level.equivalent, "known"),
            some(level.violated, "violated"),
        ]);
    }
    lines.extend(table.lines());
    let mut table = Table::new([Align::Left, Align::Right, Align::Right]);
    for effect in &covered.effects {
        table.row([format!("      {}", effect.effect), human::count(effect.tried), some(effect.violated, "violated")]);
    }
    lines.extend(table.lines());
    lines
}

fn problem(scenario: &ScenarioResult, problem: &Problem, paint: Paint) -> Vec<String> {
    let what = match problem.kind {
        ProblemKind::Harness => "BUG     the harness failed",
        ProblemKind::Nondeterminism => "NONDET  one plan, two digests",
    };
    let mut lines = vec![format!("{}    seed {}", paint.bad(what), problem.seed)];
    lines.push(format!("      {}", problem.message));
    lines.push(format!("replay  {}", paint.bold(&replay_command(problem.plan.as_deref(), &scenario.file, problem.seed))));
    lines
}

/// Each cause as a block, with all that it breaks; other failures as counts. A cause that was described for another scenario is only named.
fn failures(scenario: &ScenarioResult, verdict: Verdict, told: &mut Told, paint: Paint) -> Vec<String> {
    let expected = |claim: &str| scenario.expect.as_deref() == Some(claim);
    let findings = scenario.sorted_findings();
    // Other claims that a negative scenario violates mostly report the same harm.
    let found = verdict == Verdict::Found;
    let blocks = if found { 1 } else { BLOCKS_MAX };
    let mut lines = Vec::new();
    let mut shown = 0;
    for finding in &findings {
        let Some(failure) = finding.failure(scenario) else { continue };
        if let Some(elsewhere) = finding.cause.as_ref().filter(|_| !found).and_then(|cause| told.by_cause.get(&cause_class(cause))) {
            let (what, seeds) = (breaks(&finding.claims), human::plural(finding.seeds, "seed", "seeds"));
            lines.push(format!("same    cause as in {elsewhere}: {}; {what}, in {seeds} from {} on", named(finding), failure.seed));
            lines.extend(unexamined(finding));
            continue;
        }
        if shown >= blocks {
            let seeds = human::plural(finding.seeds.saturating_add(finding.unexamined), "seed", "seeds");
            let names: Vec<&str> = finding.claims.iter().map(|count| &*count.claim).collect();
            lines.push(format!("also    {} in {seeds}, the first is {}", names.join(", "), failure.seed));
            if !found {
                lines.push(format!("replay  {}", paint.bold(&replay_of(scenario, failure))));
            }
            continue;
        }
        shown += 1;
        if let Some(cause) = finding.cause.as_ref().filter(|_| !found) {
            told.by_cause.insert(cause_class(cause), told.place.clone().unwrap_or_else(|| scenario.name.clone()));
        }
        lines.extend(block(scenario, failure, if expected(&failure.claim) { "FOUND" } else { "FAIL" }).lines(paint));
        // The causes of failures that must happen are not searched: each seed counts.
        let all = |known: &ClaimCount| scenario.claims.iter().find(|count| count.claim == known.claim).unwrap_or(known).clone();
        let others: Vec<ClaimCount> = finding.claims[1..].iter().map(|known| if found { all(known) } else { known.clone() }).collect();
        lines.extend((!others.is_empty()).then(|| format!("also    {}", breaks(&others))));
        if scenario.crash_points.is_some() {
            // All of them are in the plan of one seed or of a few.
            let more = finding.seeds.saturating_sub(1);
            lines.extend((more > 0).then(|| format!("also    {} more", human::plural(more, "crash point", "crash points"))));
            lines.extend(unexamined_of(finding.unexamined, ("crash point", "crash points")));
        } else if scenario.placements.is_some() {
            let more = finding.seeds.saturating_sub(1);
            lines.extend((more > 0).then(|| format!("also    {} more", human::plural(more, "placement", "placements"))));
            lines.extend(unexamined_of(finding.unexamined, ("placement", "placements")));
        } else if scenario.hunt.is_some() {
            let more = finding.seeds.saturating_sub(1);
            lines.extend((more > 0).then(|| format!("also    {} more", human::plural(more, "run", "runs"))));
            lines.extend(unexamined_of(finding.unexamined, ("run", "runs")));
        } else if found {
            let all = scenario.claims.iter().find(|count| count.claim == failure.claim);
            lines.extend(all.and_then(|count| further(&count.seed_ranges, count.seeds, failure.seed)));
        } else {
            lines.extend(further(&finding.seed_ranges, finding.seeds, finding.seed));
            lines.extend(unexamined(finding));
        }
    }
    // Results of older versions list no failure of a claim that was violated only after other claims.
    let listed = |claim: &str| findings.iter().any(|finding| finding.claims.iter().any(|count| count.claim == claim));
    for count in scenario.claims.iter().filter(|count| !listed(&count.claim)) {
        lines.push(format!("also    {} in {}", count.claim, human::plural(count.seeds, "seed", "seeds")));
    }
    lines
}

/// The causes that were described, each with the place of its description.
#[derive(Default)]
pub(crate) struct Told {
    by_cause: BTreeMap<String, String>,
    /// The name of the current place; unset = that of its scenario.
    place: Option<String>,
}

impl Told {
    /// Sets the place at which the next causes are described.
    pub(crate) fn enter(&mut self, place: &str) {
        self.place = Some(place.to_owned());
    }
}

/// `breaks a (4 seeds) and b (1 seed)`
fn breaks(claims: &[ClaimCount]) -> String {
    let each: Vec<String> =
        claims.iter().map(|count| format!("{} ({})", count.claim, human::plural(count.seeds, "seed", "seeds"))).collect();
    match each.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("breaks {} and {last}", most.join(", ")),
        all => format!("breaks {}", all.concat()),
    }
}

/// The cause as half a sentence.
fn named(finding: &Finding) -> &str {
    finding.cause.as_deref().unwrap_or("which is not known")
}

fn block<'a>(scenario: &ScenarioResult, failure: &'a Failure, word: &'a str) -> Block<'a> {
    Block {
        word,
        claim: &failure.claim,
        kind: failure.kind,
        seed: failure.seed,
        at: failure.at,
        detail: &failure.detail,
        needs: failure.needs.as_deref(),
        digest: failure.digest,
        plan: failure.plan.as_deref(),
        shrunk: failure.shrunk.as_ref(),
        replay: Some(replay_of(scenario, failure)),
    }
}

/// The command that replays a failure, preferably with the shrunk plan.
fn replay_of(scenario: &ScenarioResult, failure: &Failure) -> String {
    let smaller = failure.shrunk.as_ref().and_then(|shrunk| shrunk.plan.as_deref());
    replay_command(smaller.or(failure.plan.as_deref()), &scenario.file, failure.seed)
}

/// The seeds whose cause was not examined.
fn unexamined(finding: &Finding) -> Option<String> {
    let seeds = named_seeds(&finding.unexamined_ranges, finding.unexamined, None)?;
    Some(format!("also    {seeds}, whose cause was not looked into"))
}

fn unexamined_of(count: u64, (one, many): (&str, &str)) -> Option<String> {
    (count > 0).then(|| format!("also    {}, whose cause was not looked into", human::plural(count, one, many)))
}

/// The other seeds that showed what a block describes for one seed.
fn further(ranges: &[SeedRange], seeds: u64, told: u64) -> Option<String> {
    named_seeds(ranges, seeds.saturating_sub(1), Some(told)).map(|seeds| format!("also    {seeds}"))
}

/// `seeds 7, 9 and 96 more`: names this many seeds, omitting `without`.
fn named_seeds(ranges: &[SeedRange], count: u64, without: Option<u64>) -> Option<String> {
    let others = ranges.iter().flat_map(|range| range.first..=range.last).filter(|seed| Some(*seed) != without);
    let named: Vec<_> = others.take(SEEDS_NAMED_MAX).map(|seed| seed.to_string()).collect();
    match (named.len(), count.saturating_sub(named.len() as u64)) {
        (0, 0) => None,
        (0, more) => Some(format!("{} more", human::plural(more, "seed", "seeds"))),
        (1, 0) => Some(format!("seed {}", named[0])),
        (_, 0) => Some(format!("seeds {}", named.join(", "))),
        (_, more) => Some(format!("seeds {} and {} more", named.join(", "), human::count(more))),
    }
}

/// The final line of the report.
fn summary(report: &RunReport, paint: Paint) -> String {
    let seeds = human::plural(report.scenarios.iter().map(|scenario| scenario.seeds).sum(), "seed", "seeds");
    let simulated = human::duration(report.scenarios.iter().map(|scenario| scenario.simulated).sum::<Seconds>());
    let wall = human::duration(report.scenarios.iter().map(|scenario| scenario.wall).sum::<Seconds>());
    let scenarios = human::plural(report.scenarios.len() as u64, "scenario", "scenarios");
    let code = report.exit_code;
    if code == exit::HELD {
        return format!("{}: {scenarios}, {seeds}, {simulated} simulated in {wall}.", paint.good("All held"));
    }
    let headline = match code {
        exit::VIOLATED => paint.bad("Violated"),
        exit::NOT_EVENTUALLY => paint.bad("Not eventually"),
        exit::VACUOUS => paint.warn("Vacuous"),
        exit::INCOMPLETE => paint.warn("Incomplete"),
        exit::USAGE => paint.bad("Not written"),
        exit::NONDETERMINISTIC => paint.bad("Nondeterministic"),
        code if exit::is_interruption(code) => paint.warn("Interrupted"),
        _ => paint.bad("Harness bug"),
    };
    let group = |verdict| match verdict {
        Verdict::Held | Verdict::Found => ("as it must be", "as they must be"),
        Verdict::Broken => ("broken", "broken"),
        Verdict::Nondeterministic => ("nondeterministic", "nondeterministic"),
        Verdict::Violated => ("violated", "violated"),
        Verdict::ExcusedTooOften => ("excused too often", "excused too often"),
        Verdict::NotFound => ("that should fail but does not", "that should fail but do not"),
        Verdict::NotEventually => ("not eventually", "not eventually"),
        Verdict::Vacuous => ("vacuous", "vacuous"),
        Verdict::NotRun => ("not run", "not run"),
        Verdict::Open => ("open", "open"),
        // A run never has the verdicts that only a gate has.
        Verdict::Incomplete | Verdict::CutShort | Verdict::LeftOut | Verdict::NotNoticed => ("cut short", "cut short"),
    };
    let mut groups = IndexMap::<_, u64>::new();
    for scenario in &report.scenarios {
        *groups.entry(group(report.verdict(scenario))).or_default() += 1;
    }
    let counts: Vec<_> = groups.into_iter().map(|((one, many), count)| human::plural(count, one, many)).collect();
    let of_which = if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) };
    format!("{headline}: {scenarios}{of_which}, {seeds}, {simulated} simulated in {wall}.")
}
