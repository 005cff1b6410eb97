//! The loop of a thread: run, trap, serve, deliver signals.
//!
//! [`run_thread`] is the whole life of a thread, one future. Each [`step`] (1) delivers signals that wait, (2) runs
//! the program until it traps, (3) serves the trap. Short calls are served in (2), by [`serve_at_once`], without
//! setting anything up anew.
//!
//! States of a thread here: in the program ([`Thread::call`] is none), in a call (true), interrupted
//! (`Running::interrupted` says which call and how it restarts), dying ([`Thread::is_dying`]). A signal drops the
//! future of a call that waits; death drops the whole life, and dropping releases everything.
//!
//! Only the thread's own task calls this file. The calls that change registers are listed here, all others in
//! [`crate::table`] and [`crate::file::table`].

use crate::behalf;
use crate::ptrace::serve::{self as ptrace, Ptraced};
use crate::pulse::{self, Vcore};
use crate::signal::frame::FaultNote;
use crate::signal::unhandled::{self, Cause};
use crate::signal::{SignalInfo, deliver, frame, number};
use crate::state::{Call, State};
use crate::table::{self, report_missing};
use crate::task::{dispatch, exit, io_figures};
use crate::tenant::{NATIVE_END, NATIVE_FIRST};
use crate::{Arguments, Errno, Outcome, Thread, exec, file, task, trace};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::sync::atomic::Ordering;
use core::task::Poll;
use gyre_account::Grant;
use gyre_address_space::{AddressSpace, FaultError};
use gyre_contract::native;
use gyre_machine::{Access, Registers, Trap, UserContext, causes};

/// Runs programs: the engine's compute resource, or a script in host tests.
pub trait Compute: Send + Sync + 'static {
    /// Runs the program until it traps for another reason than an interrupt. Waits while others have the core. Dropping the
    /// future while it waits leaves the context whole, so that a signal can be delivered. The program's time is paid by whoever granted it.
    /// From `until` on (cycles) it comes back with [`Trap::Interrupt`], if others leave it a core.
    fn run<'a>(
        &'a self,
        context: &'a mut UserContext,
        space: &'a Arc<AddressSpace>,
        grant: Option<&'a Grant>,
        until: u64,
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
    /// Set while it is a virtual core of its program's own scheduler.
    pub(crate) pulse: Option<Box<Vcore>>,
    /// Its part in what its tracer does.
    pub(crate) ptraced: Ptraced,
    /// The cores that it is bound to.
    bound: u64,
}

impl Running {
    /// Makes a thread about to start with these registers.
    pub fn new(context: UserContext) -> Running {
        Running {
            context,
            interrupted: None,
            fault: FaultNote::default(),
            pulse: None,
            ptraced: Ptraced::default(),
            bound: u64::MAX,
        }
    }
}

/// The next step of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
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

/// Runs a thread from its first instruction to its end. The future is `Send`; it may move between cores while it
/// waits.
pub async fn run_thread<C: Compute>(compute: &'static C, thread: Arc<Thread>, context: UserContext) {
    let removal = Removal(thread.clone());
    live_until_death(compute, &thread, context).await;
    exit::leave(&thread).await;
    drop(removal);
}

/// Runs the thread until it ends or is killed. One pinning serves for the whole life: a step's future is large and
/// must not be moved for each call.
async fn live_until_death<C: Compute>(compute: &C, thread: &Arc<Thread>, context: UserContext) {
    let mut life = pin!(live(compute, thread, context));
    let mut death = pin!(thread.death());
    poll_fn(|waker| {
        thread.behalf.begin_poll(thread);
        thread.enter_core();
        // First, so that whoever notifies the thread finds the task waiting: it must leave a program that computes.
        thread.begin_to_hear();
        let dying = death.as_mut().poll(waker);
        let polled = match life.as_mut().poll(waker) {
            Poll::Ready(()) => Poll::Ready(()),
            // A notice came in this poll. The thread may have gone on with its program behind it, which takes the task's wake-up back, and wait for
            // something else now: its death must find the task all the same.
            Poll::Pending if dying.is_pending() && thread.is_deaf() => {
                thread.begin_to_hear();
                death.as_mut().poll(waker)
            }
            Poll::Pending => dying,
        };
        thread.behalf.settle(thread);
        thread.leave_core();
        polled
    })
    .await;
}

