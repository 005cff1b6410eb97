//! Several cores at once: wake-ups, clocks, allocators, state that moves.
//!
//! The first core runs the checks; all others wait in [`serve`] for a [`Job`]. [`start`] gives one, [`finish`] waits
//! for its answer with a bound, so that a core that hangs fails the check and not the run.
//!
//! * Waiting is counted in looks: while the host pauses the machine its clock goes on, and nothing else does.
//! * With one core, checks that need two pass without work.
//! * A check about memory compares the statistics before and after; frames that slabs keep are not lost.
//! * Processes move between cores by their address in `MOVING`: the first core owns them and waits meanwhile.

use crate::check;
use crate::program;
use crate::program::Process;
use crate::suite::{Check, Verdict};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use gyre_platform::{CORES_MAX, Events, Trap};
use gyre_x86_64::{
    Frame, clear_timer, come_online, core_count, core_index, cycles_per_ms, fill_random, go_offline, idle,
    memory_statistics, now, online_cores, set_timer, take_events, wake_core,
};

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("every_core_runs_under_its_own_index", every_core_runs_under_its_own_index),
    ("no_wake_up_is_lost", no_wake_up_is_lost),
    ("every_core_has_its_own_timer", every_core_has_its_own_timer),
    ("time_never_goes_back_between_cores", time_never_goes_back_between_cores),
    ("objects_freed_by_other_cores_return", objects_freed_by_other_cores_return),
    ("all_cores_allocate_at_once", all_cores_allocate_at_once),
    ("cores_draw_different_random_bytes", cores_draw_different_random_bytes),
    ("a_thread_moves_with_its_vector_registers", a_thread_moves_with_its_vector_registers),
    ("a_table_dropped_while_another_core_has_it_is_freed", a_table_dropped_while_loaded_elsewhere),
    ("a_core_leaves_and_comes_back", a_core_leaves_and_comes_back),
];

/// Looks for another core's answer, 50 ms apart. Counted, as a pause of the host is one look.
const LOOKS_MAX: u32 = 1200;

/// How long a core spins for another one, which the host may have taken away alone.
const PATIENCE_MS: u64 = 60_000;

/// Work that a core does for another one, with its index.
pub type Job = fn(usize) -> u64;

static JOBS: [AtomicUsize; CORES_MAX] = [const { AtomicUsize::new(0) }; CORES_MAX];
static RESULTS: [AtomicU64; CORES_MAX] = [const { AtomicU64::new(0) }; CORES_MAX];

/// Runs on every core but the first.
pub fn serve(core: usize) -> ! {
    loop {
        take_events();
        let job = JOBS[core].load(Ordering::Acquire);
        if job != 0 {
            // SAFETY: only `start` stores here, and stores jobs.
            let job = unsafe { core::mem::transmute::<usize, Job>(job) };
            RESULTS[core].store(job(core), Ordering::Release);
            JOBS[core].store(0, Ordering::Release);
            wake_core(0);
        } else {
            idle();
        }
    }
}

/// Starts a job on another core.
pub fn start(core: usize, job: Job) {
    JOBS[core].store(job as usize, Ordering::Release);
    wake_core(core);
}

/// Waits for the job of another core and returns what it says.
pub fn finish(core: usize) -> Result<u64, alloc::string::String> {
    let mut looks = 0;
    while JOBS[core].load(Ordering::Acquire) != 0 {
        set_timer(now() + 50 * cycles_per_ms());
        idle();
        looks += u32::from(take_events().has(Events::TIMER));
        check!(looks < LOOKS_MAX, "core {core} does not answer");
    }
    clear_timer();
    Ok(RESULTS[core].load(Ordering::Acquire))
}

/// Spins until something is so; false after [`PATIENCE_MS`] in which this core ran. The time between two looks counts 1 ms at most: more
/// is a pause of the host.
pub fn comes(is_so: impl Fn() -> bool) -> bool {
    let (mut counted, mut looked) = (0, now());
    while !is_so() {
        let at = now();
        counted += (at - looked).min(cycles_per_ms());
        looked = at;
        if counted > PATIENCE_MS * cycles_per_ms() {
            return false;
        }
        core::hint::spin_loop();
    }
    true
}

