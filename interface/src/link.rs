//! Network devices: frames in, frames out.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::Future;
use gyre_message::{Gone, protocol};
use gyre_object::Bytes;

/// Why a frame was not sent.
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

/// What a network device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkProperties {
    /// Hardware address.
    pub mac: [u8; 6],
    /// Largest payload of a frame, bytes.
    pub mtu_bytes: usize,
    /// True where the device computes TCP and UDP checksums of frames to send.
    pub checksum_offload: bool,
    /// Largest TCP segment handed down in one frame, bytes: the device or its driver cuts it into frames; 0 where neither does.
    pub segmentation_bytes_max: usize,
}

/// A frame to send: the header block first, then payload by reference.
pub struct OutFrame {
    /// Pieces in order, Ethernet header first. The device reads them where they lie.
    pub pieces: Vec<Bytes>,
    /// Where checksum offload is used: offset of the transport header and of its checksum field, bytes.
    pub checksum: Option<(u16, u16)>,
    /// A large TCP segment to be cut into frames: payload bytes of each, and bytes of all headers, which lie in the first piece. Its
    /// checksum field counts only where `checksum` is given, for devices that cut; drivers that cut compute it.
    pub segment: Option<(u16, u16)>,
    /// Dropped once the device has taken the frame, or nobody will: what its sender holds for it.
    pub receipt: Option<Receipt>,
}

impl OutFrame {
    /// Bytes of memory that it has.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Frames on the link: more than one for a large segment.
    pub fn frames(&self) -> usize {
        self.segment.map_or(1, |(step, headers)| {
            let payload = self.bytes().saturating_sub(usize::from(headers));
            payload.div_ceil(usize::from(step).max(1)).max(1)
        })
    }

    /// Bytes on the link, the headers of all frames counted: what its sender used of it.
    pub fn link_bytes(&self) -> usize {
        let headers = self.segment.map_or(0, |(_, headers)| usize::from(headers));
        self.bytes().saturating_add(self.frames().saturating_sub(1).saturating_mul(headers))
    }
}

/// What a frame carries for its sender. Its drop must be short and may send messages; whoever drops it holds no lock.
pub type Receipt = Box<dyn Send>;

/// Received frames as they come, in order, for the one reader of a device: part of its read resource, so that no request and no
/// answer lie between an interrupt and the look at what has arrived.
pub trait FrameStream: Sync + 'static {
    /// Waits for frames; answers at least one.
    ///
    /// # Errors
    /// [`LinkError::Device`] where the device failed and is being reset, [`LinkError::Gone`] where it is no more.
    fn next(&'static self) -> impl Future<Output = Result<Vec<Bytes>, LinkError>>;
}

protocol! {
    /// What a network device does for others.
    pub mod link {
        /// Tells what it is. Idempotent.
        async fn properties() -> Result<LinkProperties, LinkError>;
        /// Sends a frame; answers when the device has taken it. A full ring suspends the device's resource, nothing is lost.
        async fn transmit(frame: OutFrame) -> Result<(), LinkError>;
    }
}
