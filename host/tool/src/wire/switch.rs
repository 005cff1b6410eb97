//! A segment with several cards: a frame goes to the card that has its destination address or carries frames for it, one for all to all
//! others.
//!
//! Frames wait before a card in a queue of their own, so that a card that is slow or dead holds up no other; they are dropped there
//! when it is full, as in a switch (IEEE 802.1Q section 8.6.7).

use std::{
    io,
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
};

/// Frames that wait for one card; a TAP device keeps as many.
const QUEUE_FRAMES: usize = 512;
/// Bytes of a hardware address.
const MAC_BYTES: usize = 6;

/// The origin of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The far end.
    FarEnd,
    /// The card with this index.
    Card(usize),
}

/// The cards of a segment.
pub(super) struct Switch {
    /// The hardware addresses behind each, and the frames for it.
    cards: Vec<(Vec<[u8; MAC_BYTES]>, SyncSender<Vec<u8>>)>,
}

impl Switch {
    /// Makes a segment with these cards; answers the frames for each.
    pub(super) fn new(cards: &[Vec<[u8; MAC_BYTES]>]) -> (Self, Vec<Receiver<Vec<u8>>>) {
        let (senders, receivers) = cards
            .iter()
            .map(|macs| {
                let (sender, receiver) = sync_channel(QUEUE_FRAMES);
                ((macs.clone(), sender), receiver)
            })
            .unzip();
        (Self { cards: senders }, receivers)
    }

    /// Hands a frame on to cards; `far_end` takes it if it is for the far end.
    ///
    /// # Errors
    /// The error of `far_end`, or that a card is gone.
    pub(super) fn pass(
        &self,
        frame: &[u8],
        from: Origin,
        far_end: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(to) = frame.first_chunk::<MAC_BYTES>() else { return Ok(()) };
        // IEEE 802.3 section 3.2.3: the first bit on the wire says that a group is meant.
        let is_group = to[0] & 1 == 1;
        for (index, (macs, queue)) in self.cards.iter().enumerate() {
            if from != Origin::Card(index) && (is_group || macs.contains(to)) {
                push(queue, frame)?;
            }
        }
        let is_for_a_card = self.cards.iter().any(|(macs, _)| macs.contains(to));
        match from {
            Origin::Card(_) if is_group || !is_for_a_card => far_end(frame),
            Origin::Card(_) | Origin::FarEnd => Ok(()),
        }
    }
}

fn push(queue: &SyncSender<Vec<u8>>, frame: &[u8]) -> io::Result<()> {
    match queue.try_send(frame.to_vec()) {
        Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
        Err(TrySendError::Disconnected(_)) => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARDS: [[u8; 6]; 3] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 16], [2, 0, 0, 0, 0, 17]];
    const GATEWAY: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const ALL: [u8; 6] = [0xff; 6];

    /// Returns which cards get a frame, and whether the far end does.
    fn receivers(to: [u8; 6], from: Origin) -> (Vec<usize>, bool) {
        let (switch, queues) = Switch::new(&CARDS.map(|mac| vec![mac]));
        let frame = [&to[..], &[0; 54]].concat();
        let mut is_far = false;
        switch
            .pass(&frame, from, |_| {
                is_far = true;
                Ok(())
            })
            .unwrap();
        let got = |(index, queue): (usize, &Receiver<Vec<u8>>)| queue.try_recv().ok().map(|_| index);
        (queues.iter().enumerate().filter_map(got).collect(), is_far)
    }

    #[test]
    fn a_frame_goes_to_the_card_that_has_its_address_and_to_no_other() {
        assert_eq!(receivers(CARDS[1], Origin::FarEnd), (vec![1], false));
        assert_eq!(receivers(CARDS[2], Origin::Card(1)), (vec![2], false));
        assert_eq!(receivers(GATEWAY, Origin::Card(1)), (vec![], true));
        assert_eq!(receivers(GATEWAY, Origin::FarEnd), (vec![], false));
    }

    #[test]
    fn a_frame_for_all_comes_to_all_others() {
        assert_eq!(receivers(ALL, Origin::FarEnd), (vec![0, 1, 2], false));
        assert_eq!(receivers(ALL, Origin::Card(1)), (vec![0, 2], true));
    }

    #[test]
    fn a_card_never_gets_its_own_frame_and_a_short_one_goes_nowhere() {
        assert_eq!(receivers(CARDS[1], Origin::Card(1)), (vec![], false));
        let (switch, _queues) = Switch::new(&CARDS.map(|mac| vec![mac]));
        switch.pass(&[2, 0], Origin::FarEnd, |_| panic!("it has no address")).unwrap();
    }

    #[test]
    fn a_card_that_takes_nothing_loses_frames_and_holds_up_nobody() {
        let (switch, queues) = Switch::new(&CARDS.map(|mac| vec![mac]));
        let frame = [&CARDS[0][..], &[0; 54]].concat();
        for _ in 0..QUEUE_FRAMES + 100 {
            switch.pass(&frame, Origin::FarEnd, |_| Ok(())).unwrap();
        }
        assert_eq!(queues[0].try_iter().count(), QUEUE_FRAMES);
    }
}
