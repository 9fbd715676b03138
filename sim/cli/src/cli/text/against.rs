//! The changes since an earlier report: the headline, a line per figure, then the other answers.

use ipam_reports::against::{Against, Compared};

use super::Paint;
use super::table::{Align, Table};

/// The comparison, followed by an empty line; nothing if there is none.
pub(super) fn against(against: Option<&Against>, paint: Paint) -> Vec<String> {
    let Some(against) = against else { return Vec::new() };
    let (headline, rest) = against.answers.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
    let mut lines: Vec<String> = headline.cloned().into_iter().collect();
    lines.push(format!("Compared with {}:", against.from));
    lines.extend(table(["where", "before", "now"], &against.changes, paint));
    lines.extend(rest.iter().cloned());
    lines.push(String::new());
    lines
}

/// The predicted changes, preceded by an empty line; nothing if no question was asked about any.
pub(super) fn what_if(changes: &[Compared], paint: Paint) -> Vec<String> {
    if changes.is_empty() {
        return Vec::new();
    }
    std::iter::once(String::new()).chain(table(["what if", "as it is", "then"], changes, paint)).collect()
}

/// A line per figure, with column heads that name the two sides of the comparison.
fn table([place, old, new]: [&str; 3], changes: &[Compared], paint: Paint) -> Vec<String> {
    use Align::{Left, Right};
    let mut table = Table::new([Left, Left, Right, Right, Right, Left, Right, Left]);
    let head = [place, "figure", old, new, "change", "95 % interval", "p", ""];
    table.painted(head.map(str::to_owned), move |_, text| paint.dim(text));
    let mut last = "";
    for change in changes.iter().filter(|change| !change.is_nothing()) {
        let p = change.p.map_or_else(String::new, |p| if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") });
        table.row([
            if change.place == last { String::new() } else { change.place.clone() },
            change.figure.clone(),
            change.value(change.old.value),
            change.value(change.new.value),
            change.change(),
            change.interval(),
            p,
            change.verdict().to_owned(),
        ]);
        last = &change.place;
    }
    table.lines()
}
