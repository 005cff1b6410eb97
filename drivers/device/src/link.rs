//! Network devices.

use crate::InterruptLine;
use gyre_interface::link::{FrameStream, LinkError, LinkProperties, OutFrame};
use gyre_message::Call;

/// Whether the resource before the device holds senders back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Senders {
    /// None is held back.
    Flow,
    /// Some wait until the device has room.
    Held,
}

/// The fate of a frame.
pub enum Sent {
    /// The device has it.
    Taken,
    /// The device could not send it.
    Refused(LinkError),
    /// It waits in the driver for room; the answer comes when the device has taken it.
    Waits(Call<Result<(), LinkError>>),
}

/// A network device's driver: frames in by [`FrameStream`], frames out by [`LinkDevice::send`]. Lives as long as the instance.
///
/// An interrupt is looked at in two steps, since most of them are for received frames and need no turn of the sending side: the handler calls
/// [`LinkDevice::acknowledge`] and [`LinkDevice::wake_reader`]; only if the first says so does the resource get a message, in whose turn it calls
/// [`LinkDevice::go_on_sending`].
pub trait LinkDevice: FrameStream + Send {
    /// Returns what the device is.
    fn properties(&self) -> LinkProperties;

    /// Returns the line of its interrupts.
    fn interrupt(&self) -> InterruptLine;

    /// Sends a frame. Frames leave in the order of these calls.
    fn send(&self, frame: OutFrame) -> Sent;

    /// Notes an interrupt. Returns true if senders are held back, here or in the resource, and the device has enough room to go on; if it has
    /// not, an interrupt follows when it has. Takes no memory and sends nothing.
    fn acknowledge(&self, senders: Senders) -> bool;

    /// Wakes the reader if frames wait for it. Takes no memory. Comes after [`LinkDevice::acknowledge`].
    fn wake_reader(&self);

    /// Takes back what the device has sent and gives it what waits in the driver.
    fn go_on_sending(&self);

    /// Returns true if the device takes a frame now. If it does not, an interrupt follows when half of its room is free. A device that failed has
    /// room: it answers with an error.
    fn has_room(&self) -> bool;

    /// Returns true if at least half of the device's room for frames is free; if it is not, an interrupt follows when it is.
    fn is_half_free(&self) -> bool;

    /// Looks for lost interrupts and for a device that is late, which is reset. Returns after how many cycles to look again; `None` if nothing is being
    /// sent.
    fn on_tick(&self) -> Option<u64>;
}
