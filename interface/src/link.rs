//! Network devices: frames in, frames out.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::Future;
use gyre_message::{Gone, protocol};
use gyre_object::Bytes;

/// The reason why a frame was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkError {
    /// Longer than the device takes.
    TooLong,
    /// No memory. Later.
    OutOfMemory,
    /// The device failed or was reset; the frame is lost.
    Device,
    /// The driver is gone.
    Gone,
}

impl From<Gone> for LinkError {
    fn from(_: Gone) -> LinkError {
        LinkError::Gone
    }
}

/// The properties of a network device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkProperties {
    /// Hardware address.
    pub mac: [u8; 6],
    /// Largest payload of a frame, bytes.
    pub mtu_bytes: usize,
    /// True if the device computes TCP and UDP checksums of frames to send.
    pub checksum_offload: bool,
    /// Largest TCP segment in one frame, bytes, which the device or its driver cuts into frames; 0 if neither can.
    pub segmentation_bytes_max: usize,
}

/// A frame to send: the header block first, then payload by reference.
pub struct OutFrame {
    /// Pieces in order, Ethernet header first. The device reads them in place.
    pub pieces: Vec<Bytes>,
    /// For checksum offload: offsets of the transport header and of its checksum field, bytes.
    pub checksum: Option<(u16, u16)>,
    /// For a large TCP segment to be cut into frames: payload bytes of each frame, and bytes of all headers, which
    /// lie in the first piece. Its checksum field counts only with `checksum`, for devices that cut; drivers that cut
    /// compute it.
    pub segment: Option<(u16, u16)>,
    /// State of the sender, dropped once the device has taken the frame or the frame is given up.
    pub receipt: Option<Receipt>,
}

impl OutFrame {
    /// Returns the bytes of memory that it has.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Returns the number of frames on the link: more than one for a large segment.
    pub fn frames(&self) -> usize {
        self.segment.map_or(1, |(step, headers)| {
            let payload = self.bytes().saturating_sub(usize::from(headers));
            payload.div_ceil(usize::from(step).max(1)).max(1)
        })
    }

    /// Returns the bytes that the frame takes on the link, with the headers of all its frames.
    pub fn link_bytes(&self) -> usize {
        let headers = self.segment.map_or(0, |(_, headers)| usize::from(headers));
        self.bytes().saturating_add(self.frames().saturating_sub(1).saturating_mul(headers))
    }
}

/// State that a frame carries for its sender. It is dropped without a lock held; its drop must be short and may send
/// messages.
pub type Receipt = Box<dyn Send>;

/// A received frame whose payload lies in memory that its sender may still change. Its headers are this instance's own.
pub struct InFrame {
    /// Its first bytes, with all headers.
    pub head: Bytes,
    /// Payload by reference.
    pub more: Vec<Bytes>,
}

/// A frame that a device has received.
pub trait ReceivedFrame {
    /// Returns the piece with all headers, and further payload.
    fn into_pieces(self) -> (Bytes, Vec<Bytes>);
}

impl ReceivedFrame for Bytes {
    fn into_pieces(self) -> (Bytes, Vec<Bytes>) {
        (self, Vec::new())
    }
}

impl ReceivedFrame for InFrame {
    fn into_pieces(self) -> (Bytes, Vec<Bytes>) {
        (self.head, self.more)
    }
}

/// Received frames in order, for the one reader of a device. The stream is part of the device's read resource, so no
/// request and no answer lie between an interrupt and the look at what has arrived.
pub trait FrameStream: Sync + 'static {
    /// The form of its frames.
    type Frame: ReceivedFrame;

    /// Waits for frames and returns at least one.
    ///
    /// # Errors
    /// [`LinkError::Device`] if the device failed and is being reset, [`LinkError::Gone`] if its driver has ended.
    fn next(&'static self) -> impl Future<Output = Result<Vec<Self::Frame>, LinkError>>;
}

protocol! {
    /// The requests of a network device.
    pub mod link {
        /// Tells the device's properties. Idempotent.
        async fn properties() -> Result<LinkProperties, LinkError>;
        /// Sends a frame; answers when the device has taken it. A full ring suspends the device's resource, nothing is lost.
        async fn transmit(frame: OutFrame) -> Result<(), LinkError>;
    }
}
