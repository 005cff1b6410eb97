//! The card of an instance: its way to the segment. Cards come and go while the path lives; one at a time is in use.
//!
//! ```text
//!   none in use --connect--> in use --disconnect--> none in use
//! ```
//! While none is in use there is no way to other machines: requests to send there are refused at once (ENETUNREACH), and TCP repeats what it has
//! until one comes, or it gives up. Addresses, sockets and listeners stay. The properties are those of the card that was in use last.
//!
//! A look-up costs two loads of words that hardly ever change.

use crate::NoRoute;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_interface::link::{LinkProperties, link};
use gyre_object::{SetOnce, SpinLock};

/// Cards that an instance has, one after the other; one that comes again is the same.
pub const CARDS_MAX: usize = 16;

/// The number of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CardId(u8);

impl CardId {
    /// The card with which the path was made.
    pub const FIRST: CardId = CardId(0);
}

/// A card.
#[derive(Clone, Copy)]
pub struct CardConfig {
    /// The device: frames out, behind the scheduler that shares the link.
    pub write: link::Client,
    /// The properties of the device.
    pub properties: LinkProperties,
}

/// Whether the card that was in use last still is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Down,
    Up,
}

/// All cards, in the order in which they came first.
pub(crate) struct Cards {
    first: CardConfig,
    later: [SetOnce<&'static CardConfig>; CARDS_MAX - 1],
    /// The card that was in use last.
    last: AtomicUsize,
    /// [`State`] as a word.
    state: AtomicUsize,
    adding: SpinLock<()>,
}

impl Cards {
    /// Makes the list with a card that is in use.
    pub(crate) fn new(first: CardConfig) -> Cards {
        Cards {
            first,
            later: [const { SetOnce::new() }; CARDS_MAX - 1],
            last: AtomicUsize::new(0),
            state: AtomicUsize::new(State::Up as usize),
            adding: SpinLock::new(()),
        }
    }

    /// Returns the card that is in use, or was last.
    #[inline]
    pub(crate) fn last(&self) -> &CardConfig {
        self.at(self.last.load(Ordering::Acquire)).unwrap_or(&self.first)
    }

    fn at(&self, number: usize) -> Option<&CardConfig> {
        match number.checked_sub(1) {
            None => Some(&self.first),
            Some(later) => self.later.get(later)?.get(),
        }
    }

    /// Returns true if a card is in use.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        self.state.load(Ordering::Acquire) == State::Up as usize
    }

    /// Adds a card, which is not in use.
    pub(crate) fn add(&self, card: CardConfig) -> Result<CardId, NoRoute> {
        let _adding = self.adding.lock();
        let free = self.later.iter().position(|place| place.get().is_none()).ok_or(NoRoute)?;
        let card: &'static CardConfig = alloc::boxed::Box::leak(alloc::boxed::Box::new(card));
        self.later.get(free).ok_or(NoRoute)?.set(card);
        u8::try_from(free.saturating_add(1)).map(CardId).map_err(|_| NoRoute)
    }

    /// Takes a card into use.
    pub(crate) fn connect(&self, id: CardId) -> Result<(), NoRoute> {
        let _adding = self.adding.lock();
        if self.is_up() {
            return Err(NoRoute);
        }
        self.at(usize::from(id.0)).ok_or(NoRoute)?;
        self.last.store(usize::from(id.0), Ordering::Release);
        self.state.store(State::Up as usize, Ordering::Release);
        Ok(())
    }

    /// Takes the card out of use.
    pub(crate) fn disconnect(&self) {
        self.state.store(State::Down as usize, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gyre_message::direct::direct_link;

    fn card(number: u8) -> CardConfig {
        let write = link::Client::new(direct_link(|request| std::boxed::Box::pin(async move { drop(request) })));
        let properties =
            LinkProperties { mac: [number; 6], mtu_bytes: 1500, checksum_offload: true, segmentation_bytes_max: 0 };
        CardConfig { write, properties }
    }

    #[test]
    fn one_card_at_a_time_is_in_use_and_each_may_come_again() {
        let cards = Cards::new(card(1));
        let second = cards.add(card(2)).unwrap();
        assert!(cards.is_up());
        assert_eq!(cards.connect(second), Err(NoRoute), "the first is in use");
        for (id, mac) in [(second, 2), (CardId::FIRST, 1), (second, 2)] {
            cards.disconnect();
            assert!(!cards.is_up());
            assert_eq!(cards.connect(id), Ok(()));
            assert_eq!((cards.is_up(), cards.last().properties.mac), (true, [mac; 6]));
        }
        cards.disconnect();
        assert_eq!(cards.last().properties.mac, [2; 6], "the last one tells the properties");
        assert_eq!(cards.connect(CardId(9)), Err(NoRoute), "there is none of this number");
    }

    #[test]
    fn there_is_room_for_so_many_cards() {
        let cards = Cards::new(card(0));
        (1..CARDS_MAX).for_each(|number| assert!(cards.add(card(number as u8)).is_ok()));
        assert_eq!(cards.add(card(0)), Err(NoRoute));
    }
}
