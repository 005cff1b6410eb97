//! The rings of all peers of one receiver.

use crate::bell::Bell;
use crate::message::Message;
use crate::ring::{LINES, Receiver};

/// Receives from up to `PEERS` rings in turn: one message of each peer that has some, then the next round. So a peer that floods delays only
/// itself. `receive` is called until it answers `None`, or until the caller's turn is over.
pub struct Inbox<'a, const PEERS: usize, const N: usize = LINES> {
    rings: [Option<Receiver<'a, N>>; PEERS],
    bell: &'a Bell,
    next: usize,
}

impl<'a, const PEERS: usize, const N: usize> Inbox<'a, PEERS, N> {
    /// Makes an inbox without peers; senders look at `bell`.
    #[must_use]
    pub fn new(bell: &'a Bell) -> Self {
        Self { rings: [const { None }; PEERS], bell, next: 0 }
    }

    /// Connects a peer, or takes one away; answers the receiver that was there.
    pub fn connect(&mut self, peer: usize, ring: Option<Receiver<'a, N>>) -> Option<Receiver<'a, N>> {
        let place = self.rings.get_mut(peer)?;
        core::mem::replace(place, ring)
    }

    /// Takes the next message and answers whose ring it was in; `None` if all rings are empty.
    pub fn receive(&mut self) -> Option<(usize, Message)> {
        for _ in 0..PEERS {
            let peer = self.next;
            self.next = peer.wrapping_add(1).checked_rem(PEERS).unwrap_or(0);
            let found = self.rings.get_mut(peer).and_then(Option::as_mut).and_then(Receiver::receive);
            if let Some(message) = found {
                return Some((peer, message));
            }
        }
        None
    }

    /// Goes to sleep if no ring has a message: true if the receiver may sleep until it is interrupted, false if it must poll again.
    #[must_use]
    pub fn may_sleep(&self) -> bool {
        self.bell.leave();
        let is_empty = !self.rings.iter().flatten().any(Receiver::has_some);
        if !is_empty {
            self.bell.come_back();
        }
        is_empty
    }

    /// Polls again after an interrupt.
    pub fn wake(&self) {
        self.bell.come_back();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ring::{Ring, Sender};

    fn message(number: u64) -> Message {
        Message { words: [number; 6], ..Message::default() }
    }

    #[test]
    fn a_peer_that_floods_delays_only_itself() {
        let (bell, flood, calm) = (Bell::new(), Ring::<8>::new(), Ring::<8>::new());
        let (mut noisy, mut quiet) = (Sender::new(&flood), Sender::new(&calm));
        let mut inbox = Inbox::<4, 8>::new(&bell);
        assert!(inbox.connect(0, Some(Receiver::new(&flood))).is_none());
        assert!(inbox.connect(3, Some(Receiver::new(&calm))).is_none());
        while noisy.send(&message(1)).is_ok() {}
        quiet.send(&message(2)).unwrap();
        let peers: Vec<usize> = (0..2).filter_map(|_| inbox.receive()).map(|(peer, _)| peer).collect();
        assert!(peers.contains(&3), "{peers:?}");
    }

    #[test]
    fn a_receiver_sleeps_only_if_nothing_waits() {
        let (bell, ring) = (Bell::new(), Ring::<8>::new());
        let mut sender = Sender::new(&ring);
        let mut inbox = Inbox::<1, 8>::new(&bell);
        inbox.connect(0, Some(Receiver::new(&ring)));
        assert!(inbox.may_sleep());
        sender.send(&message(1)).unwrap();
        assert!(bell.must_ring());
        inbox.wake();
        assert_eq!(inbox.receive(), Some((0, message(1))));
        sender.send(&message(2)).unwrap();
        assert!(!bell.must_ring(), "it polls");
        assert!(!inbox.may_sleep());
        assert_eq!(inbox.receive(), Some((0, message(2))));
        assert!(inbox.may_sleep());
    }

    #[test]
    fn a_peer_beyond_the_last_is_refused() {
        let (bell, ring) = (Bell::new(), Ring::<8>::new());
        let mut inbox = Inbox::<1, 8>::new(&bell);
        assert!(inbox.connect(1, Some(Receiver::new(&ring))).is_none());
        assert_eq!(inbox.receive(), None);
    }
}
