//! The result of a replay: violations, whether it is the recorded run, and where it diverges from another run.

use ipam_reports::replay::{Comparison, Parting, TraceLine};
use ipam_reports::timeline::Because;
use ipam_reports::{ReplayReport, exit, human};

use super::Paint;
use super::failure::Block;

/// The whole report, without the trace.
pub fn replay(report: &ReplayReport, paint: Paint) -> String {
    let mut lines = Vec::new();
    for violation in &report.violations {
        match &violation.excuse {
            None => lines.extend(Block::of(violation, report.seed).lines(paint)),
            Some(excuse) => lines.push(format!("excused {} at {} by {excuse}", violation.claim, violation.at)),
        }
    }
    if let Some(parting) = &report.parting {
        lines.push(format!("{} leaves the recorded run {}", paint.bad("PART "), at(parting)));
        lines.extend(sides(parting, "recorded"));
    }
    if let Some(comparison) = &report.against {
        lines.extend(against(comparison, paint));
    }
    lines.extend(report.remarks.iter().map(|remark| format!("note  {remark}")));
    lines.push(digest(report));
    lines.push(summary(report, paint));
    lines.join("\n") + "\n"
}

/// One event of the trace with its causes: a single cause follows on the same line, several on the next.
pub fn trace_line(line: &TraceLine) -> String {
    let micros = line.at.as_micros();
    let (number, causes) = (format!("#{}", line.event), causes(&line.because));
    let text = format!("{:>6}.{:06} s  {number:>6}  {:<14}  {}", micros / 1_000_000, micros % 1_000_000, line.place, line.what);
    match line.because.len() {
        0 => text + "\n",
        1 => format!("{text}  ({causes})\n"),
        _ => format!("{text}\n{:>25}{:<14}    {causes}\n", "", ""),
    }
}

/// The causes of an event. Adjacent causes with the same relation share the words for it.
fn causes(because: &[Because]) -> String {
    let mut text = String::new();
    let mut said = "";
    for Because { event, how } in because {
        let link = match text.as_str() {
            "" => format!("{how} #{event}"),
            _ if said == how => format!(" and #{event}"),
            _ => format!("; {how} #{event}"),
        };
        text.push_str(&link);
        said = how;
    }
    text
}

fn digest(report: &ReplayReport) -> String {
    let recorded = match report.expected_digest {
        Some(expected) if expected == report.digest => "   as recorded".to_owned(),
        Some(expected) => format!("   recorded as {expected}"),
        None => String::new(),
    };
    format!("digest {}{recorded}", report.digest)
}

fn at(parting: &Parting) -> String {
    format!("at event {}, {}", human::count(parting.event), parting.at)
}

/// The events of both runs at the point where they diverge, as far as they are known.
fn sides(parting: &Parting, other_name: &str) -> Vec<String> {
    let width = other_name.len();
    let side = |name: &str, event: &Option<String>| event.as_ref().map(|event| format!("      {name:<width$}  {event}"));
    let because = parting.because.as_ref().map(|because| format!("      because {because}"));
    side("this", &parting.this).into_iter().chain(side(other_name, &parting.other)).chain(because).collect()
}

fn against(comparison: &Comparison, paint: Paint) -> Vec<String> {
    match &comparison.parting {
        None => vec![format!("{} {} is the same run", paint.good("SAME "), comparison.plan)],
        Some(parting) => {
            let mut lines = vec![format!("{} leaves the run of {} {}", paint.warn("PART "), comparison.plan, at(parting))];
            lines.extend(sides(parting, "other"));
            lines
        }
    }
}

fn summary(report: &ReplayReport, paint: Paint) -> String {
    let headline = match report.exit_code {
        exit::HELD => paint.good("Held"),
        exit::VIOLATED => paint.bad("Violated"),
        exit::NOT_EVENTUALLY => paint.bad("Not eventually"),
        exit::NONDETERMINISTIC => paint.bad("Nondeterministic"),
        _ => paint.bad("Harness bug"),
    };
    let what = match (&report.scenario, &report.plan) {
        (Some(scenario), _) => format!("{scenario}, seed {}", report.seed),
        (None, Some(plan)) => format!("{plan}, seed {}", report.seed),
        (None, None) => format!("seed {}", report.seed),
    };
    let events = human::plural(report.events, "event", "events");
    format!("{headline}: {what}, {} simulated, {events}.", human::duration(report.simulated))
}
