//! New threads and processes: clone, clone3, fork, vfork. All become a [`Wish`].
//!
//! A new thread is made, entered into the tree and, last, started: until then [`Undo`] and [`Unborn`] take it out
//! again if something fails or its maker is killed. The child of a fork is born before a signal to several processes
//! looks for its targets, or after its parent has the signal ([`crate::signal::forks`]).
//!
//! With CLONE_PIDFD the maker gets a descriptor of the child before the child runs.
//! Name spaces (EPERM), numbers of one's choice and control groups (EINVAL) are refused.
//!
//! Limits: the tenant's processes and threads (EAGAIN), RLIMIT_NPROC, and memory for the copy (ENOMEM).

use crate::credentials::Capability;
use crate::file::buffer::word;
use crate::file::calls::process_file;
use crate::ipc::semaphores;
use crate::process::NewProcess;
use crate::ptrace::tracees::{self, Asked};
use crate::ptrace::{Event, halt};
use crate::run::Running;
use crate::signal::protection::FIRST;
use crate::signal::set::SIGNAL_MAX;
use crate::signal::{AltStack, forks, number};
use crate::time::cpu_limit;
use crate::{Arguments, Errno, Outcome, Process, Tenant, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_machine::{USER_END, UserContext};
use gyre_message::select;
use gyre_message::wait::Either;
use linux_raw_sys::general as raw;

/// The arguments of clone.
#[derive(Clone, Copy, Default)]
struct Wish {
    flags: u64,
    /// The child's stack pointer; 0 for the parent's.
    stack: u64,
    parent_id_at: u64,
    child_id_at: u64,
    tls: u64,
    exit_signal: i32,
    /// The place of a descriptor of the child (CLONE_PIDFD).
    descriptor_at: u64,
}

/// CLONE_CLEAR_SIGHAND: the child handles no signal.
const CLEAR_HANDLERS: u64 = 1 << 32;
/// All flags that clone3 knows.
const FLAGS_KNOWN: u64 = CLEAR_HANDLERS | 0xffff_ffff & !(raw::CSIGNAL as u64 | raw::CLONE_DETACHED as u64);
/// Bytes of the first and of the newest `struct clone_args`; callers with more must leave the rest zero.
const ARGUMENTS_BYTES: core::ops::RangeInclusive<usize> = 64..=88;
/// The largest structure that is read at all: a page.
const ARGUMENTS_BYTES_MAX: usize = 4096;

impl Wish {
    fn has(&self, flag: u32) -> bool {
        self.flags & u64::from(flag) != 0
    }

    fn check(&self) -> Result<(), Errno> {
        let thread_without_signals = self.has(raw::CLONE_THREAD) && !self.has(raw::CLONE_SIGHAND);
        let signals_without_memory = self.has(raw::CLONE_SIGHAND) && !self.has(raw::CLONE_VM);
        let keeps_and_clears = self.has(raw::CLONE_SIGHAND) && self.flags & CLEAR_HANDLERS != 0;
        let descriptor_of_thread = self.has(raw::CLONE_PIDFD) && self.has(raw::CLONE_THREAD);
        if thread_without_signals || signals_without_memory || keeps_and_clears || descriptor_of_thread {
            return Err(Errno::EINVAL);
        }
        let spaces = raw::CLONE_NEWNS
            | raw::CLONE_NEWUTS
            | raw::CLONE_NEWIPC
            | raw::CLONE_NEWUSER
            | raw::CLONE_NEWPID
            | raw::CLONE_NEWNET
            | raw::CLONE_NEWCGROUP;
        match self.has(spaces) {
            true => Err(Errno::EPERM),
            false => Ok(()),
        }
    }
}

/// `clone(flags, stack, parent_tid, child_tid, tls)`.
pub async fn clone(thread: &Arc<Thread>, running: &mut Running, a: Arguments) -> Outcome {
    let wish = Wish {
        flags: a.word(0) & !0xff,
        stack: a.word(1),
        parent_id_at: a.word(2),
        child_id_at: a.word(3),
        tls: a.word(4),
        exit_signal: (a.word(0) & 0xff) as i32,
        descriptor_at: a.word(2),
    };
    let shares_the_place = wish.has(raw::CLONE_PIDFD) && wish.has(raw::CLONE_PARENT_SETTID);
    if shares_the_place || wish.has(raw::CLONE_PIDFD) && wish.has(raw::CLONE_DETACHED) {
        return Err(Errno::EINVAL);
    }
    make(thread, running, wish).await
}

/// `clone3(arguments, bytes)`.
pub async fn clone3(thread: &Arc<Thread>, running: &mut Running, a: Arguments) -> Outcome {
    let bytes = a.size(1);
    if bytes < *ARGUMENTS_BYTES.start() {
        return Err(Errno::EINVAL);
    }
    if bytes > ARGUMENTS_BYTES_MAX {
        return Err(Errno::E2BIG);
    }
    let given = thread.read_vec(a.word(0), bytes).await?;
    if given.iter().skip(*ARGUMENTS_BYTES.end()).any(|byte| *byte != 0) {
        return Err(Errno::E2BIG);
    }
    make(thread, running, Wish::of_arguments(&given)?).await
}

impl Wish {
    /// Reads `struct clone_args`.
    fn of_arguments(given: &[u8]) -> Result<Wish, Errno> {
        let [
            flags,
            descriptor_at,
            child_id_at,
            parent_id_at,
            exit_signal,
            stack,
            stack_bytes,
            tls,
            ids,
            ids_count,
            group,
        ] = core::array::from_fn(|index| word(given, index.saturating_mul(8)));
        let has_half_a_stack = (stack == 0) != (stack_bytes == 0);
        // Numbers for the child (set_tid) and control groups are not offered.
        if flags & !FLAGS_KNOWN != 0 || has_half_a_stack || ids != 0 || ids_count != 0 || group != 0 {
            return Err(Errno::EINVAL);
        }
        let exit_signal = i32::try_from(exit_signal).ok().filter(|signal| (0..=SIGNAL_MAX).contains(signal));
        let wish = Wish {
            flags,
            stack: stack.checked_add(stack_bytes).ok_or(Errno::EINVAL)?,
            parent_id_at,
            child_id_at,
            tls,
            exit_signal: exit_signal.ok_or(Errno::EINVAL)?,
            descriptor_at,
        };
        let is_thread = wish.has(raw::CLONE_THREAD) || wish.has(raw::CLONE_PARENT);
        if is_thread && wish.exit_signal != 0 { Err(Errno::EINVAL) } else { Ok(wish) }
    }
}

/// `fork()`.
pub async fn fork(thread: &Arc<Thread>, running: &mut Running) -> Outcome {
    let wish = Wish { exit_signal: number::SIGCHLD, ..Wish::default() };
    make(thread, running, wish).await
}

/// `vfork()`.
pub async fn vfork(thread: &Arc<Thread>, running: &mut Running) -> Outcome {
    let wish =
        Wish { flags: u64::from(raw::CLONE_VM | raw::CLONE_VFORK), exit_signal: number::SIGCHLD, ..Wish::default() };
    make(thread, running, wish).await
}

async fn make(thread: &Arc<Thread>, running: &mut Running, wish: Wish) -> Outcome {
    wish.check()?;
    // Its children have no other parent to be: nobody could wait for them.
    if wish.has(raw::CLONE_PARENT) && thread.process().id() == FIRST {
        return Err(Errno::EINVAL);
    }
    if thread.process().is_ending() {
        return Err(Errno::ERESTARTNOINTR);
    }
    let context = child_context(running, &wish)?;
    match wish.has(raw::CLONE_THREAD) {
        true => make_thread(thread, running, context, wish).await,
        false => make_process(thread, running, context, wish).await,
    }
}

impl Wish {
    /// Returns the event that a tracer may want to know of.
    fn event(&self) -> Event {
        match (self.has(raw::CLONE_VFORK), self.exit_signal) {
            (true, _) => Event::Vfork,
            (false, number::SIGCHLD) => Event::Fork,
            _ => Event::Clone,
        }
    }

    /// Ties the child to its maker's tracer, before it runs.
    fn inherit_tracer(&self, maker: &Thread, child: &Arc<Thread>) {
        let asked = if self.has(raw::CLONE_PTRACE) { Asked::Yes } else { Asked::No };
        if !self.has(raw::CLONE_UNTRACED) && maker.tracee.is_on() {
            tracees::inherit(maker, child, self.event(), asked);
        }
    }

    /// Halts the maker for its tracer, if that wants to know of the child.
    async fn tell_tracer(&self, maker: &Arc<Thread>, running: &mut Running, event: Event, child: i32) {
        if !self.has(raw::CLONE_UNTRACED) && maker.tracee.is_on() {
            Box::pin(halt::at_event(maker, running, event, child as u64)).await;
        }
    }
}

fn child_context(running: &mut Running, wish: &Wish) -> Result<UserContext, Errno> {
    // The tracer hears of the step at the end of the call.
    running.end_step();
    running.context.park();
    let mut context = running.context.duplicate()?;
    context.registers.rax = 0;
    if wish.stack != 0 {
        context.registers.rsp = wish.stack;
    }
    if wish.has(raw::CLONE_SETTLS) {
        if wish.tls >= USER_END {
            return Err(Errno::EPERM);
        }
        context.registers.fs_base = wish.tls;
    }
    Ok(context)
}

/// Copies the parts that a new thread inherits from its maker.
fn inherit(parent: &Thread, child: &Thread, wish: &Wish) {
    let (blocked, stack) = {
        let own = parent.signals.lock();
        (own.blocked, own.stack)
    };
    let keeps_stack = !wish.has(raw::CLONE_VM) || wish.has(raw::CLONE_VFORK);
    let mut signals = child.signals.lock();
    signals.blocked = blocked;
    signals.stack = if keeps_stack { stack } else { AltStack::default() };
    drop(signals);
    *child.name.lock() = *parent.name.lock();
    child.cores.store(parent.cores.load(Ordering::Relaxed), Ordering::Relaxed);
    if wish.has(raw::CLONE_CHILD_CLEARTID) {
        child.clear_at_end.store(wish.child_id_at, Ordering::Release);
    }
}

async fn make_thread(thread: &Arc<Thread>, running: &mut Running, context: UserContext, wish: Wish) -> Outcome {
    let process = thread.process();
    let tenant = thread.tenant();
    let child = {
        let limits = *tenant.limits.lock();
        let mut tree = tenant.tree.lock();
        let id = tree.reserve(&limits, false)?;
        let child = Thread::heir(id, process.clone(), thread);
        tree.add_thread(child.clone());
        child
    };
    let undo = Undo(Some(child.clone()));
    inherit(thread, &child, &wish);
    tell_ids(thread, thread, &child, &wish).await?;
    undo.keep();
    wish.inherit_tracer(thread, &child);
    process.add_thread(child.clone());
    start(&child, context)?;
    let id = child.id();
    wish.tell_tracer(thread, running, wish.event(), id).await;
    Ok(id as u64)
}

/// Takes a thread that never ran out of the tree again, even if its maker is killed meanwhile.
struct Undo(Option<Arc<Thread>>);

impl Undo {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            let mut tree = child.tenant().tree.lock();
            tree.remove_thread(child.id());
            if child.process().alive_threads.load(Ordering::Acquire) == 0 {
                tree.remove_process(child.process().id());
                drop(tree);
                child.tenant().kernel().close_activity(child.process().activity());
            }
        }
    }
}

