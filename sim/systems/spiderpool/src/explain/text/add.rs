//! Text that explains why a pod gets its pools and addresses, from the question down to the answer.

use ipam_reports::ExplainReport;
use ipam_reports::explain::{AutoPoolAnswer, FamilyAnswer, NicAnswer, Refusal, Reuse, RouteSource, TierState};
use sim_harness::text::{Align, Paint, Table};

/// Formats a report as sections with an empty line between them: the question, tiers, NICs and families, auto pools, the answer.
pub fn explain(report: &ExplainReport, paint: Paint) -> String {
    let mut sections = vec![head(report, paint), tiers(report, paint)];
    sections.extend(report.families().map(|(nic, answer)| family(report, nic, answer, paint)));
    sections.extend(report.auto_pools.iter().map(|answer| auto_pool(answer, paint)));
    sections.push(verdict(report, paint));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

/// The pod, its NIC and node and the profile; below them the origin of the settings and the mutations that are on, if not the defaults.
fn head(report: &ExplainReport, paint: Paint) -> String {
    let node = if report.node.is_empty() { "no node".to_owned() } else { format!("node {}", report.node) };
    let mut text = format!("{}  {} on {node}, {}\n", paint.bold(&report.pod), report.nic, report.profile);
    if let Some(settings) = &report.settings {
        text += &paint.dim(&format!("settings: {settings}"));
        text.push('\n');
    }
    if let Some(deviations) = &report.deviations {
        let deviations = if deviations.is_empty() { "none".to_owned() } else { deviations.join(", ") };
        text += &paint.dim(&format!("mutations: {deviations}"));
        text.push('\n');
    }
    text
}

/// The table of tiers.
fn tiers(report: &ExplainReport, paint: Paint) -> String {
    if report.tiers.is_empty() {
        return String::new();
    }
    let mut table = Table::new([Align::Left, Align::Left, Align::Left, Align::Left]);
    let mut above = None;
    let fired = report.tiers.iter().position(|line| line.state == TierState::Fired);
    for (at, line) in report.tiers.iter().enumerate() {
        let mark = match line.state {
            TierState::Fired => "->",
            _ => "",
        };
        // The documents count two of the tiers as one.
        let number = if above == Some(line.document) { String::new() } else { line.document.to_string() };
        above = Some(line.document);
        let why = match line.state {
            TierState::Outranked if fired.is_none() => format!("is not come to: {}", cut(&line.why)),
            TierState::Outranked => format!("does not count, {} fired first: {}", report.tier, cut(&line.why)),
            TierState::Ignored => format!("does not count: {}", cut(&line.why)),
            TierState::Absent | TierState::Fired => cut(&line.why),
        };
        let state = line.state;
        table.painted([mark.to_owned(), number, line.tier.clone(), why], move |_, text| match state {
            TierState::Fired => paint.good(text),
            _ if fired.is_some_and(|fired| at > fired) || state == TierState::Absent => paint.dim(text),
            _ => text.to_owned(),
        });
    }
    let number = fired.map(|at| report.tiers[at].document);
    let title = match number {
        Some(number) => format!("tier {}, rule {number} of the documents; the first that fires is used alone", report.tier),
        None if report.error.as_ref().is_some_and(|error| error.class == "missing-namespace") => {
            "the decision ends at tier namespace: what it says is not known".to_owned()
        }
        None => "no tier names a pool".to_owned(),
    };
    format!("{}\n{}\n", paint.bold(&title), indented(&table))
}

/// A text cut to the width of a line; JSON has all of it.
fn cut(text: &str) -> String {
    const WIDTH: usize = 100;
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The pools of a NIC and family.
fn family(report: &ExplainReport, nic: &NicAnswer, answer: &FamilyAnswer, paint: Paint) -> String {
    let mut table = Table::new([Align::Left, Align::Left, Align::Left, Align::Left, Align::Left]);
    for supply in &answer.supplies {
        let given = answer.pool.as_ref() == Some(&supply.pool);
        let rank = format!("rank {}", supply.rank);
        let rules = if supply.rules.is_empty() { "no rule".to_owned() } else { supply.rules.join(" + ") };
        let address = match (&supply.address, &supply.unavailable) {
            // Another NIC may have drawn from the pool before.
            _ if given && answer.reused => format!("{}, used again", answer.address.as_deref().unwrap_or_default()),
            _ if given && !supply.recorded => answer.address.clone().unwrap_or_default(),
            (Some(address), _) if supply.recorded => format!("{address}, recorded for this pod"),
            (Some(address), _) => address.clone(),
            (None, code) => format!("{}: {}", code.as_deref().unwrap_or("nothing"), supply.detail),
        };
        let mark = if given { "->" } else { "" };
        table.painted(
            [mark.to_owned(), supply.pool.clone(), rank, rules, address],
            move |_, text| {
                if given { paint.good(text) } else { text.to_owned() }
            },
        );
    }
    for rejected in &answer.rejected {
        // An address that is used again may be of a pool that serves no one else.
        let mark = if answer.reused && answer.pool.as_ref() == Some(&rejected.pool) { "->" } else { "" };
        let cells = [mark.to_owned(), rejected.pool.clone(), "no".to_owned(), rejected.reason.clone(), rejected.detail.clone()];
        table.painted(cells, move |column, text| if column == 3 { paint.warn(text) } else { paint.dim(text) });
    }
    let judged: Vec<&str> = answer
        .supplies
        .iter()
        .map(|supply| supply.pool.as_str())
        .chain(answer.rejected.iter().map(|rejected| rejected.pool.as_str()))
        .collect();
    for candidate in answer.candidates.iter().filter(|candidate| !judged.contains(&candidate.as_str())) {
        table.row([String::new(), candidate.clone(), "not judged".to_owned(), String::new(), String::new()]);
    }
    format!("{}\n{}\n", paint.bold(&format!("{} IPv{}", called(report, nic), answer.ip_version)), indented(&table))
}

fn indented<const N: usize>(table: &Table<N>) -> String {
    table.lines().iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// The name of a NIC for readers.
fn called(report: &ExplainReport, nic: &NicAnswer) -> String {
    if report.nameless { format!("NIC {}", nic.nic) } else { nic.nic.clone() }
}

/// An auto pool that does not exist yet.
fn auto_pool(answer: &AutoPoolAnswer, paint: Paint) -> String {
    let AutoPoolAnswer { pool, application, subnet, nic, ip_version, size, .. } = answer;
    let maker = if answer.maker == "agent" { "an agent" } else { "the controller" };
    let title = match (&answer.takes_over, &answer.error) {
        (None, None) => format!("{nic} IPv{ip_version}, auto pool that {maker} makes"),
        (Some(_), None) => format!("{nic} IPv{ip_version}, auto pool of an earlier workload of this name, which {maker} takes over"),
        (_, Some(_)) => format!("{nic} IPv{ip_version}, auto pool that {maker} cannot make"),
    };
    let addresses = match answer.free {
        _ if answer.labels.is_empty() => format!("{size} wanted of subnet {subnet}"),
        _ if !answer.random && answer.ranges.is_empty() => format!("{size} of subnet {subnet}"),
        _ if !answer.random => format!("{size} of subnet {subnet}: {}", answer.ranges.join(", ")),
        Some(free) => format!("{size} of subnet {subnet}, drawn at random from {free} free ones"),
        None => format!("{size} of subnet {subnet}, drawn at random"),
    };
    let mut table = Table::new([Align::Left, Align::Left]);
    table.row(["name".to_owned(), pool.clone()]);
    table.row(["for".to_owned(), application.clone()]);
    table.row(["addresses".to_owned(), addresses]);
    // The other labels repeat the name of the application.
    let telling = ["owner-spider-subnet", "owner-application-uid", "ippool-reclaim"].map(|key| format!("ipam.spidernet.io/{key}"));
    for (at, (key, value)) in answer.labels.iter().filter(|(key, _)| telling.contains(key)).enumerate() {
        table.row([if at == 0 { "labels".to_owned() } else { String::new() }, format!("{key}={value}")]);
    }
    if let Some(error) = &answer.error {
        table.painted(["but".to_owned(), error.clone()], move |column, text| if column == 1 { paint.bad(text) } else { text.to_owned() });
    }
    format!("{}\n{}\n", paint.bold(&title), indented(&table))
}

/// The answer: the addresses, or the error.
fn verdict(report: &ExplainReport, paint: Paint) -> String {
    let mut text = String::new();
    let failed = report.error.as_ref().or(report.allocate_error.as_ref());
    for (nic, answer) in report.families() {
        if let (Some(address), None) = (&answer.address, failed) {
            text += &given(report, nic, answer, address, paint);
        }
    }
    if let Some(Refusal { class, message, place }) = failed {
        let place = place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        text += &format!("{} {}: {place}{message}\n", paint.bad("no address"), class);
    } else if text.is_empty() {
        text += &format!("{} is given\n", paint.warn("no address"));
    }
    for remark in &report.remarks {
        text += &format!("note: {remark}\n");
    }
    text
}

fn given(report: &ExplainReport, nic: &NicAnswer, answer: &FamilyAnswer, address: &str, paint: Paint) -> String {
    let called = called(report, nic);
    let before = answer.supplies.iter().any(|supply| supply.recorded && Some(&supply.pool) == answer.pool.as_ref());
    let recorded = match (answer.recorded, before) {
        _ if answer.reused => "",
        (true, true) => ", recorded for this pod before",
        (true, false) => ", which this ADD recorded for another NIC",
        (false, _) => "",
    };
    let gateway = match &answer.gateway {
        Some(gateway) if nic.clean_gateway => format!(", gateway {gateway} left out (clean gateway)"),
        Some(gateway) => format!(", gateway {gateway}"),
        None => String::new(),
    };
    let pool = answer.pool.as_deref().unwrap_or_default();
    let reused = report.reuse.as_ref().filter(|_| answer.reused).map(|Reuse { endpoint, uid, own }| match own {
        true => format!(", which its endpoint {endpoint} names already"),
        false => format!(", its predecessor's (endpoint {endpoint}, pod UID {uid})"),
    });
    let reused = reused.unwrap_or_default();
    let mut text = format!("{called} gets {} from {pool}{reused}{recorded}{gateway}\n", paint.good(address));
    for route in &answer.routes {
        let from = match route.from {
            RouteSource::Gateway => continue,
            RouteSource::Pool => "pool",
            RouteSource::Pod => "annotation of the pod",
            RouteSource::Endpoint => "endpoint",
        };
        text += &format!("  route {} via {} ({from})\n", route.dst, route.gw);
    }
    if answer.possible.len() > 1 {
        let why = if before { "any record of the pod is taken" } else { "equal pools are tried in any order" };
        text += &format!("  {why}, so it may be any of {}\n", answer.possible.join(", "));
    }
    text
}
