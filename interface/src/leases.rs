//! Leases: who holds each core, lot of memory and device of the machine that the supervisor does not run on.
//!
//! A part has exactly one [`Holder`] at any time, since a cycle that is known; so the times of all holders add up to the elapsed time. A
//! request changes all that it names or nothing.
//!
//! * [`Parts`] are cores, runs of [`Lots`] and PCI functions; a [`Wish`] is granted as a whole.
//! * A [`Move`] passes parts from one hand to another, and [`Holder::Free`] is a hand too; several moves are one exchange.
//! * [`LeaseError::Busy`] names the holder of what was asked for.
//!
//! Source: studies of zones and cells; Horizontal OS, section 4 (RainForest).

use alloc::vec::Vec;
use gyre_machine::PciAddress;
use gyre_message::{Gone, protocol};

/// Zones that can hold parts.
pub const ZONES_MAX: usize = 8;
/// Cells that can hold parts.
pub const CELLS_MAX: usize = 16;
/// Holders that there can be.
pub const HOLDERS_MAX: usize = 2 + ZONES_MAX + CELLS_MAX;
/// Runs of lots that one wish is granted at most: an instance's plan has room for a few ranges of memory.
pub const RUNS_MAX: usize = 8;

/// The holder of a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Holder {
    /// Nobody: it can be taken.
    Free,
    /// The first instance.
    Supervisor,
    /// A zone, by its place in the description.
    Zone(u16),
    /// A cell, by its number.
    Cell(u16),
}

impl Holder {
    /// Returns a number below [`HOLDERS_MAX`] that no other holder has; `None` for one beyond the last.
    #[must_use]
    pub fn index(self) -> Option<usize> {
        match self {
            Holder::Free => Some(0),
            Holder::Supervisor => Some(1),
            Holder::Zone(number) => {
                Some(usize::from(number)).filter(|number| *number < ZONES_MAX).map(|at| at.wrapping_add(2))
            }
            Holder::Cell(number) => {
                Some(usize::from(number)).filter(|number| *number < CELLS_MAX).map(|at| at.wrapping_add(2 + ZONES_MAX))
            }
        }
    }
}

/// Lots one behind the other: lot `n` begins at `n` times the bytes of a lot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lots {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u32,
}

/// Parts of the machine.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Parts {
    /// Hardware ids of cores.
    pub cores: Vec<u32>,
    /// Runs of lots, the one that a wish needed in one piece first.
    pub lots: Vec<Lots>,
    /// PCI functions.
    pub devices: Vec<PciAddress>,
}

impl Parts {
    /// Returns how many lots they are.
    #[must_use]
    pub fn lot_count(&self) -> u64 {
        self.lots.iter().fold(0, |sum, run| sum.saturating_add(u64::from(run.count)))
    }

    /// Returns true if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cores.is_empty() && self.lot_count() == 0 && self.devices.is_empty()
    }

    /// Returns these parts without those that `other` names.
    #[must_use]
    pub fn without(&self, other: &Parts) -> Parts {
        Parts {
            cores: self.cores.iter().copied().filter(|core| !other.cores.contains(core)).collect(),
            lots: self.lots.iter().flat_map(|run| without(*run, &other.lots)).collect(),
            devices: self.devices.iter().copied().filter(|device| !other.devices.contains(device)).collect(),
        }
    }

    /// Takes up to so many cores and lots out of these parts.
    pub fn take_some(&mut self, cores: u32, lots: u32) -> Parts {
        let count = usize::try_from(cores).unwrap_or(usize::MAX).min(self.cores.len());
        let mut taken = Parts { cores: self.cores.drain(..count).collect(), ..Parts::default() };
        let mut left = lots;
        for run in &mut self.lots {
            let count = run.count.min(left);
            left = left.saturating_sub(count);
            taken.lots.extend((count > 0).then_some(Lots { first: run.first, count }));
            *run = Lots { first: run.first.saturating_add(u64::from(count)), count: run.count.saturating_sub(count) };
        }
        self.lots.retain(|run| run.count > 0);
        taken
    }

    /// Returns each core, run of lots and device alone.
    #[must_use]
    pub fn single(&self) -> Vec<Parts> {
        let cores = self.cores.iter().map(|core| Parts { cores: alloc::vec![*core], ..Parts::default() });
        let lots = self.lots.iter().map(|run| Parts { lots: alloc::vec![*run], ..Parts::default() });
        let devices = self.devices.iter().map(|device| Parts { devices: alloc::vec![*device], ..Parts::default() });
        cores.chain(lots).chain(devices).collect()
    }

    /// Adds other parts.
    pub fn extend(&mut self, other: Parts) {
        self.cores.extend(other.cores);
        self.lots.extend(other.lots);
        self.devices.extend(other.devices);
    }
}

