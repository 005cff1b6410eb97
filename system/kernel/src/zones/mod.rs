//! Other instances that this one supervises: the pool, the zones, and their place on the bill.
//!
//! Nothing of this runs in an instance whose description has no zones. Each zone has an activity, which is a payer as a tenant is: it pays for the
//! cores and the memory of its lease, and for the supervisor's work for it.
//!
//! * [`instances`]: the platform's functions, as the resource of zones needs them.
//! * [`casts`]: one message to several zones; [`calls`]: the native calls.
//! * [`home`]: the other side, this kernel as a zone; [`cores`], [`memory`] and [`devices`]: its parts that go and come.
//! * [`end_all`]: the end of all zones before that of the machine.
//! * [`back_ends`]: the disks that it serves to zones; [`disks`]: those that its supervisor serves to it; [`disk_window`]: the memory for both.
//! * [`links`]: network links to other instances, of a zone and of a supervisor; [`wires`]: their memory.

mod back_ends;
pub mod calls;
mod casts;
mod cores;
mod devices;
mod disk_window;
mod disks;
pub mod end_all;
pub mod home;
mod instances;
pub mod links;
mod memory;
mod wires;

use crate::base::Base;
use crate::storage::Storage;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ActivityParams};
use gyre_assembly::grid::id;
use gyre_contract::catalogue::Resource;
use gyre_contract::leased::{self, PoolCore};
use gyre_contract::monitor::{Handling, Snapshot};
use gyre_contract::zones::{Holding, LOT_BYTES, Zone};
use gyre_engine::NoticeRoute;
use gyre_interface::leases::{Holder, Lots, Parts, leases};
use gyre_interface::zones::zones;
use gyre_leases::{Leases, Pool};
use gyre_machine::{Events, MemoryRegion, Pa};
use gyre_message::Link;
use gyre_zones::{Setup, Zones};
use instances::Machine;
use links::Links;
use wires::Cabling;

/// The core that zones ring.
const CORE: usize = 0;

/// The zones of a supervisor.
pub struct Supervised {
    leases: &'static Leases,
    /// Their resource.
    pub client: zones::Client,
    /// Their activities, in the description's order.
    activities: &'static [ActivityId],
}

/// Makes an activity for each zone of the description.
///
/// # Errors
/// A sentence for the console: there is no room for them.
pub fn payers(base: &Base) -> Result<&'static [ActivityId], &'static str> {
    let accounts = &base.engine.accounts().activities;
    let params = |zone: &Zone| ActivityParams { weight: zone.share, ..ActivityParams::default() };
    let create = |zone: &Zone| accounts.create(None, &zone.name, params(zone));
    let activities: Result<Vec<ActivityId>, _> = base.machine.zones.iter().map(create).collect();
    Ok(activities.map_err(|_| "the tree of activities has no room for the zones")?.leak())
}

/// The parts of the kernel that zones stand on.
#[derive(Clone, Copy)]
pub struct Above {
    /// Its ends of links.
    pub links: &'static Links,
    /// Its disks.
    pub storage: &'static Storage,
    /// The zones' activities, in the description's order.
    pub payers: &'static [ActivityId],
}

