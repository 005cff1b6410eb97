//! `ptrace(request, thread, address, data)`.
//!
//! * Three requests make a tracee: TRACEME of the caller, ATTACH and SEIZE of a thread that the caller may look into.
//! * All others need the thread to be a tracee of the caller's process, and all but KILL and INTERRUPT need it to stand in a halt that is open to requests
//!   (ESRCH): one that has been released or that listens is not.
//! * Registers and details of signals are those of the halt; the tracee takes them when it goes on. Memory is the tracee's own.
//!
//! A request copies from and to the caller's memory outside of all locks, so the halt is looked for again before it is changed: it may have ended by
//! the tracee's death. Numbers and structures: ptrace(2), linux/ptrace.h, sys/user.h.

use super::access::{self, Right};
use super::bond::{self, Bond, Go, Inner, Way, tie, untie};
use super::halt::{Halt, Reason, Told};
use super::registers::{DEBUG_REGISTERS, LEGACY_BYTES, USER_BYTES, WORDS};
use super::{Options, memory};
use crate::signal::{SIGNAL_MAX, SignalInfo, SignalSet, number};
use crate::user_memory::IoVector;
use crate::{Arguments, Errno, Outcome, Process, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::ptrace as raw;
use zerocopy::IntoBytes;

/// The notes of a core file by which registers are asked for (elf.h).
const NT_PRSTATUS: u64 = 1;
const NT_FPREGSET: u64 = 2;
const NT_X86_XSTATE: u64 = 0x202;
/// The machine of a call (linux/audit.h).
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// The length of `struct ptrace_syscall_info`, bytes.
const CALL_INFO_BYTES: usize = 88;

/// `ptrace(request, thread, address, data)`.
pub async fn ptrace(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let request = a.unsigned(0);
    match request {
        raw::PTRACE_TRACEME => trace_me(thread),
        raw::PTRACE_ATTACH => attach(thread, a.int(1), Way::Attached, Options::empty()).await,
        raw::PTRACE_SEIZE if a.word(2) != 0 => Err(Errno::EIO),
        raw::PTRACE_SEIZE => {
            attach(thread, a.int(1), Way::Seized, options_of(a.word(3)).map_err(|_| Errno::EIO)?).await
        }
        _ => {
            let tracee = thread.process().tracees.get(a.int(1)).ok_or(Errno::ESRCH)?;
            about(thread, &tracee, a).await
        }
    }
}

async fn about(thread: &Arc<Thread>, tracee: &Arc<Thread>, a: Arguments) -> Outcome {
    let (request, address, data) = (a.unsigned(0), a.word(2), a.word(3));
    match request {
        raw::PTRACE_KILL => tracee.process().send(SignalInfo::new(number::SIGKILL, 0)).map(|()| 0),
        raw::PTRACE_INTERRUPT => interrupt(thread, tracee),
        raw::PTRACE_PEEKTEXT | raw::PTRACE_PEEKDATA => {
            let space = tracee.space();
            may_move_memory(thread, tracee)?;
            let word = memory::peek(&space, address).await?;
            thread.write_struct(data, &word).await.map(|()| 0)
        }
        raw::PTRACE_POKETEXT | raw::PTRACE_POKEDATA => {
            let space = tracee.space();
            may_move_memory(thread, tracee)?;
            memory::poke(&space, address, data).await.map(|()| 0)
        }
        raw::PTRACE_PEEKUSR => {
            let word = with(thread, tracee, |halt| peek_user(halt, address))??;
            thread.write_struct(data, &word).await.map(|()| 0)
        }
        raw::PTRACE_POKEUSR => with(thread, tracee, |halt| poke_user(halt, address, data))?.map(|()| 0),
        raw::PTRACE_GETREGS | raw::PTRACE_GETFPREGS => {
            let bytes = with(thread, tracee, |halt| registers(halt, note_of(request)))??;
            thread.copy_out(data, &bytes).await.map(|()| 0)
        }
        raw::PTRACE_SETREGS | raw::PTRACE_SETFPREGS => {
            let note = note_of(request);
            let bytes = with(thread, tracee, |halt| registers(halt, note))??.len();
            let bytes = thread.read_vec(data, bytes).await?;
            with(thread, tracee, |halt| set_registers(halt, note, &bytes))?.map(|()| 0)
        }
        raw::PTRACE_GETREGSET | raw::PTRACE_SETREGSET => register_set(thread, tracee, a).await,
        raw::PTRACE_CONT => go(thread, tracee, Go::On, data),
        raw::PTRACE_SYSCALL => go(thread, tracee, Go::ToCall, data),
        raw::PTRACE_SINGLESTEP => go(thread, tracee, Go::Step, data),
        raw::PTRACE_DETACH => detach(thread, tracee, data),
        raw::PTRACE_LISTEN => listen(thread, tracee),
        raw::PTRACE_SETOPTIONS => set_options(thread, tracee, options_of(data)?),
        raw::PTRACE_GETEVENTMSG => {
            let message = with(thread, tracee, |halt| halt.message())?;
            thread.write_struct(data, &message).await.map(|()| 0)
        }
        raw::PTRACE_GETSIGINFO => {
            let info = with(thread, tracee, |halt| halt.info)?.ok_or(Errno::EINVAL)?;
            thread.write_struct(data, &info).await.map(|()| 0)
        }
        raw::PTRACE_SETSIGINFO => {
            let info: SignalInfo = thread.read_struct(data).await?;
            with(thread, tracee, |halt| halt.info.as_mut().map(|own| *own = info))?.ok_or(Errno::EINVAL)?;
            Ok(0)
        }
        raw::PTRACE_GETSIGMASK | raw::PTRACE_SETSIGMASK => signal_mask(thread, tracee, a).await,
        raw::PTRACE_GET_SYSCALL_INFO => call_info(thread, tracee, a).await,
        _ => {
            with(thread, tracee, |_| ())?;
            Err(Errno::EIO)
        }
    }
}

/// Returns the set of registers that an old request is about.
fn note_of(request: u32) -> u64 {
    if matches!(request, raw::PTRACE_GETREGS | raw::PTRACE_SETREGS) { NT_PRSTATUS } else { NT_FPREGSET }
}

fn options_of(word: u64) -> Result<Options, Errno> {
    u32::try_from(word).ok().and_then(Options::from_bits).ok_or(Errno::EINVAL)
}

/// `PTRACE_TRACEME`: the parent is the tracer.
fn trace_me(thread: &Arc<Thread>) -> Outcome {
    let parent = {
        let tree = thread.tenant().tree.lock();
        tree.parent_of(thread.process().id()).and_then(|parent| tree.process(parent))
    };
    let (parent, own) = (parent.ok_or(Errno::EPERM)?, thread.credentials());
    if !access::may_be_tracer(&parent, &own) {
        return Err(Errno::EPERM);
    }
    // As on Linux: its own right counts, since it is its own wish.
    let bond = new_bond(&parent, Way::Attached, Options::empty(), Right::of(&own));
    tie(thread, &parent, bond).map(|()| 0)
}

fn new_bond(tracer: &Arc<Process>, way: Way, options: Options, right: Right) -> Bond {
    Bond { tracer: Arc::downgrade(tracer), way, options, go: Go::On, right }
}

/// `PTRACE_ATTACH` and `PTRACE_SEIZE`.
///
/// # Errors
/// ESRCH for no thread; EPERM for one of its own process, one that it may not look into, that has a tracer, or that is a cell.
async fn attach(thread: &Arc<Thread>, id: i32, way: Way, options: Options) -> Outcome {
    let tracer = thread.process();
    let tracee = thread.tenant().tree.lock().thread(id).ok_or(Errno::ESRCH)?;
    if Arc::ptr_eq(tracee.process(), tracer) {
        return Err(Errno::EPERM);
    }
    let bond = new_bond(tracer, way, options, thread.with_credentials(Right::of));
    let tied = || match access::may_trace(thread, &tracee) && !tracee.deputy.is_on() {
        true => tie(&tracee, tracer, bond.clone()),
        false => Err(Errno::EPERM),
    };
    // The right must not change between the look and the tie.
    let tied = thread.interruptible(tracee.process().exec_guard.once_free(tied)).await;
    tied.map_err(|_| Errno::ERESTARTNOINTR)??;
    if way == Way::Attached {
        let _ = tracee.send(SignalInfo::new(number::SIGSTOP, crate::signal::info::SI_USER));
    }
    // One whose process is stopped tells of that at once.
    tracee.process().continued.wake_all();
    tracee.notify();
    Ok(0)
}

/// Refuses a tracer that is no superuser the memory of a tracee that does not show itself: its program may not be read (Linux, `ptrace_access_vm`).
///
/// # Errors
/// EIO for that; ESRCH as [`with`].
fn may_move_memory(thread: &Thread, tracee: &Thread) -> Result<(), Errno> {
    let right = with_bond(thread, tracee, |bond, _| bond.right)?;
    (right == Right::All || access::shows_itself(tracee.process())).then_some(()).ok_or(Errno::EIO)
}

/// Looks at the halt of a tracee, or changes it.
///
/// # Errors
/// ESRCH if it does not stand in one that is open to requests.
fn with<T>(thread: &Thread, tracee: &Thread, look: impl FnOnce(&mut Halt) -> T) -> Result<T, Errno> {
    with_bond(thread, tracee, |_, halt| look(halt))
}

/// As [`with`], with the bond.
fn with_bond<T>(thread: &Thread, tracee: &Thread, look: impl FnOnce(&mut Bond, &mut Halt) -> T) -> Result<T, Errno> {
    let mut inner = tracee.tracee.inner.lock();
    let Inner { bond, halt, .. } = &mut *inner;
    let is_own = |bond: &&mut Bond| core::ptr::eq(bond.tracer.as_ptr(), Arc::as_ptr(thread.process()));
    let bond = bond.as_mut().filter(is_own).ok_or(Errno::ESRCH)?;
    let halt = halt.as_mut().filter(|halt| halt.is_open()).ok_or(Errno::ESRCH)?;
    Ok(look(bond, halt))
}

/// Has a tracee go on with a signal, 0 for none.
fn go(thread: &Thread, tracee: &Arc<Thread>, go: Go, signal: u64) -> Outcome {
    let signal = signal_of(signal)?;
    with_bond(thread, tracee, |bond, halt| {
        bond.go = go;
        halt.release(signal);
    })?;
    tracee.tracee.released.wake_all();
    Ok(0)
}

fn signal_of(word: u64) -> Result<i32, Errno> {
    i32::try_from(word).ok().filter(|signal| (0..=SIGNAL_MAX).contains(signal)).ok_or(Errno::EIO)
}

fn detach(thread: &Thread, tracee: &Arc<Thread>, signal: u64) -> Outcome {
    let signal = signal_of(signal)?;
    with(thread, tracee, |_| ())?;
    untie(tracee, thread.process(), signal);
    Ok(0)
}

/// `PTRACE_INTERRUPT`.
fn interrupt(thread: &Thread, tracee: &Arc<Thread>) -> Outcome {
    let bond = tracee.tracee.bond().filter(|_| tracee.tracee.is_traced_by(thread.process().id()));
    match bond.map(|bond| bond.way) {
        None => return Err(Errno::ESRCH),
        Some(Way::Attached) => return Err(Errno::EIO),
        Some(Way::Seized) => {}
    }
    if !bond::wake_listener(tracee) {
        tracee.tracee.call();
        tracee.notify();
    }
    Ok(0)
}

/// `PTRACE_LISTEN`: a seized one whose process is stopped stays so.
fn listen(thread: &Thread, tracee: &Arc<Thread>) -> Outcome {
    let is_seized = tracee.tracee.bond().is_some_and(|bond| bond.way == Way::Seized);
    let listens = with(thread, tracee, |halt| {
        let listens = is_seized && matches!(halt.reason, Reason::Stop(_));
        if listens {
            halt.told = Told::Listens;
        }
        listens
    })?;
    if !listens {
        return Err(Errno::EIO);
    }
    // It may go on already.
    if tracee.process().signals.lock().stop_signal().is_none() {
        bond::wake_listener(tracee);
    }
    Ok(0)
}

fn set_options(thread: &Thread, tracee: &Thread, options: Options) -> Outcome {
    with_bond(thread, tracee, |bond, _| bond.options = options).map(|()| 0)
}

fn peek_user(halt: &Halt, offset: u64) -> Result<u64, Errno> {
    if !offset.is_multiple_of(8) || offset >= USER_BYTES {
        return Err(Errno::EIO);
    }
    let index = usize::try_from(offset / 8).map_err(|_| Errno::EIO)?;
    Ok(match index.checked_sub(DEBUG_REGISTERS) {
        Some(register) => halt.image.debug.get(register),
        // Behind the registers there is nothing to see.
        None => halt.image.words().get(index).copied().unwrap_or(0),
    })
}

fn poke_user(halt: &mut Halt, offset: u64, word: u64) -> Result<(), Errno> {
    if !offset.is_multiple_of(8) || offset >= USER_BYTES {
        return Err(Errno::EIO);
    }
    match usize::try_from(offset / 8).map_err(|_| Errno::EIO)? {
        index @ DEBUG_REGISTERS.. => halt.image.debug.set(index.saturating_sub(DEBUG_REGISTERS), word),
        index if index < WORDS => halt.image.set_word(index, word),
        _ => Err(Errno::EIO),
    }
}

/// Returns a set of registers.
///
/// # Errors
/// EINVAL for one that there is not.
fn registers(halt: &mut Halt, note: u64) -> Result<Vec<u8>, Errno> {
    let extended = halt.image.extended();
    match note {
        NT_PRSTATUS => Ok(halt.image.words().as_bytes().to_vec()),
        NT_FPREGSET => extended.get(..LEGACY_BYTES).map(<[u8]>::to_vec).ok_or(Errno::EINVAL),
        NT_X86_XSTATE if extended.len() > LEGACY_BYTES => Ok(extended.to_vec()),
        _ => Err(Errno::EINVAL),
    }
}

fn set_registers(halt: &mut Halt, note: u64, bytes: &[u8]) -> Result<(), Errno> {
    match note {
        NT_PRSTATUS => halt.image.set_words(bytes)?,
        NT_FPREGSET => halt.image.set_legacy(bytes),
        _ => halt.image.set_extended(bytes),
    }
    Ok(())
}

/// `PTRACE_GETREGSET` and `PTRACE_SETREGSET`.
async fn register_set(thread: &Arc<Thread>, tracee: &Arc<Thread>, a: Arguments) -> Outcome {
    let (note, at) = (a.word(2), a.word(3));
    let place: IoVector = thread.read_struct(at).await?;
    if !place.bytes.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let mut bytes = with(thread, tracee, |halt| registers(halt, note))??;
    let whole = bytes.len();
    bytes.truncate(usize::try_from(place.bytes).unwrap_or(usize::MAX));
    if a.unsigned(0) == raw::PTRACE_GETREGSET {
        thread.copy_out(place.address, &bytes).await?;
    } else {
        thread.copy_in(place.address, &mut bytes).await?;
        // As on Linux: the extended state is given as a whole.
        if note != NT_PRSTATUS && bytes.len() < whole {
            return Err(Errno::EFAULT);
        }
        with(thread, tracee, |halt| set_registers(halt, note, &bytes))??;
    }
    thread.write_struct(at, &IoVector { bytes: bytes.len() as u64, ..place }).await.map(|()| 0)
}

/// `PTRACE_GETSIGMASK` and `PTRACE_SETSIGMASK`; the address is the length of a mask.
async fn signal_mask(thread: &Arc<Thread>, tracee: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.size(2) != size_of::<SignalSet>() {
        return Err(Errno::EINVAL);
    }
    with(thread, tracee, |_| ())?;
    if a.unsigned(0) == raw::PTRACE_GETSIGMASK {
        let blocked = tracee.signals.lock().blocked;
        return thread.write_struct(a.word(3), &blocked).await.map(|()| 0);
    }
    let blocked: SignalSet = thread.read_struct(a.word(3)).await?;
    tracee.set_blocked(blocked);
    Ok(0)
}

/// `PTRACE_GET_SYSCALL_INFO`: which call a tracee halts at; answers how many bytes there are to know.
async fn call_info(thread: &Arc<Thread>, tracee: &Arc<Thread>, a: Arguments) -> Outcome {
    let (bytes, known) = with(thread, tracee, |halt| call_info_of(halt))?;
    let room = a.size(2).min(known);
    thread.copy_out(a.word(3), bytes.get(..room).unwrap_or_default()).await?;
    Ok(known as u64)
}

/// Returns `struct ptrace_syscall_info` and how much of it says something.
fn call_info_of(halt: &Halt) -> ([u8; CALL_INFO_BYTES], usize) {
    let [instruction, stack] = halt.image.places();
    let mut words = [0u64; CALL_INFO_BYTES / 8];
    let [head, at, stack_at, rest @ ..] = &mut words;
    (*at, *stack_at) = (instruction, stack);
    let (kind, known) = match halt.reason {
        Reason::Entry { arguments } => {
            let call = [halt.image.call];
            rest.iter_mut().zip(call.iter().chain(&arguments)).for_each(|(place, word)| *place = *word);
            (raw::PTRACE_SYSCALL_INFO_ENTRY, 80)
        }
        Reason::Exit => {
            let result = halt.image.result();
            let is_error = (-4095..0).contains(&result);
            rest.iter_mut().zip([result as u64, u64::from(is_error)]).for_each(|(place, word)| *place = word);
            (raw::PTRACE_SYSCALL_INFO_EXIT, 33)
        }
        _ => (raw::PTRACE_SYSCALL_INFO_NONE, 24),
    };
    *head = u64::from(kind) | u64::from(AUDIT_ARCH_X86_64) << 32;
    let mut bytes = [0; CALL_INFO_BYTES];
    bytes.copy_from_slice(words.as_bytes());
    (bytes, known)
}