/// Returns the pieces of a run that no other run covers.
fn without(run: Lots, others: &[Lots]) -> Vec<Lots> {
    let end = |run: &Lots| run.first.saturating_add(u64::from(run.count));
    let mut pieces = alloc::vec![run];
    for other in others {
        let cut = |piece: Lots| {
            let before = other.first.min(end(&piece)).saturating_sub(piece.first);
            let start = end(other).max(piece.first);
            let after = end(&piece).saturating_sub(start);
            let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
            [Lots { first: piece.first, count: small(before) }, Lots { first: start, count: small(after) }]
        };
        pieces = pieces.into_iter().flat_map(cut).filter(|piece| piece.count > 0).collect();
    }
    pieces
}

/// Whether a lot may hold what its last holder left there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Dirt {
    /// It may: the taker clears frames before it uses them.
    #[default]
    Allowed,
    /// It must not: behind a wall, frames are what the wall's owner makes of them.
    Refused,
}

/// Parts that somebody wants of those that nobody holds.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Wish {
    /// Cores, whichever they are.
    pub cores: u32,
    /// Lots. One run is preferred, few runs are next best.
    pub lots: u32,
    /// Of these, lots at the beginning that must lie in one run below 4 GiB: image and module of an instance.
    pub run: u32,
    /// Whether lots may be dirty.
    pub dirt: Dirt,
    /// PCI functions.
    pub devices: Vec<PciAddress>,
}

/// Parts that a move is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Goods {
    /// All that the giver holds.
    All,
    /// These.
    These(Parts),
    /// Any that meet a wish.
    Any(Wish),
}

/// Parts that go from one hand to another; [`Holder::Free`] is a hand, too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// The giver.
    pub from: Holder,
    /// The taker.
    pub to: Holder,
    /// The parts.
    pub goods: Goods,
    /// Whether the taker remembers the giver as its lender.
    pub terms: Terms,
}

/// Terms of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Terms {
    /// For good.
    Kept,
    /// Lent.
    Lent,
}

/// A part, for errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A core, by its hardware id.
    Core(u32),
    /// A lot, by its number.
    Lot(u64),
    /// A PCI function.
    Device(PciAddress),
}

/// A kind of part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Cores.
    Core,
    /// Lots.
    Lot,
}

/// The reason why nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseError {
    /// There are not so many free ones. Give some back, or ask for less.
    Lacking {
        /// The kind that lacks.
        kind: Kind,
        /// So many are wanted, by all wishes up to the one that failed.
        wanted: u64,
        /// So many are free, and clean if they must be.
        free: u64,
    },
    /// The free lots lie in too many runs, or none of them is long enough below 4 GiB. Give some back.
    Scattered {
        /// Lots that must lie in one run.
        run: u64,
        /// Lots of the longest run.
        longest: u64,
    },
    /// Somebody else holds it. Ask the holder.
    Busy {
        /// The part.
        part: Part,
        /// Its holder.
        holder: Holder,
    },
    /// The part is not in the pool, or a request names it twice. Never right.
    Unknown {
        /// The part.
        part: Part,
    },
    /// There is no such holder, or both are the same. Never right.
    NoHolder,
    /// The resource is gone.
    Gone,
}

