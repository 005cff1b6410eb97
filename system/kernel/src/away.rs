//! A tenant that goes away for a while: its programs have ended and nobody touches its disk, so that its owner can put another image there.
//!
//! ```text
//! here --send: programs end, file systems are written back, work is halted--> away --call_back: file systems read anew, the program starts--> here
//! ```
//! Its volumes are given up and read anew with its root. Its name, address, share and bill stay its own; what its file systems in memory held is
//! free. A tenant that could not begin, since its image is bad, may go away too. It is away only once its disks are at rest
//! ([`crate::rest`]): a write that came later would be one to the new image. One whose disks do not come to rest goes away for ever.
//!
//! Called by [`crate::change`] with the right to change the machine. The errors are those of the native call `set`.

use crate::containment::Unclosed;
use crate::kernel::Kernel;
use crate::tenants::{LIVES_MAX, Running, Wish};
use crate::{containment, living, starting};
use gyre_account::{ActivityId, ResourceId};
use gyre_assembly::file_systems::Leaving;
use gyre_contract::boot::Root;
use gyre_contract::monitor::State;
use gyre_engine::RESIDENT;
use gyre_linux::Errno;

/// How a tenant is that goes away.
const GOES: &str = "its owner gives it another image";
/// How one is that could not be written back. What the disk does is not known, so it stays ended in this run.
const LOST: &str = "its disk could not be written back: it needs a new run";
/// How one is whose disk may still be written to. It stays so in this run.
const RESTLESS: &str = "its disk does not come to rest: it needs a new run";

/// Checks whether a tenant can be sent away.
///
/// # Errors
/// EPERM for the system tenant, EINVAL for one whose root is no disk of its own, EBUSY if it starts or a failure of the kernel has ended it,
/// ENOSPC if it has had all its lives.
pub fn check(kernel: &Kernel, index: usize) -> Result<(), Errno> {
    let activity = *kernel.base.activities.get(index).ok_or(Errno::ENOENT)?;
    if kernel.base.is_system(activity) {
        return Err(Errno::EPERM);
    }
    if !matches!(kernel.base.roll.tenant(index).ok_or(Errno::ENOENT)?.root, Root::Disk(_)) {
        return Err(Errno::EINVAL);
    }
    let state = kernel.tenants.state(index);
    match kernel.tenants.running(index) {
        _ if kernel.tenants.is_going(index) => Ok(()),
        _ if kernel.tenants.lives(index) >= LIVES_MAX => Err(Errno::ENOSPC),
        None if !is_bad(&state) => Err(Errno::EBUSY),
        _ => Ok(()),
    }
}

/// Returns whether a tenant never began, since its image is bad.
fn is_bad(state: &State) -> bool {
    matches!(state, State::Failed { why } if why != LOST)
}

/// Begins to send a tenant away; [`State::Away`] says that its disk is its owner's. One that is away, or goes, does so still.
///
/// # Errors
/// Those of [`check`]; EBUSY also if the machine ends.
pub fn send(kernel: &'static Kernel, index: usize, grace_ms: u64) -> Result<(), Errno> {
    check(kernel, index)?;
    if kernel.tenants.is_going(index) {
        return Ok(());
    }
    let activity = *kernel.base.activities.get(index).ok_or(Errno::ENOENT)?;
    let running = kernel.tenants.running(index);
    let leaving = kernel.file_systems.leave(activity).ok_or(Errno::EBUSY)?;
    if let Some(running) = running {
        running.failures.end_tenant();
    }
    kernel.tenants.keep_wish(index, wish_after(kernel.tenants.wished(index), &kernel.tenants.state(index)));
    kernel.tenants.set_state(index, State::Pausing { why: GOES.into() });
    let grace_ns = living::grace_ns(grace_ms);
    kernel.base.engine.spawn_for_on(RESIDENT, ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, move || async move {
        let closed = match running {
            Some(running) => end(kernel, index, (running, leaving), grace_ns).await,
            None => containment::close(kernel, activity, leaving).await,
        };
        if closed == Err(Unclosed::NotWritten) {
            kernel.tenants.take_kept_wish(index);
        }
        kernel.tenants.set_state(index, state_after(closed));
    });
    Ok(())
}

fn state_after(closed: Result<(), Unclosed>) -> State {
    match closed {
        Ok(()) => State::Away,
        Err(Unclosed::NotWritten) => State::Failed { why: LOST.into() },
        Err(Unclosed::NotAtRest) => State::Pausing { why: RESTLESS.into() },
    }
}

/// Returns the wish that stands again when a tenant comes back. A program that ended by itself is noted as stopped; it runs then.
fn wish_after(wish: Wish, state: &State) -> Wish {
    let ended_by_itself = matches!(state, State::Ended { .. } | State::Killed { .. } | State::Failed { .. });
    match wish {
        Wish::Stopped if !ended_by_itself => Wish::Stopped,
        _ => Wish::Runs,
    }
}

async fn end(
    kernel: &'static Kernel,
    index: usize,
    (running, leaving): (&'static Running, Leaving<'static>),
    grace_ns: u64,
) -> Result<(), Unclosed> {
    living::stop(kernel, index, running, grace_ns).await;
    let closed = containment::end_ended(kernel, running, leaving).await;
    kernel.tenants.set_first(index, None);
    closed
}

/// Has a tenant come back. Returns before it has begun.
///
/// # Errors
/// EALREADY if it is not away, EBUSY if work for it goes on.
pub fn call_back(kernel: &'static Kernel, index: usize) -> Result<(), Errno> {
    if kernel.tenants.state(index) != State::Away {
        return Err(Errno::EALREADY);
    }
    let activity = *kernel.base.activities.get(index).ok_or(Errno::ENOENT)?;
    let description = kernel.base.roll.tenant(index).ok_or(Errno::ENOENT)?;
    if !kernel.base.engine.revive(activity) {
        return Err(Errno::EBUSY);
    }
    let wish = kernel.tenants.take_kept_wish(index).unwrap_or(Wish::Runs);
    kernel.tenants.wish(index, wish);
    if wish == Wish::Stopped {
        kernel.tenants.set_state(index, State::Stopped);
    } else {
        kernel.tenants.set_state(index, State::Starting);
        kernel.tenants.count_restart(index);
    }
    log::info!("tenant {} comes back", description.name);
    starting::start_one(kernel, index, description);
    Ok(())
}
