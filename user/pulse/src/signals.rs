//! Ticks and contexts by a timer and a signal, as on Linux. The handler does what Gyre's kernel does: it saves the thread that ran in its context,
//! masks ticks, and has the scheduler's entry be the next thing to run.
//!
//! A context is restored by the same signal: the thread sends it to itself, and the handler's frame becomes the context. So "go on there" and
//! "let ticks in" are one step, as in the kernel.
//!
//! Limits: a virtual core's own signal mask is not part of a context, and a tick costs two entries of the kernel.
//! Only the virtual core's own thread calls this file.

use std::{
    cell::Cell,
    io,
    ptr::{copy_nonoverlapping, read_unaligned, write_unaligned},
    sync::atomic::Ordering,
};

use gyre_contract::pulse::{
    CONTEXT_MAGIC, Context, EXTENDED_BYTES_MAX, EXTENDED_OFFSET, OVERRUN, PENDING, REASON_TICK,
};

use crate::{
    core::{Core, called},
    runtime::now_ns,
};

/// The signal of ticks: none that a C library uses.
const SIGNAL: i32 = 40;
/// The offset at which the notes on the extended state lie in a frame (arch/x86/include/uapi/asm/sigcontext.h).
const NOTES_OFFSET: usize = 464;
const LEGACY_BYTES: usize = 512;
/// In the notes: bytes of the state.
const BYTES_OFFSET: usize = NOTES_OFFSET + 16;

/// `struct ucontext` up to the pointer to the extended state.
#[repr(C)]
struct Frame {
    head: [u64; 5],
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags.
    registers: [u64; 18],
    rest: [u64; 5],
    extended: *mut u8,
}

#[derive(Clone, Copy)]
struct State {
    core: *const Core,
    /// The context to go on in, once; 0 for none.
    wanted: u64,
    limit_ns: u64,
    /// Since when a tick waits behind a mask, ns; 0 for none.
    since_ns: u64,
    timer: libc::timer_t,
}

const NONE: State = State { core: std::ptr::null(), wanted: 0, limit_ns: 0, since_ns: 0, timer: std::ptr::null_mut() };

std::thread_local! {
    static STATE: Cell<State> = const { Cell::new(NONE) };
}

fn change(change: impl FnOnce(&mut State)) {
    let mut state = STATE.get();
    change(&mut state);
    STATE.set(state);
}

fn result(value: libc::c_int) -> io::Result<()> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn begin(core: &Core, period_ns: u64, limit_ns: u64) -> io::Result<()> {
    STATE.set(State { core, limit_ns, ..NONE });
    // SAFETY: zeros are a valid action; the handler touches only what its comment says.
    result(unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut())
    })?;
    if period_ns > 0 { start_timer(period_ns) } else { Ok(()) }
}

fn start_timer(period_ns: u64) -> io::Result<()> {
    let period =
        libc::timespec { tv_sec: (period_ns / 1_000_000_000) as i64, tv_nsec: (period_ns % 1_000_000_000) as i64 };
    let times = libc::itimerspec { it_interval: period, it_value: period };
    // SAFETY: zeros are a valid event; all words are ours and live through the calls.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_THREAD_ID, SIGNAL);
        event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as i32;
        let mut timer = std::ptr::null_mut();
        result(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer))?;
        change(|state| state.timer = timer);
        result(libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()))
    }
}

pub(crate) fn end() {
    let state = STATE.replace(NONE);
    // SAFETY: the timer that `begin` made, if it did: its number may be 0, and there is none before `begin`.
    unsafe { libc::timer_delete(state.timer) };
}

pub(crate) fn restore(context: u64) -> ! {
    change(|state| state.wanted = context);
    // SAFETY: the handler goes on in the context.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), SIGNAL) };
    eprintln!("gyre-pulse: a saved context cannot be restored");
    std::process::abort();
}

