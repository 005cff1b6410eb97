//! Failures on purpose, for tests of containment: a step of an activity's work fails before it begins.

use crate::engine::Engine;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_account::{ActivityId, ResourceId};
use gyre_object::{ObjectLock, SpinLock, TenantLock};

/// The words of each failure.
pub const MESSAGE: &str = "a failure on purpose";

/// How a step fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// By a panic with nothing held.
    Panic,
    /// It calls itself, and takes memory, until little stack is left.
    Stack,
    /// It calls itself until no stack is left, which is a double fault.
    Overflow,
    /// By a panic while it holds a lock of an object.
    UnderObjectLock,
    /// By a panic while it holds a lock of its tenant.
    UnderTenantLock,
    /// By a panic while it holds a lock of the machine: not to be contained.
    UnderMachineLock,
    /// Not by itself: it goes on for ever, through safe points, until another core asks for its end.
    Endless,
}

/// A failure to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Of whose work: exactly this activity's.
    pub activity: ActivityId,
    /// Of the work by this resource; by any if there is none.
    pub resource: Option<ResourceId>,
    /// Steps that succeed before.
    pub after: u64,
    /// How.
    pub kind: Kind,
}

#[derive(Default)]
pub(crate) struct Faults {
    count: AtomicUsize,
    due: SpinLock<Vec<Fault>>,
}

impl Engine {
    /// Has a step fail; each fault once.
    pub fn inject(&self, fault: Fault) {
        let mut due = self.faults.due.lock();
        due.push(fault);
        self.faults.count.store(due.len(), Ordering::Release);
    }

    /// Faults that have not happened yet.
    pub fn faults_left(&self) -> usize {
        self.faults.count.load(Ordering::Acquire)
    }

    /// Called within a step of a task, before its future.
    pub(crate) fn fail_when_due(&self, task: u32) {
        if self.faults_left() > 0
            && let Some(kind) = self.count_step(task)
        {
            fail(kind);
        }
    }

    fn count_step(&self, task: u32) -> Option<Kind> {
        let (activity, resource) = {
            let state = self.state.here().borrow();
            let header = state.tasks.get(task)?;
            (header.activity, header.resource)
        };
        let mut due = self.faults.due.lock();
        let is_of_it = |fault: &Fault| fault.activity == activity && fault.resource.is_none_or(|of| of == resource);
        let position = due.iter().position(is_of_it)?;
        let fault = due.get_mut(position)?;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        let kind = fault.kind;
        due.swap_remove(position);
        self.faults.count.store(due.len(), Ordering::Release);
        Some(kind)
    }
}

#[inline(never)]
fn fail(kind: Kind) {
    match kind {
        Kind::Panic => fail_now(),
        Kind::Stack => drop(core::hint::black_box(use_up_stack(0))),
        Kind::Overflow => drop(core::hint::black_box(overflow_stack(0))),
        Kind::UnderObjectLock => fail_with(Box::leak(Box::new(ObjectLock::new(()))).lock()),
        Kind::UnderTenantLock => fail_with(Box::leak(Box::new(TenantLock::new(()))).lock()),
        Kind::UnderMachineLock => fail_with(Box::leak(Box::new(SpinLock::new(()))).lock()),
        Kind::Endless => go_on(),
    }
}

/// Data behind the guard's lock stays as it is: nothing of a step that is given up is dropped on the machine, nor here.
fn fail_with<G>(guard: G) {
    core::mem::forget(guard);
    fail_now();
}

#[cfg(target_os = "none")]
fn fail_now() {
    panic!("{MESSAGE}");
}

/// A host's panic would be written to the test's output.
#[cfg(not(target_os = "none"))]
fn fail_now() {
    std::panic::resume_unwind(Box::new(MESSAGE));
}

// loop: without an end, because that is the failure; it is built with fault injection only
/// Takes a lock and opens it again, until the core that watches this one has it fail at one of these safe points.
#[inline(never)]
fn go_on() {
    let lock = ObjectLock::new(0_u64);
    loop {
        let mut rounds = lock.lock();
        *rounds = rounds.wrapping_add(1);
    }
}

/// Steps below each other on a host, whose stack is not used up.
const HOST_DEPTH: u64 = 100;

// recursion: at most as deep as the stack, because it is made to use that up; it is built with fault injection only
/// Calls itself until the heap finds too little stack.
#[inline(never)]
fn use_up_stack(depth: u64) -> u64 {
    if cfg!(not(target_os = "none")) && depth > HOST_DEPTH {
        fail_now();
    }
    let held = core::hint::black_box(Box::new(depth));
    match depth {
        u64::MAX => 0,
        _ => use_up_stack(depth + 1).wrapping_add(*held),
    }
}

// recursion: at most as deep as the stack, because it is made to overflow that; it is built with fault injection only
/// Calls itself without a look at what is left of the stack.
#[inline(never)]
fn overflow_stack(depth: u64) -> u64 {
    if cfg!(not(target_os = "none")) && depth > HOST_DEPTH {
        fail_now();
    }
    let held = core::hint::black_box([depth; 8]);
    match depth {
        u64::MAX => 0,
        _ => overflow_stack(depth + 1).wrapping_add(core::hint::black_box(held)[7]),
    }
}
