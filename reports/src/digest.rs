//! 128-bit digests of runs, and their sum over a sweep, which does not depend on the worker that ran each seed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The digest of one run, or the sum of the folded digests of a sweep. Printed as 32 hex digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub u128);

impl Digest {
    /// The sum of two sweeps, modulo 2^128: commutative and associative, so shards merge in any order.
    #[must_use]
    pub const fn plus(self, other: Digest) -> Digest {
        Digest(self.0.wrapping_add(other.0))
    }

    /// The first eight hex digits, enough to compare two tables by eye.
    pub fn short(self) -> String {
        format!("{:08x}", self.0 >> 96)
    }
}

/// 2^128 divided by the golden ratio, made odd.
const GOLDEN: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
/// The multiplier of the 128-bit PCG generator.
const PCG: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fb5_cca5;

/// Two xor-shift-multiply rounds and a last shift, as in splitmix. Each step can be undone, so no two inputs collide.
const fn mix(mut x: u128) -> u128 {
    x ^= x >> 67;
    x = x.wrapping_mul(PCG);
    x ^= x >> 59;
    x = x.wrapping_mul(GOLDEN);
    x ^ (x >> 64)
}

/// The contribution of the run of `seed` with `digest` to the digest of its sweep: `mix(digest xor mix(seed + GOLDEN))`.
///
/// For one seed, different digests always fold to different values. The seed takes part, so two seeds that swap their digests do not cancel
/// out. This function is part of the format: changing it makes old results unmergeable.
pub const fn fold(seed: u64, digest: Digest) -> Digest {
    Digest(mix(digest.0 ^ mix((seed as u128).wrapping_add(GOLDEN))))
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(value) if digits => Ok(Digest(value)),
            _ => Err(format!("`{text}` is not a digest: 32 hex digits")),
        }
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Results on disk depend on these values; they were computed by a second implementation, in Python.
    #[test]
    fn fold_is_pinned() {
        let table = [
            (0, 0, "6433dc148b6f3ade9b691f9a8ac37a50"),
            (1, 0, "dd20618eebd20262793728f7762ed0ae"),
            (0, 1, "2261b857bcb8fd3bf9eb2f05fc54349c"),
            (u64::MAX, u128::MAX, "5f0a4ac4e6101df63d51b0ba286271e5"),
        ];
        for (seed, digest, expected) in table {
            assert_eq!(fold(seed, Digest(digest)).to_string(), expected, "fold({seed}, {digest:x})");
        }
    }

    #[test]
    fn swapped_digests_do_not_cancel_out() {
        let (a, b) = (Digest(7), Digest(11));
        assert_ne!(fold(1, a).plus(fold(2, b)), fold(1, b).plus(fold(2, a)));
    }

    #[test]
    fn a_digest_is_32_hex_digits() {
        assert!("+0000000000000000000000000000001".parse::<Digest>().is_err());
        assert!("1".parse::<Digest>().is_err());
        assert!("0000000000000000000000000000000g".parse::<Digest>().is_err());
        assert_eq!("0000000000000000000000000000000F".parse(), Ok(Digest(15)));
    }

    proptest! {
        #[test]
        fn digests_survive_printing(value: u128) {
            prop_assert_eq!(Digest(value).to_string().parse(), Ok(Digest(value)));
        }

        #[test]
        fn one_seed_never_folds_two_digests_alike(seed: u64, a: u128, b: u128) {
            prop_assert_eq!(a == b, fold(seed, Digest(a)) == fold(seed, Digest(b)));
        }
    }
}
