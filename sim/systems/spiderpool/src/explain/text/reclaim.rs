//! Text that says what reclaim would do, from the records to the endpoints.

use ipam_reports::{ExplainReclaimReport, reference};
use sim_harness::text::{Align, Paint, Table};

/// Formats the whole dry run.
pub fn explain_reclaim(report: &ExplainReclaimReport, paint: Paint) -> String {
    let mut text = format!("{} at {}, {}\n", paint.bold("reclaim"), report.now, report.profile);
    if let Some(deviations) = &report.deviations {
        let deviations = if deviations.is_empty() { "none".to_owned() } else { deviations.join(", ") };
        text += &format!("{}\n", paint.dim(&format!("mutations: {deviations}")));
    }
    text += &format!("\n{}\n{}", paint.bold("records"), records(report, paint));
    text += &format!("\n{}\n{}", paint.bold("endpoints"), endpoints(report, paint));
    if !report.records.is_empty() || !report.endpoints.is_empty() {
        let rows = reference::see("G §14");
        text += &format!("\n{}\n", paint.dim(&format!("what S-3, P-6 and the other rows mean: {rows}")));
    }
    for remark in &report.remarks {
        text += &format!("\nnote: {remark}");
    }
    if !report.remarks.is_empty() {
        text.push('\n');
    }
    text
}

fn painter(action: &str, paint: Paint) -> impl Fn(usize, &str) -> String + use<> {
    let (keeps, waits) = (action == "keep", action == "track");
    move |column, text| match column {
        0 if keeps => paint.dim(text),
        0 if waits => paint.warn(text),
        0 => paint.bad(text),
        _ if keeps => paint.dim(text),
        _ => text.to_owned(),
    }
}

fn lines<const N: usize>(table: &Table<N>) -> String {
    let lines = table.lines();
    if lines.is_empty() {
        return "  none\n".to_owned();
    }
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

fn records(report: &ExplainReclaimReport, paint: Paint) -> String {
    let mut table = Table::new([Align::Left; 5]);
    for record in &report.records {
        let at = record.at.as_deref().unwrap_or_default();
        let when = match record.action.as_str() {
            _ if at.is_empty() => String::new(),
            "release" => format!(" (since {at})"),
            _ => format!(" (until {at})"),
        };
        let cells = [record.action.clone(), record.ip.clone(), record.pool.clone(), record.pod.clone(), format!("{}{when}", record.reason)];
        table.painted(cells, painter(&record.action, paint));
    }
    lines(&table)
}

fn endpoints(report: &ExplainReclaimReport, paint: Paint) -> String {
    let mut table = Table::new([Align::Left; 3]);
    for endpoint in &report.endpoints {
        let cells = [endpoint.action.clone(), endpoint.endpoint.clone(), endpoint.reason.clone()];
        table.painted(cells, painter(&endpoint.action, paint));
    }
    lines(&table)
}
