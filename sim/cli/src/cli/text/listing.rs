//! Tables of scenarios, claims, faults and mutations, and findings in files.

use ipam_reports::listing::Severity;
use ipam_reports::{CheckReport, ListReport, human, reference};

use super::Paint;
use super::table::{Align, Table};

/// One table per requested part.
pub fn list(report: &ListReport, paint: Paint) -> String {
    use Align::{Left, Right};
    let mut sections = Vec::new();
    if let Some(scenarios) = &report.scenarios {
        let mut table = Table::new([Left, Right, Left, Left]);
        for entry in scenarios {
            let must = entry.expect.as_ref().map(|claim| format!(" (must violate {claim})")).unwrap_or_default();
            let seeds = human::plural(entry.seeds, "seed", "seeds");
            table.row([format!("  {}", entry.name), seeds, entry.file.clone(), format!("{}{must}", entry.why)]);
        }
        let cited = scenarios.iter().map(|entry| entry.why.as_str());
        sections.push(section("Scenarios", with_legend(table.lines(), cited, paint), paint));
    }
    if let Some(claims) = &report.claims {
        let mut table = Table::new([Left, Left, Left]);
        let mut suite = None;
        for entry in claims {
            if suite.replace(&entry.suite) != Some(&entry.suite) {
                table.painted([format!("  {}/*", entry.suite), String::new(), String::new()], move |_, text| paint.bold(text));
            }
            let reference = entry.reference.as_ref().map(|reference| format!(" ({reference})")).unwrap_or_default();
            table.row([format!("    {}", entry.name), entry.kind.to_string(), format!("{}{reference}", entry.about)]);
        }
        let cited = claims.iter().filter_map(|entry| entry.reference.as_deref());
        sections.push(section("Claims", with_legend(table.lines(), cited, paint), paint));
    }
    if let Some(excuses) = report.excuses.as_ref().filter(|excuses| !excuses.is_empty()) {
        let mut lines = Vec::new();
        for entry in excuses {
            let reference = entry.reference.as_ref().map(|reference| format!(" ({reference})")).unwrap_or_default();
            lines.push(format!("  {}", paint.bold(&entry.name)));
            lines.push(format!("      {}{reference}", entry.about));
            lines.push(format!("      begins: {}", entry.begins));
            lines.push(format!("      ends: {}", entry.ends));
        }
        sections.push(section("Excuses", lines, paint));
    }
    if let Some(faults) = &report.faults {
        // Two lines, and a third one for the parameters: side by side they are wider than any screen.
        let mut lines = Vec::new();
        for entry in faults {
            lines.push(format!("  {}", paint.bold(&entry.name)));
            lines.extend([&entry.about, &entry.event].into_iter().filter(|text| !text.is_empty()).map(|text| format!("      {text}")));
            let parameters: Vec<_> =
                entry.parameters.iter().map(|parameter| format!("{} = {}", parameter.name, parameter.default)).collect();
            if !parameters.is_empty() {
                lines.push(format!("      {}", parameters.join(", ")));
            }
        }
        sections.push(section("Faults", with_legend(lines, faults.iter().map(|entry| entry.event.as_str()), paint), paint));
    }
    if let Some(deviations) = &report.deviations {
        let mut table = Table::new([Left, Left, Left]);
        deviations.iter().for_each(|entry| table.row([format!("  {}", entry.name), entry.how.clone(), entry.about.clone()]));
        let cited = deviations.iter().map(|entry| entry.about.as_str());
        sections.push(section("Mutations", with_legend(table.lines(), cited, paint), paint));
    }
    sections.join("\n")
}

/// The names in the lists, one on each line as `WHAT/NAME`, as kubectl prints them with `-o name`.
pub fn names(report: &ListReport) -> String {
    let scenarios = report.scenarios.iter().flatten().map(|entry| ("scenario", &entry.name));
    let claims = report.claims.iter().flatten().map(|entry| ("claim", &entry.name));
    let faults = report.faults.iter().flatten().map(|entry| ("fault", &entry.name));
    let deviations = report.deviations.iter().flatten().map(|entry| ("mutation", &entry.name));
    scenarios.chain(claims).chain(faults).chain(deviations).map(|(what, name)| format!("{what}/{name}\n")).collect()
}

/// The lines, followed by the locations of the references that they cite.
fn with_legend<'a>(mut lines: Vec<String>, cited: impl IntoIterator<Item = &'a str>, paint: Paint) -> Vec<String> {
    let legend = reference::legend(cited);
    if !legend.is_empty() {
        lines.push(String::new());
        lines.extend(legend.iter().map(|line| paint.dim(&format!("  {line}"))));
    }
    lines
}

fn section(title: &str, rows: Vec<String>, paint: Paint) -> String {
    let rows = if rows.is_empty() { vec!["  none".to_owned()] } else { rows };
    format!("{}\n{}\n", paint.bold(title), rows.join("\n"))
}

/// One line per finding, in the form that editors and CI systems recognise, and a count.
pub fn check(report: &CheckReport, paint: Paint) -> String {
    let mut text = String::new();
    let mut counts = [0u64; 2];
    for (file, finding) in report.findings() {
        let position = [finding.line, finding.line.and(finding.column)].into_iter().flatten().map(|number| format!(":{number}"));
        let severity = match finding.severity {
            Severity::Error => paint.bad("error"),
            Severity::Warning => paint.warn("warning"),
        };
        counts[usize::from(finding.severity == Severity::Warning)] += 1;
        let hint = finding.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        text += &format!("{}{}: {severity}: {}{hint}\n", paint.bold(&file.file), position.collect::<String>(), finding.found);
    }
    let files = human::plural(report.files.len() as u64, "file", "files");
    let [errors, warnings] = counts;
    let judgement = match (errors, warnings) {
        (0, 0) if report.files.is_empty() => paint.warn("nothing to check"),
        (0, 0) => paint.good("no problem"),
        _ => {
            let errors = (errors > 0).then(|| paint.bad(&human::plural(errors, "error", "errors")));
            let warnings = (warnings > 0).then(|| paint.warn(&human::plural(warnings, "warning", "warnings")));
            errors.into_iter().chain(warnings).collect::<Vec<_>>().join(", ")
        }
    };
    text + &format!("{files}: {judgement}\n")
}
