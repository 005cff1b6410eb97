//! The figures of a link.

/// Counts of a link, over all arenas that it was attached to.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ZoneLinkStatistics {
    /// Frames sent.
    pub sent_frames: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that were to be sent and were dropped: no peer, or one without room for too long.
    pub dropped_sending: u64,
    /// Sent frames that the peer had not taken when the link was detached.
    pub lost_sending: u64,
    /// Frames received.
    pub received_frames: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Bytes of received frames that were copied, because readers hold half of the pages already.
    pub copied_bytes: u64,
    /// Received frames that were dropped: no memory, or not yet read when the link was detached.
    pub dropped_receiving: u64,
    /// Lines of the peer that made no sense.
    pub malformed: u64,
    /// Pages that the peer gave back without having them.
    pub false_returns: u64,
    /// Times that frames found no room.
    pub waits: u64,
    /// Times that a peer without room became late.
    pub lapses: u64,
    /// Interrupts from the peer.
    pub interrupts: u64,
    /// Interrupts to the peer.
    pub rings: u64,
    /// Of these, repeated ones: an interrupt may have been lost.
    pub repeated_rings: u64,
}

impl ZoneLinkStatistics {
    /// Returns the sums of both halves.
    pub(crate) fn joined(self, other: ZoneLinkStatistics) -> ZoneLinkStatistics {
        let add = u64::saturating_add;
        ZoneLinkStatistics {
            sent_frames: add(self.sent_frames, other.sent_frames),
            sent_bytes: add(self.sent_bytes, other.sent_bytes),
            dropped_sending: add(self.dropped_sending, other.dropped_sending),
            lost_sending: add(self.lost_sending, other.lost_sending),
            received_frames: add(self.received_frames, other.received_frames),
            received_bytes: add(self.received_bytes, other.received_bytes),
            copied_bytes: add(self.copied_bytes, other.copied_bytes),
            dropped_receiving: add(self.dropped_receiving, other.dropped_receiving),
            malformed: add(self.malformed, other.malformed),
            false_returns: add(self.false_returns, other.false_returns),
            waits: add(self.waits, other.waits),
            lapses: add(self.lapses, other.lapses),
            interrupts: add(self.interrupts, other.interrupts),
            rings: add(self.rings, other.rings),
            repeated_rings: add(self.repeated_rings, other.repeated_rings),
        }
    }
}