impl From<Gone> for LeaseError {
    fn from(_: Gone) -> LeaseError {
        LeaseError::Gone
    }
}

/// Times that a holder held parts, in cycles times parts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Held {
    /// Of cores.
    pub core_cycles: u128,
    /// Of lots.
    pub lot_cycles: u128,
    /// Of devices.
    pub device_cycles: u128,
}

/// A holder with its parts at one time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// The holder.
    pub holder: Holder,
    /// Parts now.
    pub parts: Parts,
    /// Of these, those that another one lent it, with the lender.
    pub lent: Vec<(Part, Holder)>,
    /// Lots that are dirty.
    pub dirty_lots: u64,
    /// Times so far.
    pub held: Held,
}

protocol! {
    /// The requests of the pool.
    pub mod leases {
        /// Moves parts between hands, one move after the other: all moves or none. Answers the parts of each. Not idempotent.
        async fn exchange(moves: Vec<Move>) -> Result<Vec<Parts>, LeaseError>;
        /// Takes free parts for a holder: the whole wish or nothing. Not idempotent.
        async fn take(holder: Holder, wish: Wish) -> Result<Parts, LeaseError>;
        /// Gives parts of a holder back; lots come back dirty. Not idempotent.
        async fn give(holder: Holder, parts: Parts) -> Result<(), LeaseError>;
        /// Moves parts from one holder to another, which remembers the lender. Not idempotent.
        async fn lend(from: Holder, to: Holder, parts: Parts) -> Result<(), LeaseError>;
        /// Notes that free lots were cleared. Repeating it is harmless.
        async fn cleaned(lots: Lots) -> Result<(), LeaseError>;
        /// Returns all holders that hold or have held something.
        async fn holders() -> Result<Vec<Holding>, LeaseError>;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, count: u32) -> Lots {
        Lots { first, count }
    }

    #[test]
    fn parts_without_others_are_what_is_left() {
        let lots = |lots: &[Lots]| Parts { lots: lots.to_vec(), ..Parts::default() };
        let all = lots(&[run(10, 10), run(30, 2)]);
        assert_eq!(all.without(&lots(&[run(12, 3), run(31, 9)])), lots(&[run(10, 2), run(15, 5), run(30, 1)]));
        assert_eq!(all.without(&lots(&[run(0, 100)])), lots(&[]));
        assert_eq!(all.without(&lots(&[run(20, 10)])), all);
        let cores = |cores: &[u32]| Parts { cores: cores.to_vec(), ..Parts::default() };
        assert_eq!(cores(&[1, 2, 3]).without(&cores(&[2])), cores(&[1, 3]));
    }

    #[test]
    fn some_parts_are_the_first_ones() {
        let mut parts =
            Parts { cores: alloc::vec![4, 5], lots: alloc::vec![run(10, 3), run(20, 3)], ..Parts::default() };
        let taken = parts.take_some(1, 4);
        assert_eq!((taken.cores, taken.lots), (alloc::vec![4], alloc::vec![run(10, 3), run(20, 1)]));
        assert_eq!((parts.cores.clone(), parts.lots.clone()), (alloc::vec![5], alloc::vec![run(21, 2)]));
        assert_eq!(parts.take_some(9, 9).lot_count(), 2);
        assert!(parts.is_empty());
    }

    #[test]
    fn each_holder_has_a_number_of_its_own() {
        let holders =
            [Holder::Free, Holder::Supervisor, Holder::Zone(0), Holder::Zone(7), Holder::Cell(0), Holder::Cell(15)];
        assert_eq!(holders.map(Holder::index), [Some(0), Some(1), Some(2), Some(9), Some(10), Some(HOLDERS_MAX - 1)]);
        assert_eq!([Holder::Zone(8), Holder::Cell(16)].map(Holder::index), [None, None]);
    }
}