/// Starts the pool and the zones of the description, and creates those that start with the machine.
///
/// # Errors
/// A sentence for the console: there is no room for the zones' activities.
pub fn start(base: &'static Base, above: Above) -> Result<Option<Supervised>, &'static str> {
    let described = &base.machine.zones;
    if described.is_empty() {
        return Ok(None);
    }
    let Above { links, storage, payers: activities } = above;
    let pool = Pool::new(parts(), gyre_x86_64::now());
    let leases: &'static Leases = Box::leak(Box::new(Leases::new(pool)));
    let port = base.engine.port(id(Resource::Leases), move |request| leases::serve(leases, request));
    let machine: &'static Machine = Box::leak(Box::new(Machine::new(base, activities)));
    let back_ends = back_ends::start(base, machine, storage, links)?;
    let setup = Setup {
        machine,
        back_ends,
        wires: Box::leak(Box::new(Cabling { machine, links })),
        leases: leases::Client::new(Link::new(port)),
        zones: described,
        activities: activities.to_vec(),
        supervisor: own(),
    };
    let server: &'static Zones = Box::leak(Box::new(Zones::new(setup)));
    let port = base.engine.port(id(Resource::Zones), move |request| zones::serve(server, request));
    let route = NoticeRoute { from: id(Resource::Zones), to: id(Resource::Zones), core: CORE };
    let bell = base.engine.notice(route, move || {
        server.rung();
        back_ends.ring();
    });
    base.engine.on_event(CORE, Events::BELL.trailing_zeros(), Box::new(move || bell.send()));
    base.engine.spawn_for(id(Resource::Zones), ActivityId::INFRASTRUCTURE, async move { server.start() });
    Ok(Some(Supervised { leases, client: zones::Client::new(Link::new(port)), activities }))
}

/// Returns the parts that the platform does not keep.
fn parts() -> Parts {
    let pool = gyre_x86_64::pool();
    Parts {
        cores: pool.cores().to_vec(),
        lots: pool.lots().iter().map(lots_of).collect(),
        devices: pool.devices().to_vec(),
    }
}

/// Returns the supervisor's own parts.
fn own() -> Holding {
    let zone = gyre_x86_64::zone();
    let memory = zone.memory.iter().take(zone.memory_count).map(|region| region.bytes);
    Holding {
        cores: zone.core_ids.iter().take(zone.core_count).copied().collect(),
        memory_bytes: memory.fold(0, u64::saturating_add),
        devices: Vec::new(),
    }
}

/// Returns a range of memory in lots.
fn lots_of(region: &MemoryRegion) -> Lots {
    let count = region.bytes.checked_div(LOT_BYTES).unwrap_or(0);
    Lots { first: region.start.0.checked_div(LOT_BYTES).unwrap_or(0), count: u32::try_from(count).unwrap_or(u32::MAX) }
}

/// Returns lots as a range of memory.
fn region_of(lots: Lots) -> MemoryRegion {
    let bytes = |count: u64| count.saturating_mul(LOT_BYTES);
    MemoryRegion { start: Pa(bytes(lots.first)), bytes: bytes(u64::from(lots.count)) }
}

impl Supervised {
    /// Returns true for the activity of a zone.
    pub fn is_zone(&self, activity: ActivityId) -> bool {
        self.activities.contains(&activity)
    }

    /// Adds the leases to the figures: cores of the pool, and the memory of zones.
    pub fn add_to(&self, snapshot: &mut Snapshot) {
        let now = gyre_x86_64::now();
        let cores = self.leases.cores(now).into_iter().map(|core| {
            let leased = core.held.iter().filter_map(|(holder, cycles)| {
                Some(Handling { activity: self.activity_of(*holder)?.0, cycles: *cycles })
            });
            let leased: Vec<Handling> = leased.collect();
            let sum = leased.iter().fold(0, |sum: u64, lease| sum.wrapping_add(lease.cycles));
            PoolCore { elapsed_cycles: core.elapsed, leased, idle_cycles: core.elapsed.wrapping_sub(sum) }
        });
        leased::add(snapshot, cores.collect());
        for (place, activity) in self.activities.iter().enumerate() {
            let (held, lots) = self.leases.held(Holder::Zone(place as u16), now);
            let line = snapshot.activities.iter_mut().find(|line| line.id == activity.0);
            if let Some(line) = line {
                let bytes = lots.saturating_mul(LOT_BYTES);
                line.memory_bytes = line.memory_bytes.saturating_add(bytes);
                line.memory_bytes_max = line.memory_bytes_max.max(line.memory_bytes);
                line.memory_byte_seconds = line.memory_byte_seconds.saturating_add(byte_seconds(held.lot_cycles));
            }
        }
    }

    fn activity_of(&self, holder: Holder) -> Option<ActivityId> {
        match holder {
            Holder::Zone(place) => self.activities.get(usize::from(place)).copied(),
            _ => None,
        }
    }
}

fn byte_seconds(lot_cycles: u128) -> u64 {
    let per_second = u128::from(gyre_x86_64::cycles_per_ms()).saturating_mul(1_000);
    let bytes = lot_cycles.saturating_mul(u128::from(LOT_BYTES)).checked_div(per_second);
    u64::try_from(bytes.unwrap_or(0)).unwrap_or(u64::MAX)
}
