//! The memory of links, and the supervisor's own ends of them, as the resource of zones needs them.

use super::instances::Machine;
use super::links::{self, Links};
use gyre_interface::zone_messages::LinkOffer;
use gyre_zones::{Fault, Wires};

/// The supervisor's number among instances.
const SUPERVISOR: u16 = 0;

/// The machine's instances, and the links of the one that runs this.
pub struct Cabling {
    /// The instances.
    pub machine: &'static Machine,
    /// The links.
    pub links: &'static Links,
}

impl Wires for Cabling {
    fn core(&self, number: u16) -> Option<u32> {
        match number {
            SUPERVISOR => gyre_x86_64::hardware_id(0),
            zone => self.machine.first_core(usize::from(zone).checked_sub(1)?),
        }
    }

    fn prepare(&self, lot: u64) -> Result<(), Fault> {
        links::empty(lot).map_err(|why| Fault(why.into()))
    }

    fn join(&self, offer: LinkOffer) -> Result<(), Fault> {
        self.links.join(offer).map_err(|reason| Fault(alloc::format!("{reason}")))
    }

    fn open(&self, zone: usize, offer: LinkOffer) -> Result<(), Fault> {
        self.machine.open_door(zone, offer)
    }

    fn close(&self, zone: usize, peer: u16) {
        self.machine.close_door(zone, peer);
    }

    fn forget(&self, peer: u16) {
        // As with one that is left.
        let _ = self.links.forget(peer);
    }

    fn leave(&self, peer: u16) {
        // A link that is not there is not left: it was not joined either.
        let _ = self.links.leave(peer);
    }
}
