//! The page of a report on reclaim.

use crate::figure::DrawError;
use crate::human;
use crate::page::{Column, Page, escape, estimate, maybe, unfinished};

use super::LeaksReport;
use super::answer::time;
use super::figures::Plate;
use super::group::Group;

const COLUMNS: [Column<Group>; 14] = [
    ("Way", |group| escape(group.path.name())),
    ("Addresses", |group| human::count(group.addresses)),
    ("Runs", |group| human::count(group.runs)),
    ("Delay p50", |group| estimate(group.delay_p50_s, &time)),
    ("p90", |group| estimate(group.delay_p90_s, &time)),
    ("p99", |group| estimate(group.delay_p99_s, &time)),
    ("longest", |group| maybe(group.delay_max_s, time)),
    ("Longest bound", |group| maybe(group.bound_max_s, time)),
    ("Later than the bound", |group| bad(group.late)),
    ("share", |group| estimate(group.late_share, &|share| format!("{:.1} %", 100.0 * share))),
    ("Least margin", |group| maybe(group.margin_min_s, time)),
    ("p1", |group| estimate(group.margin_p01_s, &time)),
    ("p50", |group| estimate(group.margin_p50_s, &time)),
    ("Answered on", |group| bad(group.answered)),
];

/// A number that should be 0.
fn bad(count: u64) -> String {
    if count == 0 { "0".to_owned() } else { format!("<span class=\"bad\">{}</span>", human::count(count)) }
}

/// The HTML text of the page, with these figures in it.
///
/// # Errors
/// A figure could not be drawn.
pub fn page(report: &LeaksReport, plates: &[Plate]) -> Result<String, DrawError> {
    let addresses: u64 = report.groups.iter().map(|group| group.addresses).sum();
    let runs = report.runs.map_or_else(String::new, |runs| format!(" of {}", human::plural(runs, "run", "runs")));
    let unfinished = unfinished(report, "run");
    let rests_on = format!("{}{runs}{unfinished}.", human::plural(addresses, "address", "addresses"));
    let mut page = Page::of(report, "Reclaim", &rests_on);
    let mut scenarios: Vec<&str> = report.groups.iter().map(|group| &*group.scenario).collect();
    scenarios.dedup();
    for scenario in scenarios {
        page.part(scenario);
        for plate in plates.iter().filter(|plate| plate.scenario == scenario) {
            page.figure(&plate.figure, plate.caption)?;
        }
        let groups = report.groups.iter().filter(|group| group.scenario == scenario);
        page.grouped("The numbers", &COLUMNS, groups, |group| group.path.name());
    }
    let more = [
        ("seeds", "from 0 on; each run by itself stands in <code>runs.csv</code>, each address in <code>reclaims.csv</code>".to_owned()),
        (
            "delay",
            "from the end of the pod\u{2019}s right (its object was gone, it had ended, or its grace was over) \
             to the write that removed the record"
                .to_owned(),
        ),
        (
            "bound",
            "G §10.2: until containers have ended for sure and the additional delay is over, then the pause of tracing (GL1 to GL3) or the \
             interval of scans and two scans of a second (GL4 to GL7), and 10 s for a release with its retries; \
             of a cluster in which nothing fails"
                .to_owned(),
        ),
        ("margin", "from the end of the last sandbox of the pod that answered on the address to that write".to_owned()),
        (
            "intervals",
            "of 95 %. Shares of addresses: Wilson, with as many addresses as their scatter between runs makes count. Times: order \
             statistics (Woodruff). \u{201c}?\u{201d}: so many runs do not bound it"
                .to_owned(),
        ),
    ];
    page.made(&report.made, &more);
    Ok(page.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Made;
    use crate::leaks::plates;
    use crate::leaks::tests::found;

    #[test]
    fn the_page_has_question_answer_plots_table_and_no_markup_of_others() {
        let mut all = found(10);
        all[0].scenario = "<script>".to_owned();
        let made = Made { question: super::super::QUESTION.to_owned(), command: "ipam-sim report reclaim".to_owned(), ..Made::default() };
        let report = LeaksReport::new(made, &all, Some(10), true);
        let page = page(&report, &plates(&all)).unwrap();
        for part in
            ["leaks-delay.png", "Answer", "The numbers", "interrupted before its last run", "ipam-sim report reclaim", "&lt;script&gt;"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("<script") && !page.contains("src="));
    }
}
