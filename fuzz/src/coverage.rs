//! Measures the code coverage of a run with the compiler's counters, which are available in stable toolchains
//! too.

use std::panic::{self, AssertUnwindSafe};

/// Returns the class of a counter value. Because of the classes, a loop that runs ten times counts as new
/// coverage if it had only run once before.
fn class(count: u64) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2..=7 => 2,
        8..=63 => 4,
        _ => 8,
    }
}

/// The coverage of all runs so far: for each counter, the classes that were reached.
#[derive(Default)]
pub(crate) struct Coverage(Vec<u8>);

impl Coverage {
    /// Runs a target. Returns whether it panicked, and whether it reached new coverage.
    pub(crate) fn of(&mut self, story: impl FnOnce()) -> (std::thread::Result<()>, bool) {
        counters().fill(0);
        let ended = panic::catch_unwind(AssertUnwindSafe(story));
        let counters = counters();
        self.0.resize(counters.len(), 0);
        let mut new = false;
        for (known, count) in self.0.iter_mut().zip(counters.iter()) {
            if *count != 0 && *known & class(*count) == 0 {
                *known |= class(*count);
                new = true;
            }
        }
        (ended, new)
    }

    /// Returns how many pairs of a counter and a class were reached.
    pub(crate) fn reached(&self) -> usize {
        self.0.iter().map(|classes| classes.count_ones() as usize).sum()
    }
}

/// If this program was not built by `fuzz/run`, there are no counters, and the search does not know which
/// inputs reach new code.
#[cfg(not(fuzz_coverage))]
fn counters() -> &'static mut [u64] {
    &mut []
}

#[cfg(fuzz_coverage)]
#[allow(unsafe_code)]
fn counters() -> &'static mut [u64] {
    unsafe extern "C" {
        fn __llvm_profile_begin_counters() -> *mut u64;
        fn __llvm_profile_end_counters() -> *mut u64;
    }
    // SAFETY: the two functions return the bounds of the profiling runtime's array of counters, and only this
    // thread runs code with counters.
    unsafe {
        let (begin, end) = (__llvm_profile_begin_counters(), __llvm_profile_end_counters());
        std::slice::from_raw_parts_mut(begin, end.offset_from_unsigned(begin))
    }
}