fn others() -> core::ops::Range<usize> {
    1..core_count()
}

/// Runs a job on all other cores at once and collects what they say.
fn everywhere(job: Job) -> Result<Vec<u64>, alloc::string::String> {
    others().for_each(|core| start(core, job));
    others().map(finish).collect()
}

fn every_core_runs_under_its_own_index() -> Verdict {
    check!(core_index() == 0, "the boot core is {}", core_index());
    let found = everywhere(|_| core_index() as u64)?;
    check!(found.iter().copied().eq(1..core_count() as u64), "{found:?}");
    let listed = gyre_x86_64::zone().core_count;
    check!(core_count() == listed, "{} of {listed} cores run", core_count());
    Ok(())
}

static TURN: AtomicU64 = AtomicU64::new(0);
const ROUNDS: u64 = 500;

/// Takes its turn whenever TURN is odd; both sides halt in between, so a lost wake-up hangs (and the timer tells).
fn ping(_core: usize) -> u64 {
    loop {
        let turn = TURN.load(Ordering::Acquire);
        if turn >= 2 * ROUNDS {
            return turn;
        }
        if turn % 2 == 1 {
            TURN.store(turn + 1, Ordering::Release);
            wake_core(0);
        } else {
            idle();
        }
        take_events();
    }
}

/// Waits for a wake-up, and goes on by that alone: false if so many timers, armed anew each, bring none.
fn is_woken() -> bool {
    (0..LOOKS_MAX).any(|_| {
        set_timer(now() + 50 * cycles_per_ms());
        idle();
        take_events().has(Events::WAKE)
    })
}

fn no_wake_up_is_lost() -> Verdict {
    if core_count() == 1 {
        wake_core(0);
        idle();
        check!(take_events().has(Events::WAKE), "a core does not wake itself");
        return Ok(());
    }
    TURN.store(1, Ordering::Release);
    start(1, ping);
    while TURN.load(Ordering::Acquire) < 2 * ROUNDS {
        let turn = TURN.load(Ordering::Acquire);
        if turn.is_multiple_of(2) {
            TURN.store(turn + 1, Ordering::Release);
            wake_core(1);
        } else {
            check!(is_woken(), "stuck at turn {}", TURN.load(Ordering::Acquire));
        }
    }
    clear_timer();
    TURN.store(2 * ROUNDS, Ordering::Release);
    wake_core(1);
    finish(1).map(|_| ())
}

fn every_core_has_its_own_timer() -> Verdict {
    let found = everywhere(|core| {
        let deadline = now() + (core as u64 + 2) * cycles_per_ms();
        set_timer(deadline);
        while !take_events().has(Events::TIMER) {
            idle();
        }
        now().saturating_sub(deadline)
    })?;
    check!(found.iter().all(|late| *late > 0), "a timer was early: {found:?}");
    Ok(())
}

static LAST_TIME: AtomicU64 = AtomicU64::new(0);
static BACKWARD: AtomicU64 = AtomicU64::new(0);

fn time_never_goes_back_between_cores() -> Verdict {
    fn look(_core: usize) -> u64 {
        for _ in 0..20_000 {
            let before = LAST_TIME.load(Ordering::SeqCst);
            let time = now();
            if time < before {
                BACKWARD.fetch_max(before - time, Ordering::SeqCst);
            }
            LAST_TIME.fetch_max(time, Ordering::SeqCst);
        }
        0
    }
    others().for_each(|core| start(core, look));
    look(0);
    others().try_for_each(|core| finish(core).map(|_| ()))?;
    let backward = BACKWARD.load(Ordering::SeqCst);
    check!(backward == 0, "{backward} cycles back");
    Ok(())
}

static SHARED: [AtomicU64; 3000] = [const { AtomicU64::new(0) }; 3000];

