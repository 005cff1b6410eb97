//! The pool: pure, no clock, no queue, no waiting.
//!
//! Each part is one entry of a table that is made once. A change looks first whether all of it can be done, or undoes what it has done at
//! the same cycle: so a refused change leaves no trace in holders and times.
//!
//! Protocol of use: [`Pool::exchange`] moves parts between hands, of which the free hand is one; [`Pool::parts`] and [`Pool::held`] say who has what, and for how long. Times given may come from several cores' clocks: one before the
//! latest change counts as that change. [`crate::runs`] chooses lots, [`crate::time`] adds up.
//!
//! Left out: who may ask for what; that is the matter of the zones and cells.

use crate::runs;
use crate::time::{Class, CoreUse, Times, add, all_holders};
use alloc::vec::Vec;
use gyre_interface::leases::{
    Dirt, Goods, Held, Holder, Holding, Kind, LeaseError, Lots, Move, Part, Parts, Terms, Wish,
};
use gyre_machine::PciAddress;

/// Whose a part is.
#[derive(Clone, Copy)]
struct Lease {
    holder: Holder,
    lender: Option<Holder>,
    since: u64,
}

/// A place in one of the tables.
#[derive(Clone, Copy)]
enum Place {
    Core(usize),
    Lot(usize),
    Device(usize),
}

/// A part as it was before a move.
struct Before {
    place: Place,
    lease: Lease,
    dirt: Dirt,
}

struct Core {
    id: u32,
    lease: Lease,
    /// Cycles in hands before the present ones.
    held: [u64; gyre_interface::leases::HOLDERS_MAX],
}

struct Lot {
    number: u64,
    lease: Lease,
    is_dirty: bool,
}

struct Device {
    address: PciAddress,
    lease: Lease,
}

/// All parts, and the times of their holders.
pub struct Pool {
    begun: u64,
    /// The latest change: no time of a change or of figures is before it.
    last: u64,
    cores: Vec<Core>,
    lots: Vec<Lot>,
    devices: Vec<Device>,
    times: Times,
}

impl Pool {
    /// Makes a pool of free parts at `now`, a cycle. Parts that are named twice count once. Its lots hold what the firmware left.
    #[must_use]
    pub fn new(parts: Parts, now: u64) -> Pool {
        let lease = Lease { holder: Holder::Free, lender: None, since: now };
        let Parts { mut cores, lots, mut devices } = parts;
        let mut numbers: Vec<u64> =
            lots.iter().flat_map(|run| run.first..run.first.saturating_add(u64::from(run.count))).collect();
        cores.sort_unstable();
        cores.dedup();
        numbers.sort_unstable();
        numbers.dedup();
        devices.sort_unstable();
        devices.dedup();
        let held = [0; gyre_interface::leases::HOLDERS_MAX];
        Pool {
            begun: now,
            last: now,
            cores: cores.into_iter().map(|id| Core { id, lease, held }).collect(),
            lots: numbers.into_iter().map(|number| Lot { number, lease, is_dirty: true }).collect(),
            devices: devices.into_iter().map(|address| Device { address, lease }).collect(),
            times: Times::new(),
        }
    }

    /// Moves parts between hands, one move after the other: all moves or none. Answers the parts of each.
    ///
    /// # Errors
    /// Those of [`LeaseError`] but `Gone`; nothing changes then.
    pub fn exchange(&mut self, moves: &[Move], now: u64) -> Result<Vec<Parts>, LeaseError> {
        let mut done: Vec<Parts> = Vec::new();
        let mut before: Vec<Before> = Vec::new();
        for one in moves {
            match self.choose(one) {
                Ok(parts) => {
                    self.pass(&parts, one, now, &mut before);
                    done.push(parts);
                }
                Err(error) => {
                    before.into_iter().rev().for_each(|before| self.restore(before));
                    return Err(error);
                }
            }
        }
        Ok(done)
    }

    fn choose(&self, one: &Move) -> Result<Parts, LeaseError> {
        if one.from == one.to || one.from.index().is_none() || one.to.index().is_none() {
            return Err(LeaseError::NoHolder);
        }
        let parts = match &one.goods {
            Goods::All => return Ok(self.parts(one.from)),
            Goods::These(parts) => parts.clone(),
            Goods::Any(wish) => self.meet(one.from, wish)?,
        };
        self.check_held(one.from, &parts)?;
        Ok(parts)
    }

