//! The memory resource: budgets of the tenants, and who is asked to give memory back.

use crate::assembly::System;
use crate::host::tenant_of;
use crate::tenants;
use alloc::boxed::Box;
use alloc::vec;
use gyre_account::{ActivityId, ResourceId};
use gyre_assembly::files::FileSystems;
use gyre_config::boot::Tenant;
use gyre_engine::Engine;
use gyre_ext2::Ext2;
use gyre_file_cache::{FileCache, Room};
use gyre_interface::memory::{Budget, Figures, MemoryError, memory, reclaim};
use gyre_machine::PAGE_BYTES;
use gyre_memory::{Memory, Options};
use gyre_message::Link;
use gyre_object::SetOnce;

const PAGE: u64 = PAGE_BYTES as u64;

/// The part of the memory that only the kernel's heap may take.
const FLOOR_PART: usize = 32;
/// Least of it, bytes.
const FLOOR_BYTES_MIN: usize = 1 << 20;

static MEMORY: SetOnce<&'static Memory> = SetOnce::new();
static CLIENT: SetOnce<memory::Client> = SetOnce::new();

/// The file systems on disks.
static FILE_SYSTEMS: FileSystems = FileSystems::new();

/// The client of the memory resource, once it stands.
pub fn client() -> Option<memory::Client> {
    CLIENT.get()
}

/// A tenant's figures.
pub fn figures(activity: ActivityId) -> Option<Figures> {
    MEMORY.get().and_then(|memory| memory.figures_of(activity))
}

/// A tenant's limit has changed.
pub fn set_limit(activity: ActivityId, limit_bytes: u64) {
    if let Some(memory) = MEMORY.get() {
        memory.set_limit(activity, limit_bytes);
    }
}

/// Changes what the tenants of a group may hold together.
///
/// # Errors
/// As [`Memory::set_group_limit`].
pub fn set_group_limit(group: ActivityId, limit_bytes: u64) -> Result<(), MemoryError> {
    MEMORY.get().ok_or(MemoryError::Unknown)?.set_group_limit(group, limit_bytes)
}

/// One more file system that can write dirty pages back.
pub fn add_file_system(server: &'static Ext2) {
    FILE_SYSTEMS.add(server);
}

/// Pages of files that each tenant keeps: what a small program needs to go on.
const KEPT_PAGES: usize = 64;

/// Starts the resource; the cache asks it for room from here on.
pub fn start(system: &'static System, cache: &'static FileCache) {
    let free = gyre_x86_64::memory_statistics().free_bytes;
    let floor = (free / FLOOR_PART).max(FLOOR_BYTES_MIN);
    gyre_x86_64::set_frame_floor(floor);
    let resource = |name| system.engine.resource(name).unwrap_or(ResourceId(0));
    let port = |name, serve: fn(&'static FileCache, reclaim::Request) -> Served| {
        reclaim::Client::new(Link::new(system.engine.port(resource(name), move |request| serve(cache, request))))
    };
    let options = Options {
        activities: &system.engine.accounts().activities,
        capacity_bytes: free.saturating_sub(floor.saturating_mul(2)) as u64,
        low_bytes: (floor as u64).saturating_mul(2),
        free_bytes: || gyre_x86_64::free_bytes() as u64,
        payer: tenant_of,
        providers: vec![
            port("file_cache", |cache, request| Box::pin(reclaim::serve(cache, request))),
            port("address_space", |_, request| Box::pin(reclaim::serve(&Spaces, request))),
            port("ext2", |_, request| Box::pin(reclaim::serve(&FILE_SYSTEMS, request))),
        ],
    };
    let budgets = system.activities.iter().copied().zip(system.machine.tenants.iter().map(budget));
    let memory: &'static Memory = Box::leak(Box::new(Memory::new(options, budgets)));
    MEMORY.set(memory);
    let link = Link::new(system.engine.port(resource("memory"), move |request| memory::serve(memory, request)));
    let client = memory::Client::new(link);
    CLIENT.set(client);
    let has_room = |payer| MEMORY.get().is_none_or(|memory| memory.has_room(payer));
    let process_pages = |process| {
        let limit = Engine::current().map_or(u64::MAX, |engine| engine.accounts().activities.own_limit(process));
        usize::try_from(limit / PAGE).unwrap_or(usize::MAX)
    };
    cache.connect(Room { client, has_room, process_pages, kept_pages: KEPT_PAGES });
}

type Served = core::pin::Pin<Box<dyn core::future::Future<Output = ()>>>;

fn budget(tenant: &Tenant) -> Budget {
    Budget {
        reservation_bytes: tenant.limits.memory_reservation_bytes,
        limit_bytes: tenant.limits.memory_bytes,
        share: if tenant.limits.memory_share > 0 { tenant.limits.memory_share } else { tenant.share },
    }
}

/// The address spaces of a tenant's processes as one keeper: pages of files that are in the cache too, which can be mapped again.
struct Spaces;

impl reclaim::Server for Spaces {
    async fn reclaim(&'static self, activity: ActivityId, bytes: u64) -> Result<u64, MemoryError> {
        let Some(running) = tenants::of_activity(tenant_of(activity)) else { return Ok(0) };
        let mut processes = running.tenant.tree.lock().processes();
        // One process is asked for what it shows alone.
        processes.retain(|process| !activity.is_member() || process.activity() == activity);
        let mut given = 0;
        for process in processes {
            if given < bytes {
                let more = process.space().give_back(bytes.saturating_sub(given)).await;
                given = u64::saturating_add(given, more);
            }
        }
        Ok(given)
    }
}
