//! Wakers that are a number: no memory, nothing to drop.

use crate::engine::Engine;
use crate::task::TaskRef;
use core::task::{RawWaker, RawWakerVTable, Waker};

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, forget);

const fn raw(word: u64) -> RawWaker {
    RawWaker::new(core::ptr::without_provenance(word as usize), &VTABLE)
}

fn clone(data: *const ()) -> RawWaker {
    raw(data.addr() as u64)
}

fn wake(data: *const ()) {
    if let Some(engine) = Engine::current() {
        engine.wake(TaskRef::decode(data.addr() as u64));
    }
}

fn forget(_data: *const ()) {}

/// Returns a waker of a task.
#[inline]
pub(crate) fn waker(task: TaskRef) -> Waker {
    // SAFETY: the functions of the table treat the data as a number and are callable from any core; a stale number wakes no task.
    unsafe { Waker::from_raw(raw(task.encode())) }
}

const _: () = assert!(size_of::<usize>() == 8, "a waker is a 64-bit number");
