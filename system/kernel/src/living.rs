//! The life of a tenant's program: it is started, ends, and is started again if its owner wishes that.
//!
//! * The owner's wish stands in [`Tenants`](crate::tenants::Tenants): it runs, is stopped, or is to be started again.
//! * A program that fails, also by a failure of the kernel, is started again after a pause, which doubles each time and is short again once the
//!   program has lived for a while. Before that all that is left of the tenant's processes is ended: they would hold its ports.
//! * A tenant that a failure of the kernel has ended as a whole is no matter of this module (`crate::again`).
//!
//! Thousands of processes are told to end in turns.

use crate::kernel::Kernel;
use crate::starting;
use crate::tenants::{Duty, First, Running, Wish};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_assembly::grid::id;
use gyre_contract::boot::{Orphans, Program, Restart, Tenant as Description};
use gyre_contract::catalogue::Resource;
use gyre_contract::monitor::State;
use gyre_contract::native::END_GRACE_MS_MAX;
use gyre_linux::signal::info::SignalInfo;
use gyre_linux::signal::number::{SIGKILL, SIGTERM};
use gyre_linux::{Errno, Process};
use gyre_message::{select, sleep_ns, within, yield_now};

/// The first pause before a program is started again, ns.
const PAUSE_NS_MIN: u64 = 100_000_000;
/// The longest one, ns.
const PAUSE_NS_MAX: u64 = 60_000_000_000;
/// Processes that are told at once that they end.
const ENDED_AT_ONCE: usize = 64;
/// Longest wait for processes that were ended, ns.
const END_NS_MAX: u64 = 2_000_000_000;
/// A program that has lived for so long has not failed at once, ms.
const LIFE_MS_MIN: u64 = 10_000;

/// Runs the program of a tenant until the machine ends. A tenant without one runs what comes by `gyre exec`.
pub async fn live(kernel: &'static Kernel, index: usize, description: &'static Description, running: &'static Running) {
    let tenants = kernel.tenants;
    if description.program.is_none() {
        return tenants.set_state(index, State::Running);
    }
    let mut pause_ns = PAUSE_NS_MIN;
    loop {
        tenants.until(index, |wish| wish != Wish::Stopped).await;
        if kernel.is_ending.load(Ordering::Acquire) || running.failures.has_ended() {
            return;
        }
        tenants.wish(index, Wish::Runs);
        let Some(Duty { program, .. }) = tenants.duty(index, description) else { return };
        let began = gyre_x86_64::now();
        let state = one_life(kernel, index, (description, &program), running).await;
        // One that goes, goes away or is ended by a failure as a whole is shown as that.
        if running.failures.has_ended() || kernel.base.roll.has_left(index) {
            return;
        }
        if age_ms(began) >= LIFE_MS_MIN {
            pause_ns = PAUSE_NS_MIN;
        }
        if description.orphans == Orphans::Kernel {
            end_all(running).await;
        }
        let restart = tenants.duty(index, description).map_or(description.restart, |duty| duty.restart);
        let then = after(restart, tenants.wished(index), &state);
        let shown = match then {
            Then::Stays if tenants.wished(index) == Wish::Stopped => State::Stopped,
            Then::Stays => state,
            Then::Begins | Then::Pauses => State::Pausing { why: alloc::format!("{state}") },
        };
        tenants.set_state(index, shown);
        match then {
            Then::Stays => {
                tenants.wish(index, Wish::Stopped);
                tenants.until(index, |wish| wish != Wish::Stopped).await;
                if tenants.wished(index) == Wish::Again {
                    tenants.count_restart(index);
                }
                continue;
            }
            Then::Begins => {}
            Then::Pauses => {
                let _ = select(sleep_ns(pause_ns), tenants.until(index, |wish| wish != Wish::Runs)).await;
                pause_ns = pause_ns.saturating_mul(2).min(PAUSE_NS_MAX);
            }
        }
        // A tenant that ended as a whole has another life, or none: whoever begins that counts it.
        if running.failures.has_ended() {
            return;
        }
        end_all(running).await;
        tenants.count_restart(index);
    }
}

/// Returns the time since a time stamp, ms.
fn age_ms(began: u64) -> u64 {
    gyre_x86_64::now().saturating_sub(began).checked_div(gyre_x86_64::cycles_per_ms()).unwrap_or(0)
}

/// The step after the end of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    /// Nothing, until the owner says so.
    Stays,
    /// It is started again at once.
    Begins,
    /// It is started again after a pause.
    Pauses,
}

fn after(restart: Restart, wish: Wish, state: &State) -> Then {
    match (wish, restart) {
        (Wish::Stopped, _) => Then::Stays,
        (Wish::Again, _) => Then::Begins,
        (Wish::Runs, Restart::Always) => Then::Pauses,
        (Wish::Runs, Restart::OnFailure) if *state != (State::Ended { code: 0 }) => Then::Pauses,
        (Wish::Runs, Restart::OnFailure | Restart::Never) => Then::Stays,
    }
}

