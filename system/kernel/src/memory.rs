//! The memory resource: budgets of the tenants, and who is asked to give memory back.
//!
//! ```text
//!   who wants room --reserve--> memory --reclaim--> file cache: clean pages that no program shows
//!                                                   address spaces: pages of files that programs do not use
//!                                                   file systems: dirty pages, once they are written
//!   file system, before it writes pages --write_protect--> address spaces
//! ```

use crate::base::Base;
use crate::tenants::Tenants;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_assembly::file_systems::FileSystems;
use gyre_assembly::grid::id;
use gyre_contract::boot::Tenant;
use gyre_contract::catalogue::Resource;
use gyre_engine::Engine;
use gyre_file_cache::{FileCache, Room};
use gyre_interface::memory::{Budget, Effort, Figures, KeptFile, MemoryError, memory, reclaim, shown};
use gyre_machine::PAGE_BYTES;
use gyre_memory::{Memory, Options};
use gyre_message::Link;

const PAGE: u64 = PAGE_BYTES as u64;

/// The part of the memory that only the kernel's heap may take.
const FLOOR_PART: usize = 32;
/// Least of it, bytes.
const FLOOR_BYTES_MIN: usize = 1 << 20;

/// Pages of files that each tenant keeps: what a small program needs to go on.
const KEPT_PAGES: usize = 64;

/// The memory resource, and its client.
pub struct Budgets {
    memory: &'static Memory,
    /// Memory at the boot: all of it, and what was free.
    first: Sizes,
    /// For those who need room.
    pub client: memory::Client,
}

/// Bytes of the machine's memory.
#[derive(Clone, Copy)]
struct Sizes {
    total: usize,
    free: usize,
}

impl Sizes {
    fn now() -> Sizes {
        let memory = gyre_x86_64::memory_statistics();
        Sizes { total: memory.total_bytes, free: memory.free_bytes }
    }

    /// Bytes that only the kernel's heap may take.
    fn floor(self) -> usize {
        (self.free / FLOOR_PART).max(FLOOR_BYTES_MIN)
    }

    /// Bytes for all tenants together.
    fn capacity(self) -> u64 {
        self.free.saturating_sub(self.floor().saturating_mul(2)) as u64
    }

    /// Free bytes from which on it is short.
    fn low(self) -> u64 {
        (self.floor() as u64).saturating_mul(2)
    }
}

impl Budgets {
    /// Notes that memory has come to this instance or left it: what tenants and the file cache may have follows.
    pub fn follow(&self, cache: &FileCache) {
        let total = Sizes::now().total;
        let free = self.first.free.saturating_add(total).saturating_sub(self.first.total);
        let sizes = Sizes { total, free };
        gyre_x86_64::set_frame_floor(sizes.floor());
        self.memory.set_capacity(sizes.capacity(), sizes.low());
        cache.set_capacity(free / PAGE_BYTES);
    }

    /// Returns false if a payer's limit, or that of its group or the machine, is near.
    pub fn has_room(&self, payer: ActivityId) -> bool {
        self.memory.has_room(payer)
    }

    /// Returns a tenant's figures.
    pub fn figures(&self, tenant: ActivityId) -> Option<Figures> {
        self.memory.figures_of(tenant)
    }

    /// Notes that a tenant's limit has changed.
    pub fn set_limit(&self, tenant: ActivityId, limit_bytes: u64) {
        self.memory.set_limit(tenant, limit_bytes);
    }

    /// Changes a tenant's whole budget.
    ///
    /// # Errors
    /// As [`Memory::change_budget`].
    pub fn set_budget(&self, tenant: ActivityId, budget: Budget) -> Result<(), MemoryError> {
        self.memory.change_budget(tenant, budget)
    }

    /// Returns whether so many bytes can be reserved beside all reservations.
    pub fn has_room_for(&self, reservation_bytes: u64) -> bool {
        self.memory.has_room_for(reservation_bytes)
    }

    /// Changes what the tenants of a group may hold together.
    ///
    /// # Errors
    /// As [`Memory::set_group_limit`].
    pub fn set_group_limit(&self, group: ActivityId, limit_bytes: u64) -> Result<(), MemoryError> {
        self.memory.set_group_limit(group, limit_bytes)
    }
}

