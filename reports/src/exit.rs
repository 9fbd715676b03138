//! Exit codes of `ipam-sim`. They are part of its interface.

/// All claims held, and each negative scenario found its violation.
pub const HELD: u8 = 0;
/// An `always` claim was violated, or a negative scenario did not violate its claim.
pub const VIOLATED: u8 = 1;
/// Wrong usage or bad input, and nothing was done; or something could not be written, and the verdict is on standard error.
pub const USAGE: u8 = 2;
/// An `eventually` claim was still false when its bound had passed.
pub const NOT_EVENTUALLY: u8 = 3;
/// The sweep was vacuous: a `sometimes` or `reachable` claim held in no seed, or no seed ran.
pub const VACUOUS: u8 = 4;
/// The same plan gave two different digests.
pub const NONDETERMINISTIC: u8 = 5;
/// Nothing wrong was found, but the budget ended before everything ran that a gate must run.
pub const INCOMPLETE: u8 = 6;
/// A bug of the harness itself.
pub const HARNESS: u8 = 70;
/// Interrupted by the user; the verdict so far was printed.
pub const INTERRUPTED: u8 = 130;
/// Ended by SIGTERM or SIGHUP, as batch systems send them; the verdict so far was printed.
pub const TERMINATED: u8 = 143;

/// The codes in order of precedence: the first that applies wins.
pub const PRECEDENCE: [u8; 8] = [HARNESS, NONDETERMINISTIC, USAGE, VIOLATED, NOT_EVENTUALLY, VACUOUS, INCOMPLETE, HELD];

/// Whether a process with this exit code was stopped before its end.
pub const fn is_interruption(code: u8) -> bool {
    matches!(code, INTERRUPTED | TERMINATED)
}

/// The code that wins among `codes`; [`HELD`] when there are none.
///
/// [`INTERRUPTED`] and [`TERMINATED`] are not verdicts but ways in which the process ended, so they win over every verdict. An unknown code
/// is a bug of the harness.
pub fn worst(codes: impl IntoIterator<Item = u8>) -> u8 {
    let rank = |code: u8| match code {
        _ if is_interruption(code) => 0,
        other => 1 + PRECEDENCE.iter().position(|&known| known == other).unwrap_or(0),
    };
    let code = codes.into_iter().min_by_key(|&code| rank(code)).unwrap_or(HELD);
    if is_interruption(code) || PRECEDENCE.contains(&code) { code } else { HARNESS }
}

/// The exit code of a process that could not write something. That hides no verdict: only [`HELD`] becomes [`USAGE`].
pub fn unwritten(verdict: u8) -> u8 {
    if verdict == HELD { USAGE } else { verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_precedence_is_70_5_2_1_3_4_6_0() {
        assert_eq!(PRECEDENCE, [70, 5, 2, 1, 3, 4, 6, 0]);
        for (rank, &winner) in PRECEDENCE.iter().enumerate() {
            for &loser in &PRECEDENCE[rank..] {
                assert_eq!(worst([winner, loser]), winner);
                assert_eq!(worst([loser, winner]), winner);
            }
        }
    }

    #[test]
    fn nothing_to_judge_is_no_failure_and_an_unknown_code_is_a_bug() {
        assert_eq!(worst([]), HELD);
        assert_eq!(worst([42]), HARNESS);
        assert_eq!(worst([1, 42]), HARNESS);
    }

    #[test]
    fn what_could_not_be_written_hides_no_verdict() {
        assert_eq!(unwritten(HELD), USAGE);
        for code in PRECEDENCE.into_iter().filter(|&code| code != HELD) {
            assert_eq!(unwritten(code), code);
        }
    }

    #[test]
    fn an_interruption_is_reported_whatever_the_verdict_so_far() {
        for code in PRECEDENCE {
            assert_eq!((worst([code, INTERRUPTED]), worst([code, TERMINATED])), (INTERRUPTED, TERMINATED));
        }
    }
}