    /// Chooses parts of a holder that meet a wish.
    fn meet(&self, from: Holder, wish: &Wish) -> Result<Parts, LeaseError> {
        let of_giver = self.cores.iter().filter(|core| core.lease.holder == from).map(|core| core.id);
        let cores: Vec<u32> = of_giver.take(usize::try_from(wish.cores).unwrap_or(usize::MAX)).collect();
        if (cores.len() as u64) < u64::from(wish.cores) {
            let free = cores.len() as u64;
            return Err(LeaseError::Lacking { kind: Kind::Core, wanted: u64::from(wish.cores), free });
        }
        let is_usable = |lot: &&Lot| lot.lease.holder == from && (wish.dirt == Dirt::Allowed || !lot.is_dirty);
        let runs = runs::gather(self.lots.iter().filter(is_usable).map(|lot| lot.number));
        let lots = runs::choose(&runs, wish.lots, wish.run.min(wish.lots))?;
        Ok(Parts { cores, lots, devices: wish.devices.clone() })
    }

    /// Notes that free lots were cleared.
    ///
    /// # Errors
    /// [`LeaseError::Busy`] if somebody holds one, [`LeaseError::Unknown`]; nothing changes then.
    pub fn cleaned(&mut self, lots: Lots) -> Result<(), LeaseError> {
        self.check_held(Holder::Free, &Parts { lots: alloc::vec![lots], ..Parts::default() })?;
        self.lots_of(lots).iter_mut().for_each(|lot| lot.is_dirty = false);
        Ok(())
    }

    /// Checks that each part is in the pool, named once, and in the holder's hands.
    fn check_held(&self, holder: Holder, parts: &Parts) -> Result<(), LeaseError> {
        let owned = |part: Part, lease: Option<Lease>| match lease {
            None => Err(LeaseError::Unknown { part }),
            Some(lease) if lease.holder != holder => Err(LeaseError::Busy { part, holder: lease.holder }),
            Some(_) => Ok(()),
        };
        let mut cores = parts.cores.clone();
        cores.sort_unstable();
        for pair in cores.windows(2) {
            if let [one, other] = pair
                && one == other
            {
                return Err(LeaseError::Unknown { part: Part::Core(*one) });
            }
        }
        for id in &cores {
            owned(Part::Core(*id), self.core_at(*id).and_then(|at| self.cores.get(at)).map(|core| core.lease))?;
        }
        let mut devices = parts.devices.clone();
        devices.sort_unstable();
        for pair in devices.windows(2) {
            if let [one, other] = pair
                && one == other
            {
                return Err(LeaseError::Unknown { part: Part::Device(*one) });
            }
        }
        for address in &devices {
            let device = self.devices.iter().find(|device| device.address == *address);
            owned(Part::Device(*address), device.map(|device| device.lease))?;
        }
        self.check_lots(holder, parts)
    }

    fn check_lots(&self, holder: Holder, parts: &Parts) -> Result<(), LeaseError> {
        let mut runs = parts.lots.clone();
        runs.sort_unstable();
        let mut end = 0;
        for run in &runs {
            let unknown = LeaseError::Unknown { part: Part::Lot(run.first) };
            if run.first < end {
                return Err(unknown);
            }
            end = run.first.checked_add(u64::from(run.count)).ok_or(unknown)?;
            let range = self.range_of(*run).ok_or(unknown)?;
            let other = self.lots.get(range).and_then(|lots| lots.iter().find(|lot| lot.lease.holder != holder));
            if let Some(lot) = other {
                return Err(LeaseError::Busy { part: Part::Lot(lot.number), holder: lot.lease.holder });
            }
        }
        Ok(())
    }

    fn core_at(&self, id: u32) -> Option<usize> {
        self.cores.binary_search_by_key(&id, |core| core.id).ok()
    }

