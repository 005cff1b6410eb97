//! The wire as smoltcp sees it.

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// Both directions of a wire, as they are at the peer's end.
pub trait Ends {
    /// Takes a frame that has arrived by now.
    fn take(&mut self, now_ns: u64) -> Option<Vec<u8>>;
    /// Sends a frame now.
    fn put(&mut self, now_ns: u64, frame: Vec<u8>);
}

pub(crate) struct Port<E> {
    pub(crate) ends: E,
    pub(crate) now_ns: u64,
}

pub(crate) struct Received(Vec<u8>);
pub(crate) struct Sending<'a, E>(&'a mut Port<E>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl<E: Ends> TxToken for Sending<'_, E> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let mut frame = vec![0; len];
        let result = write(&mut frame);
        self.0.ends.put(self.0.now_ns, frame);
        result
    }
}

impl<E: Ends> Device for Port<E> {
    type RxToken<'a>
        = Received
    where
        E: 'a;
    type TxToken<'a>
        = Sending<'a, E>
    where
        E: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_, E>)> {
        let frame = self.ends.take(self.now_ns)?;
        Some((Received(frame), Sending(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_, E>> {
        Some(Sending(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}
