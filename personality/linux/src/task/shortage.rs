//! A tenant or a process that has used its memory up: who ends, and what its owner reads about it.

use crate::signal::number;
use crate::tenant::{MemoryUse, ProcessMemory};
use crate::{Errno, Process, Thread};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use gyre_address_space::FaultError;
use gyre_message::wait::Either;
use gyre_message::{select, sleep_ns};

/// How long who asked waits for the memory of a process that ends, ns.
const END_NS_MAX: u64 = 2_000_000_000;
/// The part of a tenant's memory whose being free shows that a process has ended.
const FREED_PART: u64 = 4;
/// What is asked for then: a page and tables for it.
const ROOM_BYTES: u64 = 16 << 10;
/// Bytes of a MiB, for people.
const MIB: u64 = 1 << 20;

/// A copy from or to a program's memory met `error`. Where a page could not be had it may go on when this returns: a call that touches
/// memory does what the program's own access does, so that nothing that was taken from elsewhere is lost.
///
/// # Errors
/// Every other error as it is; ENOMEM where it is the caller's own process that ends.
pub(crate) async fn settle(thread: &Thread, error: FaultError) -> Result<(), Errno> {
    if error != FaultError::OutOfMemory {
        return Err(error.into());
    }
    // Rare, and a large future: it must not make each copy's larger.
    Box::pin(end_largest(thread)).await;
    is_to_go_on(thread)
}

/// The kernel found no page for what a program writes to a stream. It may try again when this returns.
///
/// # Errors
/// ENOMEM where it is the caller's own process that ends.
pub(crate) async fn wait_for_buffer(thread: &Thread) -> Result<(), Errno> {
    if !thread.tenant().host().flush().make_room(ROOM_BYTES).await {
        Box::pin(end_largest(thread)).await;
    }
    is_to_go_on(thread)
}

fn is_to_go_on(thread: &Thread) -> Result<(), Errno> {
    if thread.is_dying() { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// A page was needed, and reclaim found none: the tenant's largest process ends. Returns when its memory is free, or when it is the
/// caller's own process that ends.
pub(crate) async fn end_largest(thread: &Thread) {
    let own = thread.process();
    if is_settled_alone(thread).await {
        return;
    }
    let processes = thread.tenant().tree.lock().processes();
    let largest = largest_of(&processes);
    // The order counts: a process that is over now, and so was not chosen, has left its memory to whoever looks for room after this.
    let ending = processes.into_iter().find(|process| process.is_ending() && !process.is_over());
    if ending.is_none() && has_room_again(thread).await {
        return;
    }
    let victim = match (ending, largest) {
        // Its memory is about to be free: nobody else has to end.
        (Some(process), _) => process,
        (None, Some((bytes, process))) => {
            say(thread, &process, bytes);
            process.end(number::SIGKILL);
            process
        }
        (None, None) => return own.end(number::SIGKILL),
    };
    if victim.id() != own.id() {
        wait_for_end(thread, &victim).await;
    }
}

/// At a limit of its own a process ends itself: the tenant has room, so nobody else need. True where that, or room that came meanwhile,
/// is an answer to who asked.
async fn is_settled_alone(thread: &Thread) -> bool {
    let host = thread.tenant().host();
    let Some(memory) = host.process_memory(thread.process().activity()) else { return false };
    if memory.held_bytes.saturating_add(ROOM_BYTES) <= memory.limit_bytes {
        return host.flush().make_room(ROOM_BYTES).await;
    }
    if !thread.process().is_ending() {
        say_alone(thread, &memory);
        thread.process().end(number::SIGKILL);
    }
    true
}

fn largest_of(processes: &[Arc<Process>]) -> Option<(u64, Arc<Process>)> {
    let living = processes.iter().filter(|process| !process.is_ending());
    let sized = living.map(|process| (process.space().resident_bytes(), process.clone()));
    sized.max_by_key(|(bytes, process)| (*bytes, process.id()))
}

async fn wait_for_end(thread: &Thread, victim: &Process) {
    let over = victim.ended.until(|| victim.is_over().then_some(()));
    if let Either::Second(()) = select(over, sleep_ns(END_NS_MAX)).await {
        // It does not end, for whatever reason: the program asks again, and finds it ending still.
        log::warn!("{}: process {} takes long to end", thread.tenant().name(), victim.id());
    }
}

/// True where a good part of what others of its group leave a tenant is free.
pub(crate) fn shows_an_end(memory: &MemoryUse) -> bool {
    memory.free_bytes >= memory.total_bytes.saturating_sub(memory.others_bytes) / FREED_PART
}

/// True where so much is free meanwhile that somebody must have ended since the page was refused: then nobody else has to.
async fn has_room_again(thread: &Thread) -> bool {
    let host = thread.tenant().host();
    let memory = host.memory(thread.tenant().activity());
    shows_an_end(&memory) && host.flush().make_room(ROOM_BYTES).await
}

/// What a tenant holds of what it may, and what others of its group leave it none of.
pub(crate) fn holdings(memory: &MemoryUse) -> String {
    let held = memory.total_bytes.saturating_sub(memory.free_bytes).saturating_sub(memory.others_bytes);
    let own = format!("holds {} of {} MiB", held / MIB, memory.total_bytes / MIB);
    match memory.others_bytes / MIB {
        0 => own,
        others => format!("{own}, of which others of its group take {others},"),
    }
}

/// Says it where the tenant's owner looks (`gyre logs`), and where the machine's owner does.
fn say(thread: &Thread, victim: &Arc<Process>, bytes: u64) {
    let tenant = thread.tenant();
    let memory = tenant.host().memory(tenant.activity());
    let name = String::from_utf8_lossy(&victim.name()).into_owned();
    let text = format!(
        "out of memory: {} {} and process {} needs more; process {} ({name}), the largest with {} MiB, is killed",
        tenant.name(),
        holdings(&memory),
        thread.process().id(),
        victim.id(),
        bytes / MIB,
    );
    publish(thread, &text);
}

fn say_alone(thread: &Thread, memory: &ProcessMemory) {
    let process = thread.process();
    let name = String::from_utf8_lossy(&process.name()).into_owned();
    let text = format!(
        "out of memory: process {} ({name}) of {} holds {} MiB of the {} that each of its processes may, needs more, and is killed",
        process.id(),
        thread.tenant().name(),
        memory.held_bytes / MIB,
        memory.limit_bytes / MIB,
    );
    publish(thread, &text);
}

fn publish(thread: &Thread, text: &str) {
    log::warn!("{text}");
    thread.tenant().files().tenant().log.append(format!("gyre: {text}\n").as_bytes());
}