/// The activity of a process that is not in the tree yet; dropping it closes the activity unless the process was
/// born.
struct Unborn<'a> {
    tenant: &'a Tenant,
    activity: ActivityId,
    is_born: bool,
}

impl Drop for Unborn<'_> {
    fn drop(&mut self) {
        if !self.is_born {
            self.tenant.kernel().close_activity(self.activity);
        }
    }
}

/// Writes the new number to the addresses that parent and child asked for.
async fn tell_ids(parent: &Thread, reader: &Thread, child: &Thread, wish: &Wish) -> Result<(), Errno> {
    let id = child.id().to_le_bytes();
    if wish.has(raw::CLONE_PARENT_SETTID) {
        parent.copy_out(wish.parent_id_at, &id).await?;
    }
    if wish.has(raw::CLONE_CHILD_SETTID) {
        reader.copy_out(wish.child_id_at, &id).await?;
    }
    Ok(())
}

fn start(child: &Arc<Thread>, context: UserContext) -> Result<(), Errno> {
    let started = child.tenant().kernel().start(child.clone(), context);
    started.map_err(|error| {
        child.process().alive_threads.fetch_sub(1, Ordering::AcqRel);
        super::exit::remove(child);
        error.into()
    })
}

async fn make_process(thread: &Arc<Thread>, running: &mut Running, context: UserContext, wish: Wish) -> Outcome {
    let child = new_process(thread, &wish).await?;
    let undo = Undo(Some(child.clone()));
    inherit(thread, &child, &wish);
    tell_ids(thread, &child, &child, &wish).await?;
    let process = child.process().clone();
    let descriptor = give_descriptor(thread, &process, &wish).await?;
    undo.keep();
    cpu_limit::limited(&process);
    wish.inherit_tracer(thread, &child);
    process.add_thread(child.clone());
    start(&child, context).inspect_err(|_| take_back(thread, descriptor))?;
    wish.tell_tracer(thread, running, wish.event(), process.id()).await;
    if wish.has(raw::CLONE_VFORK) {
        wait_until_left(thread, &process).await;
        wish.tell_tracer(thread, running, Event::VforkDone, process.id()).await;
    }
    Ok(process.id() as u64)
}

