//! Parts that an instance gets or gives up while it runs. Each is a step of its own; who changes several has the order and the way back.

use super::calls::{self, NoAnswer};
use super::instance::Instance;
use super::instance_plan::PlanError;
use super::pool::pool;
use super::{devices, lots};
use core::sync::atomic::Ordering;
use gyre_platform::{CoreBox, MemoryRegion, PciAddress, ZonePage};

impl Instance {
    /// Gives it one more core, which waits at a box that was free; returns the box's number.
    ///
    /// # Errors
    /// [`NoAnswer`] if the core is not an idle one of the pool, or no box is free.
    pub fn add_core(&mut self, id: u32) -> Result<usize, NoAnswer> {
        let slot = self.cores.iter().position(Option::is_none).ok_or(NoAnswer(id))?;
        self.park_at_box(slot, id)?;
        self.cores[slot] = Some(id);
        Ok(slot)
    }

    /// Takes a core back that waits at its box; returns its hardware id.
    ///
    /// # Errors
    /// [`NoAnswer`] if there is none, or it is in the zone: the zone is asked first, and parks it.
    pub fn take_core(&mut self, slot: usize) -> Result<u32, NoAnswer> {
        let id = self.cores.get(slot).copied().flatten().ok_or(NoAnswer(u32::MAX))?;
        let mailbox = calls::mailbox(id).ok_or(NoAnswer(id))?;
        mailbox.leave_box_if_there().map_err(|_| NoAnswer(id))?;
        self.page().cores[slot].state.store(CoreBox::ABSENT, Ordering::Release);
        if let Some(wall) = self.wall {
            wall.forget_core(slot);
        }
        self.cores[slot] = None;
        Ok(id)
    }

    /// Gives it more lots of the pool while it runs; it learns of them by a message.
    ///
    /// # Errors
    /// [`PlanError`] if they are not the pool's, not clean, or another instance's.
    pub fn add_lots(&mut self, region: MemoryRegion) -> Result<(), PlanError> {
        lots::check(&region)?;
        lots::take(&[region], self.number)?;
        let Some(Err(error)) = self.wall.map(|wall| wall.extend(region)) else { return Ok(()) };
        lots::leave(&[region]);
        Err(error.into())
    }

    /// Opens its wall, if it has one, for memory that is not its own and that it may read and write as long as it lives.
    ///
    /// # Errors
    /// [`PlanError`] if these are no lots, or there is no memory for tables.
    pub fn show_lot(&mut self, region: MemoryRegion) -> Result<(), PlanError> {
        lots::check(&region)?;
        self.wall.map_or(Ok(()), |wall| wall.extend(region))?;
        Ok(())
    }

    /// Takes lots back that the zone has let go; they are dirty from now on.
    ///
    /// # Errors
    /// [`PlanError`] if they are not its own, or hold its image, module or page.
    pub fn remove_lots(&mut self, region: MemoryRegion) -> Result<(), PlanError> {
        lots::check(&region)?;
        let fixed = self.layout.image..self.page.pa() + size_of::<ZonePage>() as u64;
        let is_fixed = region.start.0 < fixed.end && fixed.start < region.start.0 + region.bytes;
        if is_fixed {
            return Err(PlanError::BusyLot(region));
        }
        if let Some(wall) = self.wall {
            wall.withdraw(region)?;
        }
        if lots::give(&region, self.number) { Ok(()) } else { Err(PlanError::BusyLot(region)) }
    }

    /// Lets it reach the memory of a link, a lot that the supervisor holds, and ring the core of the link's other end. Without a wall it can.
    ///
    /// # Errors
    /// [`PlanError`] if there is no memory for tables, or it has too many links.
    pub fn open_door(&mut self, lot: MemoryRegion, peer: u16, core: u32) -> Result<(), PlanError> {
        lots::check(&lot)?;
        self.wall.map_or(Ok(()), |wall| wall.open_door(lot, peer, core))?;
        Ok(())
    }

    /// Lets it ring the other end of a link no more.
    pub fn close_door(&self, peer: u16) {
        self.wall.iter().for_each(|wall| wall.close_door(peer));
    }

    /// Gives it one more PCI function of the pool while it runs, at rest; it learns of it by a message.
    ///
    /// # Errors
    /// [`PlanError`] if the function is not the pool's, its own already, one too many, or does not come to rest.
    pub fn add_device(&mut self, address: PciAddress) -> Result<(), PlanError> {
        if !pool().devices().contains(&address) || self.devices().contains(&address) {
            return Err(PlanError::NoDevice(address));
        }
        devices::settle(address).map_err(|_| PlanError::StuckDevice(address))?;
        if let Some(wall) = self.wall {
            wall.extend_device(address)?;
        }
        self.devices.push(address).ok_or(PlanError::NoDevice(address))
    }

    /// Takes a PCI function back that the zone has let go, and brings it to rest.
    ///
    /// # Errors
    /// [`PlanError`] if it is not its own, or does not come to rest: then the zone keeps it.
    pub fn remove_device(&mut self, address: PciAddress) -> Result<(), PlanError> {
        if !self.devices().contains(&address) {
            return Err(PlanError::NoDevice(address));
        }
        devices::settle(address).map_err(|_| PlanError::StuckDevice(address))?;
        if let Some(wall) = self.wall {
            wall.withdraw_device(address)?;
        }
        self.devices.retain(|other| *other != address);
        Ok(())
    }
}