    /// Returns the places of a run's lots; `None` unless all of them are in the pool.
    fn range_of(&self, run: Lots) -> Option<core::ops::Range<usize>> {
        let count = usize::try_from(run.count).ok()?;
        if count == 0 {
            return Some(0..0);
        }
        let start = self.lots.binary_search_by_key(&run.first, |lot| lot.number).ok()?;
        let end = start.checked_add(count)?;
        let last = self.lots.get(end.checked_sub(1)?)?;
        (last.number == run.first.checked_add(u64::from(run.count))?.checked_sub(1)?).then_some(start..end)
    }

    fn lots_of(&mut self, run: Lots) -> &mut [Lot] {
        let range = self.range_of(run).unwrap_or(0..0);
        self.lots.get_mut(range).unwrap_or(&mut [])
    }

    /// Passes parts that were checked to another hand, and notes in `before` in whose they were.
    fn pass(&mut self, parts: &Parts, one: &Move, now: u64, before: &mut Vec<Before>) {
        self.last = self.last.max(now);
        for at in parts.cores.iter().filter_map(|id| self.core_at(*id)).collect::<Vec<_>>() {
            let lease = self.lease_after(Place::Core(at), one, before);
            before.extend(self.hand(Place::Core(at), lease, Dirt::Refused));
        }
        for run in &parts.lots {
            for at in self.range_of(*run).unwrap_or(0..0) {
                // Whoever had it has left something there, unless nobody had it.
                let dirt = if one.from == Holder::Free { Dirt::Refused } else { Dirt::Allowed };
                let dirt = if self.dirt(Place::Lot(at)) == Dirt::Allowed { Dirt::Allowed } else { dirt };
                let lease = self.lease_after(Place::Lot(at), one, before);
                before.extend(self.hand(Place::Lot(at), lease, dirt));
            }
        }
        for address in &parts.devices {
            let Some(at) = self.devices.iter().position(|device| device.address == *address) else { continue };
            let lease = self.lease_after(Place::Device(at), one, before);
            before.extend(self.hand(Place::Device(at), lease, Dirt::Refused));
        }
    }

    /// Returns the lease of a part that moves. A loan to whom the giver owes such a part pays that back: the part has no lender, and if it is not
    /// the very one that was borrowed, that one is the giver's own from now on.
    fn lease_after(&mut self, place: Place, one: &Move, before: &mut Vec<Before>) -> Lease {
        let home = Lease { holder: one.to, lender: None, since: self.last };
        if one.terms == Terms::Kept {
            return home;
        }
        let Some(owed) = self.owed(place, one) else { return Lease { lender: Some(one.from), ..home } };
        let dirt = self.dirt(owed);
        before.extend(self.hand(owed, Lease { holder: one.from, ..home }, dirt));
        home
    }

    /// Returns a part of the same kind that the taker has lent the giver: this one if it is such a part.
    fn owed(&self, place: Place, one: &Move) -> Option<Place> {
        let is_owed = |lease: &Lease| lease.holder == one.from && lease.lender == Some(one.to);
        let own = match place {
            Place::Core(at) => self.cores.get(at).map(|core| core.lease),
            Place::Lot(at) => self.lots.get(at).map(|lot| lot.lease),
            Place::Device(at) => self.devices.get(at).map(|device| device.lease),
        };
        if own.as_ref().is_some_and(is_owed) {
            return Some(place);
        }
        match place {
            Place::Core(_) => self.cores.iter().position(|core| is_owed(&core.lease)).map(Place::Core),
            Place::Lot(_) => self.lots.iter().position(|lot| is_owed(&lot.lease)).map(Place::Lot),
            Place::Device(_) => None,
        }
    }

    fn dirt(&self, place: Place) -> Dirt {
        match place {
            Place::Lot(at) if self.lots.get(at).is_some_and(|lot| lot.is_dirty) => Dirt::Allowed,
            _ => Dirt::Refused,
        }
    }

