//! A thread's place for its tracer: the bond, and the halt in which the thread stands.
//!
//! * [`tie`] makes a bond, [`untie`] ends it; the end of either one does so too ([`super::tracees`]). A thread has one tracer at most.
//! * Requests of the tracer change bond and halt under one lock; the thread's own task begins a halt and takes its end ([`super::halt`]).
//! * Flags beside the lock answer what the thread asks often, or under locks that come after this one.
//!
//! ```text
//!   no tracer --tie--> runs <--> halted      each --untie, end of the tracer--> no tracer
//! ```
//! Everything here may be called by any task of the tenant, and nothing waits.

use super::Options;
use super::access::Right;
use super::halt::{Halt, Told};
use crate::{Errno, Process, Thread};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use gyre_message::WaitQueue;
use gyre_object::TenantLock;

/// How a thread came to be traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// By TRACEME or ATTACH: it begins with SIGSTOP, and CONT ends a stop of its process for it.
    Attached,
    /// By SEIZE: it goes on until INTERRUPT, and tells of stops of its process as such.
    Seized,
}

/// How far a tracee goes on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Go {
    /// To its next signal or event.
    #[default]
    On,
    /// To its next call as well, or out of it.
    ToCall,
    /// By one instruction.
    Step,
}

/// The tie between a tracee and its tracer.
#[derive(Clone)]
pub(crate) struct Bond {
    pub(super) tracer: Weak<Process>,
    pub(super) way: Way,
    pub(super) options: Options,
    pub(super) go: Go,
    pub(super) right: Right,
}

/// The part of a place under the lock.
#[derive(Default)]
pub(super) struct Inner {
    pub(super) bond: Option<Bond>,
    pub(super) halt: Option<Halt>,
    /// The thread has ended: nobody ties it any more.
    is_over: bool,
}

/// A thread's place for its tracer.
#[derive(Default)]
pub(crate) struct Tracee {
    pub(super) inner: TenantLock<Inner>,
    /// There is a bond.
    is_on: AtomicBool,
    /// It stands in a halt.
    is_halted: AtomicBool,
    /// It is to halt before it goes on: PTRACE_INTERRUPT, or the beginning of a seized one.
    is_called: AtomicBool,
    /// It has told of the stop of its process, and goes on all the same.
    passes_stop: AtomicBool,
    /// Woken when it may leave its halt.
    pub(super) released: WaitQueue,
    /// The status with which it ends alone (wait's form); negative for none.
    end_status: AtomicI32,
}

impl Tracee {
    /// Returns whether it has a tracer.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Returns whether it stands in a halt, for /proc.
    pub(crate) fn is_halted(&self) -> bool {
        self.is_halted.load(Ordering::Relaxed)
    }

    pub(super) fn begin_halt(&self) {
        self.is_halted.store(true, Ordering::Relaxed);
    }

    pub(super) fn end_halt(&self) {
        self.is_halted.store(false, Ordering::Relaxed);
    }

