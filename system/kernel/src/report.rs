//! On demand: each core, task and process of the machine says on the console what it waits for. An NMI from outside asks.
//!
//! Each core says its own part; the first one that does says the processes'. No lock is waited for long: the one that holds it may be the reason for
//! the question.

use crate::kernel::Kernel;
use crate::tenants::Running;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_engine::Say;
use gyre_linux::{Process, Thread};
use gyre_machine::{Events, cycles_per_ms, now};
use gyre_object::TenantLock;

/// Looks at a lock before its contents are left out.
const LOOKS: u32 = 10_000;
/// Threads of a tenant that are named one by one.
const THREADS_MAX: usize = 64;
/// Within so many milliseconds the processes are told once.
const ONCE_MS: u64 = 1000;

/// From now on an NMI is answered by a report.
pub fn start(kernel: &'static Kernel) {
    let engine = kernel.base.engine;
    let told_at: &'static AtomicU64 = Box::leak(Box::default());
    for core in 0..engine.cores() {
        let bit = Events::REPORT.trailing_zeros();
        engine.on_event(core, bit, Box::new(move || tell(kernel, told_at)));
    }
}

fn tell(kernel: &Kernel, told_at: &AtomicU64) {
    let say = &mut |words: core::fmt::Arguments<'_>| log::warn!(target: "report", "{words}");
    kernel.base.engine.tell_state(say);
    let (now, before) = (now(), told_at.load(Ordering::Relaxed));
    let is_fresh = before != 0 && now.saturating_sub(before) < ONCE_MS.saturating_mul(cycles_per_ms());
    if !is_fresh && told_at.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        let all = (0..kernel.base.activities.len()).filter_map(|index| kernel.tenants.begun(index));
        all.for_each(|running| tell_processes(running, say));
    }
}

/// Opens a lock that opens soon.
fn soon<T, R>(lock: &TenantLock<T>, look: impl FnOnce(&T) -> R) -> Option<R> {
    (0..LOOKS).find_map(|_| lock.try_lock()).map(|open| look(&open))
}

fn tell_processes(running: &Running, say: Say<'_>) {
    let name = running.tenant.name();
    let Some(processes) = soon(&running.tenant.tree, |tree| tree.processes()) else {
        return say(format_args!("tenant {name}: its processes are locked"));
    };
    let threads = processes.iter().flat_map(|process| {
        let threads = soon(&process.threads, |threads| threads.clone()).unwrap_or_default();
        threads.into_iter().map(move |thread| (process, thread))
    });
    let mut left = THREADS_MAX;
    for (process, thread) in threads {
        if left == 0 {
            return say(format_args!("tenant {name}: and more"));
        }
        left = left.saturating_sub(1);
        tell_thread(name, process, &thread, say);
    }
}

fn tell_thread(tenant: &str, process: &Arc<Process>, thread: &Thread, say: Say<'_>) {
    let name = soon(&thread.name, |name| *name).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    let name = name.trim_end_matches('\0');
    let (id, number, activity) = (process.id(), thread.id(), process.activity().0);
    let end = if thread.is_dying() { ", must end" } else { "" };
    match thread.call() {
        Some(call) => say(format_args!(
            "tenant {tenant}, process {id} ({name}, activity {activity}), thread {number}: in {} ({call:#x}){end}",
            gyre_linux::table::name_of(call)
        )),
        None => say(format_args!(
            "tenant {tenant}, process {id} ({name}, activity {activity}), thread {number}: in its program{end}"
        )),
    }
}