/// Starts the program and waits for its end.
async fn one_life(
    kernel: &'static Kernel,
    index: usize,
    (description, program): (&'static Description, &Program),
    running: &'static Running,
) -> State {
    let name = &description.name;
    let process = match starting::start_program(description, program, running).await {
        Ok(process) => process,
        Err(error) => {
            let path = program.argv.first().map_or("none", String::as_str);
            log::error!("tenant {name} (program {path}) does not run: {error}");
            return State::Failed { why: alloc::format!("{error} (program {path})") };
        }
    };
    let stop_signal = program.stop_signal.map_or(SIGTERM, i32::from);
    kernel.tenants.set_first(index, Some(First { process: process.clone(), stop_signal }));
    kernel.tenants.set_state(index, State::Running);
    let status = process.ended.until(|| process.end_status().filter(|_| process.is_over())).await;
    kernel.tenants.set_first(index, None);
    let state = State::of_status(status);
    log::info!("{name}: the first program has {state}");
    state
}

/// Changes the life of a tenant's program; `grace_ms` is the time that its processes have to end, if they are to. Returns before that is done.
///
/// # Errors
/// ENOENT if the tenant has not begun, EBUSY if it is away; EALREADY if it has been so; EPERM for the system tenant.
pub fn change(kernel: &'static Kernel, index: usize, wish: Wish, grace_ms: Option<u64>) -> Result<(), Errno> {
    if kernel.tenants.is_going(index) {
        return Err(Errno::EBUSY);
    }
    let running = kernel.tenants.running(index).ok_or(Errno::ENOENT)?;
    if kernel.base.is_system(running.tenant.activity()) {
        return Err(Errno::EPERM);
    }
    if kernel.tenants.wished(index) == wish && wish != Wish::Again {
        return Err(Errno::EALREADY);
    }
    kernel.tenants.wish(index, wish);
    if let Some(grace_ms) = grace_ms {
        let work = stop(kernel, index, running, grace_ns(grace_ms));
        kernel.base.engine.spawn_for(id(Resource::Process), running.tenant.activity(), work);
    }
    Ok(())
}

/// Returns a grace time, bounded.
pub fn grace_ns(grace_ms: u64) -> u64 {
    grace_ms.min(END_GRACE_MS_MAX).saturating_mul(1_000_000)
}

/// Asks all programs of a tenant to end, and ends those that have not after the grace time.
pub async fn stop(kernel: &'static Kernel, index: usize, running: &'static Running, grace_ns: u64) {
    let asked = living(running);
    let first = kernel.tenants.first(index);
    for process in &asked {
        let is_first = first.as_ref().is_some_and(|first| first.id() == process.id());
        ask(process, if is_first { signal_of(kernel, index) } else { SIGTERM });
    }
    let _ = within(grace_ns, all_over(&asked)).await;
    end_in_turns(&asked).await;
}

/// Ends those of many processes that are not over, without keeping a core.
async fn end_in_turns(processes: &[Arc<Process>]) {
    for some in processes.chunks(ENDED_AT_ONCE) {
        some.iter().filter(|process| !process.is_over()).for_each(|process| process.end(SIGKILL));
        yield_now().await;
    }
}

/// Returns what a tenant runs when its program starts next.
pub fn duty(kernel: &Kernel, index: usize) -> Option<Duty> {
    kernel.tenants.duty(index, kernel.base.roll.tenant(index)?)
}

/// Checks that a tenant can have a program in the place of its own.
///
/// # Errors
/// ENOENT, EPERM for the system tenant, EINVAL for a tenant without a program and for a program without a name.
pub fn check_program(kernel: &Kernel, index: usize, program: &Program) -> Result<(), Errno> {
    let activity = kernel.base.activities.get(index).ok_or(Errno::ENOENT)?;
    if kernel.base.is_system(*activity) {
        return Err(Errno::EPERM);
    }
    let has_one = duty(kernel, index).is_some() && !program.argv.is_empty();
    has_one.then_some(()).ok_or(Errno::EINVAL)
}

/// Returns the signal that asks a tenant's first program to end.
pub fn signal_of(kernel: &Kernel, index: usize) -> i32 {
    kernel.tenants.stop_signal(index).unwrap_or(SIGTERM)
}

/// Sends a signal; a program whose queue of signals is full is ended later.
pub fn ask(process: &Process, signal: i32) {
    let _ = process.send_from_outside(SignalInfo::sent(signal, 0, 0, 0));
}

fn living(running: &Running) -> Vec<Arc<Process>> {
    running.tenant.tree.lock().processes().into_iter().filter(|process| !process.is_over()).collect()
}

/// Ends all processes of a tenant and waits until they are gone, so that its next program is the first one again.
async fn end_all(running: &Running) {
    let all = living(running);
    end_in_turns(&all).await;
    let _ = within(END_NS_MAX, all_over(&all)).await;
    running.tenant.tree.lock().begin_again();
}

async fn all_over(processes: &[Arc<Process>]) {
    for process in processes {
        process.ended.until(|| process.is_over().then_some(())).await;
    }
}
