//! The loop of a thread: run, trap, serve, deliver signals.

use crate::signal::frame::FaultNote;
use crate::signal::{SignalInfo, deliver, frame, number};
use crate::table::{self, report_missing};
use crate::task::exit;
use crate::tenant::{NATIVE_END, NATIVE_FIRST};
use crate::{Arguments, Errno, Outcome, Thread, exec, file, task};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::sync::atomic::Ordering;
use core::task::Poll;
use gyre_address_space::{AddressSpace, FaultError};
use gyre_machine::{Access, Trap, UserContext};

/// Runs programs: the engine's compute resource, or a script in host tests.
pub trait Compute: Send + Sync + 'static {
    /// Runs the program until it traps for another reason than an interrupt. Waits while others have the core. Dropping the
    /// future while it waits leaves the context whole, so that a signal can be delivered.
    fn run<'a>(
        &'a self,
        context: &'a mut UserContext,
        space: &'a Arc<AddressSpace>,
    ) -> impl Future<Output = Trap> + Send + 'a;

    /// Binds the thread that calls to some cores, a bit each, before it runs on.
    fn bind(&self, cores: u64);
}

/// The part of a thread that only its own task sees.
pub struct Running {
    /// Registers.
    pub context: UserContext,
    /// The call that a signal interrupted, and how it wants to be restarted.
    pub(crate) interrupted: Option<(u64, Errno)>,
    /// The last fault, for the handler's frame.
    pub(crate) fault: FaultNote,
    /// The cores that it is bound to.
    bound: u64,
}

impl Running {
    /// A thread about to start with these registers.
    pub fn new(context: UserContext) -> Running {
        Running { context, interrupted: None, fault: FaultNote::default(), bound: u64::MAX }
    }
}

/// Whether the thread goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    Continue,
    End,
}

/// Removes a thread whose task was dropped (the activity was killed) from its process and tenant.
struct Removal(Arc<Thread>);

impl Drop for Removal {
    fn drop(&mut self) {
        exit::remove(&self.0);
    }
}

/// The life of a thread. The future is `Send`; it may move between cores while it waits.
pub async fn run_thread<C: Compute>(compute: &'static C, thread: Arc<Thread>, context: UserContext) {
    let removal = Removal(thread.clone());
    live_until_death(compute, &thread, context).await;
    exit::leave(&thread).await;
    drop(removal);
}

/// One pinning for the whole life: a step's future is large and must not be moved for each call.
async fn live_until_death<C: Compute>(compute: &C, thread: &Arc<Thread>, context: UserContext) {
    let mut life = pin!(live(compute, thread, context));
    let mut death = pin!(thread.death());
    poll_fn(|waker| match life.as_mut().poll(waker) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => death.as_mut().poll(waker),
    })
    .await;
}

/// Runs the program from trap to trap until the thread ends.
async fn live<C: Compute>(compute: &C, thread: &Arc<Thread>, context: UserContext) {
    let mut running = Running::new(context);
    thread.is_in_call.store(false, Ordering::Relaxed);
    while !thread.is_dying() {
        if step(compute, thread, &mut running).await == Flow::End {
            return;
        }
    }
}

/// Runs the program to its next trap and deals with that.
async fn step<C: Compute>(compute: &C, thread: &Arc<Thread>, running: &mut Running) -> Flow {
    let is_due = thread.has_signal() || running.interrupted.is_some();
    if is_due && rare(|| deliver::deliver(thread, running)).await == Flow::End {
        return Flow::End;
    }
    let cores = thread.cores.load(Ordering::Relaxed);
    if cores != running.bound {
        running.bound = cores;
        compute.bind(cores);
    }
    let space = thread.space();
    let trap = loop {
        let run = compute.run(&mut running.context, &space);
        let Some(trap) = unless_signalled(thread, cores, run).await else {
            return Flow::Continue;
        };
        // Short calls are served here, so that nothing is set up anew for each.
        if trap != Trap::SystemCall || !serve_at_once(thread, running) {
            break trap;
        }
        if running.interrupted.is_some() {
            return Flow::Continue;
        }
    };
    match trap {
        Trap::SystemCall => {
            thread.is_in_call.store(true, Ordering::Relaxed);
            serve(thread, running).await;
            thread.is_in_call.store(false, Ordering::Relaxed);
        }
        Trap::PageFault { address, access, present } => {
            on_page_fault(thread, running, &space, (address, access, present)).await;
        }
        Trap::Exception { vector, code } => on_exception(thread, running, vector, code),
        Trap::Interrupt => {}
    }
    Flow::Continue
}