    /// Puts a part into another hand at the time of the lease; answers in whose it was.
    fn hand(&mut self, place: Place, lease: Lease, dirt: Dirt) -> Option<Before> {
        let mut was_dirty = Dirt::Refused;
        let (class, known) = match place {
            Place::Core(at) => {
                let core = self.cores.get_mut(at)?;
                let cycles = lease.since.saturating_sub(core.lease.since);
                let held = core.held.get_mut(core.lease.holder.index()?)?;
                *held = held.wrapping_add(cycles);
                (Class::Core, &mut core.lease)
            }
            Place::Lot(at) => {
                let lot = self.lots.get_mut(at)?;
                was_dirty = if lot.is_dirty { Dirt::Allowed } else { Dirt::Refused };
                lot.is_dirty = dirt == Dirt::Allowed;
                (Class::Lot, &mut lot.lease)
            }
            Place::Device(at) => (Class::Device, &mut self.devices.get_mut(at)?.lease),
        };
        let old = core::mem::replace(known, lease);
        self.times.add(old.holder, class, lease.since.saturating_sub(old.since));
        Some(Before { place, lease: old, dirt: was_dirty })
    }

    /// Puts a part back, at the cycle at which it was moved: the hand in between had it for no time.
    fn restore(&mut self, before: Before) {
        let lease = Lease { since: self.last, ..before.lease };
        let _ = self.hand(before.place, lease, before.dirt);
    }

    /// Returns the parts of a holder.
    #[must_use]
    pub fn parts(&self, holder: Holder) -> Parts {
        let is_its = |lease: &Lease| lease.holder == holder;
        Parts {
            cores: self.cores.iter().filter(|core| is_its(&core.lease)).map(|core| core.id).collect(),
            lots: runs::gather(self.lots.iter().filter(|lot| is_its(&lot.lease)).map(|lot| lot.number)),
            devices: self.devices.iter().filter(|one| is_its(&one.lease)).map(|one| one.address).collect(),
        }
    }

    /// Returns the times of a holder up to `now`.
    #[must_use]
    pub fn held(&self, holder: Holder, now: u64) -> Held {
        let now = now.max(self.last);
        let mut held = self.times.get(holder);
        let cores = self.cores.iter().map(|core| (Class::Core, core.lease));
        let lots = self.lots.iter().map(|lot| (Class::Lot, lot.lease));
        let devices = self.devices.iter().map(|device| (Class::Device, device.lease));
        for (class, lease) in cores.chain(lots).chain(devices).filter(|(_, lease)| lease.holder == holder) {
            add(&mut held, class, now.saturating_sub(lease.since));
        }
        held
    }

    /// Returns how long each core was in whose hands, up to `now`.
    #[must_use]
    pub fn cores(&self, now: u64) -> Vec<CoreUse> {
        let now = now.max(self.last);
        let of = |core: &Core, holder: Holder| {
            let before = holder.index().and_then(|index| core.held.get(index)).copied().unwrap_or(0);
            let present = if core.lease.holder == holder { now.saturating_sub(core.lease.since) } else { 0 };
            before.wrapping_add(present)
        };
        let held = |core: &Core| {
            all_holders().map(|holder| (holder, of(core, holder))).filter(|(_, cycles)| *cycles > 0).collect()
        };
        let one = |core: &Core| CoreUse { core: core.id, elapsed: now.saturating_sub(self.begun), held: held(core) };
        self.cores.iter().map(one).collect()
    }

    /// Returns all holders that hold or have held something, up to `now`.
    #[must_use]
    pub fn holders(&self, now: u64) -> Vec<Holding> {
        let holding = |holder: Holder| Holding {
            holder,
            parts: self.parts(holder),
            lent: self.lent(holder),
            dirty_lots: self.lots.iter().filter(|lot| lot.lease.holder == holder && lot.is_dirty).count() as u64,
            held: self.held(holder, now),
        };
        let has_some = |one: &Holding| !one.parts.is_empty() || one.held != Held::default();
        all_holders().map(holding).filter(has_some).collect()
    }

    fn lent(&self, holder: Holder) -> Vec<(Part, Holder)> {
        let cores = self.cores.iter().map(|core| (Part::Core(core.id), core.lease));
        let lots = self.lots.iter().map(|lot| (Part::Lot(lot.number), lot.lease));
        let devices = self.devices.iter().map(|device| (Part::Device(device.address), device.lease));
        let its = cores.chain(lots).chain(devices).filter(|(_, lease)| lease.holder == holder);
        its.filter_map(|(part, lease)| Some((part, lease.lender?))).collect()
    }
}