fn objects_freed_by_other_cores_return() -> Verdict {
    if core_count() == 1 {
        return Ok(());
    }
    let before = memory_statistics().heap_used_bytes;
    for round in 0..3u64 {
        for (number, place) in SHARED.iter().enumerate() {
            let object = Box::new([round + number as u64; 9]);
            place.store(Box::into_raw(object) as u64, Ordering::Release);
        }
        start(1, |_| {
            let mut sum = 0u64;
            for place in &SHARED {
                let address = place.swap(0, Ordering::Acquire);
                // SAFETY: the first core put a box there and let go of it.
                let object = unsafe { Box::from_raw(address as *mut [u64; 9]) };
                sum = sum.wrapping_add(object[8]);
            }
            sum
        });
        let sum = finish(1)?;
        check!(sum == (0..3000).sum::<u64>() + 3000 * round, "contents changed: {sum}");
    }
    let slabs = memory_statistics().heap_bytes;
    check!(
        memory_statistics().heap_used_bytes == before,
        "{} bytes lost",
        memory_statistics().heap_used_bytes - before
    );
    check!(slabs < 2 << 20, "objects freed by another core are not used again: {slabs} bytes of slabs");
    Ok(())
}

fn all_cores_allocate_at_once() -> Verdict {
    fn churn(core: usize) -> u64 {
        let mut held: Vec<(Frame, Vec<u8>)> = Vec::new();
        let mut wrong = 0;
        for round in 0..3000usize {
            let order = if round.is_multiple_of(50) { 4 } else { 0 };
            let Ok(mut frame) = Frame::allocate(order) else {
                continue;
            };
            wrong += frame.as_slice()[..64].iter().filter(|byte| **byte != 0).count() as u64;
            frame.as_mut_slice()[..64].fill(core as u8 + 1);
            held.push((frame, alloc::vec![core as u8; 24 + round % 500]));
            if held.len() > 40 {
                let (frame, bytes) = held.swap_remove((round * 13) % 40);
                wrong += frame.as_slice()[..64].iter().filter(|byte| **byte != core as u8 + 1).count() as u64;
                wrong += bytes.iter().filter(|byte| **byte != core as u8).count() as u64;
            }
        }
        wrong
    }
    let before = memory_statistics();
    others().for_each(|core| start(core, churn));
    let mut wrong = churn(0);
    for core in others() {
        wrong += finish(core)?;
    }
    check!(wrong == 0, "{wrong} bytes were another's");
    let after = memory_statistics();
    check!(
        before.heap_used_bytes == after.heap_used_bytes,
        "heap: {} and {}",
        before.heap_used_bytes,
        after.heap_used_bytes
    );
    let slabs = after.heap_bytes as i64 - before.heap_bytes as i64;
    let lost = before.free_bytes as i64 - after.free_bytes as i64 - slabs;
    check!(lost == 0, "{lost} bytes of frames lost");
    Ok(())
}

fn cores_draw_different_random_bytes() -> Verdict {
    let mut found = everywhere(|_| {
        let mut bytes = [0; 8];
        fill_random(&mut bytes);
        u64::from_le_bytes(bytes)
    })?;
    let count = found.len();
    found.sort_unstable();
    found.dedup();
    check!(found.len() == count && !found.contains(&0), "{found:x?}");
    Ok(())
}

program!(
    count_in_vectors,
    "mov eax, 1",
    "cvtsi2sd xmm1, eax",
    "2: addsd xmm15, xmm1",
    "cvttsd2si rdi, xmm15",
    "syscall",
    "jmp 2b"
);

static MOVING: AtomicU64 = AtomicU64::new(0);

fn step(_core: usize) -> u64 {
    // SAFETY: the first core owns the process, put its address here and waits.
    let process = unsafe { &mut *(MOVING.load(Ordering::Acquire) as *mut Process) };
    let trap = process.run();
    process.context.park();
    if trap == Trap::SystemCall { process.context.registers.rdi } else { u64::MAX }
}