/// Gives the maker a descriptor of the child, if it asked for one.
async fn give_descriptor(thread: &Thread, child: &Arc<Process>, wish: &Wish) -> Result<Option<i32>, Errno> {
    if !wish.has(raw::CLONE_PIDFD) {
        return Ok(None);
    }
    let descriptor = process_file::open(thread, child, 0)?;
    let told = thread.copy_out(wish.descriptor_at, &descriptor.to_le_bytes()).await;
    told.inspect_err(|_| take_back(thread, Some(descriptor)))?;
    Ok(Some(descriptor))
}

/// Closes the descriptor of a child that does not come.
fn take_back(thread: &Thread, descriptor: Option<i32>) {
    if let Some(descriptor) = descriptor {
        let _ = thread.process().files().table().remove(descriptor);
    }
}

/// Waits until the child has memory of its own. Signals wait meanwhile; only the end of this thread does not.
async fn wait_until_left(thread: &Thread, child: &Process) {
    let left = child.left_parent.until(|| (!child.borrows_memory()).then_some(()));
    match select(left, thread.death()).await {
        Either::First(()) | Either::Second(()) => {}
    }
}

/// Makes a process with one thread, in the tree but not running.
async fn new_process(thread: &Arc<Thread>, wish: &Wish) -> Result<Arc<Thread>, Errno> {
    let parent = thread.process();
    let tenant = thread.tenant();
    let stamp = forks::begin(thread)?;
    check_own_limit(parent)?;
    let name = alloc::string::String::from_utf8_lossy(&parent.name()).into_owned();
    let mut unborn = Unborn { tenant, activity: tenant.open_activity(&name)?, is_born: false };
    let shares = wish.has(raw::CLONE_VM);
    let space = match shares {
        true => parent.space(),
        false => parent.space().duplicate(unborn.activity).await?,
    };
    let files = parent.files().duplicate(wish.flags).await?;
    let mut actions = parent.signals.lock().actions.clone();
    if wish.flags & CLEAR_HANDLERS != 0 {
        actions.reset_for_new_program();
    }
    let new = NewProcess {
        activity: unborn.activity,
        space,
        files,
        credentials: thread.credentials(),
        limits: parent.limits(),
        actions,
        program: parent.program.lock().clone(),
        borrows_memory: shares && wish.has(raw::CLONE_VFORK),
    };
    let limits = *tenant.limits.lock();
    let mut tree = tenant.tree.lock();
    forks::check(parent, &stamp)?;
    let id = tree.reserve(&limits, true)?;
    unborn.is_born = true;
    let process = Process::new(id, tenant.clone(), new);
    inherit_process(parent, &process);
    if wish.has(raw::CLONE_SYSVSEM) {
        semaphores::undo::share(parent, &process);
    }
    let child = Thread::heir(id, process.clone(), thread);
    match wish.has(raw::CLONE_PARENT) {
        true => tree.add_sibling(process, parent.id()),
        false => tree.add_process(process, parent.id(), wish.exit_signal),
    }
    tree.add_thread(child.clone());
    Ok(child)
}

