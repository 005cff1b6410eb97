//! The machine's end in order: zones end first, if there are any; no tenant starts any more; programs are asked to end, then ended; the
//! agent tells their last words; what they wrote is on the disks and the file systems say so; then the power goes off.
//!
//! Tenants that leave meanwhile, or go away, are ended and written back by whoever began that ([`crate::containment`]). Their programs have no
//! more time than the others here, and the end waits for their file systems as for all.
//!
//! Everything is bounded, in the machine's own time (`gyre_message::patience`): all zones have [`ZONES_NS_MAX`], mounts that are under way [`MOUNTS_NS_MAX`], a program that does not listen
//! has the grace time, the agent [`TELL_NS_MAX`], a disk that does not answer [`WRITE_BACK_NS_MAX`].

use crate::kernel::Kernel;
use crate::living;
use crate::tenants::Running;
use crate::zones::end_all::end_all;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_account::ActivityId;
use gyre_assembly::file_systems::Mounted;
use gyre_assembly::grid::id;
use gyre_contract::boot::TenantKind;
use gyre_contract::catalogue::Resource;
use gyre_contract::native::{END_GRACE_MS_MAX, EXIT_ENDED, EXIT_NOT_WRITTEN};
use gyre_interface::files::FileError;
use gyre_linux::Process;
use gyre_linux::signal::number::{SIGKILL, SIGTERM};
use gyre_message::{WaitQueue, sleep_ns, within};

/// How long programs may take to be gone once they are killed, ns.
const KILL_NS_MAX: u64 = 2_000_000_000;
/// How long all zones together may take to end, ns.
const ZONES_NS_MAX: u64 = 60_000_000_000;
/// How long mounts that are under way may take, ns.
const MOUNTS_NS_MAX: u64 = 10_000_000_000;
/// How long the agent may take to tell what programs wrote at their end, ns; it looks four times a second.
const TELL_NS_MAX: u64 = 2_000_000_000;
/// A pause between two looks at that, and the time that the last frames have, ns.
const LOOK_NS: u64 = 20_000_000;
/// How long writing everything back may take, ns.
const WRITE_BACK_NS_MAX: u64 = 30_000_000_000;

/// Starts the end; returns false if it has begun before.
pub fn begin(kernel: &'static Kernel, grace_ms: u64) -> bool {
    if kernel.is_ending.swap(true, Ordering::AcqRel) {
        return false;
    }
    let resource = id(Resource::Process);
    let grace_ns = grace_ms.min(END_GRACE_MS_MAX).saturating_mul(1_000_000);
    kernel.base.engine.spawn_for(resource, ActivityId::INFRASTRUCTURE, async move {
        end_zones(kernel, grace_ms).await;
        if within(MOUNTS_NS_MAX, kernel.file_systems.close()).await.is_none() {
            log::warn!("ending: some file systems are still being mounted");
        }
        log::info!("ending: programs have {} ms", grace_ns / 1_000_000);
        end_programs(kernel, grace_ns).await;
        within(TELL_NS_MAX, tell_last_words(kernel)).await;
        let failed = unmount_all(kernel).await;
        if failed == 0 {
            log::info!("ended in order");
            gyre_x86_64::end_instance(EXIT_ENDED)
        }
        log::error!("ended; {failed} file systems could not be written back");
        gyre_x86_64::end_instance(EXIT_NOT_WRITTEN)
    });
    true
}

/// Ends the zones that this instance supervises, if it does: their disks are written back by their own kernels.
async fn end_zones(kernel: &'static Kernel, grace_ms: u64) {
    let Some(zones) = &kernel.supervised else { return };
    let grace_ms = u32::try_from(grace_ms.min(END_GRACE_MS_MAX)).unwrap_or(u32::MAX);
    if within(ZONES_NS_MAX, end_all(zones, grace_ms)).await.is_none() {
        log::warn!("ending: some zones do not end");
    }
}

