//! The memory that a program shows: all of it, and its part of the pages that it shares.

use crate::AddressSpace;
use crate::huge::HUGE;
use crate::region::{Options, Provider, Region};
use crate::space::State;
use gyre_machine::USER_END;
use gyre_object::Page;

/// Bits behind the point of a proportional figure, as in Linux.
pub const FRACTION_BITS: u32 = 12;
/// Bytes of addresses looked at under one lock.
const STRIDE: u64 = 4 * HUGE;

/// Bytes of one kind of memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Kind {
    /// Resident.
    pub resident: u64,
    /// This program's part, with each page divided among its viewers, in 2^-[`FRACTION_BITS`] bytes.
    pub part: u64,
    /// Resident, and shown by this program only.
    pub private: u64,
}

/// The resident memory of a program, by provider. A copy that it wrote of a file's page is its own: private memory without a file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Private memory without a file.
    pub anonymous: Kind,
    /// Memory shared without a file, and files in memory.
    pub shared: Kind,
    /// Files on disks, and pages of the kernel that programs see.
    pub files: Kind,
    /// Bytes of huge pages.
    pub huge: u64,
    /// Of the anonymous part, that in huge pages which nobody has cut, in 2^-[`FRACTION_BITS`] bytes.
    pub huge_part: u64,
}

impl Kind {
    fn add(&mut self, mappings: u64, bytes: u64) {
        let mappings = mappings.max(1);
        self.resident = self.resident.saturating_add(bytes);
        let part = (bytes << FRACTION_BITS).checked_div(mappings).unwrap_or(0);
        self.part = self.part.saturating_add(part);
        self.private = self.private.saturating_add(if mappings == 1 { bytes } else { 0 });
    }
}

impl AddressSpace {
    /// Sums the present pages up. Other tasks run in between, so the sum is of no single time.
    pub async fn usage(&self) -> Usage {
        self.usage_within(0, USER_END).await
    }

    /// Sums the present pages between two addresses up, as [`AddressSpace::usage`] does.
    pub async fn usage_within(&self, from: u64, to: u64) -> Usage {
        let mut usage = Usage::default();
        let mut at = from;
        while at < to {
            at = self.state.lock().add_usage(at, to, &mut usage);
            gyre_message::yield_now().await;
        }
        usage
    }
}

impl State {
    /// Adds the next stretch that has pages, and returns its end.
    fn add_usage(&self, at: u64, limit: u64, usage: &mut Usage) -> u64 {
        let Some(first) = self.next_present(at).filter(|first| *first < limit) else { return limit };
        let end = (first & !(STRIDE - 1)).saturating_add(STRIDE).min(limit);
        for (from, to, region) in self.regions.parts(first, end) {
            for (_, page) in self.pages.singles(from, to) {
                usage.kind(&region, page).add(u64::from(page.mappings()), page.len() as u64);
            }
        }
        for huge in self.pages.huge_starts(first, end).filter(|huge| *huge >= first) {
            if let Some(page) = self.pages.huge(huge) {
                page.for_each_part(|mappings, bytes| usage.add_huge(mappings, bytes));
                usage.huge = usage.huge.saturating_add(HUGE);
            }
        }
        end
    }

    /// Returns the first 2 MiB from `at` on in which something is present.
    pub(crate) fn next_present(&self, at: u64) -> Option<u64> {
        let single = self.pages.spans(at, USER_END).next().map(|(from, _)| from & !(HUGE - 1));
        let huge = self.pages.huge_starts(at, USER_END).next();
        single.into_iter().chain(huge).min().map(|first| first.max(at))
    }
}

impl Usage {
    fn kind(&mut self, region: &Region, page: &Page) -> &mut Kind {
        match &region.provider {
            Provider::Anonymous => &mut self.anonymous,
            _ if page.is_own() && !region.options.contains(Options::SHARED) => &mut self.anonymous,
            Provider::Memory(memory) if memory.is_the_kernels() => &mut self.files,
            Provider::Memory(_) => &mut self.shared,
            Provider::File(file) if file.is_in_memory() => &mut self.shared,
            Provider::File(_) => &mut self.files,
        }
    }

    fn add_huge(&mut self, mappings: u64, bytes: u64) {
        let before = self.anonymous.part;
        self.anonymous.add(mappings, bytes);
        if bytes == HUGE {
            let part = self.anonymous.part.saturating_sub(before);
            self.huge_part = self.huge_part.saturating_add(part);
        }
    }

    /// Returns all resident bytes.
    pub fn resident(&self) -> u64 {
        self.anonymous.resident.saturating_add(self.shared.resident).saturating_add(self.files.resident)
    }

    /// Returns the program's part of all that it shows, in 2^-[`FRACTION_BITS`] bytes.
    pub fn part(&self) -> u64 {
        self.anonymous.part.saturating_add(self.shared.part).saturating_add(self.files.part)
    }
}
