//! This kernel as a zone: its answers to its supervisor.
//!
//! Cores ([`super::cores`]), memory ([`super::memory`]) and devices ([`super::devices`]) come and go while it runs; its agent asks here for each of them.

use super::{cores, devices, disks, memory};
use crate::ending;
use crate::kernel::Kernel;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_assembly::grid::id;
use gyre_contract::catalogue::Resource;
use gyre_engine::Engine;
use gyre_interface::leases::Lots;
use gyre_interface::zone_messages::{DiskOffer, Figures, LinkOffer, Reason};
use gyre_line::{Full, Message, Receiver, Sender};
use gyre_machine::PciAddress;
use gyre_object::SpinLock;
use gyre_zone_agent::{Agent, Home, Work};

/// How far this zone is with its rings.
#[derive(Default)]
struct Ends {
    sent: u32,
    received: u32,
}

/// The kernel, as its agent sees it.
struct Zone {
    kernel: &'static Kernel,
    ends: SpinLock<Ends>,
}

/// Starts the agent of a zone; an instance that is no zone has nobody to answer.
pub fn start(kernel: &'static Kernel) -> Option<&'static Agent> {
    gyre_x86_64::zone_page()?;
    cores::start(kernel.base.engine);
    let home: &'static Zone = Box::leak(Box::new(Zone { kernel, ends: SpinLock::default() }));
    let agent: &'static Agent = Box::leak(Box::new(Agent::new(home)));
    kernel.zone_agent.set(agent);
    kernel.base.engine.spawn_for(id(Resource::Zones), ActivityId::INFRASTRUCTURE, agent.serve());
    Some(agent)
}

impl Home for Zone {
    fn receive(&self) -> Option<Message> {
        let page = gyre_x86_64::zone_page()?;
        let mut ends = self.ends.lock();
        let mut receiver = Receiver::at(&page.to_zone.0, ends.received);
        let message = receiver.receive();
        ends.received = receiver.position();
        message
    }

    fn send(&self, message: &Message) -> Result<(), Full> {
        let page = gyre_x86_64::zone_page().ok_or(Full)?;
        let mut ends = self.ends.lock();
        let mut sender = Sender::at(&page.to_supervisor.0, ends.sent);
        sender.send(message)?;
        ends.sent = sender.position();
        if page.supervisor_bell.must_ring() {
            gyre_x86_64::ring_supervisor();
        }
        Ok(())
    }

    fn withdraw_core(&'static self, core: Option<u32>, within_ms: u32) -> Work<u32> {
        Box::pin(cores::withdraw(self.kernel.base.engine, core, within_ms))
    }

    fn join_core(&'static self, _core: u32, slot: u32) -> Work<()> {
        Box::pin(cores::join(self.kernel.base.engine, slot as usize))
    }

    fn withdraw_lots(&'static self, lots: u32, within_ms: u32) -> Work<Vec<Lots>> {
        Box::pin(memory::withdraw(self.kernel, lots, within_ms))
    }

    fn join_lots(&'static self, lots: Lots) -> Work<()> {
        Box::pin(async move { memory::join(self.kernel, lots) })
    }

    fn withdraw_device(&'static self, device: PciAddress) -> Work<()> {
        Box::pin(async move { devices::withdraw(self.kernel, device).await })
    }

    fn join_device(&'static self, device: PciAddress) -> Work<()> {
        Box::pin(async move { devices::join(self.kernel, device) })
    }

    fn join_link(&'static self, offer: LinkOffer) -> Work<()> {
        Box::pin(async move { self.kernel.links.join(offer) })
    }

    fn leave_link(&'static self, peer: u16) -> Work<()> {
        Box::pin(async move { self.kernel.links.leave(peer) })
    }

    fn forget_link(&'static self, peer: u16) -> Work<()> {
        Box::pin(async move { self.kernel.links.forget(peer) })
    }

    fn join_disks(&'static self, offer: DiskOffer) -> Work<()> {
        Box::pin(async move { disks::join(self.kernel, offer) })
    }

    fn figures(&'static self) -> Work<Figures> {
        Box::pin(figures(self.kernel.base.engine))
    }

    fn end(&'static self, grace_ms: u32) {
        ending::begin(self.kernel, u64::from(grace_ms));
    }
}

/// Sums up the time of all cores and the memory of this instance.
async fn figures(engine: &'static Engine) -> Result<Figures, Reason> {
    let snapshot = engine.snapshot().await.map_err(|_| Reason::Unable)?.without_time_away();
    let memory = gyre_x86_64::memory_statistics();
    let (total, free) = (memory.total_bytes as u64, memory.free_bytes as u64);
    let none = Figures { used_bytes: total.saturating_sub(free), free_bytes: free, ..Figures::default() };
    Ok(snapshot.cores.iter().fold(none, |sum, core| {
        let part = &core.partition;
        let overhead = part.scheduling.wrapping_add(part.interrupt);
        Figures {
            elapsed_cycles: sum.elapsed_cycles.wrapping_add(part.elapsed),
            handling_cycles: sum.handling_cycles.wrapping_add(part.handling),
            overhead_cycles: sum.overhead_cycles.wrapping_add(overhead),
            idle_cycles: sum.idle_cycles.wrapping_add(part.idle),
            ..sum
        }
    }))
}
