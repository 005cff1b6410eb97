//! The link as the resource before it and its reader see it.
//!
//! Locks: sending and receiving half are locked one after the other, never both; the counts are locked with their half. The line's core takes its
//! interrupts.
//!
//! States: detached, attached. [`ZoneLink::attach`] and [`ZoneLink::detach`] may come at any moment between two turns; each call below finds
//! one or the other.
//!
//! An interrupt says that frames have come, or that there is room again, or both; a needless one costs two looks.

use crate::arena::Arena;
use crate::heads::Heads;
use crate::inbound::Inbound;
use crate::outbound::{Outbound, Went, add};
use crate::statistics::ZoneLinkStatistics;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_device::{InterruptLine, LinkDevice, Senders, Sent};
use gyre_interface::link::{FrameStream, InFrame, LinkError, LinkProperties, OutFrame};
use gyre_message::WaitQueue;
use gyre_object::{Page, SpinLock};

/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Largest payload of a frame, bytes: the largest packet of IP.
const MTU_BYTES: usize = 65_535;
/// The longest frame, bytes.
pub const FRAME_BYTES_MAX: usize = ETHERNET_BYTES + MTU_BYTES;
/// Largest TCP segment in one frame, bytes. It is never cut.
const SEGMENT_BYTES: usize = 64 << 10;
/// The hardware address of both ends; a link has no more of them.
const MAC: [u8; 6] = [2, b'g', b'y', b'r', b'e', 0];
/// Lines without sense after which a peer is cut off.
pub(crate) const MALFORMED_MAX: u64 = 256;
/// Frames handed up in one answer.
const BATCH: usize = 16;

/// A half of the link, and its counts.
struct Half<T> {
    open: Option<T>,
    counts: ZoneLinkStatistics,
}

impl<T> Half<T> {
    fn new() -> Half<T> {
        Half { open: None, counts: ZoneLinkStatistics::default() }
    }
}

/// The receiving half, with memory that it keeps over all arenas.
struct Receiver {
    half: Half<Inbound>,
    heads: Heads,
    /// Pages of former arenas that readers held when the link was detached.
    kept: Vec<Page>,
    /// Lines without sense of former peers.
    malformed_before: u64,
}

/// The arena does not have what it promises, or the link is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAttached;

/// A network device whose other end is another instance. Lives as long as this instance; its peers come and go.
pub struct ZoneLink {
    line: InterruptLine,
    sender: SpinLock<Half<Outbound>>,
    receiver: SpinLock<Receiver>,
    arrived: WaitQueue,
}

impl ZoneLink {
    /// Makes a link without a peer. Interrupts of peers come on `line`.
    #[must_use]
    pub fn new(line: InterruptLine) -> ZoneLink {
        let receiver = Receiver { half: Half::new(), heads: Heads::default(), kept: Vec::new(), malformed_before: 0 };
        ZoneLink {
            line,
            sender: SpinLock::new(Half::new()),
            receiver: SpinLock::new(receiver),
            arrived: WaitQueue::new(),
        }
    }

    /// Gives the link a peer.
    ///
    /// # Errors
    /// [`NotAttached`] if there is one already, or the arena lacks pages or words.
    pub fn attach(&self, arena: Arc<dyn Arena>) -> Result<(), NotAttached> {
        if arena.pages() < crate::PAGES_MIN || self.is_attached() {
            return Err(NotAttached);
        }
        let outbound = Outbound::new(arena.clone()).ok_or(NotAttached)?;
        {
            let Receiver { half: Half { open, counts }, kept, malformed_before, .. } = &mut *self.receiver.lock();
            let mut inbound = Inbound::new(arena, kept).ok_or(NotAttached)?;
            inbound.give_back(counts);
            // what is still held is lent by the new half
            kept.clear();
            (*open, *malformed_before) = (Some(inbound), counts.malformed);
        }
        self.sender.lock().open = Some(outbound);
        // frames may have come before; the first look asks for interrupts
        self.arrived.wake_all();
        Ok(())
    }

