//! `report capacity` of bursts at one pool.

use super::{Folder, done, refused};

#[test]
fn a_search_is_drawn_again_and_answers_what_its_points_decide() {
    let (first, again) = (Folder::missing("capacity"), Folder::missing("capacity-again"));
    let said = done("capacity", "--objective exhausted<1% --vary instances=2..8 --vary retry=default-backoff --seeds 500", &first.0);
    assert!(said.contains("exhausted < 1 % holds for up to 4 adaptors") && said.contains("A burst that shows it:"), "{said}");
    let from = format!("--from {}", first.0.join("points.csv").display());
    assert_eq!(done("capacity", &format!("{from} --objective exhausted<1%"), &again.0), said);
    // B §8.3: 9.7 % of the calls of five adaptors give up, 18.7 % of those of six, 32 % of those of eight; seven were not tried.
    for (share, expected) in [
        ("15", "exhausted < 15 % holds for up to 5 adaptors"),
        ("50", "exhausted < 50 % holds for all of up to 8 adaptors"),
        ("25", "exhausted < 25 % holds for 6 adaptors and not for 8; what lies between was not tried."),
    ] {
        let other = done("capacity", &format!("{from} --objective exhausted<{share}% --force"), &again.0);
        assert!(other.contains(expected), "{other}");
    }
    let nowhere = Folder::missing("capacity-nowhere");
    for (arguments, expected) in [
        (from.clone(), "points do not say what was asked of them"),
        (format!("{from} --objective refused<1%"), "is asked of the pods of a scenario"),
        (format!("{from} --vary instances=2"), "cannot be used with"),
        (format!("{from} --objective unanswered<1%"), "`unanswered` is a figure of bursts with faults, and those of `as asked` have none"),
        ("--objective refused_otherwise<1% --vary faults=none,mixed".to_owned(), "those of `no faults` have none"),
    ] {
        refused("capacity", &arguments, &nowhere.0, expected);
    }
    assert!(!nowhere.0.exists());
}

/// Without faults each call has an answer; under hostile faults so many calls have none that not even two adaptors meet the objective.
#[test]
fn under_hostile_faults_more_calls_have_no_answer_than_an_objective_wants() {
    let folder = Folder::missing("capacity-faults");
    let said = done("capacity", "--objective unanswered<5% --vary instances=2..4 --vary faults=hostile --seeds 400", &folder.0);
    assert!(said.contains("unanswered < 5 % does not hold for 2 adaptors, too many"), "{said}");
}
