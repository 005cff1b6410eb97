//! Promises that end with the work that was to keep them, also if that work is given up and nothing of it is dropped.
//!
//! [`Kept`] holds a promise beside the work that makes its value, and notes its address while the work is polled. Work that is given up so
//! leaves a note of the promise of the innermost one; [`end_promise`] takes it from there and drops it.

use core::future::Future;
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll};

/// A duty to say a value once. A promise that is dropped unkept says that by itself.
pub trait Promise {
    /// The value that is promised.
    type Value;
    /// Says it.
    fn keep(self, value: Self::Value);
}

/// The address of the promise of the work in hand: a [`Duty`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Note(Option<NonNull<u8>>);

impl Note {
    /// No promise.
    pub const NONE: Note = Note(None);
}

#[cfg(target_os = "none")]
mod place {
    use super::Note;
    use core::ptr::{NonNull, null_mut};

    #[inline(always)]
    pub(super) fn get() -> Note {
        Note(NonNull::new(gyre_machine::noted()))
    }

    #[inline(always)]
    pub(super) fn set(note: Note) {
        gyre_machine::note(note.0.map_or(null_mut(), NonNull::as_ptr));
    }
}

#[cfg(not(target_os = "none"))]
mod place {
    use super::Note;
    use core::cell::Cell;

    std::thread_local! {
        // A thread plays one core at a time and never changes it within a poll.
        static NOTE: Cell<Note> = const { Cell::new(Note::NONE) };
    }

    #[inline]
    pub(super) fn get() -> Note {
        NOTE.get()
    }

    #[inline]
    pub(super) fn set(note: Note) {
        NOTE.set(note);
    }
}

/// Returns the promise that is noted now.
#[inline]
pub fn noted_promise() -> Note {
    place::get()
}

/// Notes another promise, or none, and answers the one noted before. Code that polls work of its own calls this around each poll.
#[inline]
pub fn note_promise(note: Note) -> Note {
    let before = place::get();
    place::set(note);
    before
}

/// Drops the promise that is noted.
///
/// # Safety
/// The work that was polled when it was noted is never polled or dropped again.
pub unsafe fn end_promise() {
    if let Some(duty) = note_promise(Note::NONE).0 {
        // SAFETY: the note was made by `Kept::poll` of a duty, which begins with the function for its type.
        let end = unsafe { duty.cast::<unsafe fn(NonNull<u8>)>().read() };
        // SAFETY: the note is taken back before the promise is touched or moves; the caller says that no other code does.
        unsafe { end(duty) }
    }
}

/// # Safety
/// A [`Duty`] of this type that no other code uses lies at `duty`.
unsafe fn end<P>(duty: NonNull<u8>) {
    // SAFETY: as the caller says.
    drop(unsafe { duty.cast::<Duty<P>>().as_mut() }.promise.take());
}

/// A promise, behind the function that drops it: so one word tells of both.
#[repr(C)]
struct Duty<P> {
    end: unsafe fn(NonNull<u8>),
    promise: Option<P>,
}

/// Work, and the promise of what it makes.
#[must_use = "runs only when awaited"]
pub struct Kept<P, F> {
    duty: Duty<P>,
    work: F,
}

/// Keeps `promise` with what `work` makes.
#[inline]
pub fn keep<P: Promise, F: Future<Output = P::Value>>(promise: P, work: F) -> Kept<P, F> {
    Kept { duty: Duty { end: end::<P>, promise: Some(promise) }, work }
}

impl<P: Promise, F: Future<Output = P::Value>> Future for Kept<P, F> {
    type Output = ();
    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // SAFETY: nothing is moved out of `work`, which is pinned with us.
        let this = unsafe { self.get_unchecked_mut() };
        let outer = note_promise(Note(Some(NonNull::from(&mut this.duty).cast())));
        // SAFETY: it is pinned as we are, and never moved.
        let answer = unsafe { Pin::new_unchecked(&mut this.work) }.poll(context);
        place::set(outer);
        let Poll::Ready(value) = answer else { return Poll::Pending };
        if let Some(promise) = this.duty.promise.take() {
            promise.keep(value);
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::future::{pending, ready};
    use core::mem::ManuallyDrop;
    use core::pin::pin;
    use core::task::Waker;
    use std::sync::mpsc::{Receiver, Sender, channel};

    struct Told(Option<Sender<&'static str>>);

    impl Promise for Told {
        type Value = &'static str;
        fn keep(mut self, value: &'static str) {
            self.0.take().unwrap().send(value).unwrap();
        }
    }

    impl Drop for Told {
        fn drop(&mut self) {
            if let Some(sender) = self.0.take() {
                sender.send("gone").unwrap();
            }
        }
    }

    fn told() -> (Told, Receiver<&'static str>) {
        let (sender, receiver) = channel();
        (Told(Some(sender)), receiver)
    }

    #[test]
    fn a_promise_is_kept_once() {
        let (promise, heard) = told();
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(keep(promise, ready("done"))).poll(&mut context).is_ready());
        // SAFETY: nothing is noted.
        unsafe { end_promise() };
        assert_eq!(heard.iter().collect::<std::vec::Vec<_>>(), ["done"]);
    }

    #[test]
    fn work_that_is_given_up_leaves_its_own_promise_to_be_ended() {
        let (outer, outer_heard) = told();
        let (inner, inner_heard) = told();
        let failing = async { std::panic::resume_unwind(std::boxed::Box::new(())) };
        let mut lost = ManuallyDrop::new(std::boxed::Box::pin(keep(inner, failing)));
        let caller = async {
            let before = note_promise(Note::NONE);
            let mut context = Context::from_waker(Waker::noop());
            let poll = std::panic::AssertUnwindSafe(|| lost.as_mut().poll(&mut context));
            assert!(std::panic::catch_unwind(poll).is_err());
            // SAFETY: `lost` is not used again.
            unsafe { end_promise() };
            note_promise(before);
            pending().await
        };
        let mut outer = pin!(keep(outer, caller));
        assert!(outer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(inner_heard.try_recv(), Ok("gone"));
        assert!(outer_heard.try_recv().is_err());
    }
}
