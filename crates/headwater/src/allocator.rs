//! The allocator of the process.
//!
//! Small blocks are mimalloc's: columns come and go in blocks of many sizes on several threads, freed
//! where they were not made, which is what it is built for. Large blocks are the system's, which takes
//! them back the moment they are freed, whoever frees them, and moves none that grows. mimalloc keeps a
//! freed block for a second, and one that another thread has freed until its owner looks: after a burst
//! of large bodies that was several times `--memory-limit`.

use std::alloc::{GlobalAlloc, Layout, System};

use mimalloc::MiMalloc;

/// From here on a block is large. A batch has no column of this size.
const LARGE_BYTES: usize = 4 << 20;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

struct Allocator;

fn is_large(bytes: usize) -> bool {
    bytes >= LARGE_BYTES
}

// SAFETY: a block is freed and resized by the allocator that gave it: which one that was follows from
// its size alone, and the size is that of `layout` until `realloc` changes it.
#[expect(
    unsafe_code,
    reason = "the trait is unsafe; nothing else puts two allocators together"
)]
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what the caller promises is what both ask for.
        unsafe {
            match is_large(layout.size()) {
                true => System.alloc(layout),
                false => MiMalloc.alloc(layout),
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        unsafe {
            match is_large(layout.size()) {
                true => System.alloc_zeroed(layout),
                false => MiMalloc.alloc_zeroed(layout),
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `layout` is that of the block, so this is the allocator that gave it.
        unsafe {
            match is_large(layout.size()) {
                true => System.dealloc(block, layout),
                false => MiMalloc.dealloc(block, layout),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the same allocator where the block stays on its side of the bound. Else it is copied: the
        // caller promises that `bytes` and the alignment make a layout, the blocks do not overlap, and both
        // have the bytes of the smaller one.
        unsafe {
            match (is_large(layout.size()), is_large(bytes)) {
                (true, true) => System.realloc(block, layout, bytes),
                (false, false) => MiMalloc.realloc(block, layout, bytes),
                _ => {
                    let other =
                        self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
                    if !other.is_null() {
                        block.copy_to_nonoverlapping(other, layout.size().min(bytes));
                        self.dealloc(block, layout);
                    }
                    other
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_its_bytes_on_both_sides_of_the_bound() {
        let mut bytes: Vec<u8> = Vec::with_capacity(3);
        for number in 0..2 * LARGE_BYTES {
            bytes.push(number as u8);
        }
        bytes.truncate(LARGE_BYTES / 2);
        bytes.shrink_to_fit();
        bytes.reserve_exact(LARGE_BYTES);
        let is_whole = |bytes: &[u8]| {
            let mut numbers = bytes.iter().enumerate();
            numbers.all(|(number, byte)| *byte == number as u8)
        };
        assert!(is_whole(&bytes) && bytes.len() == LARGE_BYTES / 2);
        assert!(vec![0_u8; LARGE_BYTES].iter().all(|byte| *byte == 0));
    }
}
