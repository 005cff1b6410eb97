//! The link protocol.

use crate::device::VirtioNet;
use crate::transmit::joined;
use alloc::vec::Vec;
use gyre_interface::link::link::Server;
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
}

impl Server for VirtioNet {
    async fn properties(&'static self) -> Result<LinkProperties, LinkError> {
        Ok(self.properties)
    }

    async fn transmit(&'static self, frame: OutFrame) -> Result<(), LinkError> {
        self.check(&frame)?;
        // what is cut here may have any number of pieces
        let frame = if frame.segment.is_some() && !self.cuts { frame } else { joined(frame)? };
        match self.submit(frame) {
            None => Ok(()),
            Some(call) => call.await,
        }
    }
}

impl FrameStream for VirtioNet {
    async fn next(&'static self) -> Result<Vec<Bytes>, LinkError> {
        self.arrived.until(|| self.take_frames()).await.map_err(|_| LinkError::Device)
    }
}
