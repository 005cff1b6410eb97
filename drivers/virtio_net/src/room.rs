//! When the device interrupts for frames that it has sent. This file alone decides it.
//!
//! ```text
//!   idle         nobody waits for room                          the device interrupts for no sent frame
//!     | listen, listen_until: somebody waits
//!   listening    the device interrupts once it has sent half    an interrupt is worth many frames, and the device never runs dry
//!     | the interrupt: acknowledge, then the resource's turn: send_waiting, is_half_free
//!     | rest: nobody waits any more
//!   idle
//! ```
//!
//! Somebody waits if frames wait in the driver, a segment is being cut, or the resource holds senders back. A request to be told can come too late: the
//! device has sent half already and may not interrupt any more ([`Half::Sent`]). Then who asked looks again.
//!
//! The device has the state: the ring's event index is where the next interrupt is. So it cannot differ from a copy here.

use crate::device::VirtioNet;
use crate::transmit::Sender;
use alloc::vec::Vec;
use gyre_device::Senders;
use gyre_machine::cycles_per_ms;

/// Frames that stay longer at the device make its interrupts for them too seldom to wait for with those for received ones, ms.
const STAY_MS_MAX: u64 = 60;

/// Whether the device has sent half of its frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Half {
    /// It has. No interrupt need follow.
    Sent,
    /// It has not. An interrupt follows when it has.
    IsTold,
}

impl Half {
    fn of(is_over: bool) -> Half {
        if is_over { Half::Sent } else { Half::IsTold }
    }
}

impl Sender {
    /// Goes to idle.
    pub(crate) fn rest(&mut self) {
        self.ring.hush();
    }

    /// Goes to listening, until half of the frames that the device has now are sent.
    pub(crate) fn listen(&mut self) -> Half {
        Half::of(self.ring.listen_after(self.ring.in_flight().div_ceil(2)))
    }

    /// Goes to listening, until the device has at most so many frames; stays as it is if it has no more now.
    fn listen_until(&mut self, left: u16) -> Half {
        // Sent frames may not be taken back yet.
        let used = self.ring.used();
        let excess = self.ring.in_flight().saturating_sub(used).saturating_sub(left);
        Half::of(excess == 0 || self.ring.listen_after(used.saturating_add(excess)))
    }

    /// Returns true if the device is listening and its interrupt comes soon: within half of the time that frames stay at the device.
    pub(crate) fn tells_soon(&self) -> bool {
        self.ring.will_interrupt() && self.stay_cycles <= STAY_MS_MAX.saturating_mul(cycles_per_ms())
    }
}

impl VirtioNet {
    /// Returns true if the device takes a frame now. If it does not, it is listening.
    pub(crate) fn takes_frame(&self) -> bool {
        let (mut done, mut has_gone_on, mut was_late) = (Vec::new(), false, false);
        loop {
            let Some(mut sender) = self.reclaimed(&mut done) else { return true };
            if sender.has_room() {
                drop(sender);
                if was_late {
                    self.stop_gathering();
                }
                return true;
            }
            // an empty ring interrupts no more, nor does what the device has sent before it was asked to tell
            let is_told = sender.ring.in_flight() > 0 && sender.listen() == Half::IsTold;
            if is_told || has_gone_on && sender.ring.in_flight() == 0 {
                return false;
            }
            // asking moved the interrupt that received frames may gather for to a place that the device has passed
            was_late = true;
            has_gone_on = sender.is_waited_for();
            drop(sender);
            if has_gone_on {
                self.send_waiting();
            }
        }
    }

    /// Returns true if at least half of the device's room for frames is free: it is worth going on with senders that are held back. If it is not, the
    /// device is listening.
    pub(crate) fn has_half_free(&self) -> bool {
        let mut done = Vec::new();
        let Some(mut sender) = self.reclaimed(&mut done) else { return true };
        // what waits here goes first, at the interrupt that it has asked for
        let is_half_free = match sender.is_waited_for() {
            true => !sender.ring.will_interrupt(),
            false => sender.listen_until(self.options.send_frames / 2) == Half::Sent,
        };
        drop(sender);
        if is_half_free {
            self.stop_gathering();
        }
        is_half_free
    }

    /// Returns true if somebody waits and half is sent. If it is not, the device is listening. Takes nothing back: for interrupt handlers.
    pub(crate) fn may_go_on(&self, senders: Senders) -> bool {
        let mut sender = self.sender.lock();
        let is_wanted = senders == Senders::Held || sender.is_waited_for();
        is_wanted && (sender.is_dead || sender.listen_until(self.options.send_frames / 2) == Half::Sent)
    }
}
