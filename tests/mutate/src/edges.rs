//! Edges of the code that were reached: counters that the compiler puts there if it is told to.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

/// First and last address of this program's counters.
static FIRST: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Called by code with counters before `main`, once for each object file with the same bounds (LLVM, SanitizerCoverage).
///
/// # Safety
/// Only the compiler's code calls it, with the bounds of its section.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sanitizer_cov_8bit_counters_init(first: *mut u8, last: *mut u8) {
    FIRST.store(first as usize, Relaxed);
    LAST.store(last as usize, Relaxed);
}

/// The edges that were reached.
pub struct Edges {
    counters: &'static [AtomicU8],
    seen: Vec<u8>,
}

impl Edges {
    /// Returns the counters of this program; none if it was built without.
    pub fn of_this_program() -> Self {
        let (first, last) = (FIRST.load(Relaxed), LAST.load(Relaxed));
        let counters: &[AtomicU8] = match last.checked_sub(first) {
            // SAFETY: the compiler's section of counters, bytes that live as long as the program; additions are made without a lock, and
            // a lost count is no harm.
            Some(bytes) if bytes > 0 => unsafe { std::slice::from_raw_parts(first as *const AtomicU8, bytes) },
            _ => &[],
        };
        Self { counters, seen: vec![0; counters.len()] }
    }

    /// Returns how many edges were reached for the first time, or more often than ever by powers of two, since the last call.
    pub fn take_new(&mut self) -> usize {
        let mut new = 0;
        for (counter, seen) in self.counters.iter().zip(&mut self.seen) {
            let count = counter.swap(0, Relaxed);
            let class = if count == 0 { 0 } else { 1u8 << count.ilog2() };
            new += usize::from(class & !*seen != 0);
            *seen |= class;
        }
        new
    }

    /// Returns how many were reached at all.
    pub fn seen(&self) -> usize {
        self.seen.iter().filter(|seen| **seen != 0).count()
    }
}
