//! Advice as a table for a spreadsheet, as a part of a page, and as a figure.

use serde::Serialize;

use super::answer::value;
use super::{Advice, Gain, Ranked};
use crate::against::Unit;
use crate::column::{self, Column};
use crate::conflicts::ConflictsReport;
use crate::conflicts::metric::Metric;
use crate::figure::{Axis, Curve, Figure, INKS, Kind, Scale};
use crate::page::{Page, escape};
use crate::schema::AdviceSchema;

/// A figure of an alternative.
type Row<'a> = (&'a Ranked, &'a Gain);
type Of<'a> = Column<Row<'a>>;

pub(crate) fn columns<'a>() -> Vec<Of<'a>> {
    use crate::column::Unit::{Count, Flag, Number, Share, Text};
    vec![
        Of::cell("schema", Text, "The name of the format: `ipam-sim/advice/1`.", |_| AdviceSchema::NAME.to_owned()),
        Of::cell("rank", Count, "The place of the policy, from 1, best first.", |(ranked, _)| ranked.rank.to_string()),
        Of::cell("policy", Text, "What was tried.", |(ranked, _)| ranked.policy.clone()),
        Of::cell("today", Flag, "Whether it is what is in use.", |(ranked, _)| ranked.today.to_string()),
        Of::cell("needs", Text, "What it takes: `nothing`, `number`, `code`, `objects` or `part`.", |(ranked, _)| in_json(ranked.needs)),
        Of::cell(
            "failing",
            Share,
            "The calls that have no address that they can keep: they gave up, or lost their record.",
            |(ranked, _)| ranked.failing.to_string(),
        ),
        Of::cell("figure", Text, "What is compared.", |(_, gain)| gain.figure.to_owned()),
        Of::cell("unit", Text, "In what it is counted: `share`, `seconds`, `number` or `count`.", |(_, gain)| in_json(gain.unit)),
        Of::estimate("was", Number, "The figure of the policy that is in use.", |(_, gain)| Some(gain.today)),
        Of::estimate("is", Number, "The figure of this policy, on the same bursts.", |(_, gain)| Some(gain.with)),
        Of::estimate("difference", Number, "By how much it differs from what is in use.", |(_, gain)| Some(gain.difference)),
        Of::cell("significant", Flag, "Whether chance alone hardly explains the difference.", |(_, gain)| gain.significant.to_string()),
    ]
}

/// A word in its JSON form.
fn in_json(word: impl Serialize) -> String {
    serde_json::to_value(word).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

/// `advice.csv`: a row for each figure of each alternative, best first.
pub fn csv(advice: &Advice) -> String {
    let figures = advice.ranked.iter().flat_map(|ranked| ranked.figures.iter().map(move |gain| (ranked, gain)));
    column::head(&columns()) + &figures.map(|figure| column::row(&columns(), &figure)).collect::<String>()
}

/// The gain in a figure: `-31.8 (-32.6 to -31.0)`; `n.s.` in place of the first number where chance alone may explain it. Empty for today's
/// policy and for what never happens.
pub fn verdict(ranked: &Ranked, gain: &Gain) -> String {
    if ranked.today || gain.today.value == 0.0 && gain.with.value == 0.0 {
        return String::new();
    }
    let signed = |number: f64| match gain.unit {
        Unit::Share => format!("{:+.1}", 100.0 * number),
        Unit::Seconds if number > 0.0 => format!("+{}", value(gain.unit, number)),
        Unit::Seconds => value(gain.unit, number),
        Unit::Number | Unit::Count => format!("{number:+.2}"),
    };
    let end = |end: Option<f64>| end.map_or_else(|| "?".to_owned(), signed);
    let first = if gain.significant { signed(gain.difference.value) } else { "n.s.".to_owned() };
    format!("{first} ({} to {})", end(gain.difference.low), end(gain.difference.high))
}

/// Formats the value of a figure.
pub fn told(gain: &Gain) -> String {
    value(gain.unit, gain.with.value)
}

/// Adds the table to a page.
pub(in crate::conflicts) fn page(page: &mut Page, advice: &Advice) {
    let heads: Vec<String> =
        ["", "Policy", "It takes"].map(str::to_owned).into_iter().chain(super::FIGURES.map(|metric| short(metric).to_owned())).collect();
    let row = |ranked: &Ranked| {
        let name = if ranked.today { format!("<b>{}</b>", escape(&ranked.policy)) } else { escape(&ranked.policy) };
        let mut cells = vec![ranked.rank.to_string(), name, ranked.needs.told().to_owned()];
        cells.extend(super::FIGURES.into_iter().map(|metric| match figure_of(ranked, metric) {
            Some(gain) => format!("{} <small>{}</small>", told(gain), verdict(ranked, gain)),
            None => "–".to_owned(),
        }));
        (true, cells)
    };
    page.numbers(heads.iter().map(String::as_str), advice.ranked.iter().map(row));
    let costs = advice.ranked.iter().filter(|ranked| !ranked.costs.is_empty());
    page.list(&costs.map(|ranked| format!("{}: {}.", ranked.policy, ranked.costs)).collect::<Vec<_>>());
}

/// The figure of a metric.
pub fn figure_of(ranked: &Ranked, metric: Metric) -> Option<&Gain> {
    let name = match metric {
        Metric::Exhausted => "calls that give up",
        Metric::ConflictsPerCall => "conflicts per call",
        Metric::Lost => "lost records per burst",
        Metric::AllocateP50 => "time to allocate, p50",
        _ => "time to allocate, p99",
    };
    ranked.gain(name)
}

fn short(metric: Metric) -> &'static str {
    match metric {
        Metric::Exhausted => "Give up",
        Metric::ConflictsPerCall => "Conflicts per call",
        Metric::Lost => "Lost per burst",
        Metric::AllocateP50 => "p50",
        _ => "p99",
    }
}

