//! A tenant or a process that has used its memory up: choosing the process that ends, and telling its owner.
//!
//! Called by who found no page, after reclaim found none, too: a copy from or to a program ([`resolve`]), data for a stream
//! ([`wait_for_buffer`]), a fault ([`end_largest`]). Each may try again when its call returns. Data for a file ([`fresh_page`]) end nobody: a
//! call that writes can answer ENOMEM. Before any of them gives up, what the tenant has let go of is taken apart ([`has_room`]).
//!
//! ```text
//!   at a limit of its own            the process ends itself
//!   somebody is ending already       its memory is waited for
//!   a good part is free meanwhile    nobody ends
//!   else                             the largest ends (oom_score_adj counts), and the log says what the tenant holds
//!   all others may never end         who asked ends itself
//! ```

use super::holdings::{Kinds, MIB, holdings};
use super::messages::{plain, publish};
use crate::signal::number;
use crate::tenant::{MemoryUse, ProcessMemory};
use crate::{Errno, Process, Thread};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_address_space::FaultError;
use gyre_object::Page;

use gyre_message::within;

/// The longest that a caller waits at once for the memory of a process that ends, or has ended, ns.
const END_NS_MAX: u64 = 2_000_000_000;
/// The part of a tenant's memory whose being free shows that a process has ended.
const FREED_PART: u64 = 4;
/// Bytes that are asked for then: a page and tables for it.
const ROOM_BYTES: u64 = 16 << 10;
/// Times that one page asks for room: others may take the room that was made for it.
const ROOMS_MAX: usize = 8;
/// An adjustment counts thousandths of the tenant's memory.
const ADJUSTMENT_PARTS: u64 = 1000;
/// The adjustment of a process that is never chosen (proc(5), oom_score_adj).
const NEVER: i32 = -1000;

/// Handles the `error` of a copy from or to a program's memory. If no page could be had, the copy may go on when this
/// returns: a call that touches memory behaves like the program's own access, so that data taken from elsewhere are
/// not lost.
///
/// # Errors
/// Every other error as it is; ENOMEM if it is the caller's own process that ends.
pub(crate) async fn resolve(thread: &Thread, error: FaultError) -> Result<(), Errno> {
    if error != FaultError::OutOfMemory {
        return Err(error.into());
    }
    // Rare, and a large future: it must not make each copy's larger.
    Box::pin(end_largest(thread)).await;
    is_to_go_on(thread)
}

/// Makes room for `bytes` in the name of the caller, which holds no lock. Things that the tenant has let go of, and that are still to be taken
/// apart, hold memory: they are waited for before it is refused. Returns false if nothing can be taken back.
pub(crate) async fn has_room(thread: &Thread, bytes: u64) -> bool {
    for _ in 0..ROOMS_MAX {
        if thread.tenant().kernel().flush().make_room(bytes).await {
            return true;
        }
        if !thread.process().files().tenant().wait_for_remains(END_NS_MAX).await {
            break;
        }
    }
    false
}

/// Waits for a page for data that a program writes to a stream. The caller may try again when this returns.
///
/// # Errors
/// ENOMEM if it is the caller's own process that ends.
pub(crate) async fn wait_for_buffer(thread: &Thread) -> Result<(), Errno> {
    if !has_room(thread, ROOM_BYTES).await {
        Box::pin(end_largest(thread)).await;
    }
    is_to_go_on(thread)
}

/// Returns an empty page for data that a program hands over; waits for room if there is none. No process ends for it: a call can say that
/// there is no memory.
///
/// # Errors
/// ENOMEM if nothing can be taken back, or if others take all the room that is made.
pub(crate) async fn fresh_page(thread: &Thread) -> Result<Page, Errno> {
    for _ in 0..ROOMS_MAX {
        if let Ok(page) = Page::zeroed() {
            return Ok(page);
        }
        if !has_room(thread, ROOM_BYTES).await {
            break;
        }
    }
    Err(Errno::ENOMEM)
}

