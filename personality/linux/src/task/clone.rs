//! New threads and processes: clone, fork, vfork.

use crate::credentials::Capability;
use crate::process::NewProcess;
use crate::run::Running;
use crate::signal::{AltStack, births, number};
use crate::time::cpu_limit;
use crate::{Arguments, Errno, Outcome, Process, Tenant, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_machine::{USER_END, UserContext};
use gyre_message::select;
use gyre_message::wait::Either;
use linux_raw_sys::general as raw;

/// What clone is asked for.
#[derive(Clone, Copy, Default)]
struct Wish {
    flags: u64,
    /// The child's stack pointer; 0 for the parent's.
    stack: u64,
    parent_id_at: u64,
    child_id_at: u64,
    tls: u64,
    exit_signal: i32,
}

impl Wish {
    fn has(&self, flag: u32) -> bool {
        self.flags & u64::from(flag) != 0
    }

    fn check(&self) -> Result<(), Errno> {
        let thread_without_signals = self.has(raw::CLONE_THREAD) && !self.has(raw::CLONE_SIGHAND);
        let signals_without_memory = self.has(raw::CLONE_SIGHAND) && !self.has(raw::CLONE_VM);
        if thread_without_signals || signals_without_memory {
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
    };
    make(thread, running, wish).await
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
    if thread.process().is_ending() {
        return Err(Errno::ERESTARTNOINTR);
    }
    let context = child_context(running, &wish)?;
    match wish.has(raw::CLONE_THREAD) {
        true => make_thread(thread, context, wish).await,
        false => make_process(thread, context, wish).await,
    }
}

fn child_context(running: &mut Running, wish: &Wish) -> Result<UserContext, Errno> {
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

/// What a new thread takes from the one that made it.
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
    child.inherit_credentials(parent);
    child.cores.store(parent.cores.load(Ordering::Relaxed), Ordering::Relaxed);
    if wish.has(raw::CLONE_CHILD_CLEARTID) {
        child.clear_at_end.store(wish.child_id_at, Ordering::Release);
    }
}

async fn make_thread(thread: &Arc<Thread>, context: UserContext, wish: Wish) -> Outcome {
    let process = thread.process();
    let tenant = thread.tenant();
    let child = {
        let limits = *tenant.limits.lock();
        let mut tree = tenant.tree.lock();
        let id = tree.reserve(&limits, false)?;
        let child = Thread::new(id, process.clone());
        tree.add_thread(child.clone());
        child
    };
    let undo = Undo(Some(child.clone()));
    inherit(thread, &child, &wish);
    tell_ids(thread, thread, &child, &wish).await?;
    undo.keep();
    process.add_thread(child.clone());
    start(&child, context)?;
    Ok(child.id() as u64)
}

/// Takes a thread that never ran out of the tree again, also where its maker is killed meanwhile.
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
                child.tenant().host().close_activity(child.process().activity());
            }
        }
    }
}

/// The activity of a process that is not in the tree yet: closed again where it does not come so far.
struct Unborn<'a> {
    tenant: &'a Tenant,
    activity: ActivityId,
    is_born: bool,
}

impl Drop for Unborn<'_> {
    fn drop(&mut self) {
        if !self.is_born {
            self.tenant.host().close_activity(self.activity);
        }
    }
}

/// Writes the new number where the parent and the child want it.
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
    let started = child.tenant().host().start(child.clone(), context);
    started.map_err(|error| {
        child.process().alive_threads.fetch_sub(1, Ordering::AcqRel);
        super::exit::remove(child);
        error.into()
    })
}

async fn make_process(thread: &Arc<Thread>, context: UserContext, wish: Wish) -> Outcome {
    let child = new_process(thread, &wish).await?;
    let undo = Undo(Some(child.clone()));
    inherit(thread, &child, &wish);
    tell_ids(thread, &child, &child, &wish).await?;
    undo.keep();
    let process = child.process().clone();
    cpu_limit::limited(&process);
    process.add_thread(child.clone());
    start(&child, context)?;
    if wish.has(raw::CLONE_VFORK) {
        wait_until_left(thread, &process).await;
    }
    Ok(process.id() as u64)
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
    let stamp = births::begin(thread)?;
    check_own_limit(parent)?;
    let name = alloc::string::String::from_utf8_lossy(&parent.name()).into_owned();
    let mut unborn = Unborn { tenant, activity: tenant.open_activity(&name)?, is_born: false };
    let shares = wish.has(raw::CLONE_VM);
    let space = match shares {
        true => parent.space(),
        false => parent.space().duplicate(unborn.activity).await?,
    };
    let files = parent.files().duplicate(wish.flags)?;
    let actions = parent.signals.lock().actions.clone();
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
    births::check(parent, &stamp)?;
    let id = tree.reserve(&limits, true)?;
    unborn.is_born = true;
    let process = Process::new(id, tenant.clone(), new);
    inherit_process(parent, &process);
    let child = Thread::new(id, process.clone());
    let family = match wish.has(raw::CLONE_PARENT) {
        true => tree.parent_of(parent.id()).unwrap_or(0),
        false => parent.id(),
    };
    tree.add_process(process, family, wish.exit_signal);
    tree.add_thread(child.clone());
    Ok(child)
}

fn inherit_process(parent: &Process, child: &Process) {
    let nice = parent.nice.load(Ordering::Relaxed);
    child.nice.store(nice, Ordering::Relaxed);
    if nice != 0 {
        child.tenant().host().set_nice(child.activity(), nice);
    }
    child.dumpable.store(parent.dumpable.load(Ordering::Relaxed), Ordering::Relaxed);
    let no_new = parent.no_new_privileges.load(Ordering::Relaxed);
    child.no_new_privileges.store(no_new, Ordering::Relaxed);
}

/// RLIMIT_NPROC counts the user's processes in the tenant; who has CAP_SYS_RESOURCE or CAP_SYS_ADMIN is free of it.
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
