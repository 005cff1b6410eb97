//! The roll of the tenants: the description's, those that came while the machine runs, and which of them have gone.
//!
//! ```text
//! place of the description --enter--> tenant --leave--> leaving --vacate--> has gone, its disk is free
//! ```
//! The last [`Machine::places`] tenants of the description are vacant places, several for each disk. A place is taken once, so a bill never
//! mixes two tenants; its disk is free for the next place of the same disk once who had it has gone. Indices are those of the description.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_contract::boot::{Machine, Tenant};
use gyre_object::SetOnce;

use crate::storage::Moved;

/// A tenant's line.
#[derive(Default)]
struct Line {
    /// Of a place: who has come to it.
    comer: SetOnce<&'static Tenant>,
    has_left: AtomicBool,
    /// Its disk is nobody's any more.
    has_vacated: AtomicBool,
    /// Bytes that its disk had moved before it came.
    before: SetOnce<Moved>,
    /// Those when it had gone.
    after: SetOnce<Moved>,
}

/// See the module.
pub struct Roll {
    machine: &'static Machine,
    lines: Vec<Line>,
}

impl Roll {
    /// Makes the roll of a description.
    pub fn new(machine: &'static Machine) -> Roll {
        Roll { machine, lines: machine.tenants.iter().map(|_| Line::default()).collect() }
    }

    /// Returns a tenant, also one that has left; `None` for a vacant place.
    pub fn tenant(&self, index: usize) -> Option<&'static Tenant> {
        let described = self.machine.tenants.get(index).filter(|_| index < self.first_place());
        described.or_else(|| self.lines.get(index)?.comer.get())
    }

    /// Returns all tenants that are here, with their indices.
    pub fn present(&self) -> impl Iterator<Item = (usize, &'static Tenant)> + Clone + '_ {
        let here = (0..self.lines.len()).filter(|index| !self.has_left(*index));
        here.filter_map(|index| Some((index, self.tenant(index)?)))
    }

    /// Finds a tenant that is here by its name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.present().find(|(_, tenant)| tenant.name == name).map(|(index, _)| index)
    }

    /// Returns whether a tenant has gone, or goes.
    pub fn has_left(&self, index: usize) -> bool {
        self.lines.get(index).is_some_and(|line| line.has_left.load(Ordering::Acquire))
    }

    /// Returns the vacant places in the order in which they are given, one for each disk that is free: the index of each, and the disk and
    /// the address that are described for it.
    pub fn vacancies(&self) -> impl Iterator<Item = (usize, &'static Tenant)> + '_ {
        let vacant = (self.first_place()..self.lines.len()).filter(|index| self.is_next_of_free_disk(*index));
        vacant.filter_map(|index| Some((index, self.machine.tenants.get(index)?)))
    }

    /// Returns the vacant places as [`Roll::vacancies`] does, as numbers among all places.
    pub fn vacant_places(&self) -> impl Iterator<Item = u16> + '_ {
        self.vacancies().filter_map(|(index, _)| u16::try_from(index.saturating_sub(self.first_place())).ok())
    }

    /// Returns whether a place is the first untaken one of a disk that nobody has.
    fn is_next_of_free_disk(&self, index: usize) -> bool {
        let Some(place) = self.machine.tenants.get(index).filter(|_| self.tenant(index).is_none()) else {
            return false;
        };
        let mut earlier = (self.first_place()..index).filter(|other| self.described_at(*other, place));
        earlier.all(|other| self.lines.get(other).is_some_and(|line| line.has_vacated.load(Ordering::Acquire)))
    }

    fn described_at(&self, index: usize, place: &Tenant) -> bool {
        self.machine.tenants.get(index).is_some_and(|other| other.root == place.root)
    }

    /// Returns how many tenants there can be at once: those of the description, and one for each disk of the places.
    pub fn at_once_max(&self) -> usize {
        let places = self.first_place()..self.lines.len();
        let is_first = |index: &usize| {
            let place = self.machine.tenants.get(*index);
            place.is_some_and(|place| !(self.first_place()..*index).any(|other| self.described_at(other, place)))
        };
        self.first_place().saturating_add(places.filter(is_first).count())
    }

    /// Puts a tenant in a vacant place, whose disk has moved so much until now. `None` if somebody has it.
    pub fn enter(&self, index: usize, tenant: Tenant, before: Moved) -> Option<&'static Tenant> {
        let line = self.lines.get(index).filter(|_| self.is_next_of_free_disk(index))?;
        let tenant: &'static Tenant = Box::leak(Box::new(tenant));
        line.before.set(before);
        line.comer.set(tenant).then_some(tenant)
    }

    /// Notes that a tenant goes; false if it does already.
    pub fn leave(&self, index: usize) -> bool {
        self.lines.get(index).is_some_and(|line| !line.has_left.swap(true, Ordering::AcqRel))
    }

    /// Notes that a tenant has gone and that its disk, which has moved so much, is nobody's any more.
    pub fn vacate(&self, index: usize, after: Moved) {
        if let Some(line) = self.lines.get(index) {
            line.after.set(after);
            line.has_vacated.store(true, Ordering::Release);
        }
    }

    /// Returns what a tenant's disk has moved for it, of what it has moved until now.
    pub fn own_part(&self, index: usize, now: Moved) -> Moved {
        let Some(line) = self.lines.get(index) else { return now };
        let (before, until) = (line.before.get().unwrap_or_default(), line.after.get().unwrap_or(now));
        until.since(before)
    }

    fn first_place(&self) -> usize {
        self.lines.len().saturating_sub(usize::from(self.machine.places))
    }
}