/// Runs with the signal blocked, on the stack of the thread that it stops. Touches the core's area, the thread's context and its own frame.
extern "C" fn on_signal(_signal: i32, _info: *const libc::siginfo_t, frame: *mut Frame) {
    let state = STATE.get();
    // SAFETY: the core lives until `end`; the frame is the kernel's, for this handler alone.
    let (Some(core), Some(frame)) = (unsafe { state.core.as_ref() }, unsafe { frame.as_mut() }) else { return };
    if state.wanted != 0 {
        change(|state| (state.wanted, state.since_ns) = (0, 0));
        load(frame, state.wanted);
        core.area.running.store(state.wanted, Ordering::Relaxed);
        core.area.masked.store(0, Ordering::Relaxed);
        if core.area.flags.fetch_and(!PENDING, Ordering::Relaxed) & PENDING == 0 {
            return;
        }
    }
    match core.area.masked.load(Ordering::Relaxed) != 0 || core.area.running.load(Ordering::Relaxed) == 0 {
        true => wait_behind_mask(core),
        false => call_scheduler(core, frame),
    }
}

fn call_scheduler(core: &Core, frame: &mut Frame) {
    save(frame, core.area.running.load(Ordering::Relaxed));
    core.area.masked.store(1, Ordering::Relaxed);
    core.area.flags.fetch_and(!PENDING, Ordering::Relaxed);
    core.area.ticks.fetch_add(1, Ordering::Relaxed);
    change(|state| state.since_ns = 0);
    let [.., rsp, rip, _flags] = &mut frame.registers;
    (*rip, *rsp) = (called as *const () as u64, (core.stack_end() & !15) - 8);
    frame.registers[8] = (&raw const *core) as u64;
    frame.registers[9] = REASON_TICK;
}

fn wait_behind_mask(core: &Core) {
    let waited = core.area.flags.fetch_or(PENDING, Ordering::Relaxed) & PENDING != 0;
    core.area.missed.fetch_add(u64::from(waited), Ordering::Relaxed);
    let (state, now) = (STATE.get(), now_ns());
    let since_ns = if waited && state.since_ns != 0 { state.since_ns } else { now };
    change(|state| state.since_ns = since_ns);
    if now - since_ns > state.limit_ns {
        core.area.flags.fetch_or(OVERRUN, Ordering::Relaxed);
        end();
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(libc::SIGXCPU) };
    }
}

/// Bytes of the extended state in a frame; 0 if there is none that we know.
fn extended_bytes(frame: &Frame) -> usize {
    if frame.extended.is_null() {
        return 0;
    }
    // SAFETY: the kernel writes at least the legacy part, with its notes.
    let bytes: u32 = unsafe { read_unaligned(frame.extended.add(BYTES_OFFSET).cast()) };
    (bytes as usize).min(EXTENDED_BYTES_MAX)
}

fn save(frame: &Frame, context: u64) {
    let r = &frame.registers;
    let bytes = extended_bytes(frame);
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags] = *r;
    let head = Context {
        magic: CONTEXT_MAGIC,
        extended_bytes: bytes as u64,
        low: [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp],
        high: [r8, r9, r10, r11, r12, r13, r14, r15],
        rip,
        rflags,
        reserved: [0; 4],
    };
    let to = context as *mut u8;
    // SAFETY: the place of the thread that runs, of a whole context's size; only this handler writes it while its thread runs.
    unsafe {
        write_unaligned(to.cast(), head);
        copy_nonoverlapping(frame.extended, to.add(EXTENDED_OFFSET), bytes);
    }
}

fn load(frame: &mut Frame, context: u64) {
    let from = context as *const u8;
    // SAFETY: a context that `save` has written, whose thread does not run.
    let head: Context = unsafe { read_unaligned(from.cast()) };
    let [rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp] = head.low;
    let [r8, r9, r10, r11, r12, r13, r14, r15] = head.high;
    frame.registers =
        [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, head.rip, head.rflags];
    let bytes = extended_bytes(frame).min(head.extended_bytes as usize);
    // The notes stay those of this frame.
    let behind = bytes.saturating_sub(LEGACY_BYTES);
    // SAFETY: both hold so many bytes.
    unsafe {
        let (from, to) = (from.add(EXTENDED_OFFSET), frame.extended);
        copy_nonoverlapping(from, to, bytes.min(NOTES_OFFSET));
        copy_nonoverlapping(from.add(LEGACY_BYTES), to.add(LEGACY_BYTES), behind);
    }
}
