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
    /// Largest TCP segment the device cuts into frames itself; 0 where it does not.
    pub segmentation_bytes_max: usize,
}

/// A frame to send: the header block first, then payload by reference.
pub struct OutFrame {
    /// Pieces in order, Ethernet header first. The device reads them where they lie.
    pub pieces: Vec<Bytes>,
    /// Where checksum offload is used: offset of the transport header and of its checksum field, bytes.
    pub checksum: Option<(u16, u16)>,
    /// Where segmentation offload is used: payload bytes per segment and header bytes in all.
    pub segment: Option<(u16, u16)>,
    /// Dropped once the device has taken the frame, or nobody will: what its sender holds for it.
    pub receipt: Option<Receipt>,
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
