//! The allocator of the program.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{mi_free, mi_malloc, mi_realloc, mi_zalloc};
use mimalloc::MiMalloc;

/// The minimum alignment of every block of mimalloc, however small.
const WORD: usize = size_of::<usize>();

/// mimalloc, called without an alignment where possible. A simulated request allocates some hundred small objects; the allocator does not
/// affect the result of a run.
///
/// `MiMalloc` requests an alignment each time, which costs twice as much: a block whose size is not a power of two may get additional room
/// for the alignment.
pub(crate) struct Allocator;

#[expect(unsafe_code, reason = "an allocator is")]
// SAFETY: a block of `mi_malloc`, `mi_zalloc` and `mi_realloc` has the requested size and is aligned to a word; requests for a larger
// alignment are left to `MiMalloc`. `mi_free` frees the blocks of both.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= WORD { unsafe { mi_malloc(layout.size()).cast() } } else { unsafe { MiMalloc.alloc(layout) } }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= WORD { unsafe { mi_zalloc(layout.size()).cast() } } else { unsafe { MiMalloc.alloc_zeroed(layout) } }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= WORD {
            unsafe { mi_realloc(block.cast(), size).cast() }
        } else {
            unsafe { MiMalloc.realloc(block, layout, size) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "an allocator is")]
    fn blocks_are_aligned_and_keep_what_is_in_them() {
        for align in (0..8).map(|bits| 1 << bits) {
            for size in (1..300).chain([1_023, 1_025, 5_000, 100_000, 3_000_000]) {
                let layout = Layout::from_size_align(size, align).expect("a small layout");
                // SAFETY: the blocks are as large as the slices made of them, and each is freed once, with its layout.
                unsafe {
                    let block = Allocator.alloc_zeroed(layout);
                    assert!(!block.is_null() && (block as usize).is_multiple_of(align), "{layout:?}");
                    let bytes = std::slice::from_raw_parts_mut(block, size);
                    assert!(bytes.iter().all(|byte| *byte == 0), "{layout:?}");
                    bytes.fill(7);
                    let block = Allocator.realloc(block, layout, 2 * size);
                    assert!(!block.is_null() && (block as usize).is_multiple_of(align), "{layout:?}");
                    assert!(std::slice::from_raw_parts(block, size).iter().all(|byte| *byte == 7), "{layout:?}");
                    Allocator.dealloc(block, Layout::from_size_align(2 * size, align).expect("a small layout"));
                }
            }
        }
    }
}
