//! The last holder of each lot: nobody gets a lot that another instance lives in, or whose bytes another one left.

use super::instance_plan::PlanError;
use super::pool::LOT_BYTES;
#[cfg(target_os = "none")]
use super::pool::pool;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_platform::{MemoryRegion, Pa};

/// Lots below 4 GiB.
const LOTS: usize = (4 << 30) / LOT_BYTES as usize;
/// The last holder lives.
const LIVES: u32 = 1 << 31;
/// Nobody has been in it, or it was cleared since.
const CLEAN: u32 = 0;

/// The number of the last holder, with [`LIVES`].
static HOLDERS: [AtomicU32; LOTS] = [const { AtomicU32::new(CLEAN) }; LOTS];

/// The state of a lot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LotState {
    /// Zeros, or what the loader left.
    Clean,
    /// It has what an instance left.
    Dirty,
    /// An instance lives in it.
    Held,
}

fn words(region: &MemoryRegion) -> impl Iterator<Item = (MemoryRegion, &'static AtomicU32)> {
    let first = region.start.0 / LOT_BYTES;
    let count = region.bytes / LOT_BYTES;
    (first..first.saturating_add(count)).map_while(|number| {
        let lot = MemoryRegion { start: Pa(number * LOT_BYTES), bytes: LOT_BYTES };
        Some((lot, HOLDERS.get(number as usize)?))
    })
}

/// The state of the lot at a physical address; `None` above 4 GiB.
pub fn lot_state(pa: u64) -> Option<LotState> {
    let word = HOLDERS.get((pa / LOT_BYTES) as usize)?.load(Ordering::Acquire);
    Some(state_of(word))
}

/// The number of the last holder of the lot at a physical address, who may have it again as it is; `None` for a clean one.
pub fn last_holder(pa: u64) -> Option<u32> {
    let word = HOLDERS.get((pa / LOT_BYTES) as usize)?.load(Ordering::Acquire);
    (word != CLEAN).then_some(word & !LIVES)
}

fn state_of(word: u32) -> LotState {
    match word {
        CLEAN => LotState::Clean,
        word if word & LIVES != 0 => LotState::Held,
        _ => LotState::Dirty,
    }
}

/// Checks that a range is made of whole lots of the pool.
///
/// # Errors
/// [`PlanError::LotShape`], [`PlanError::NoLot`].
#[cfg(target_os = "none")]
pub(crate) fn check(region: &MemoryRegion) -> Result<(), PlanError> {
    let is_whole =
        region.bytes > 0 && region.start.0.is_multiple_of(LOT_BYTES) && region.bytes.is_multiple_of(LOT_BYTES);
    if !is_whole {
        return Err(PlanError::LotShape(*region));
    }
    if pool().has_memory(region) { Ok(()) } else { Err(PlanError::NoLot(*region)) }
}

/// A lot that cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    /// The lot.
    pub(crate) lot: MemoryRegion,
    /// Its state.
    pub(crate) state: LotState,
}

impl From<Refused> for PlanError {
    fn from(refused: Refused) -> PlanError {
        match refused.state {
            LotState::Dirty => PlanError::DirtyLot(refused.lot),
            LotState::Clean | LotState::Held => PlanError::BusyLot(refused.lot),
        }
    }
}

/// Takes all lots of the ranges for an instance: clean ones, and those in which one with its number was last.
///
/// # Errors
/// [`Refused`] of the first lot that cannot be had: then none was taken.
pub(crate) fn take(ranges: &[MemoryRegion], number: u32) -> Result<(), Refused> {
    let all = || ranges.iter().flat_map(words);
    let is_free = |was: u32| was == CLEAN || was == number;
    if let Some((lot, word)) = all().find(|(_, word)| !is_free(word.load(Ordering::Acquire))) {
        return Err(Refused { lot, state: state_of(word.load(Ordering::Acquire)) });
    }
    for (place, (lot, word)) in all().enumerate() {
        let update = |was: u32| is_free(was).then_some(number | LIVES);
        if let Err(was) = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, update) {
            // Somebody else was quicker; what was clean counts as dirty.
            all().take(place).for_each(|(_, word)| word.store(number, Ordering::Release));
            return Err(Refused { lot, state: state_of(was) });
        }
    }
    Ok(())
}

/// Says that the instance in these lots lives no more.
pub(crate) fn leave(ranges: &[MemoryRegion]) {
    for (_, word) in ranges.iter().flat_map(words) {
        word.fetch_and(!LIVES, Ordering::AcqRel);
    }
}

/// Says that an instance gives these lots up; returns false, and changes nothing, if one of them is not its own.
pub(crate) fn give(region: &MemoryRegion, number: u32) -> bool {
    let is_own = words(region).all(|(_, word)| word.load(Ordering::Acquire) == number | LIVES);
    if is_own {
        leave(core::slice::from_ref(region));
    }
    is_own
}

/// Says that an instance lives no more, in whatever lots.
pub(crate) fn leave_all(number: u32) {
    for word in &HOLDERS {
        // Whoever else holds a lot keeps it.
        let _ = word.compare_exchange(number | LIVES, number, Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Says that a lot was cleared; returns false if an instance lives in it.
pub(crate) fn set_clean(lot: &MemoryRegion) -> bool {
    words(lot).all(|(_, word)| {
        let update = |was: u32| (was & LIVES == 0).then_some(CLEAN);
        word.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lots(first: u64, count: u64) -> MemoryRegion {
        MemoryRegion { start: Pa(first * LOT_BYTES), bytes: count * LOT_BYTES }
    }

    #[test]
    fn a_dirty_lot_goes_to_its_last_holder_or_is_cleared_first() {
        let (mine, wider) = (lots(100, 3), lots(98, 4));
        assert_eq!(take(&[mine], 7), Ok(()));
        assert_eq!(take(&[wider], 8), Err(Refused { lot: lots(100, 1), state: LotState::Held }));
        assert!(!set_clean(&mine), "an instance lives there");
        assert!(!give(&lots(99, 2), 7) && !give(&mine, 8), "lots of others were given up");
        assert!(give(&lots(102, 1), 7) && lot_state(102 * LOT_BYTES) == Some(LotState::Dirty));
        assert_eq!((last_holder(102 * LOT_BYTES), last_holder(90 * LOT_BYTES)), (Some(7), None));
        assert_eq!(lot_state(101 * LOT_BYTES), Some(LotState::Held));
        leave(&[mine]);
        assert_eq!(lot_state(mine.start.0), Some(LotState::Dirty));
        assert_eq!(take(&[mine], 8), Err(Refused { lot: lots(100, 1), state: LotState::Dirty }));
        assert_eq!(take(&[mine], 7), Ok(()));
        leave(&[mine]);
        assert!(set_clean(&mine));
        assert_eq!(lot_state(98 * LOT_BYTES), Some(LotState::Clean));
        assert_eq!(take(&[wider], 8), Ok(()));
    }
}
