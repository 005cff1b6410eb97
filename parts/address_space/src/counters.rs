//! Counts of the work of address spaces: each for itself, those of a tenant that have ended together, and all of the machine's together.
//!
//! One more count is a line of the list below and the place that counts: monitors show whatever the list has.

use core::sync::atomic::{AtomicU64, Ordering};
use gyre_machine::{CORES_MAX, core_index};

/// Makes the counts and their list from one line each: the field, its name for monitors, and what it counts.
macro_rules! counters {
    ($($(#[doc = $help:literal])* $field:ident: $name:literal;)*) => {
        /// Counts of one address space, or of all on one core.
        #[derive(Default, Debug)]
        pub struct Counters {
            $($(#[doc = $help])* pub $field: AtomicU64,)*
        }

        impl Counters {
            const fn new() -> Counters {
                Counters { $($field: AtomicU64::new(0),)* }
            }
        }

        /// Every count with its name for monitors.
        pub const ALL: &[(&str, Which)] = &[$(($name, |counters| &counters.$field),)*];
    };
}

counters! {
    /// Faults resolved.
    faults: "fault";
    /// Of these, those that waited for a provider.
    faults_waited: "fault that waited";
    /// Pages mapped ahead next to one that was asked for.
    neighbours: "page mapped ahead";
    /// Pages copied because others held them.
    copies: "copy";
    /// Regions made.
    fresh_regions: "fresh region";
    /// Of these, those that needed a flush: the program named a place that cores still remembered, or that held something.
    fresh_flushes: "fresh region with a flush";
    /// Changes that needed a flush of the own core's TLB only.
    tlb_flushes_local: "TLB flush of the own core";
    /// Changes that needed a TLB shootdown: a flush of other cores' translations.
    tlb_shootdowns: "TLB shootdown";
}

/// Picks one of the counts.
pub type Which = fn(&Counters) -> &AtomicU64;

/// A core's counts, in lines of cache of their own.
#[repr(align(64))]
struct Core(Counters);

gyre_object::per_instance! {
    /// Counts of all spaces since the start, by the core that did it; written by that core only.
    static CORES: [Core; CORES_MAX] = [const { Core(Counters::new()) }; CORES_MAX];
}

impl Counters {
    /// Counts one here and for the machine.
    pub(crate) fn count(&self, which: Which) {
        self.count_many(which, 1);
    }

    /// Counts so many here and for the machine.
    pub(crate) fn count_many(&self, which: Which, times: u64) {
        which(self).fetch_add(times, Ordering::Relaxed);
        if let Some(core) = CORES.get(core_index()) {
            let counter = which(&core.0);
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(times), Ordering::Relaxed);
        }
    }

    /// Adds all counts to those of `heir`, and begins again at 0. Flushes of other cores stay: their tenant has counted them at once.
    pub(crate) fn leave_to(&self, heir: &Counters) {
        for (_, which) in ALL {
            if !core::ptr::eq(which(self), &raw const self.tlb_shootdowns) {
                which(heir).fetch_add(which(self).swap(0, Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }
}

/// Returns the sum of a count over all address spaces that there have been.
pub fn of_the_machine(which: Which) -> u64 {
    CORES.iter().map(|core| which(&core.0).load(Ordering::Relaxed)).sum()
}