fn inherit_process(parent: &Process, child: &Process) {
    let adjustment = parent.out_of_memory_adjustment.load(Ordering::Relaxed);
    child.out_of_memory_adjustment.store(adjustment, Ordering::Relaxed);
    child.login.inherit(&parent.login);
    child.persona.inherit(&parent.persona);
    let nice = parent.nice.load(Ordering::Relaxed);
    child.nice.store(nice, Ordering::Relaxed);
    if nice != 0 {
        child.tenant().kernel().set_nice(child.activity(), nice);
    }
    child.dumpable.store(parent.dumpable.load(Ordering::Relaxed), Ordering::Relaxed);
    let no_new = parent.no_new_privileges.load(Ordering::Relaxed);
    child.no_new_privileges.store(no_new, Ordering::Relaxed);
}

/// Checks RLIMIT_NPROC, which counts the user's processes in the tenant; CAP_SYS_RESOURCE and CAP_SYS_ADMIN are free
/// of it.
fn check_own_limit(process: &Process) -> Result<(), Errno> {
    let limit = process.limit(raw::RLIMIT_NPROC);
    let (user, is_free) = process.with_credentials(|who| {
        (who.user, who.user == 0 || who.has(Capability::SysResource) || who.has(Capability::SysAdmin))
    });
    if limit == u64::MAX || is_free {
        return Ok(());
    }
    let all = process.tenant().tree.lock().processes();
    let own = all.iter().filter(|other| other.with_credentials(|who| who.user) == user).count();
    match own as u64 >= limit {
        true => Err(Errno::EAGAIN),
        false => Ok(()),
    }
}