    /// Takes the peer away, whatever it is doing. Frames on their way in both directions are dropped and counted; what was handed up stays.
    /// Nothing of the arena but inbound pages that are held above is touched afterwards.
    pub fn detach(&self) {
        let sender = &mut *self.sender.lock();
        if let Some(outbound) = sender.open.take() {
            add(&mut sender.counts.lost_sending, outbound.end());
        }
        let receiver = &mut *self.receiver.lock();
        if let Some(inbound) = receiver.half.open.take() {
            receiver.kept = inbound.held();
            add(&mut receiver.half.counts.dropped_receiving, inbound.end());
        }
    }

    /// Returns true if there is a peer.
    pub fn is_attached(&self) -> bool {
        self.sender.lock().open.is_some()
    }

    /// Returns the counts of the link.
    pub fn statistics(&self) -> ZoneLinkStatistics {
        let sent = self.sender.lock().counts;
        let received = self.receiver.lock().half.counts;
        sent.joined(received)
    }

    /// Does something with the sending half, if there is a peer.
    fn sending<T>(&self, work: impl FnOnce(&mut Outbound, &mut ZoneLinkStatistics) -> T) -> Option<T> {
        let Half { open, counts } = &mut *self.sender.lock();
        open.as_mut().map(|outbound| work(outbound, counts))
    }

    /// Gives pages back, unless another core works with the receiving half: it will.
    fn give_back(&self) {
        let Some(mut receiver) = self.receiver.try_lock() else { return };
        let Half { open, counts } = &mut receiver.half;
        if let Some(inbound) = open {
            inbound.give_back(counts);
        }
    }

    /// Returns frames that have come; `None` if there are none and an interrupt will tell.
    pub(crate) fn take_frames(&self) -> Option<Vec<InFrame>> {
        let (frames, is_hostile) = {
            let Receiver { half: Half { open, counts }, heads, malformed_before, .. } = &mut *self.receiver.lock();
            let inbound = open.as_mut()?;
            let frames = inbound.take(BATCH, heads, counts);
            inbound.give_back(counts);
            (frames, counts.malformed.saturating_sub(*malformed_before) >= MALFORMED_MAX)
        };
        if is_hostile {
            // its kernel is broken or means harm: it is heard again once it was made again
            self.detach();
        }
        (!frames.is_empty()).then_some(frames)
    }
}

impl LinkDevice for ZoneLink {
    fn properties(&self) -> LinkProperties {
        LinkProperties { mac: MAC, mtu_bytes: MTU_BYTES, checksum_offload: true, segmentation_bytes_max: SEGMENT_BYTES }
    }

    fn interrupt(&self) -> InterruptLine {
        self.line
    }

    fn send(&self, frame: OutFrame) -> Sent {
        if !(ETHERNET_BYTES..=FRAME_BYTES_MAX).contains(&frame.bytes()) {
            return Sent::Refused(LinkError::TooLong);
        }
        let went = {
            let Half { open, counts } = &mut *self.sender.lock();
            match open {
                Some(outbound) => outbound.send(&frame, counts),
                None => {
                    add(&mut counts.dropped_sending, 1);
                    Went::Dropped
                }
            }
        };
        self.give_back();
        match went {
            Went::Sent => Sent::Taken,
            Went::Dropped => Sent::Refused(LinkError::Device),
        }
    }

    fn acknowledge(&self, senders: Senders) -> bool {
        add(&mut self.sender.lock().counts.interrupts, 1);
        senders == Senders::Held && self.is_half_free()
    }

    fn wake_reader(&self) {
        if self.receiver.lock().half.open.as_ref().is_some_and(Inbound::has_some) {
            self.arrived.wake_all();
        }
    }

    fn go_on_sending(&self) {
        self.give_back();
    }

    fn has_room(&self) -> bool {
        self.sending(Outbound::has_room).unwrap_or(true)
    }

    fn is_half_free(&self) -> bool {
        self.sending(Outbound::may_go_on).unwrap_or(true)
    }

    fn on_tick(&self) -> Option<u64> {
        self.give_back();
        self.wake_reader();
        self.sending(Outbound::look).flatten()
    }
}

impl FrameStream for ZoneLink {
    type Frame = InFrame;

    async fn next(&'static self) -> Result<Vec<InFrame>, LinkError> {
        Ok(self.arrived.until(|| self.take_frames()).await)
    }
}
