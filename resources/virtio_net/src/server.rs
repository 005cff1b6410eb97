//! The link protocol.

use crate::device::{MTU_BYTES, VirtioNet};
use crate::transmit::PIECES_MAX;
use alloc::vec::Vec;
use gyre_interface::link::link::Server;
use gyre_interface::link::{LinkError, LinkProperties, OutFrame};
use gyre_object::Bytes;

/// Bytes of the Ethernet header.
const ETHERNET_BYTES: usize = 14;
/// Frames of one answer: bounds the length of a message.
const FRAMES_MAX: usize = 32;

impl VirtioNet {
    /// One attempt; the frame stays in `frame` where there is no room.
    fn try_transmit(&self, frame: &mut Option<OutFrame>) -> Option<Result<(), LinkError>> {
        let mut transmitter = self.transmitter.lock();
        if transmitter.dead {
            return Some(Err(LinkError::Device));
        }
        transmitter.take_back();
        if !transmitter.has_room() {
            transmitter.listen();
        }
        match transmitter.push(frame.take()?) {
            Ok(()) => {
                if transmitter.publish() {
                    drop(transmitter);
                    self.transport.notify(self.transmit_bell);
                }
                Some(Ok(()))
            }
            Err(back) => {
                *frame = Some(back);
                None
            }
        }
    }

    fn take_frames(&self) -> Option<Vec<Bytes>> {
        let mut receiver = self.receiver.lock();
        let frames = receiver.take(FRAMES_MAX);
        if receiver.publish() {
            drop(receiver);
            self.transport.notify(self.receive_bell);
        }
        (!frames.is_empty()).then_some(frames)
    }
}

impl Server for VirtioNet {
    async fn properties(&'static self) -> Result<LinkProperties, LinkError> {
        Ok(VirtioNet::properties(self))
    }

    async fn transmit(&'static self, frame: OutFrame) -> Result<(), LinkError> {
        let bytes: usize = frame.pieces.iter().map(Bytes::len).sum();
        if bytes > MTU_BYTES + ETHERNET_BYTES || frame.pieces.len() >= usize::from(PIECES_MAX) {
            return Err(LinkError::TooLong);
        }
        let mut frame = Some(frame);
        self.room.until(|| self.try_transmit(&mut frame)).await
    }

    async fn receive(&'static self) -> Result<Vec<Bytes>, LinkError> {
        Ok(self.arrived.until(|| self.take_frames()).await)
    }
}
