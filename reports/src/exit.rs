//! Exit codes of `ipam-sim`. They are part of its interface.

/// All claims held, and each negative scenario found its violation.
pub const HELD: u8 = 0;
/// An `always` claim was violated, or a negative scenario did not violate its claim.
pub const VIOLATED: u8 = 1;
/// Wrong usage or bad input; nothing was done.
pub const USAGE: u8 = 2;
/// An `eventually` claim was still false when its bound had passed.
pub const NOT_EVENTUALLY: u8 = 3;
/// The sweep was vacuous: a `sometimes` or `reachable` claim held in no seed, or no seed ran.
pub const VACUOUS: u8 = 4;
/// The same plan gave two different digests.
pub const NONDETERMINISTIC: u8 = 5;
/// A bug of the harness itself.
pub const HARNESS: u8 = 70;
/// Interrupted by the user; the verdict so far was printed.
pub const INTERRUPTED: u8 = 130;

/// Which code wins when several apply, first one first.
pub const PRECEDENCE: [u8; 7] = [HARNESS, NONDETERMINISTIC, USAGE, VIOLATED, NOT_EVENTUALLY, VACUOUS, HELD];

/// The code that wins among `codes`; [`HELD`] when there are none.
///
/// [`INTERRUPTED`] is not a verdict but the way the process ended, so it wins over every verdict. A code that is
/// none of ours is a bug of the harness.
pub fn worst(codes: impl IntoIterator<Item = u8>) -> u8 {
    let rank = |code: u8| match code {
        INTERRUPTED => 0,
        other => 1 + PRECEDENCE.iter().position(|&known| known == other).unwrap_or(0),
    };
    let code = codes.into_iter().min_by_key(|&code| rank(code)).unwrap_or(HELD);
    if code == INTERRUPTED || PRECEDENCE.contains(&code) { code } else { HARNESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_precedence_is_70_5_2_1_3_4_0() {
        assert_eq!(PRECEDENCE, [70, 5, 2, 1, 3, 4, 0]);
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
    fn an_interruption_is_reported_whatever_the_verdict_so_far() {
        for code in PRECEDENCE {
            assert_eq!(worst([code, INTERRUPTED]), INTERRUPTED);
        }
    }
}
