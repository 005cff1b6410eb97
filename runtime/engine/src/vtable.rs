//! The functions of a future whose type the engine has forgotten.

use crate::slab::Place;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll};

/// How to poll, drop and place a future.
pub(crate) struct Vtable {
    /// Polls the future at the address. It is pinned there: it never moves until it is dropped.
    pub(crate) poll: unsafe fn(NonNull<u8>, &mut Context<'_>) -> Poll<()>,
    /// Drops it in place.
    pub(crate) drop: unsafe fn(NonNull<u8>),
    /// The source of its memory.
    pub(crate) place: Place,
}

/// Futures the engine can run.
pub(crate) trait Erased: Future<Output = ()> + Sized {
    const VTABLE: Vtable;
}

impl<F: Future<Output = ()>> Erased for F {
    const VTABLE: Vtable = Vtable { poll: poll::<F>, drop: drop_in_place::<F>, place: Place::of::<F>() };
}

/// A future that may move to another core while it is not polled.
pub(crate) type Movable = Pin<Box<dyn Future<Output = ()> + Send>>;

/// # Safety
/// A valid, pinned F lies at `memory`, and no other code touches it meanwhile.
unsafe fn poll<F: Future<Output = ()>>(memory: NonNull<u8>, context: &mut Context<'_>) -> Poll<()> {
    // SAFETY: the caller says that an F lies there and that it is ours alone.
    let future = unsafe { memory.cast::<F>().as_mut() };
    // SAFETY: slots do not move, and `drop` below runs before a slot is used again.
    unsafe { Pin::new_unchecked(future) }.poll(context)
}

/// # Safety
/// A valid F lies at `memory`; it is not used afterwards.
unsafe fn drop_in_place<F>(memory: NonNull<u8>) {
    // SAFETY: the caller hands the value over.
    unsafe { memory.cast::<F>().drop_in_place() }
}
