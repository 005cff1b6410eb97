//! The device as the resource before it sees it.

use crate::device::VirtioNet;
use crate::transmit::joined;
use alloc::vec::Vec;
use gyre_device::{InterruptLine, LinkDevice, Senders, Sent};
use gyre_interface::link::{FrameStream, LinkError, LinkProperties, OutFrame};
use gyre_object::Bytes;

/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;

impl VirtioNet {
    /// Refuses what the device could not do.
    fn check(&self, frame: &OutFrame) -> Result<(), LinkError> {
        let bytes = frame.bytes();
        let frame_bytes_max = self.properties.mtu_bytes.saturating_add(ETHERNET_BYTES);
        let bytes_max = match frame.segment {
            Some((step, headers)) if usize::from(step).saturating_add(usize::from(headers)) > frame_bytes_max => {
                return Err(LinkError::TooLong);
            }
            Some(_) => self.properties.segmentation_bytes_max.saturating_add(256),
            None => frame_bytes_max,
        };
        if bytes < ETHERNET_BYTES
            || bytes > bytes_max
            || (frame.checksum.is_some() && !self.properties.checksum_offload)
        {
            return Err(LinkError::TooLong);
        }
        Ok(())
    }

    /// Joins the pieces of a frame that has more than a chain takes. A segment that is cut here may have any number.
    fn in_few_pieces(&self, frame: OutFrame) -> Result<OutFrame, LinkError> {
        if frame.segment.is_some() && !self.cuts { Ok(frame) } else { joined(frame) }
    }
}

impl LinkDevice for VirtioNet {
    fn properties(&self) -> LinkProperties {
        self.properties
    }

    fn interrupt(&self) -> InterruptLine {
        self.line
    }

    fn send(&self, frame: OutFrame) -> Sent {
        match self.check(&frame).and_then(|()| self.in_few_pieces(frame)) {
            Err(error) => Sent::Refused(error),
            Ok(frame) => self.submit(frame).map_or(Sent::Taken, Sent::Waits),
        }
    }

    fn acknowledge(&self, senders: Senders) -> bool {
        self.count_interrupt();
        self.may_go_on(senders)
    }

    fn wake_reader(&self) {
        self.wake_waiting_reader();
    }

    fn go_on_sending(&self) {
        self.send_waiting();
    }

    fn has_room(&self) -> bool {
        self.takes_frame()
    }

    fn is_half_free(&self) -> bool {
        self.has_half_free()
    }

    fn on_tick(&self) -> Option<u64> {
        self.look()
    }
}

impl FrameStream for VirtioNet {
    type Frame = Bytes;

    async fn next(&'static self) -> Result<Vec<Bytes>, LinkError> {
        self.arrived.until(|| self.take_frames()).await.map_err(|_| LinkError::Device)
    }
}