    /// Returns whether it is to halt before it goes on.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        self.is_called.load(Ordering::Acquire)
    }

    pub(super) fn call(&self) {
        self.is_called.store(true, Ordering::Release);
    }

    pub(super) fn take_call(&self) -> bool {
        self.is_called.swap(false, Ordering::AcqRel)
    }

    /// Returns whether it goes on although its process is stopped.
    #[inline]
    pub(crate) fn passes_stop(&self) -> bool {
        self.passes_stop.load(Ordering::Acquire)
    }

    /// It has told of the stop: from now on it goes on although its process is stopped.
    pub(super) fn begin_to_pass_stop(&self) {
        self.passes_stop.store(true, Ordering::Release);
    }

    /// The next stop holds it: its process stops anew, or its tracer lets it go.
    pub(crate) fn heed_stop(&self) {
        self.passes_stop.store(false, Ordering::Release);
    }

    /// Notes with what status the thread ends alone, by its own call.
    pub(crate) fn note_end(&self, status: i32) {
        self.end_status.store(status.saturating_add(1), Ordering::Relaxed);
    }

    /// Returns that status, if it was noted.
    pub(super) fn end_status(&self) -> Option<i32> {
        self.end_status.load(Ordering::Relaxed).checked_sub(1).filter(|status| *status >= 0)
    }

    /// Returns its tracer, while that lives.
    pub(crate) fn tracer(&self) -> Option<Arc<Process>> {
        if !self.is_on() {
            return None;
        }
        self.inner.lock().bond.as_ref().and_then(|bond| bond.tracer.upgrade())
    }

    /// Returns whether this process is its tracer.
    pub(crate) fn is_traced_by(&self, process: i32) -> bool {
        self.tracer().is_some_and(|tracer| tracer.id() == process)
    }

    /// Returns its bond.
    pub(super) fn bond(&self) -> Option<Bond> {
        if !self.is_on() {
            return None;
        }
        self.inner.lock().bond.clone()
    }

    /// Returns how far it goes on.
    pub(super) fn go(&self) -> Go {
        self.bond().map_or(Go::On, |bond| bond.go)
    }

    /// Returns whether its tracer wants to know of something.
    pub(super) fn wants(&self, option: Options) -> bool {
        self.bond().is_some_and(|bond| bond.options.contains(option))
    }

    /// Forgets all, for the thread that ends; returns its tracer.
    pub(super) fn end(&self) -> Option<Arc<Process>> {
        let mut inner = self.inner.lock();
        (inner.is_over, inner.halt) = (true, None);
        let bond = inner.bond.take();
        drop(inner);
        self.is_on.store(false, Ordering::Release);
        bond.and_then(|bond| bond.tracer.upgrade())
    }
}

/// Ties a thread to a tracer.
///
/// # Errors
/// EPERM if it has a tracer, ESRCH if one of both has ended.
pub(super) fn tie(thread: &Arc<Thread>, tracer: &Arc<Process>, bond: Bond) -> Result<(), Errno> {
    let mut inner = thread.tracee.inner.lock();
    if inner.is_over || thread.process().is_ending() {
        return Err(Errno::ESRCH);
    }
    if inner.bond.is_some() || inner.halt.is_some() {
        return Err(Errno::EPERM);
    }
    tracer.tracees.add(thread)?;
    inner.bond = Some(bond);
    thread.tracee.is_on.store(true, Ordering::Release);
    thread.dispatch.begin_ptrace();
    Ok(())
}

/// Unties a thread from its tracer; it goes on with a signal, 0 for none. Nothing if it has another tracer, or none.
pub(super) fn untie(thread: &Arc<Thread>, tracer: &Process, signal: i32) {
    let tracee = &thread.tracee;
    let mut inner = tracee.inner.lock();
    if !inner.bond.as_ref().is_some_and(|bond| core::ptr::eq(bond.tracer.as_ptr(), tracer)) {
        return;
    }
    inner.bond = None;
    tracee.is_on.store(false, Ordering::Release);
    tracer.tracees.remove(thread.id());
    if let Some(halt) = &mut inner.halt {
        halt.release(signal);
    }
    tracee.take_call();
    tracee.heed_stop();
    thread.dispatch.end_ptrace();
    drop(inner);
    tracee.released.wake_all();
    // It may have run on although its process is stopped.
    thread.notify();
}

/// Has wait told of the halt of a thread that listens, since its process goes on or its tracer interrupts it; false if it listens to nothing.
pub(crate) fn wake_listener(thread: &Arc<Thread>) -> bool {
    let mut inner = thread.tracee.inner.lock();
    let Some(halt) = inner.halt.as_mut().filter(|halt| halt.told == Told::Listens) else { return false };
    halt.become_trap();
    drop(inner);
    super::halt::tell(thread);
    true
}
