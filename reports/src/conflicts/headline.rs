//! The headline of a report: one sentence with a number, its confidence, and its assumptions.

use super::Searched;
use super::answer::{RARE, assumed, because, share};
use super::figures::Along;
use super::metric::Metric;
use super::point::Point;
use super::series;
use super::setting::System;
use crate::statistics::Estimate;

/// The result of the first curve, which is that of the policy in use unless the user chose another.
pub(super) fn of_points(points: &[Point]) -> String {
    let Some((name, points)) = series(points).into_iter().next() else { return "No point was measured.".to_owned() };
    let along = Along::of(&points);
    let exhausted = |point: &Point| point.get(Metric::Exhausted).unwrap_or_default();
    let fine = points.iter().take_while(|point| exhausted(point).value < RARE).last();
    let point = fine.unwrap_or(&points[0]);
    let (found, said) = (exhausted(point), along.said(&point.setting));
    let rests = rests_on(name, along, point);
    match (fine, found.low, found.high) {
        (Some(_), _, Some(high)) if high < RARE => {
            format!("With up to {said} fewer than 1 % of the calls give up, at most {:.1} % with 95 % confidence{rests}.", 100.0 * high)
        }
        (_, Some(low), Some(high)) => {
            let (alone, low, high) = (Estimate { low: None, ..found }, 100.0 * low, 100.0 * high);
            format!("With {said} {} of the calls give up, {low:.1} to {high:.1} with 95 % confidence{rests}.", share(alone))
        }
        _ => format!("With {said} {} of the calls give up, which too few bursts say to be sure{rests}.", share(found)),
    }
}

/// The number of writers that can share one pool, on the first curve that was searched.
pub(super) fn of_search(searched: &Searched, points: &[Point]) -> Option<String> {
    let limit = searched.curves.first()?;
    let curve: Vec<&Point> = points.iter().filter(|point| point.setting.series == limit.series).collect();
    let known = curve.iter().find(|point| point.setting.instances == limit.holds_for);
    let point = known.or(curve.first())?;
    let rests = rests_on(&limit.series, Along::Instances, point);
    let sharers = point.setting.system.sharers();
    let wanted = searched.objectives.join(" and ");
    Some(match limit.holds_for {
        0 => format!(
            "Not even {} {} can share one pool so that {wanted} holds with 95 % confidence{rests}.",
            point.setting.instances, sharers.1
        ),
        most if limit.at_most.is_none() => {
            format!("{most} {} and maybe more can share one pool so that {wanted} holds, with 95 % confidence{rests}.", sharers.1)
        }
        most => format!("Up to {most} {} can share one pool so that {wanted} holds, with 95 % confidence{rests}.", sharers.1),
    })
}

/// A sentence on one point, with the assumptions of that point.
pub(super) fn resting_on(sentence: &str, point: &Point) -> String {
    let along = if point.setting.system == System::Byom { Along::Instances } else { Along::Nodes };
    format!("{}{}.", sentence.trim_end_matches('.'), rests_on("as asked", along, point))
}

/// The assumptions of a point, in parentheses: the policy, the spread of starts, the size of the servers, and the regime.
fn rests_on(name: &str, along: Along, point: &Point) -> String {
    let name = if name == "as asked" { "" } else { name };
    let all = format!("{name}{}, {}", assumed(name, along, &point.setting), because(point));
    format!(" ({})", all.trim_start_matches(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conflicts::Limit;
    use crate::conflicts::tests::{bursts, point, setting};

    #[test]
    fn it_has_one_number_its_confidence_and_what_it_rests_on() {
        let few = Point::of(setting(4, 0), 0, &bursts(4, 10));
        let searched = |holds_for, at_most| Searched {
            objectives: vec!["exhausted < 1 %".to_owned()],
            curves: vec![Limit { series: "in use".to_owned(), holds_for, at_most }],
        };
        let all = [point(4, 0), point(5, 0)];
        let said = [
            of_points(&[point(2, 0), point(4, 0), point(8, 0)]),
            of_points(&[point(8, 0)]),
            of_points(&[point(8, 50)]),
            of_points(&[few]),
            of_points(&[]),
            of_search(&searched(4, Some(4)), &all).unwrap(),
            of_search(&searched(5, None), &all).unwrap(),
            of_search(&searched(0, Some(3)), &all).unwrap(),
        ];
        insta::assert_snapshot!(said.join("\n"));
    }
}