/// Those who keep memory for tenants and can give it back.
#[derive(Clone, Copy)]
pub struct Keepers {
    /// Pages of files.
    pub cache: &'static FileCache,
    /// Their processes' address spaces.
    pub tenants: &'static Tenants,
    /// Dirty pages.
    pub file_systems: &'static FileSystems,
}

/// Starts the resource; the cache asks it for room from here on.
pub fn start(base: &'static Base, keepers: Keepers) -> Budgets {
    let first = Sizes::now();
    gyre_x86_64::set_frame_floor(first.floor());
    let options = Options {
        activities: &base.engine.accounts().activities,
        capacity_bytes: first.capacity(),
        low_bytes: first.low(),
        free_bytes: || gyre_x86_64::free_bytes() as u64,
        payer: base.payer,
        providers: providers(base, keepers),
    };
    let budgets = base.activities.iter().copied().zip(base.machine.tenants.iter().map(budget));
    let memory: &'static Memory = Box::leak(Box::new(Memory::new(options, budgets)));
    let port = base.engine.port(id(Resource::Memory), move |request| memory::serve(memory, request));
    let client = memory::Client::new(Link::new(port));
    keepers.cache.connect(Room {
        client,
        has_room: Box::leak(Box::new(|payer| memory.has_room(payer))),
        process_pages: Box::leak(Box::new(|process| {
            let limit = base.engine.accounts().activities.own_limit(process);
            usize::try_from(limit / PAGE).unwrap_or(usize::MAX)
        })),
        kept_pages: KEPT_PAGES,
    });
    Budgets { memory, first, client }
}

/// Returns clients of the keepers, in the order in which they are asked.
fn providers(base: &'static Base, keepers: Keepers) -> Vec<reclaim::Client> {
    let spaces = Spaces { base, tenants: keepers.tenants, file_systems: keepers.file_systems };
    let spaces: &'static Spaces = Box::leak(Box::new(spaces));
    let port = base.engine.port(id(Resource::AddressSpace), move |request| shown::serve(spaces, request));
    keepers.cache.set_shown(shown::Client::new(Link::new(port)));
    vec![
        provider(base.engine, Resource::FileCache, keepers.cache),
        provider(base.engine, Resource::AddressSpace, spaces),
        // Not ext2: the file systems may be those of other tenants than the one who asks, and a failure in ext2 ends that one alone.
        provider(base.engine, Resource::Memory, keepers.file_systems),
    ]
}

fn provider(engine: &'static Engine, at: Resource, keeper: &'static impl reclaim::Server) -> reclaim::Client {
    reclaim::Client::new(Link::new(engine.port(id(at), move |request| reclaim::serve(keeper, request))))
}

/// Returns the budget that a description gives a tenant.
pub fn budget(tenant: &Tenant) -> Budget {
    Budget {
        reservation_bytes: tenant.limits.memory_reservation_bytes,
        limit_bytes: tenant.limits.memory_bytes,
        share: if tenant.limits.memory_share > 0 { tenant.limits.memory_share } else { tenant.share },
    }
}

/// The address spaces of a tenant's processes as one keeper: pages of files that are in the cache too, which can be mapped again. They are
/// asked, too, before such pages are written.
struct Spaces {
    base: &'static Base,
    tenants: &'static Tenants,
    file_systems: &'static FileSystems,
}

impl shown::Server for Spaces {
    async fn write_protect(&'static self, file: KeptFile, pages: Vec<u64>) -> Result<(), MemoryError> {
        let Some(mounted) = self.file_systems.numbered(file.file_system) else { return Ok(()) };
        let Some(running) = self.tenants.of_activity(mounted.tenant) else { return Ok(()) };
        let processes = running.tenant.tree.lock().processes();
        for process in processes {
            process.space().write_protect(mounted.port, file.node, &pages).await;
        }
        Ok(())
    }
}

impl reclaim::Server for Spaces {
    async fn reclaim(&'static self, activity: ActivityId, bytes: u64, effort: Effort) -> Result<u64, MemoryError> {
        let Some(running) = self.tenants.of_activity(self.base.tenant_of(activity)) else { return Ok(0) };
        let mut processes = running.tenant.tree.lock().processes();
        // One process is asked for what it shows alone.
        processes.retain(|process| !activity.is_member() || process.activity() == activity);
        let mut given = 0;
        for process in processes {
            if given < bytes {
                let more = process.space().give_back(bytes.saturating_sub(given), effort).await;
                given = u64::saturating_add(given, more.free_bytes);
            }
        }
        Ok(given)
    }
}