/// Draws gain against cost: the share of calls that give up, and the time of the slowest. Shows today's policy and as many of the best as
/// can be told apart.
pub(in crate::conflicts) fn figure(report: &ConflictsReport) -> Option<Figure> {
    let advice = report.advice.as_ref()?;
    let drawn = |ranked: &&Ranked| ranked.today || (ranked.rank as usize) < INKS;
    let curve = |(ink, ranked): (usize, &Ranked)| {
        let points = match (figure_of(ranked, Metric::Exhausted), figure_of(ranked, Metric::AllocateP99)) {
            (Some(gives_up), Some(p99)) => vec![(gives_up.with.value, p99.with)],
            _ => Vec::new(),
        };
        Curve { name: ranked.policy.clone(), ink, points, ..Curve::default() }
    };
    Some(Figure {
        id: "advice".to_owned(),
        title: "What other ways to try again gain and cost".to_owned(),
        x: Axis { label: "calls that give up".to_owned(), kind: Kind::Share, scale: Scale::Linear },
        y: Axis { label: "time within which 99 % have their address".to_owned(), kind: Kind::Seconds, scale: Scale::Log },
        curves: advice.ranked.iter().filter(drawn).take(INKS).enumerate().map(curve).collect(),
        dotted: "",
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{nobody_gives_up, tried};
    use super::super::{Advice, Needs};
    use super::*;
    use crate::conflicts::{Made, figures, page};

    #[test]
    fn the_table_has_a_row_for_each_figure_and_the_page_shows_all() {
        let all = vec![tried("<in use>", Needs::Nothing, |_| ()), tried("a lock", Needs::Part, nobody_gives_up)];
        let advice = Advice::of(&all).unwrap();
        let table = csv(&advice);
        assert_eq!(table.lines().count(), 1 + 2 * 5);
        assert!(
            table.lines().nth(1).unwrap().starts_with("ipam-sim/advice/1,1,a lock,false,part,0,calls that give up,share,0.5,"),
            "{table}"
        );
        let lost = &advice.ranked[0].figures[2];
        assert_eq!(verdict(&advice.ranked[0], lost), "", "nothing is lost");
        assert!(verdict(&advice.ranked[0], &advice.ranked[0].figures[0]).starts_with("-50.0 (-"), "{:?}", advice.ranked[0].figures[0]);
        let report = ConflictsReport::advising(Made::default(), advice, all, false);
        let plates = figures::plates(&report);
        assert_eq!(plates.iter().map(|plate| &*plate.figure.id).collect::<Vec<_>>(), ["advice"]);
        let page = page::page(&report, &plates).unwrap();
        assert!(page.contains("<b>&lt;in use&gt;</b>") && page.contains("a new part") && !page.contains("<in use>"));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["advice"]["ranked"][0]["policy"], "a lock");
        assert_eq!(json["points"].as_array().unwrap().len(), 2);
    }
}
