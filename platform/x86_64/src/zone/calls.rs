//! Calls to parked cores.

use super::mailbox::{BOXED, ENTER, IDLE, Mailbox, NotSo, SLOTS, START, Target};
use super::parking::parking;
use super::pool::pool;
use crate::instructions::rdtsc;
use crate::{apic, time};
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_platform::zone_page::PARKING_VECTOR;

/// A parked core answers a call within so long; a host that takes its processors away may delay it. Less than a second: whoever waits spins.
const CALL_MS: u64 = 800;

/// Cores that did not answer to a reset, by hardware id. They are never handed out again.
static LOST: [AtomicU64; SLOTS / 64] = [const { AtomicU64::new(0) }; SLOTS / 64];

/// A core did not do in time what it was told; this is its hardware id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoAnswer(pub u32);

/// The place of a core, as its mailbox says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CorePlace {
    /// In the loop, free.
    Idle,
    /// In the loop, at the box of an instance.
    AtBox,
    /// Called and not yet gone.
    Ordered,
    /// In an instance.
    Away,
    /// It did not answer to a reset.
    Lost,
}

/// A way into an instance of 64-bit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneEntry {
    /// The page table to load, which maps the loop's page at its physical address; 0 is that of this instance.
    pub root: u64,
    /// The stack there, a multiple of 16.
    pub stack: u64,
    /// The function: `extern "C" fn(argument: u64) -> !`.
    pub entry: u64,
    /// Its argument.
    pub argument: u64,
}

/// The mailbox of a core that this supervisor may command: one of the pool that is not lost.
pub(crate) fn mailbox(id: u32) -> Option<&'static Mailbox> {
    if !pool().cores().contains(&id) || is_lost(id) { None } else { parking()?.mailbox(id) }
}

fn is_lost(id: u32) -> bool {
    LOST.get(id as usize / 64).is_none_or(|word| word.load(Ordering::Acquire) >> (id % 64) & 1 == 1)
}

/// Notes that a core is lost.
pub(super) fn lose(id: u32) -> NoAnswer {
    if let Some(word) = LOST.get(id as usize / 64) {
        word.fetch_or(1 << (id % 64), Ordering::AcqRel);
    }
    NoAnswer(id)
}

/// Returns where a core of the pool is; `None` for others.
pub fn core_place(id: u32) -> Option<CorePlace> {
    if !pool().cores().contains(&id) {
        return None;
    }
    let Some(mailbox) = mailbox(id) else { return Some(CorePlace::Lost) };
    Some(match mailbox.state() {
        IDLE => CorePlace::Idle,
        BOXED => CorePlace::AtBox,
        ENTER | START => CorePlace::Ordered,
        _ => CorePlace::Away,
    })
}

/// Calls a core that is idle in the loop into 64-bit code, and waits until it has gone.
///
/// # Errors
/// [`NoAnswer`] if it is not one of the pool, not idle, or does not go: then it stays where it is, and may be called again.
pub fn call_core(id: u32, way: &ZoneEntry) -> Result<(), NoAnswer> {
    call_core_at(id, way, 0)
}

/// [`call_core`], after which the core comes back to the box with this physical address.
///
/// # Errors
/// As [`call_core`].
pub(crate) fn call_core_at(id: u32, way: &ZoneEntry, place: u64) -> Result<(), NoAnswer> {
    let crossing = parking().map_or(0, |parking| parking.crossing);
    let root = if way.root == 0 { crossing } else { way.root };
    order(id, ENTER, Target { root, stack: way.stack, entry: way.entry, argument: way.argument }, place)
}

/// Orders an idle core to the 32-bit entry of an instance; it comes back to the box with this physical address.
///
/// # Errors
/// As [`call_core`].
pub(crate) fn start_core_at(id: u32, entry: u64, start_info: u64, place: u64) -> Result<(), NoAnswer> {
    order(id, START, Target { root: 0, stack: 0, entry, argument: start_info }, place)
}

fn order(id: u32, order: u64, target: Target, place: u64) -> Result<(), NoAnswer> {
    let mailbox = mailbox(id).ok_or(NoAnswer(id))?;
    mailbox.order(order, target, place).map_err(|NotSo(_)| NoAnswer(id))?;
    apic::interrupt(id, PARKING_VECTOR);
    let is_gone = || !matches!(mailbox.state(), ENTER | START);
    // An order that is not taken back could be followed later, by a core that its caller believes to be idle.
    if waits(CALL_MS, is_gone) || mailbox.withdraw(order).is_err() { Ok(()) } else { Err(NoAnswer(id)) }
}

/// Waits for a condition; returns whether it came to be.
fn waits(ms: u64, is_so: impl Fn() -> bool) -> bool {
    let end = rdtsc().saturating_add(ms * time::cycles_per_ms());
    while rdtsc() < end {
        if is_so() {
            return true;
        }
        core::hint::spin_loop();
    }
    is_so()
}

/// Gives the core that runs this back to the loop. It must have come by [`call_core`], with this instance's own table.
pub fn park_core() -> ! {
    match parking() {
        // SAFETY: the page is mapped in the table with which the core came; the core needs nothing of this kernel any more.
        Some(parking) => unsafe { core::arch::asm!("cli", "jmp {}", in(reg) parking.way_back(), options(noreturn)) },
        None => crate::instructions::halt_forever(),
    }
}
