//! Times of holding: who held how much for how long, to the cycle.

use alloc::vec::Vec;
use gyre_interface::leases::{HOLDERS_MAX, Held, Holder};

/// How long one core was in whose hands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoreUse {
    /// Its hardware id.
    pub core: u32,
    /// Cycles since the pool was made: the sum of `held`.
    pub elapsed: u64,
    /// Cycles by holder; those without any are left out.
    pub held: Vec<(Holder, u64)>,
}

/// The kinds of parts that times are kept of.
#[derive(Clone, Copy)]
pub(crate) enum Class {
    Core,
    Lot,
    Device,
}

/// Times of all holders.
pub(crate) struct Times([Held; HOLDERS_MAX]);

impl Times {
    pub(crate) fn new() -> Times {
        Times([Held::default(); HOLDERS_MAX])
    }

    /// Adds cycles of one part.
    pub(crate) fn add(&mut self, holder: Holder, class: Class, cycles: u64) {
        if let Some(held) = holder.index().and_then(|index| self.0.get_mut(index)) {
            add(held, class, cycles);
        }
    }

    pub(crate) fn get(&self, holder: Holder) -> Held {
        holder.index().and_then(|index| self.0.get(index)).copied().unwrap_or_default()
    }
}

/// Adds cycles of one part of a class. 2^128 cycles times parts are never reached.
pub(crate) fn add(held: &mut Held, class: Class, cycles: u64) {
    let sum = match class {
        Class::Core => &mut held.core_cycles,
        Class::Lot => &mut held.lot_cycles,
        Class::Device => &mut held.device_cycles,
    };
    *sum = sum.saturating_add(u128::from(cycles));
}

/// Returns all holders that can be.
pub(crate) fn all_holders() -> impl Iterator<Item = Holder> {
    use gyre_interface::leases::{CELLS_MAX, ZONES_MAX};
    let zones = (0..ZONES_MAX as u16).map(Holder::Zone);
    let cells = (0..CELLS_MAX as u16).map(Holder::Cell);
    [Holder::Free, Holder::Supervisor].into_iter().chain(zones).chain(cells)
}