/// The customers' tenants: the system's own program, which carried the wish, goes with the machine.
fn customers(kernel: &'static Kernel) -> impl Iterator<Item = &'static Running> {
    let tenants = kernel.base.machine.tenants.iter().enumerate();
    tenants
        .filter(|(_, tenant)| tenant.kind != TenantKind::System)
        .filter_map(move |(index, _)| kernel.tenants.running(index).or_else(|| leaver(kernel, index)))
}

/// Returns a tenant that leaves, and whose end is not done.
fn leaver(kernel: &'static Kernel, index: usize) -> Option<&'static Running> {
    kernel.tenants.begun(index).filter(|running| kernel.file_systems.is_leaving(running.tenant.activity()))
}

/// Those of one that leaves since the kernel failed may be lost.
fn living(kernel: &'static Kernel) -> Vec<Arc<Process>> {
    let trees = customers(kernel).filter_map(|running| running.tenant.tree.lock_unless_lost());
    trees.flat_map(|tree| tree.processes()).filter(|process| !process.is_over()).collect()
}

/// The tenants' first programs, each with the signal that asks it to end.
fn first_programs(kernel: &'static Kernel) -> Vec<(Arc<Process>, i32)> {
    let all = 0..kernel.base.machine.tenants.len();
    all.filter_map(|index| Some((kernel.tenants.first(index)?, living::signal_of(kernel, index)))).collect()
}

async fn end_programs(kernel: &'static Kernel, grace_ns: u64) {
    let firsts = first_programs(kernel);
    for process in living(kernel) {
        let own = firsts.iter().find(|(first, _)| Arc::ptr_eq(first, &process)).map_or(SIGTERM, |(_, signal)| *signal);
        living::ask(&process, own);
    }
    within(grace_ns, all_over(kernel, |_| ())).await;
    for running in customers(kernel) {
        let Some(mut limits) = running.tenant.limits.lock_unless_lost() else { continue };
        (limits.processes, limits.threads) = (0, 0);
    }
    if within(KILL_NS_MAX, all_over(kernel, |process| process.end(SIGKILL))).await.is_none() {
        log::warn!("ending: {} programs do not end", living(kernel).len());
    }
}

/// Waits until no program lives; `tells` each that does, those that others start meanwhile too.
async fn all_over(kernel: &'static Kernel, tells: impl Fn(&Process)) {
    loop {
        let left = living(kernel);
        left.iter().for_each(|process| tells(process));
        let Some(one) = left.first() else {
            return;
        };
        one.ended.until(|| one.is_over().then_some(())).await;
    }
}

/// Waits until the agent, if it follows the output of tenants, has sent what their programs wrote at their end.
async fn tell_last_words(kernel: &'static Kernel) {
    let is_untold = || customers(kernel).any(|running| running.files.log.is_untold());
    if !is_untold() {
        return;
    }
    while is_untold() {
        sleep_ns(LOOK_NS).await;
    }
    sleep_ns(LOOK_NS).await;
}

/// How far the unmounting of the file systems is.
#[derive(Default)]
struct Unmounts {
    written: AtomicUsize,
    left: AtomicUsize,
    changed: WaitQueue,
}

/// Unmounts all file systems at once, each in its tenant's name, and waits for those of tenants that leave; returns how many failed.
async fn unmount_all(kernel: &'static Kernel) -> usize {
    let all = kernel.file_systems.staying();
    let unmounts = Arc::new(Unmounts { left: AtomicUsize::new(all.len()), ..Unmounts::default() });
    for mounted in &all {
        let work = unmount_one(kernel, *mounted, unmounts.clone());
        kernel.base.engine.spawn_for(id(Resource::Ext2), mounted.tenant, work);
    }
    let none_left = || (unmounts.left.load(Ordering::Acquire) == 0).then_some(());
    let all_done = async {
        unmounts.changed.until(none_left).await;
        kernel.file_systems.until_all_have_left().await;
    };
    within(WRITE_BACK_NS_MAX, all_done).await;
    let failed = all.len().saturating_sub(unmounts.written.load(Ordering::Acquire));
    failed.saturating_add(kernel.file_systems.left_unwritten())
}

async fn unmount_one(kernel: &'static Kernel, mounted: Mounted, unmounts: Arc<Unmounts>) {
    match unmount(kernel, mounted).await {
        Ok(()) => drop(unmounts.written.fetch_add(1, Ordering::AcqRel)),
        Err(error) => log::error!("a file system cannot be unmounted: {error:?}"),
    }
    unmounts.left.fetch_sub(1, Ordering::AcqRel);
    unmounts.changed.wake_all();
}

/// Writes a file system back and says so on its disk.
///
/// # Errors
/// Those of the device.
pub async fn unmount(kernel: &Kernel, mounted: Mounted) -> Result<(), FileError> {
    let unmounted = mounted.server.unmount().await;
    kernel.tables.close(kernel.processes, mounted.tables);
    unmounted
}
