//! A tenant that a failure of the kernel ended as a whole is started again, if its owner wants that of its program.
//!
//! ```text
//!   ended, its work is halted, its disk is in order --pause--> revived: files mounted anew, processes anew, the program started
//! ```
//! Nothing that the failure may have hurt is used again: files, processes and memory are made anew, and what failed work held stays closed and
//! on the tenant's bill, which goes on. A tenant whose disk could not be written back stays ended: what is on it is first to be looked at. So does
//! one in whose lives the kernel failed [`LOSSES_MAX`] times, that its owner stopped or took away, and each when the machine ends.

use crate::kernel::Kernel;
use crate::tenants::{LIVES_MAX, Wish};
use crate::{living, starting};
use core::sync::atomic::Ordering;
use gyre_contract::boot::Restart;
use gyre_contract::monitor::State;
use gyre_message::{select, sleep_ns};

/// The pause before the second life, ns; it doubles with each.
const PAUSE_NS: u64 = 200_000_000;

/// Lives in which the kernel failed, of a tenant, at most: what failed work held is lost each time.
const LOSSES_MAX: usize = 8;

/// How the first program of a tenant is that was ended as a whole.
pub const ENDED: State = State::Killed { signal: 9 };

/// Starts a tenant again that was ended and halted because of `reason`. In the name of the infrastructure.
pub async fn start_again(kernel: &'static Kernel, index: usize, reason: &str) {
    let tenants = kernel.tenants;
    if !may_live(kernel, index) {
        return tenants.set_state(index, ENDED);
    }
    tenants
        .set_state(index, State::Pausing { why: alloc::format!("a failure of the kernel ended its tenant: {reason}") });
    let losses = tenants.losses(index).min(LOSSES_MAX) as u32;
    let pause_ns = PAUSE_NS.saturating_mul(1_u64.checked_shl(losses).unwrap_or(u64::MAX));
    let _ = select(sleep_ns(pause_ns), tenants.until(index, |wish| wish != Wish::Runs)).await;
    let (Some(description), Some(activity)) = (kernel.base.roll.tenant(index), kernel.base.activities.get(index))
    else {
        return;
    };
    if !may_live(kernel, index) || !kernel.base.engine.revive(*activity) {
        return tenants.set_state(index, ENDED);
    }
    log::info!("tenant {} is started again", description.name);
    tenants.count_restart(index);
    starting::start_one(kernel, index, description);
}

/// Returns true if a tenant may begin a life.
fn may_live(kernel: &Kernel, index: usize) -> bool {
    let restarts = living::duty(kernel, index).is_some_and(|duty| duty.restart != Restart::Never);
    restarts
        && kernel.tenants.losses(index) < LOSSES_MAX
        && kernel.tenants.lives(index) < LIVES_MAX
        && kernel.tenants.wished(index) != Wish::Stopped
        && !kernel.base.roll.has_left(index)
        && !kernel.is_ending.load(Ordering::Acquire)
}
