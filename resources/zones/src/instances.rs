//! The machine, as the zones need it: what is done to an instance, and what an instance says of itself.
//!
//! The kernel implements it with the platform's functions, a test with instances of its own. Each function is short and never waits. All
//! that comes out of a zone's page is copied, and may be a lie: nothing here believes it.

use alloc::string::String;
use alloc::vec::Vec;
use gyre_contract::last_words::LastWords;
use gyre_contract::zones::{Cause, Zone};
use gyre_interface::leases::{Lots, Parts};
use gyre_line::{Full, Message};
use gyre_machine::PciAddress;

/// The machine did not do it: why, as the end of a sentence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault(pub String);

/// The life of an instance as it tells it; [`gyre_machine::ZoneLife`], copied.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Life {
    /// A state of [`gyre_machine::ZoneLife`], or nonsense.
    pub state: u32,
    /// Its exit code, if it has ended.
    pub code: u32,
    /// Grows with each beat.
    pub beats: u64,
    /// The cycle at which it stood.
    pub stood_cycle: u64,
}

/// The plan of a new instance.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Its place in the description.
    pub zone: usize,
    /// Its description.
    pub description: &'a Zone,
    /// Its boot module, if it came while the machine runs; without one it is that which the machine has for the place.
    pub module: Option<&'a [u8]>,
    /// Its parts; the first run of lots holds image and module.
    pub parts: &'a Parts,
    /// The cycle at which it was ordered.
    pub begun_cycle: u64,
}

/// How far the taking of a core is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopping {
    /// Look again later.
    UnderWay,
    /// It waits in the parking loop.
    Parked,
    /// It does not obey, and never will.
    Lost,
}

/// All that is done to the instances of zones, each known by its place in the description.
pub trait Instances: Sync + 'static {
    /// Returns the lots that the zone's image, module and page take: they must lie in one run. Without a module it is that which the machine has
    /// for the place.
    fn run_lots(&self, zone: usize, module: Option<&[u8]>) -> u32;
    /// A place has another zone, or none: its name on the bill.
    fn rename(&self, zone: usize, name: &str);
    /// Gives the zone's activity a share, which holds at all gates.
    fn set_share(&self, zone: usize, share: u32);
    /// Returns true if a lot has what another one left there than the zone that gets it; for no zone, what anybody left.
    fn is_dirty(&self, lot: u64, zone: Option<usize>) -> bool;
    /// Clears a lot in which nobody lives. It takes less than a millisecond.
    fn clear(&self, lot: u64);
    /// Writes image, module and page into the zone's parts. Nothing runs there yet.
    fn prepare(&self, plan: Plan<'_>) -> Result<(), Fault>;
    /// Starts the first core, and lets the others wait for the zone to call them.
    fn start(&self, zone: usize) -> Result<(), Fault>;
    /// Forgets a zone's page: the lots go to another hand.
    fn release(&self, zone: usize);

    /// Returns what it says of its life.
    fn life(&self, zone: usize) -> Life;
    /// Returns how it ended if something else than itself saw that: its wall, or its core.
    fn broke_out(&self, zone: usize) -> Option<Cause>;
    /// Returns its last words, as text without control characters, with the places of calls. If it was stopped without words of its own: where
    /// its cores were, once they are stopped.
    fn last_words(&self, zone: usize) -> LastWords;

    /// Returns true if the core waits in the parking loop.
    fn is_parked(&self, zone: usize, core: u32) -> bool;
    /// Begins to take a core from a zone, whatever it does: NMI, then INIT if it does not come.
    fn begin_stop(&self, zone: usize, core: u32);
    /// Looks how far that is, and goes on with it. It comes to an end within a second.
    fn stopping(&self, zone: usize, core: u32) -> Stopping;
    /// Lets a parked core wait for a zone that runs; answers the slot of its box.
    fn add_core(&self, zone: usize, core: u32) -> Result<u32, Fault>;
    /// Takes a parked core's box from a zone.
    fn remove_core(&self, zone: usize, core: u32) -> Result<(), Fault>;
    /// Opens the zone's wall for lots.
    fn add_lots(&self, zone: usize, lots: Lots) -> Result<(), Fault>;
    /// Closes the zone's wall to lots.
    fn remove_lots(&self, zone: usize, lots: Lots) -> Result<(), Fault>;
    /// Opens the zone's wall for a device.
    fn add_device(&self, zone: usize, device: PciAddress) -> Result<(), Fault>;
    /// Masks a device's interrupts, ends its memory accesses, resets it and closes the zone's wall to it.
    fn remove_device(&self, zone: usize, device: PciAddress) -> Result<(), Fault>;

    /// Asks it to end in order: the word in its page.
    fn ask_to_end(&self, zone: usize);
    /// Sends it a message, and rings if it sleeps.
    fn send(&self, zone: usize, message: &Message) -> Result<(), Full>;
    /// Sends a message to several zones, or to none if one of them has no room. It is in all rings before anybody is interrupted.
    fn cast(&self, zones: &[usize], message: &Message) -> Result<(), Full>;
    /// Takes a message of its.
    fn receive(&self, zone: usize) -> Option<Message>;
    /// Says that the supervisor waits for its bell: true if there is nothing to receive.
    fn may_sleep(&self, zone: usize) -> bool;
    /// Returns bytes that it printed since its start, from a position on, and the position of the first.
    fn printed(&self, zone: usize, position: u64, room: usize) -> (u64, Vec<u8>);
}