fn is_to_go_on(thread: &Thread) -> Result<(), Errno> {
    if thread.is_dying() { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// Ends the tenant's largest process, after reclaim found no page. Returns when its memory is free, or if it is the
/// caller's own process that ends.
pub(crate) async fn end_largest(thread: &Thread) {
    let own = thread.process();
    if is_resolved_alone(thread).await || has_room_of_remains(thread).await {
        return;
    }
    let processes = thread.tenant().tree.lock().processes();
    // Nobody waits between the choice and the end of a process: two would be chosen.
    let kinds = if processes.iter().any(|process| is_about_to_end(process)) {
        Kinds::default()
    } else {
        Kinds::of(thread.tenant(), &processes).await
    };
    let largest = largest_of(&processes);
    // The order counts: a process that is over now, and so was not chosen, has left its memory to later requests for
    // room.
    let ending = processes.into_iter().find(|process| is_about_to_end(process));
    if ending.is_none() && has_room_again(thread).await {
        return;
    }
    let victim = match (ending, largest) {
        // Its memory is about to be free: no other process has to end.
        (Some(process), _) => process,
        (None, Some((bytes, process))) => {
            say(thread, &process, bytes, &kinds);
            process.end(number::SIGKILL);
            process
        }
        (None, None) => return own.end(number::SIGKILL),
    };
    if victim.id() != own.id() {
        wait_for_end(thread, &victim).await;
    }
}

fn is_about_to_end(process: &Process) -> bool {
    process.is_ending() && !process.is_over()
}

/// At a limit of its own a process ends itself: the tenant has room, so nobody else need. True if that, or room that came meanwhile,
/// is an answer to who asked.
async fn is_resolved_alone(thread: &Thread) -> bool {
    let kernel = thread.tenant().kernel();
    let Some(memory) = kernel.process_memory(thread.process().activity()) else { return false };
    if memory.held_bytes.saturating_add(ROOM_BYTES) <= memory.limit_bytes {
        return has_room(thread, ROOM_BYTES).await;
    }
    if !thread.process().is_ending() {
        say_alone(thread, &memory);
        thread.process().end(number::SIGKILL);
    }
    true
}

/// Returns whether there is room because something was still to be taken apart, and is now.
async fn has_room_of_remains(thread: &Thread) -> bool {
    thread.process().files().tenant().wait_for_remains(END_NS_MAX).await && has_room(thread, ROOM_BYTES).await
}

fn largest_of(processes: &[Arc<Process>]) -> Option<(u64, Arc<Process>)> {
    let living = processes.iter().filter(|process| !process.is_ending() && adjustment_of(process) != NEVER);
    let part = processes.first().map_or(0, |process| adjustment_part(process));
    let sized = living.map(|process| (process.space().resident_bytes(), process.clone()));
    sized.max_by_key(|(bytes, process)| (points(process, *bytes, part), process.id()))
}

fn adjustment_of(process: &Process) -> i32 {
    process.out_of_memory_adjustment.load(Ordering::Relaxed)
}

/// Returns the bytes that an adjustment of 1 counts: a thousandth of the tenant's memory.
fn adjustment_part(process: &Process) -> i64 {
    let part = process.tenant().kernel().memory(process.activity()).total_bytes / ADJUSTMENT_PARTS;
    i64::try_from(part).unwrap_or(i64::MAX)
}

/// Returns the rank of a process among those that may be ended, bytes: its memory, and its adjustment (proc(5), oom_score_adj).
fn points(process: &Process, bytes: u64, part: i64) -> i64 {
    let adjustment = i64::from(adjustment_of(process));
    adjustment.saturating_mul(part).saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX))
}

/// Returns that rank as a number of 0 to 2000 (proc(5), oom_score).
pub(crate) fn score(process: &Process) -> i32 {
    let part = adjustment_part(process);
    let points = points(process, process.space().resident_bytes(), part).checked_div(part).unwrap_or(0);
    i32::try_from(points.clamp(0, 2000)).unwrap_or(0)
}

async fn wait_for_end(thread: &Thread, victim: &Process) {
    let over = victim.ended.until(|| victim.is_over().then_some(()));
    if within(END_NS_MAX, over).await.is_none() {
        // It has not ended yet: the program asks again, and finds it ending still.
        log::warn!(
            "{}: process {}, which ends for want of memory, takes long to do so",
            thread.tenant().name(),
            victim.id()
        );
    }
}

/// Returns whether a good part of the memory that the others of its group leave a tenant is free.
pub(crate) fn shows_an_end(memory: &MemoryUse) -> bool {
    memory.free_bytes >= memory.total_bytes.saturating_sub(memory.others_bytes) / FREED_PART
}

/// Returns whether so much is free meanwhile that a process must have ended since the page was refused: then no other
/// has to.
async fn has_room_again(thread: &Thread) -> bool {
    let kernel = thread.tenant().kernel();
    let memory = kernel.memory(thread.tenant().activity());
    shows_an_end(&memory) && kernel.flush().make_room(ROOM_BYTES).await
}

/// Writes it to the log of the tenant's owner (`gyre logs`) and to that of the machine's owner.
fn say(thread: &Thread, victim: &Process, bytes: u64, kinds: &Kinds) {
    let memory = thread.tenant().kernel().memory(thread.tenant().activity());
    let name = plain(&victim.name());
    let text = format!(
        "out of memory: {} {} and process {} needs more; process {} ({name}), the largest with {} MiB, is killed. Held in MiB: {}",
        thread.tenant().name(),
        holdings(&memory),
        thread.process().id(),
        victim.id(),
        bytes / MIB,
        kinds.text(),
    );
    publish(thread, &text);
}

fn say_alone(thread: &Thread, memory: &ProcessMemory) {
    let process = thread.process();
    let name = plain(&process.name());
    let text = format!(
        "out of memory: process {} ({name}) of {} holds {} MiB of the {} that each of its processes may, needs more, and is killed",
        process.id(),
        thread.tenant().name(),
        memory.held_bytes / MIB,
        memory.limit_bytes / MIB,
    );
    publish(thread, &text);
}
