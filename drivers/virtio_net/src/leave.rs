//! A device that leaves this instance, and comes back.
//!
//! ```text
//!   works --go_away--> away --come_back--> works
//! ```
//! While it is away the driver touches none of its registers: frames to send are answered with an error, and the reader waits. Memory that a
//! device may still reach, because it does not reset, is kept for ever.
//!
//! Left out: who stops frames from coming here before (`gyre_net`), the entry of its interrupts, and its accesses to memory, which are the
//! platform's.

use crate::device::{AfterReset, VirtioNet};
use gyre_machine::DeviceError;
use gyre_virtio::startup;

impl VirtioNet {
    /// Returns true if the device has sent all that the driver had.
    pub fn has_sent_all(&self) -> bool {
        self.reclaim_sent();
        let sender = self.sender.lock();
        sender.ring.in_flight() == 0 && !sender.is_waited_for()
    }

    /// Resets the device and lets it go. Frames that it had are lost; who waits is told so.
    ///
    /// # Errors
    /// [`DeviceError::Protocol`] if it does not reset: it has gone all the same, and may still reach its memory.
    pub fn go_away(&self) -> Result<(), DeviceError> {
        let reset = {
            let mut receiver = self.receiver.lock();
            let mut sender = self.sender.lock();
            let reset = startup::reset(&*self.transport);
            let outcome = AfterReset::of(&reset);
            receiver.on_reset(outcome);
            sender.on_reset(outcome);
            (receiver.is_dead, receiver.is_away, sender.is_dead) = (true, true, true);
            reset
        };
        // A sending half that is dead answers all that waits.
        self.send_waiting();
        reset
    }

    /// Takes the device, which was away, into use again; its memory and its interrupts are given back to it before.
    ///
    /// # Errors
    /// [`DeviceError`]; [`DeviceError::Protocol`] also for a device that works. It is away then as before.
    pub fn come_back(&self) -> Result<(), DeviceError> {
        {
            let mut receiver = self.receiver.lock();
            let mut sender = self.sender.lock();
            if !receiver.is_away {
                return Err(DeviceError::Protocol);
            }
            self.restart(&mut receiver, &mut sender)?;
            (receiver.is_dead, receiver.is_away, sender.is_dead) = (false, false, false);
        }
        self.post_buffers();
        self.arrived.wake_all();
        Ok(())
    }
}