/// Runs the program from trap to trap until the thread ends.
async fn live<C: Compute>(compute: &C, thread: &Arc<Thread>, context: UserContext) {
    let mut running = Running::new(context);
    thread.enter_program();
    while !thread.is_dying() {
        if step(compute, thread, &mut running).await == Next::End {
            return;
        }
    }
}

/// Runs the program to its next trap and deals with that.
async fn step<C: Compute>(compute: &C, thread: &Arc<Thread>, running: &mut Running) -> Next {
    let is_due = thread.has_signal() || running.interrupted.is_some();
    if is_due && rare(|| deliver::deliver(thread, running)).await == Next::End {
        return Next::End;
    }
    if running.pulse.as_deref().is_some_and(Vcore::is_due) && !pulse::look_at_once(thread, running) {
        rare(|| pulse::look(thread, running)).await;
    }
    let cores = thread.cores.load(Ordering::Relaxed);
    if cores != running.bound {
        running.bound = cores;
        compute.bind(cores);
    }
    let space = thread.space();
    let grant = thread.behalf.grant();
    let trap = {
        let mut arrival = pin!(thread.signal_arrival());
        loop {
            thread.behalf.settle(thread);
            let end = {
                let until = running.pulse.as_deref().map_or(u64::MAX, Vcore::due);
                let run = pin!(compute.run(&mut running.context, &space, grant.as_deref(), until));
                let stay = Stay { thread, cores, until };
                stay.unless_called(run, arrival.as_mut()).await
            };
            let Some(trap) = end else {
                return Next::Continue;
            };
            // Short calls are served here, so that nothing is set up anew for each.
            if trap != Trap::SystemCall || thread.dispatch.is_on() || !serve_at_once(thread, running) {
                break trap;
            }
            if running.interrupted.is_some() {
                return Next::Continue;
            }
        }
    };
    match trap {
        Trap::SystemCall if thread.dispatch.has_signals() && is_signalled(thread, &running.context.registers).await => {
        }
        Trap::SystemCall => {
            thread.enter_call(call_of(running).0);
            match () {
                () if thread.dispatch.is_ptraced() => rare(|| ptrace::serve(thread, running)).await,
                () if thread.dispatch.is_traced() => rare(|| trace::serve(thread, running)).await,
                () => serve(thread, running).await,
            }
            thread.enter_program();
        }
        Trap::PageFault { address, access, present } => {
            on_page_fault(thread, running, &space, (address, access, present)).await;
        }
        Trap::Exception { vector: 1, code } => {
            let watched = rare(|| running.look_behind_step(&space)).await;
            on_exception(thread, running, 1, code | watched);
        }
        Trap::Exception { vector, code } => on_exception(thread, running, vector, code),
        Trap::Interrupt => {}
    }
    Next::Continue
}

/// Returns whether the call at which the program stopped is the program's own affair, and has become a signal.
fn is_signalled(thread: &Thread, registers: &Registers) -> impl Future<Output = bool> + Send {
    let call = dispatch::Call { behind: registers.rip, number: registers.rax as u32 };
    let decision = rare(|| dispatch::decide(thread, call));
    async { decision.await == dispatch::Way::Signalled }
}

/// A stay of a program in user mode, and what ends it early.
struct Stay<'a> {
    thread: &'a Thread,
    /// The cores that the thread is bound to since it began.
    cores: u64,
    /// A tick is due, cycles; `u64::MAX` for none.
    until: u64,
}

impl<'a> Stay<'a> {
    /// Runs the program until it traps; `None` if a signal, a tick, or another set of cores, comes first. Signals are looked
    /// for each time before the program gets the core, because it may compute for ever; the task waits for their arrival
    /// from its poll on ([`live_until_death`]), and anew if one has come. No `async fn`: that would move the futures once more for each call.
    fn unless_called<R: Future<Output = Trap>, A: Future<Output = ()>>(
        self,
        mut run: Pin<&'a mut R>,
        mut arrival: Pin<&'a mut A>,
    ) -> impl Future<Output = Option<Trap>> + use<'a, R, A> {
        poll_fn(move |context| {
            if self.is_called() || self.until != u64::MAX && gyre_machine::now() >= self.until {
                return Poll::Ready(None);
            }
            // A notice of this very poll has ended the wait for it, and the program must be left for the next one, too.
            if self.thread.is_deaf() && arrival.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(trap) = run.as_mut().poll(context) {
                return Poll::Ready(Some(trap));
            }
            arrival.as_mut().poll(context).map(|()| None)
        })
    }

    /// Returns whether the thread has something to do before its program.
    #[inline]
    fn is_called(&self) -> bool {
        let thread = self.thread;
        let is_bound_anew = thread.cores.load(Ordering::Relaxed) != self.cores;
        is_bound_anew || thread.is_dying() || (thread.has_signal() && thread.must_act())
    }
}