fn a_thread_moves_with_its_vector_registers() -> Verdict {
    let mut process = Process::new(count_in_vectors());
    let mut other = Process::new(count_in_vectors());
    MOVING.store((&raw mut process) as u64, Ordering::Release);
    for round in 1..=40u64 {
        let core = round as usize % core_count();
        let count = if core == 0 {
            step(0)
        } else {
            start(core, step);
            finish(core)?
        };
        check!(count == round, "round {round} on core {core}: {count}");
        if round.is_multiple_of(5) {
            check!(other.run() == Trap::SystemCall, "the other one trapped");
            check!(other.context.registers.rdi == round / 5, "the other one has {}", other.context.registers.rdi);
        }
    }
    Ok(())
}

fn a_table_dropped_while_loaded_elsewhere() -> Verdict {
    if core_count() == 1 {
        return Ok(());
    }
    // Tables that earlier checks left loaded on other cores go first.
    everywhere(|_| 0)?;
    take_events();
    let before = memory_statistics();
    {
        let mut process = Process::new(count_in_vectors());
        MOVING.store((&raw mut process) as u64, Ordering::Release);
        start(1, step);
        check!(finish(1)? == 1, "it did not run");
        check!(process.table.active_cores() == 2, "loaded on {:b}", process.table.active_cores());
    }
    start(1, |_| 0);
    finish(1)?;
    take_events();
    let after = memory_statistics();
    let slabs = after.heap_bytes as i64 - before.heap_bytes as i64;
    let lost = before.free_bytes as i64 - after.free_bytes as i64 - slabs;
    check!(lost == 0, "{lost} bytes lost");
    Ok(())
}

const HERE: u64 = 0;
const AWAY: u64 = 1;
const CALLED: u64 = 2;
static PLACE: AtomicU64 = AtomicU64::new(HERE);

/// Runs the process, leaves the instance with its table and registers loaded, and comes back when it is called. It polls meanwhile, as a
/// core that is lent has no wake-up from here.
fn leave_and_come_back(_core: usize) -> u64 {
    // SAFETY: the first core owns the process, put its address here and waits until this core is away.
    let process = unsafe { &mut *(MOVING.load(Ordering::Acquire) as *mut Process) };
    let trap = process.run();
    go_offline();
    PLACE.store(AWAY, Ordering::Release);
    while PLACE.load(Ordering::Acquire) != CALLED {
        core::hint::spin_loop();
    }
    come_online();
    u64::from(trap == Trap::SystemCall)
}

fn a_core_leaves_and_comes_back() -> Verdict {
    if core_count() == 1 {
        return Ok(());
    }
    everywhere(|_| 0)?;
    take_events();
    for round in 0..50 {
        let before = memory_statistics();
        {
            let mut process = Process::new(count_in_vectors());
            MOVING.store((&raw mut process) as u64, Ordering::Release);
            PLACE.store(HERE, Ordering::Release);
            start(1, leave_and_come_back);
            check!(comes(|| PLACE.load(Ordering::Acquire) == AWAY), "core 1 does not leave");
            check!(online_cores() >> 1 & 1 == 0, "online: {:b}", online_cores());
            check!(process.table.active_cores() == 0, "loaded on {:b}", process.table.active_cores());
            // Nothing happens to a core that is not of this instance.
            wake_core(1);
            check!(process.run() == Trap::SystemCall, "the program trapped");
            check!(process.context.registers.rdi == 2, "round {round}: its registers stayed on the core that left");
        }
        PLACE.store(CALLED, Ordering::Release);
        check!(finish(1)? == 1, "the program did not run on core 1");
        take_events();
        check!(online_cores().count_ones() as usize == core_count(), "online: {:b}", online_cores());
        let after = memory_statistics();
        let slabs = after.heap_bytes as i64 - before.heap_bytes as i64;
        let lost = before.free_bytes as i64 - after.free_bytes as i64 - slabs;
        check!(lost == 0, "{lost} bytes lost in round {round}");
    }
    Ok(())
}
