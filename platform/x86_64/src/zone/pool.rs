//! The parts of its machine that a supervisor does not keep: cores, memory and PCI functions for other instances.

use crate::acpi::LISTED_CORES_MAX;
use crate::boot::zone::Regions;
use crate::list::List;
#[cfg(target_os = "none")]
use crate::lock::Once;
use crate::zone::mailbox::SLOTS;
use gyre_platform::zone::REGIONS_MAX;
use gyre_platform::{MemoryRegion, Pa, PciAddress};

/// Memory changes hands in pieces of so many bytes, which lie at multiples of it.
pub const LOT_BYTES: u64 = 2 << 20;
/// Lots lie below this.
const LOTS_END: u64 = 4 << 30;
/// PCI functions that are kept.
const DEVICES_MAX: usize = 64;

/// Parts for other instances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pool {
    cores: List<u32, LISTED_CORES_MAX>,
    lots: List<MemoryRegion, REGIONS_MAX>,
    devices: List<PciAddress, DEVICES_MAX>,
}

impl Pool {
    /// A pool with nothing in it.
    pub(crate) const EMPTY: Pool = Pool {
        cores: List::new(0),
        lots: List::new(MemoryRegion { start: Pa(0), bytes: 0 }),
        devices: List::new(PciAddress { bus: 0, device: 0, function: 0 }),
    };

    /// Hardware ids of its cores.
    pub fn cores(&self) -> &[u32] {
        self.cores.as_slice()
    }

    /// Its memory, as ranges of whole lots of [`LOT_BYTES`], below 4 GiB and in ascending order.
    pub fn lots(&self) -> &[MemoryRegion] {
        self.lots.as_slice()
    }

    /// Its PCI functions, without bridges.
    pub fn devices(&self) -> &[PciAddress] {
        self.devices.as_slice()
    }

    /// Adds the cores that the firmware lists and the supervisor does not keep, as far as their ids have a place in the parking loop.
    pub(crate) fn add_cores(&mut self, listed: &[u32], kept: &[u32]) {
        for id in listed.iter().filter(|id| (**id as usize) < SLOTS && !kept.contains(id)) {
            if !self.cores.as_slice().contains(id) {
                // The list is as long as the firmware's.
                let _ = self.cores.push(*id);
            }
        }
    }

    /// Adds the whole lots of memory that the loader lists, less the ranges that are `kept`.
    pub(crate) fn add_lots(&mut self, listed: &[MemoryRegion], kept: &[MemoryRegion]) {
        let mut regions = Regions::new();
        listed.iter().for_each(|region| regions.add(region.start.0, region.start.0.saturating_add(region.bytes)));
        kept.iter().for_each(|region| regions.cut(region.start.0, region.start.0.saturating_add(region.bytes)));
        let mut lots = [MemoryRegion { start: Pa(0), bytes: 0 }; REGIONS_MAX];
        let whole = regions.as_slice().iter().filter_map(whole_lots);
        let count = lots.iter_mut().zip(whole).map(|(place, lot)| *place = lot).count();
        lots[..count].sort_unstable_by_key(|region| region.start.0);
        for region in &lots[..count] {
            // There are no more regions than places.
            let _ = self.lots.push(*region);
        }
    }

    /// Adds a PCI function.
    pub(crate) fn add_device(&mut self, address: PciAddress) {
        // More than there is room for are nobody's.
        let _ = self.devices.push(address);
    }

    /// True if the pool has all bytes of a range.
    pub(crate) fn has_memory(&self, region: &MemoryRegion) -> bool {
        let end = region.start.0.saturating_add(region.bytes);
        self.lots().iter().any(|lots| lots.start.0 <= region.start.0 && end <= lots.start.0 + lots.bytes)
    }
}

fn whole_lots(region: &MemoryRegion) -> Option<MemoryRegion> {
    let start = region.start.0.next_multiple_of(LOT_BYTES);
    let end = region.start.0.saturating_add(region.bytes).min(LOTS_END) / LOT_BYTES * LOT_BYTES;
    (start < end).then(|| MemoryRegion { start: Pa(start), bytes: end - start })
}

#[cfg(target_os = "none")]
static POOL: Once<Pool> = Once::new();
#[cfg(target_os = "none")]
static NOTHING: Pool = Pool::EMPTY;

/// Returns what this supervisor does not keep; nothing in another instance.
#[cfg(target_os = "none")]
pub fn pool() -> &'static Pool {
    POOL.get().unwrap_or(&NOTHING)
}

/// Keeps what boot has found.
#[cfg(target_os = "none")]
pub(crate) fn set_pool(pool: Pool) {
    POOL.set(pool);
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;

    fn region(start: u64, end: u64) -> MemoryRegion {
        MemoryRegion { start: Pa(start << 20), bytes: (end - start) << 20 }
    }

    #[test]
    fn cores_of_the_supervisor_are_not_in_the_pool() {
        let mut pool = Pool::EMPTY;
        pool.add_cores(&[0, 1, 2, 5, 5, 300], &[0, 2]);
        assert_eq!(pool.cores(), [1, 5]);
    }

    #[test]
    fn memory_of_the_supervisor_and_below_one_megabyte_is_not_in_the_pool() {
        let mut pool = Pool::EMPTY;
        let listed = [region(0, 1), region(1, 256), region(4096, 8192)];
        pool.add_lots(&listed, &[region(2, 66), region(101, 102)]);
        assert_eq!(pool.lots(), [region(66, 100), region(102, 256)]);
        assert!(pool.has_memory(&region(70, 100)) && !pool.has_memory(&region(70, 102)));
        assert!(!pool.has_memory(&region(4096, 4098)) && !pool.has_memory(&region(0, 2)));
    }

    #[test]
    fn a_reserved_piece_takes_its_lot_out() {
        let mut pool = Pool::EMPTY;
        let hole = MemoryRegion { start: Pa((10 << 20) + 5000), bytes: 1 };
        pool.add_lots(&[region(1, 20)], &[hole]);
        assert_eq!(pool.lots(), [region(2, 10), region(12, 20)]);
    }
}
