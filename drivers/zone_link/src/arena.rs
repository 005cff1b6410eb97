//! The memory of a link, as whoever maps it offers it.

use core::sync::atomic::AtomicU64;
use gyre_object::Page;

/// The two ends of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// One.
    First,
    /// The other one.
    Second,
}

impl Side {
    /// Returns the other end.
    #[must_use]
    pub fn other(self) -> Side {
        match self {
            Side::First => Side::Second,
            Side::Second => Side::First,
        }
    }
}

/// Memory that two instances map, as one of them sees it.
///
/// Each end gives [`Arena::pages`] pages of its own memory, which the other end writes. So an end that dies takes nothing away that the other
/// one still reads. In all there are [`crate::CONTROL_PAGES`] pages of words and twice [`Arena::pages`].
///
/// The implementation promises that the memory stays mapped as long as a link holds the arena, which ends with
/// [`crate::ZoneLink::detach`], and that inbound pages are this instance's as long as somebody holds them.
pub trait Arena: Send + Sync {
    /// Returns which end this instance is.
    fn side(&self) -> Side;

    /// Returns the words of the control pages, in which [`crate::prepare`] has placed the rings. Both ends write them at any time.
    fn control(&self) -> &[AtomicU64];

    /// Returns how many pages lie in each direction, between [`crate::PAGES_MIN`] and 65,535.
    fn pages(&self) -> usize;

    /// Returns a page that the other end writes: this instance's own memory. It is asked for once, when the link is attached.
    fn inbound(&self, page: usize) -> Option<Page>;

    /// Returns a page of the other end's memory, to write. It is asked for once, when the link is attached.
    fn outbound(&self, page: usize) -> Option<Page>;

    /// Interrupts the other end, on the line of its link.
    fn interrupt_peer(&self);
}
