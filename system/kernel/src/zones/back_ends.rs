//! The back ends of the disks that this kernel, as a supervisor, serves to its zones.

use super::disk_window::{DiskWindow, Peer};
use super::instances::Machine;
use super::links::Links;
use crate::base::Base;
use crate::storage::Storage;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::current_activity;
use gyre_assembly::grid::id;
use gyre_contract::catalogue::Resource;
use gyre_contract::zones::{ZONES_MAX, Zone};
use gyre_disk_server::{Served, Session};
use gyre_engine::NoticeRoute;
use gyre_object::SpinLock;
use gyre_zones::{BackEnds, Fault, Work};

/// The core that takes the interrupts of front ends.
const CORE: usize = 0;

/// The sessions of zones that live.
pub struct Back {
    base: &'static Base,
    machine: &'static Machine,
    storage: &'static Storage,
    sessions: [SpinLock<Option<Arc<Session>>>; ZONES_MAX],
}

/// Makes the back ends. An interrupt says only that some zone has rung: all sessions look.
///
/// # Errors
/// A sentence for the console.
pub fn start(
    base: &'static Base,
    machine: &'static Machine,
    storage: &'static Storage,
    links: &Links,
) -> Result<&'static Back, &'static str> {
    let sessions = core::array::from_fn(|_| SpinLock::default());
    let back: &'static Back = Box::leak(Box::new(Back { base, machine, storage, sessions }));
    let line = gyre_x86_64::reserve_line(CORE).map_err(|_| "the first core has no interrupt line for served disks")?;
    let route = NoticeRoute { from: id(Resource::DeviceInterrupt), to: id(Resource::DiskServer), core: CORE };
    let rung = base.engine.notice(route, move || back.ring());
    base.engine.on_interrupt(CORE, line, Box::new(move || rung.send()));
    links.add_line(line);
    Ok(back)
}

impl Back {
    /// Some zone has rung.
    pub fn ring(&self) {
        for place in &self.sessions {
            let session = place.lock().clone();
            session.into_iter().for_each(|session| session.ring());
        }
    }

    async fn served(&self, zone: &Zone) -> Result<Vec<Served>, Fault> {
        let mut disks = Vec::new();
        for number in &zone.disks {
            let no = |why: &str| Fault(format!("disk {number} {why}"));
            let client = self.storage.disk(*number).ok_or_else(|| no("does not work"))?;
            let geometry = client.geometry().await.map_err(|error| no(&format!("does not say its size: {error:?}")))?;
            disks.push(Served { client, geometry });
        }
        Ok(disks)
    }

    async fn open(&'static self, place: usize, zone: Zone, lot: u64) -> Result<(u16, u32), Fault> {
        let missing = || Fault("there is no such zone".into());
        let disks = self.served(&zone).await?;
        let count = u16::try_from(disks.len()).unwrap_or(u16::MAX);
        self.machine.open_to(place, lot)?;
        let core = self.machine.first_core(place).ok_or_else(missing)?;
        let window = DiskWindow::map(lot, Peer::Core(core)).map_err(|error| Fault(format!("{error}")))?;
        let session = Session::new(zone.name, Box::new(window), disks);
        let session = session.ok_or_else(|| Fault("the memory for its disks is too small".into()))?;
        let seat = self.sessions.get(place).ok_or_else(missing)?;
        *seat.lock() = Some(session.clone());
        self.base.engine.spawn_for(id(Resource::DiskServer), current_activity(), session.serve());
        let own = gyre_x86_64::hardware_id(CORE).ok_or_else(missing)?;
        Ok((count, own))
    }
}

impl BackEnds for Back {
    fn begin(&'static self, zone: usize, description: Zone, lot: u64) -> Work<Result<(u16, u32), Fault>> {
        Box::pin(self.open(zone, description, lot))
    }

    fn end(&'static self, zone: usize) -> Work<()> {
        let session = self.sessions.get(zone).and_then(|place| place.lock().take());
        Box::pin(async move {
            if let Some(session) = session {
                session.end().await;
            }
        })
    }
}
