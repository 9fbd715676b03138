//! An approximate set of the pods whose records a pool holds.

use crate::PoolIPAllocations;

/// Tells for most pods, by reading one word, that a pool holds no record of them; for some the answer is uncertain.
///
/// A Bloom filter that keeps all bits of an owner in one word: the words of a thousand pools are a fraction of their records, and stay in
/// the processor's caches between two decisions.
#[derive(Clone, Debug)]
pub(super) struct PodFilter {
    /// The words, a power of two in number.
    words: Box<[u64]>,
}

/// The average number of owners per word: of a hundred pods without a record one or two look as if they had one.
const OWNERS_A_WORD: usize = 4;

impl PodFilter {
    /// The filter of these records.
    pub(super) fn of(records: &PoolIPAllocations) -> Self {
        let words = (records.len() / OWNERS_A_WORD).max(1).next_power_of_two();
        let mut filter = Self { words: vec![0; words].into() };
        for hash in records.owner_hashes() {
            let (at, bits) = filter.place(hash);
            filter.words[at] |= bits;
        }
        filter
    }

    /// Whether there may be a record of the pod with this hash.
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        let (at, bits) = self.place(hash);
        self.words[at] & bits == bits
    }

    /// The word of an owner, and its bits there.
    fn place(&self, hash: u64) -> (usize, u64) {
        // The low bits of the hash are not independent.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = [58, 52, 46].iter().fold(0, |bits, shift| bits | 1 << (mixed >> shift & 63));
        ((mixed >> 8) as usize & (self.words.len() - 1), bits)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::PoolIPAllocation;

    #[test]
    fn every_owner_is_in_it_and_few_others_seem_to_be() {
        for size in [0, 1, 5, 254, 4000] {
            let record = |low: u32| PoolIPAllocation { pod_uid: format!("uid-{low}"), ..PoolIPAllocation::default() };
            let records: PoolIPAllocations = (0..size).map(|low| (IpAddr::from(Ipv4Addr::from_bits(low)), record(low))).collect();
            let filter = PodFilter::of(&records);
            let holds = |uid: &str| filter.may_hold(PoolIPAllocations::owner_hash(uid));
            assert!((0..size).all(|low| holds(&format!("uid-{low}"))));
            let others = (0..1000).filter(|number| holds(&format!("other-{number}"))).count();
            assert!(others <= 60, "{others} of 1000 for {size} records");
        }
    }
}