/// Runs the program until it traps; `None` where a signal, or another set of cores, comes first. Signals are looked for each time before the program gets
/// the core, because it may compute for ever; who waits for them is noted only when it loses the core.
async fn unless_signalled(thread: &Thread, bound: u64, run: impl Future<Output = Trap>) -> Option<Trap> {
    let mut run = pin!(run);
    let mut arrival = pin!(thread.signal_arrival());
    poll_fn(|context| {
        let is_bound_anew = thread.cores.load(Ordering::Relaxed) != bound;
        if is_bound_anew || (thread.has_signal() && thread.must_act()) {
            return Poll::Ready(None);
        }
        if let Poll::Ready(trap) = run.as_mut().poll(context) {
            return Poll::Ready(Some(trap));
        }
        arrival.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// The number and arguments of the call that a program stopped with.
fn call_of(running: &Running) -> (u64, Arguments) {
    let registers = &running.context.registers;
    let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
    (registers.rax, Arguments(arguments))
}

/// What one call makes the kernel keep at most, about: an open file, a process.
const OBJECT_BYTES: u64 = 16 << 10;

/// True where a call makes something, and the tenant holds too much already: it needs room first.
fn needs_room(thread: &Thread, number: u64) -> bool {
    table::creates(number) && is_over_limit(thread)
}

/// Serves a call that need not wait; false, and nothing done, where it is another one.
fn serve_at_once(thread: &Arc<Thread>, running: &mut Running) -> bool {
    let (number, arguments) = call_of(running);
    if needs_room(thread, number) {
        return false;
    }
    let Some(outcome) = at_once(thread, number, arguments) else {
        return false;
    };
    answer(thread, running, number, outcome);
    true
}

async fn serve(thread: &Arc<Thread>, running: &mut Running) {
    let (number, arguments) = call_of(running);
    let outcome = if needs_room(thread, number) && !rare(|| make_room(thread)).await {
        Err(Errno::ENOMEM)
    } else if file::table::holds(number) {
        call_on_files(thread, number, arguments).await
    } else if table::holds(number) {
        table::dispatch(thread, number, arguments).await.unwrap_or(Err(Errno::ENOSYS))
    } else if let Some(outcome) = call_on_registers(thread, running, number, arguments).await {
        outcome
    } else {
        call_elsewhere(thread, number, arguments).await
    };
    answer(thread, running, number, outcome);
}

/// A call of [`file::table`], once more where what its path led to went meanwhile.
pub(crate) async fn call_on_files(thread: &Arc<Thread>, number: u64, arguments: Arguments) -> Outcome {
    file::walk::settled(|| async move {
        file::table::dispatch(thread, number, arguments).await.unwrap_or(Err(Errno::ENOSYS))
    })
    .await
}

/// Hands a program what its call gave.
#[inline]
fn answer(thread: &Thread, running: &mut Running, number: u64, outcome: Outcome) {
    running.context.registers.rax = match outcome {
        Ok(value) => value,
        Err(error) => {
            if error.asks_restart() {
                running.interrupted = Some((number, error));
                thread.notify();
            }
            error.negated() as u64
        }
    };
    if running.interrupted.is_none() && !thread.has_signal() {
        thread.end_temporary_mask();
    }
}

fn is_over_limit(thread: &Thread) -> bool {
    thread.tenant().host().is_over_limit(thread.process().activity())
}

/// Kernel objects are refused before they are made, where the tenant is over its limit and nothing of it can be given back for them.
async fn make_room(thread: &Thread) -> bool {
    thread.tenant().host().flush().make_room(OBJECT_BYTES).await && !is_over_limit(thread)
}

/// Puts the future of something rare and large into memory of its own, so that the common path's future stays small. Not inlined:
/// the stack that it takes to make it is free again before it runs.
#[inline(never)]
fn rare<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}

/// The calls that look at or change the caller's registers.
async fn call_on_registers(thread: &Arc<Thread>, running: &mut Running, number: u64, a: Arguments) -> Option<Outcome> {
    Some(match number {
        15 => rare(|| on_sigreturn(thread, running)).await,
        56 => rare(|| task::clone::clone(thread, running, a)).await,
        57 => rare(|| task::clone::fork(thread, running)).await,
        58 => rare(|| task::clone::vfork(thread, running)).await,
        59 => rare(|| exec::execve(thread, running, a)).await,
        131 => {
            let stack_pointer = running.context.registers.rsp;
            crate::signal::calls::sigaltstack(thread, a, stack_pointer).await
        }
        158 => task::arch::arch_prctl(thread, running, a).await,
        322 => rare(|| exec::execveat(thread, running, a)).await,
        _ => return None,
    })
}

/// The numbers and names of those.
pub const CALLS_ON_REGISTERS: &[(u64, &str)] = &[
    (15, "rt_sigreturn"),
    (56, "clone"),
    (57, "fork"),
    (58, "vfork"),
    (59, "execve"),
    (131, "sigaltstack"),
    (158, "arch_prctl"),
    (322, "execveat"),
];

async fn on_sigreturn(thread: &Arc<Thread>, running: &mut Running) -> Outcome {
    let outcome = frame::pop(thread, running).await;
    if outcome.is_err() {
        thread.force(SignalInfo::new(number::SIGSEGV, crate::signal::info::SI_KERNEL));
    }
    outcome
}

/// Calls that never wait. Futures of calls are large, and each move of one costs more than such a call.
fn at_once(thread: &Arc<Thread>, number: u64, arguments: Arguments) -> Option<Outcome> {
    table::at_once(thread, number, arguments).or_else(|| file::table::at_once(thread, number, arguments))
}

/// Native calls, and those that are missing.
async fn call_elsewhere(thread: &Arc<Thread>, number: u64, arguments: Arguments) -> Outcome {
    match (NATIVE_FIRST..NATIVE_END).contains(&number) {
        true => thread.tenant().host().native(thread.clone(), number, arguments).await,
        false => report_missing(thread, number),
    }
}

/// Serves one system call that does not touch registers.
pub async fn system_call(thread: &Arc<Thread>, number: u64, arguments: Arguments) -> Outcome {
    if let Some(outcome) = at_once(thread, number, arguments) {
        return outcome;
    }
    if file::table::holds(number) {
        return call_on_files(thread, number, arguments).await;
    }
    if let Some(outcome) = table::dispatch(thread, number, arguments).await {
        return outcome;
    }
    call_elsewhere(thread, number, arguments).await
}

/// SEGV_MAPERR, SEGV_ACCERR, BUS_ADRERR (asm-generic/siginfo.h).
const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;
const BUS_ADRERR: i32 = 2;

async fn on_page_fault(
    thread: &Arc<Thread>,
    running: &mut Running,
    space: &Arc<AddressSpace>,
    (address, access, present): (u64, Access, bool),
) {
    let (signal, code) = match space.fault(address, access).await {
        Ok(()) => return,
        Err(FaultError::NotMapped) => (number::SIGSEGV, SEGV_MAPERR),
        Err(FaultError::Denied) => (number::SIGSEGV, SEGV_ACCERR),
        Err(FaultError::BeyondEnd | FaultError::Io) => (number::SIGBUS, BUS_ADRERR),
        Err(FaultError::OutOfMemory) => return rare(|| task::shortage::end_largest(thread)).await,
    };
    // Bits of the error code: present, write, user, instruction (SDM vol. 3, 4.7).
    let kind = match access {
        Access::Read => 0,
        Access::Write => 2,
        Access::Execute => 16,
    };
    running.fault = FaultNote { trap: 14, error: 4 | kind | u64::from(present), address };
    thread.force(SignalInfo::fault(signal, code, address));
}

/// FPE_INTDIV, FPE_FLTINV, ILL_ILLOPN, TRAP_BRKPT, TRAP_TRACE, BUS_ADRALN (asm-generic/siginfo.h).
const FPE_INTDIV: i32 = 1;
const FPE_FLTINV: i32 = 7;
const ILL_ILLOPN: i32 = 2;
const TRAP_TRACE: i32 = 2;
const BUS_ADRALN: i32 = 1;

fn on_exception(thread: &Arc<Thread>, running: &mut Running, vector: u8, code: u32) {
    let at = running.context.registers.rip;
    let kernel = crate::signal::info::SI_KERNEL;
    let info = match vector {
        0 => SignalInfo::fault(number::SIGFPE, FPE_INTDIV, at),
        1 => SignalInfo::fault(number::SIGTRAP, TRAP_TRACE, at),
        3 => SignalInfo::new(number::SIGTRAP, kernel),
        6 => SignalInfo::fault(number::SIGILL, ILL_ILLOPN, at),
        16 | 19 => SignalInfo::fault(number::SIGFPE, FPE_FLTINV, at),
        17 => SignalInfo::fault(number::SIGBUS, BUS_ADRALN, 0),
        12 => SignalInfo::new(number::SIGBUS, kernel),
        _ => SignalInfo::new(number::SIGSEGV, kernel),
    };
    running.fault =
        FaultNote { trap: u64::from(vector), error: if vector == 13 { 0 } else { u64::from(code) }, address: 0 };
    thread.force(info);
}
