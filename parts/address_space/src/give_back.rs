//! Giving memory back that can be had again: pages of files, which the file cache holds too (2013 paper, section IV-D).

use crate::AddressSpace;
use crate::region::{Options, PAGE, Provider, Region};
use crate::space::{State, Withdrawn};
use alloc::vec::Vec;
use gyre_machine::{MapFlags, Va};

impl AddressSpace {
    /// Forgets up to `bytes` of file pages that the program cannot write and has not used since this was asked last. Answers how
    /// many; the file cache can drop them now.
    pub async fn give_back(&self, bytes: u64) -> u64 {
        let mut withdrawn = Withdrawn::default();
        let given = self.state.lock().forget_clean((bytes / PAGE).max(1) as usize, &mut withdrawn);
        self.flush_and_free(withdrawn).await;
        (given as u64).saturating_mul(PAGE)
    }
}

impl State {
    fn forget_clean(&mut self, pages_max: usize, withdrawn: &mut Withdrawn) -> usize {
        let may_go =
            |region: &Region| matches!(region.provider, Provider::File(_)) && !region.options.contains(Options::LOCKED);
        let files = self.regions.iter().filter(|(_, region)| may_go(region));
        let ranges: Vec<(u64, u64)> = files.map(|(start, region)| (start, region.end)).collect();
        let mut given = 0;
        for (start, end) in ranges {
            let addresses: Vec<u64> = self.pages.addresses(start, end).collect();
            for address in addresses {
                if given == pages_max {
                    return given;
                }
                given = usize::saturating_add(given, usize::from(self.forget_unused(address, withdrawn)));
            }
        }
        given
    }

    /// Takes one page out if it was not used since the last look; else marks it as unused.
    fn forget_unused(&mut self, address: u64, withdrawn: &mut Withdrawn) -> bool {
        // Pages that programs wrote could not be given again, whether one of them holds them or, since a fork,
        // several.
        let is_the_files = self.pages.get(address).is_some_and(|page| page.is_shared() && !page.is_own());
        let flags = self.table.query(Va(address)).map_or(MapFlags::empty(), |mapping| mapping.flags);
        if !is_the_files || flags.contains(MapFlags::WRITE) {
            return false;
        }
        if flags.contains(MapFlags::ACCESSED) {
            // Cores that hold the translation will not mark it again: such a page only seems unused, and comes back by a fault.
            self.table.protect(Va(address), flags.difference(MapFlags::ACCESSED));
            return false;
        }
        self.evict(address, withdrawn);
        true
    }
}
