//! Randomness: one ChaCha8 stream per concern, and counter-based draws per message.
//!
//! Nothing here depends on the platform: ChaCha8 is specified bit by bit, and the few transcendental functions come from the `libm` crate
//! instead of the machine's library.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// The purpose of a stream of random numbers. Separate streams keep a change in one concern from shifting another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Concern {
    /// Cluster shape and settings.
    Shape = 1,
    /// Operations of the workload: kinds, times and objects.
    Workload = 2,
    /// Faults of a plan: kinds, times, targets, and their heals.
    Faults = 3,
    /// Message delays, one sub-stream per link.
    Link = 4,
    /// Watch cache lag, one sub-stream per server and type.
    CacheLag = 5,
    /// Choices inside the system under test, one sub-stream per incarnation of a process.
    Choices = 6,
    /// The order of ready tasks.
    Interleaving = 7,
    /// UIDs and generated names.
    Names = 8,
    /// Choices of the world's own actors.
    World = 9,
    /// Choices of a guided search.
    Search = 10,
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Draw(ChaCha8Rng);

/// The number of words in the block of one message: [`Draw::block`] always takes as many, however many the reader uses.
pub const BLOCK: usize = 4;

impl Draw {
    /// The stream of `concern` for `seed`; `index` selects a sub-stream (link, process).
    pub fn new(seed: u64, concern: Concern, index: u64) -> Self {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&index.to_le_bytes());
        key[16] = concern as u8;
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A number that is uniform over all of `u64`; it takes one word of the stream.
    #[inline]
    pub fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// The numbers of one message. The n-th call on a stream gives the same numbers, however many of the earlier ones were used.
    #[inline]
    pub fn block(&mut self) -> [u64; BLOCK] {
        std::array::from_fn(|_| self.0.next_u64())
    }

    /// A uniform number in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        unit(self.u64())
    }

    /// A uniform number in `0..n`. `n` must be positive.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a draw below zero has no value");
        below(self.u64(), n)
    }

    /// True with probability `p`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// A uniform duration in `[low, high]`.
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let (low, high) = (crate::time::micros(low), crate::time::micros(high));
        Duration::from_micros(low + self.below(high.saturating_sub(low) + 1))
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// The number of steps in the table of [`exp`] from 1 to 2.
const STEPS: usize = 64;

/// The powers of 2 from 0 to 1 in steps of 1/64, correct to 14 digits.
const POWERS: [f64; STEPS] = {
    /// 2 to the power of 1/64.
    const STEP: f64 = 1.010_889_286_051_700_5;
    let mut powers = [1.0; STEPS];
    let mut i = 1;
    while i < STEPS {
        powers[i] = powers[i - 1] * STEP;
        i += 1;
    }
    powers
};

/// The exponential function for arguments from -700 to 700 (others count as the nearer of these), correct to 13 digits.
///
/// A message takes several of these, and `libm`'s costs three times as much for digits that no delay has. It uses only additions,
/// multiplications and a table: the same on every machine.
#[inline]
pub fn exp(x: f64) -> f64 {
    /// Added to a number and subtracted again, it rounds that to an integer.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let x = x.clamp(-700.0, 700.0);
    let rounded = x * (STEPS as f64 * std::f64::consts::LOG2_E) + ROUND;
    let r = x - (rounded - ROUND) * (std::f64::consts::LN_2 / STEPS as f64);
    // The last bits of `rounded` count the steps.
    let steps = rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i64;
    let power = f64::from_bits((((steps >> STEPS.ilog2()) + 1_023) as u64) << 52);
    let r2 = r * r;
    let series = r + r2 * (0.5 + r * (1.0 / 6.0)) + r2 * r2 * (1.0 / 24.0 + r * (1.0 / 120.0));
    let tabled = POWERS[steps as usize % STEPS] * power;
    tabled + tabled * series
}

/// Maps a uniform word to `[0, 1)`.
#[inline]
pub fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}

/// Maps a uniform word to `0..n` by multiplication; the bias is below n / 2^64.
#[inline]
pub fn below(word: u64, n: u64) -> u64 {
    ((u128::from(word) * u128::from(n)) >> 64) as u64
}

/// The quantile function of the standard normal distribution, for `u` in `(0, 1)`.
///
/// Acklam's rational approximation (relative error below 1.2e-9); only the tails need a logarithm.
#[inline]
pub fn normal_quantile(u: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e+01,
        2.209460984245205e+02,
        -2.759285104469687e+02,
        1.383_577_518_672_69e2,
        -3.066479806614716e+01,
        2.506628277459239e+00,
    ];
    const B: [f64; 5] =
        [-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01, -1.328068155288572e+01];
    const C: [f64; 6] = [
        -7.784894002430293e-03,
        -3.223964580411365e-01,
        -2.400758277161838e+00,
        -2.549732539343734e+00,
        4.374664141464968e+00,
        2.938163982698783e+00,
    ];
    const D: [f64; 4] = [7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00];
    const LOW: f64 = 0.02425;
    let tail = |q: f64| {
        (((((C[0] * q + C[1]) * q + C[2]) * q + C[3]) * q + C[4]) * q + C[5]) / ((((D[0] * q + D[1]) * q + D[2]) * q + D[3]) * q + 1.0)
    };
    if u < LOW {
        tail(libm::sqrt(-2.0 * libm::log(u)))
    } else if u > 1.0 - LOW {
        -tail(libm::sqrt(-2.0 * libm::log(1.0 - u)))
    } else {
        let q = u - 0.5;
        let r = q * q;
        (((((A[0] * r + A[1]) * r + A[2]) * r + A[3]) * r + A[4]) * r + A[5]) * q
            / (((((B[0] * r + B[1]) * r + B[2]) * r + B[3]) * r + B[4]) * r + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_concern_give_the_same_numbers() {
        let numbers = |index| Draw::new(7, Concern::Link, index).block();
        assert_eq!(numbers(3), numbers(3));
        assert_ne!(numbers(3), numbers(4));
    }

    #[test]
    fn streams_are_the_same_on_every_machine() {
        // A change here changes every digest: plans of earlier builds no longer replay bit for bit.
        assert_eq!(Draw::new(1, Concern::Faults, 2).u64(), FIRST_WORD);
    }
    const FIRST_WORD: u64 = 14_783_065_802_544_476_936;

    #[test]
    fn normal_quantiles_match_the_table() {
        for (u, z) in [(0.5, 0.0), (0.975, 1.959963985), (0.99, 2.326347874), (0.001, -3.090232306), (0.9999, 3.719016485)] {
            assert!((normal_quantile(u) - z).abs() < 1e-6, "{u}");
        }
    }

    #[test]
    fn the_exponential_function_agrees_with_the_library() {
        for n in -70_000..=70_000 {
            let x = f64::from(n) * 0.009_998_7;
            assert!((exp(x) / libm::exp(x) - 1.0).abs() < 1e-13, "{x}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(1e9), exp(700.0));
    }

    #[test]
    fn between_includes_both_ends() {
        let mut draw = Draw::new(1, Concern::World, 0);
        let mut seen = [false; 3];
        for _ in 0..100 {
            seen[draw.between(Duration::from_micros(5), Duration::from_micros(7)).as_micros() as usize - 5] = true;
        }
        assert_eq!(seen, [true; 3]);
    }
}
