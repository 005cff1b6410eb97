//! The machine's end in order: programs are asked to end, then ended; what they wrote is on the disks and the file systems say so; then the
//! power goes off.
//!
//! Everything is bounded: a program that does not listen has the grace time, a disk that does not answer [`WRITE_BACK_NS_MAX`].

use crate::assembly::System;
use crate::tables;
use crate::tenants::{self, Running};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use gyre_account::{ActivityId, ResourceId};
use gyre_config::boot::TenantKind;
use gyre_config::native::{END_GRACE_MS_MAX, EXIT_ENDED, EXIT_NOT_WRITTEN};
use gyre_ext2::Ext2;
use gyre_interface::files::FileError;
use gyre_linux::Process;
use gyre_linux::signal::info::SignalInfo;
use gyre_linux::signal::number::{SIGKILL, SIGTERM};
use gyre_message::wait::Either;
use gyre_message::{WaitQueue, select, sleep_ns};
use gyre_object::SpinLock;

/// How long programs may take to be gone once they are killed, ns.
const KILL_NS_MAX: u64 = 2_000_000_000;
/// How long writing everything back may take, ns.
const WRITE_BACK_NS_MAX: u64 = 30_000_000_000;

/// A file system on a disk.
#[derive(Clone, Copy)]
pub struct Mounted {
    tenant: ActivityId,
    server: &'static Ext2,
    /// Who pays for its tables.
    tables: Option<ActivityId>,
}

static FILE_SYSTEMS: SpinLock<Vec<Mounted>> = SpinLock::new(Vec::new());
static ENDING: AtomicBool = AtomicBool::new(false);

/// A file system that is to be unmounted at the end, in the name of its tenant.
pub fn remember(tenant: ActivityId, server: &'static Ext2, tables: Option<ActivityId>) {
    FILE_SYSTEMS.lock().push(Mounted { tenant, server, tables });
}

/// The file system on a tenant's disk: requests that the disk has not carried out, and whether it takes no changes any more.
pub fn disk_health(tenant: ActivityId) -> (u64, bool) {
    let found = FILE_SYSTEMS.lock().iter().find(|mounted| mounted.tenant == tenant).copied();
    found.map_or((0, false), |mounted| {
        let failures = mounted.server.failures();
        (failures, failures > 0 && mounted.server.is_read_only())
    })
}

/// A tenant ends before the machine: its file system is no longer the machine's to unmount.
pub fn forget(tenant: ActivityId) -> Option<Mounted> {
    let mut all = FILE_SYSTEMS.lock();
    let position = all.iter().position(|mounted| mounted.tenant == tenant)?;
    Some(all.swap_remove(position))
}

impl Mounted {
    /// Writes everything back and says so on the disk.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn unmount(self, system: &'static System) -> Result<(), FileError> {
        let unmounted = self.server.unmount().await;
        tables::close(system.engine, self.tables);
        unmounted
    }
}

/// Starts the end; false where it has begun before.
pub fn begin(system: &'static System, grace_ms: u64) -> bool {
    if ENDING.swap(true, Ordering::AcqRel) {
        return false;
    }
    let resource = system.engine.resource("process").unwrap_or(ResourceId(0));
    let grace_ns = grace_ms.min(END_GRACE_MS_MAX).saturating_mul(1_000_000);
    system.engine.spawn_for(resource, ActivityId::INFRASTRUCTURE, async move {
        log::info!("ending: programs have {} ms", grace_ns / 1_000_000);
        end_programs(system, grace_ns).await;
        let failed = unmount_all(system).await;
        if failed == 0 {
            log::info!("ended in order");
            gyre_x86_64::shut_down(EXIT_ENDED)
        }
        log::error!("ended; {failed} file systems could not be written back");
        gyre_x86_64::shut_down(EXIT_NOT_WRITTEN)
    });
    true
}

/// The customers' tenants: the system's own program, which carried the wish, goes with the machine.
fn customers(system: &'static System) -> impl Iterator<Item = &'static Running> {
    let tenants = system.machine.tenants.iter().enumerate();
    tenants.filter(|(_, tenant)| tenant.kind != TenantKind::System).filter_map(|(index, _)| tenants::running(index))
}

fn living(system: &'static System) -> Vec<Arc<Process>> {
    let all = customers(system).flat_map(|running| running.tenant.tree.lock().processes());
    all.filter(|process| !process.is_over()).collect()
}

async fn end_programs(system: &'static System, grace_ns: u64) {
    for process in living(system) {
        // A program whose queue of signals is full is ended below.
        let _ = process.send(SignalInfo::sent(SIGTERM, 0, 0, 0));
    }
    within(grace_ns, all_over(system, |_| ())).await;
    for running in customers(system) {
        let mut limits = running.tenant.limits.lock();
        (limits.processes, limits.threads) = (0, 0);
    }
    if !within(KILL_NS_MAX, all_over(system, |process| process.end(SIGKILL))).await {
        log::warn!("ending: {} programs do not end", living(system).len());
    }
}

/// Waits until no program lives; `tells` each that does, those that others start meanwhile too.
async fn all_over(system: &'static System, tells: impl Fn(&Process)) {
    loop {
        let left = living(system);
        left.iter().for_each(|process| tells(process));
        let Some(one) = left.first() else {
            return;
        };
        one.ended.until(|| one.is_over().then_some(())).await;
    }
}

/// What became of the file systems.
struct Unmounts {
    written: AtomicUsize,
    left: AtomicUsize,
    changed: WaitQueue,
}

/// Unmounts all file systems at once, each in its tenant's name; answers how many failed.
async fn unmount_all(system: &'static System) -> usize {
    static UNMOUNTS: Unmounts =
        Unmounts { written: AtomicUsize::new(0), left: AtomicUsize::new(0), changed: WaitQueue::new() };
    let all = FILE_SYSTEMS.lock().clone();
    let resource = system.engine.resource("ext2").unwrap_or(ResourceId(0));
    UNMOUNTS.left.store(all.len(), Ordering::Release);
    for mounted in &all {
        system.engine.spawn_for(resource, mounted.tenant, unmount(system, *mounted, &UNMOUNTS));
    }
    let none_left = || (UNMOUNTS.left.load(Ordering::Acquire) == 0).then_some(());
    within(WRITE_BACK_NS_MAX, UNMOUNTS.changed.until(none_left)).await;
    all.len().saturating_sub(UNMOUNTS.written.load(Ordering::Acquire))
}

fn unmount(
    system: &'static System,
    mounted: Mounted,
    unmounts: &'static Unmounts,
) -> impl Future<Output = ()> + 'static {
    async move {
        match mounted.unmount(system).await {
            Ok(()) => drop(unmounts.written.fetch_add(1, Ordering::AcqRel)),
            Err(error) => log::error!("a file system cannot be unmounted: {error:?}"),
        }
        unmounts.left.fetch_sub(1, Ordering::AcqRel);
        unmounts.changed.wake_all();
    }
}

/// Waits for something at most so long; answers whether it came.
async fn within(ns_max: u64, what: impl Future<Output = ()>) -> bool {
    matches!(select(what, sleep_ns(ns_max)).await, Either::First(()))
}
