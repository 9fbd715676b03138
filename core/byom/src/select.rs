//! The choice of an available address for an allocation (B §2.2).

use md5::{Digest, Md5};

/// The index into a list of `len` addresses: the first four bytes of the MD5 digest of the allocation ID, big-endian, modulo `len`; 0 for
/// lists of at most one.
///
/// The same ID has the same index only while the length stays the same. The index spreads callers over the list; it does not prevent
/// conflicts, because the whole pool is one object (B §8.4).
pub fn select_index(len: usize, allocation_id: &str) -> usize {
    if len <= 1 {
        return 0;
    }
    let digest = Md5::digest(allocation_id.as_bytes());
    let head = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    (u64::from(head) % len as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_the_reference_hold() {
        let digits = "0123456789abcdef".repeat(4);
        for (id, len, index) in [
            ("test-allocation-1", 2, 0),
            ("pod-1", 6, 3),
            ("pod-2", 5, 2),
            ("worker-0-alloc-0", 3, 0),
            (&format!("nginx-{digits}"), 10, 1),
            (&format!("web-7c5ddbdf54-x2k9p-{digits}"), 64, 8),
            ("any-id", 1, 0),
            ("any-id", 0, 0),
        ] {
            assert_eq!(select_index(len, id), index, "{id}");
        }
        // The whole number, which a small modulus would hide.
        assert_eq!(select_index(u32::MAX as usize + 1, "worker-0-alloc-0"), 3_905_395_197);
    }

    #[test]
    fn five_pods_one_after_the_other_get_the_addresses_of_the_reference() {
        let mut list = vec![10, 11, 12, 13, 14, 15];
        let taken: Vec<i32> = (1..=5).map(|pod| list.remove(select_index(list.len(), &format!("pod-{pod}")))).collect();
        assert_eq!(taken, [13, 12, 11, 15, 10]);
    }
}