/// Returns the number and arguments of the call that a program stopped with.
pub(crate) fn call_of(running: &Running) -> (u64, Arguments) {
    let registers = &running.context.registers;
    let arguments = [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
    (registers.rax, Arguments(arguments))
}

/// Memory that one call makes the kernel keep at most, about: an open file, a process.
const OBJECT_BYTES: u64 = 16 << 10;
/// Times that a call makes room which others take.
const ROOMS_MAX: usize = 8;

/// Returns whether a call makes something, and the tenant holds too much already: it needs room first.
fn needs_room(thread: &Thread, number: u64) -> bool {
    table::creates(number) && is_over_limit(thread)
}

/// Serves a call that need not wait; false, and nothing done, if it is another one.
fn serve_at_once(thread: &Arc<Thread>, running: &mut Running) -> bool {
    let (number, arguments) = call_of(running);
    if needs_room(thread, number) || behalf::is_ended_by(thread, number, arguments) {
        return false;
    }
    let Some(outcome) = at_once(thread, number, arguments) else {
        return false;
    };
    answer(thread, running, number, outcome);
    true
}

/// Serves a call that may wait.
pub(crate) async fn serve(thread: &Arc<Thread>, running: &mut Running) {
    let (number, arguments) = call_of(running);
    if behalf::is_ended_by(thread, number, arguments) {
        thread.behalf.end(thread);
    }
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

/// Makes a call of [`file::table`], again if the node of its path went meanwhile.
pub(crate) async fn call_on_files(thread: &Arc<Thread>, number: u64, arguments: Arguments) -> Outcome {
    file::walk::retry_stale(|| async move {
        file::table::dispatch(thread, number, arguments).await.unwrap_or(Err(Errno::ENOSYS))
    })
    .await
}

/// Hands a program the result of its call.
#[inline]
fn answer(thread: &Thread, running: &mut Running, number: u64, outcome: Outcome) {
    io_figures::count(thread, number, outcome);
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
    thread.tenant().kernel().is_over_limit(thread.process().activity())
}

/// Makes room for kernel objects before they are made, again if other threads take it. Returns false if the tenant is over its limit and nothing
/// of it can be given back.
async fn make_room(thread: &Thread) -> bool {
    for _ in 0..ROOMS_MAX {
        if !task::shortage::has_room(thread, OBJECT_BYTES).await {
            return false;
        }
        if !is_over_limit(thread) {
            return true;
        }
    }
    false
}

/// Makes room for `bytes` of kernel objects that a call makes beside those that each may make; false as [`make_room`].
pub(crate) async fn has_room(thread: &Thread, bytes: usize) -> bool {
    let bytes = bytes as u64;
    match bytes <= OBJECT_BYTES {
        true => !is_over_limit(thread) || rare(|| make_room(thread)).await,
        false => rare(|| task::shortage::has_room(thread, bytes)).await,
    }
}

/// Puts the future of something rare and large into memory of its own, so that the common path's future stays small. Not inlined:
/// the stack that it takes to make it is free again before it runs.
#[inline(never)]
fn rare<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}

/// Makes the calls that look at or change the caller's registers.
async fn call_on_registers(thread: &Arc<Thread>, running: &mut Running, number: u64, a: Arguments) -> Option<Outcome> {
    if number < NATIVE_FIRST && !CALLS_ON_REGISTERS.iter().any(|call| call.number == number) {
        return None;
    }
    Some(match number {
        15 => rare(|| on_sigreturn(thread, running)).await,
        56 => rare(|| task::clone::clone(thread, running, a)).await,
        57 => rare(|| task::clone::fork(thread, running)).await,
        58 => rare(|| task::clone::vfork(thread, running)).await,
        435 => rare(|| task::clone::clone3(thread, running, a)).await,
        59 => pulse::unless_replaced(rare(|| exec::execve(thread, running, a)).await, running),
        131 => {
            let stack_pointer = running.context.registers.rsp;
            crate::signal::calls::sigaltstack(thread, a, stack_pointer).await
        }
        158 => task::arch::arch_prctl(thread, running, a).await,
        322 => pulse::unless_replaced(rare(|| exec::execveat(thread, running, a)).await, running),
        native::PULSE..=native::CONTEXT_SWITCH => rare(|| pulse::calls::serve(thread, running, number, a)).await,
        native::ON_BEHALF => behalf::on_behalf(thread, a),
        native::HAND_OVER => pulse::hand_over::hand_over(thread, a).await,
        CELL_ENTER if thread.tracee.is_on() => Err(Errno::EBUSY),
        CELL_ENTER => thread.tenant().kernel().enter_cell(thread.clone(), &mut running.context, a).await,
        _ => return None,
    })
}

/// The native call by which a process becomes a cell. It changes registers, so it goes past the other native calls.
const CELL_ENTER: u64 = 0x1050;

/// Those that Linux has, too. [`call_on_registers`] serves no call of Linux without a row here.
pub const CALLS_ON_REGISTERS: &[Call] = &[
    row(15, "rt_sigreturn", State::Done),
    row(56, "clone", State::Partly("No new namespaces (EPERM).")),
    row(57, "fork", State::Done),
    row(435, "clone3", State::Partly("No new namespaces, no set_tid, no CLONE_INTO_CGROUP.")),
    row(58, "vfork", State::Done),
    row(59, "execve", State::Done),
    row(131, "sigaltstack", State::Done),
    row(158, "arch_prctl", State::Partly("The bases of FS and GS.")),
    row(322, "execveat", State::Done),
];

const fn row(number: u64, name: &'static str, state: State) -> Call {
    Call { number, name, state }
}

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

/// Makes native calls, and answers those that are missing.
async fn call_elsewhere(thread: &Arc<Thread>, number: u64, arguments: Arguments) -> Outcome {
    match (NATIVE_FIRST..NATIVE_END).contains(&number) {
        true => thread.tenant().kernel().native(thread.clone(), number, arguments).await,
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
    let Err(error) = space.fault(address, access).await else { return };
    let (signal, code) = match error {
        FaultError::NotMapped => (number::SIGSEGV, SEGV_MAPERR),
        FaultError::Denied => (number::SIGSEGV, SEGV_ACCERR),
        FaultError::BeyondEnd | FaultError::Io => (number::SIGBUS, BUS_ADRERR),
        FaultError::OutOfMemory => return rare(|| task::shortage::end_largest(thread)).await,
    };
    // Bits of the error code: present, write, user, instruction (SDM vol. 3, 4.7).
    let kind = match access {
        Access::Read => 0,
        Access::Write => 2,
        Access::Execute => 16,
    };
    running.fault = FaultNote { trap: 14, error: 4 | kind | u64::from(present), address };
    let info = SignalInfo::fault(signal, code, address);
    unhandled::tell(thread, &info, running.context.registers.rip, Cause::Page { address, access, error });
    thread.force(info);
}

/// FPE_INTDIV, FPE_FLTINV, ILL_ILLOPN, BUS_ADRALN (asm-generic/siginfo.h).
const FPE_INTDIV: i32 = 1;
const FPE_FLTINV: i32 = 7;
const ILL_ILLOPN: i32 = 2;
const BUS_ADRALN: i32 = 1;

fn on_exception(thread: &Arc<Thread>, running: &mut Running, vector: u8, code: u32) {
    if vector == 1 && running.end_step() && !thread.tracee.is_on() && code & causes::BREAKPOINTS == 0 {
        // Whoever wanted the step has gone.
        return;
    }
    let at = running.context.registers.rip;
    let kernel = crate::signal::info::SI_KERNEL;
    let info = match vector {
        0 => SignalInfo::fault(number::SIGFPE, FPE_INTDIV, at),
        1 => SignalInfo::fault(number::SIGTRAP, running.note_debug_exception(code), at),
        3 => SignalInfo::new(number::SIGTRAP, kernel),
        6 => SignalInfo::fault(number::SIGILL, ILL_ILLOPN, at),
        16 | 19 => SignalInfo::fault(number::SIGFPE, FPE_FLTINV, at),
        17 => SignalInfo::fault(number::SIGBUS, BUS_ADRALN, 0),
        12 => SignalInfo::new(number::SIGBUS, kernel),
        _ => SignalInfo::new(number::SIGSEGV, kernel),
    };
    let error = if matches!(vector, 1 | 13) { 0 } else { u64::from(code) };
    running.fault = FaultNote { trap: u64::from(vector), error, address: 0 };
    unhandled::tell(thread, &info, at, Cause::Exception(vector));
    thread.force(info);
}
