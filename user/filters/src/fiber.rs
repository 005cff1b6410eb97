//! A stack for each filter. The hook of an interpreter calls [`pause`] in the middle of a program; the service goes on, and resumes the
//! program there later.
//!
//! Protocol of use: [`Fiber::new`], [`Fiber::resume`] until it answers [`Step::Over`]. A fiber that is dropped earlier is resumed with
//! [`Go::End`], which its hooks turn into an error of the program; so every interpreter leaves its stack by its own way. One that does not
//! leave within [`ENDINGS`] pauses keeps its stack for ever: nothing else is safe then.

use std::{cell::Cell, io, ptr};

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};

/// Bytes of a stack; only those that were used take memory. Interpreters without optimisation have frames ten times as large.
const STACK_BYTES: usize = if cfg!(debug_assertions) { 8 << 20 } else { 512 << 10 };
/// Pauses after which a program that is to end is left alone.
const ENDINGS: usize = 1000;

/// The word with which a program goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// Go on.
    On,
    /// Leave.
    End,
}

/// How a turn of a fiber ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It paused.
    Paused,
    /// Its program has ended: why.
    Over(String),
}

type Pauses = Yielder<Go, ()>;

thread_local! {
    /// The fiber that runs.
    static RUNNING: Cell<*const Pauses> = const { Cell::new(ptr::null()) };
}

/// A program with a stack of its own.
pub struct Fiber {
    coroutine: Option<Coroutine<Go, (), String>>,
    own: Cell<*const Pauses>,
}

impl Fiber {
    /// Makes a fiber that begins with the first [`Fiber::resume`]. `body` answers why it ended.
    ///
    /// # Errors
    /// There is no memory for a stack.
    pub fn new(body: impl FnOnce() -> String + 'static) -> io::Result<Fiber> {
        let coroutine = Coroutine::with_stack(DefaultStack::new(STACK_BYTES)?, move |pauses: &Pauses, go| {
            RUNNING.set(ptr::from_ref(pauses));
            match go {
                Go::On => body(),
                Go::End => String::new(),
            }
        });
        Ok(Fiber { coroutine: Some(coroutine), own: Cell::new(ptr::null()) })
    }

    /// Lets the program go on until it pauses or ends.
    pub fn resume(&mut self, go: Go) -> Step {
        let Some(coroutine) = self.coroutine.as_mut() else { return Step::Over(String::new()) };
        let outer = RUNNING.replace(self.own.get());
        let result = coroutine.resume(go);
        self.own.set(RUNNING.replace(outer));
        match result {
            CoroutineResult::Yield(()) => Step::Paused,
            CoroutineResult::Return(why) => {
                self.coroutine = None;
                Step::Over(why)
            }
        }
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        for _ in 0..ENDINGS {
            if self.coroutine.is_none() {
                return;
            }
            self.resume(Go::End);
        }
        std::mem::forget(self.coroutine.take());
    }
}

/// Pauses the fiber that runs; answers how it is to go on. Outside of one it goes on at once.
#[allow(unsafe_code, reason = "an interpreter's hook cannot borrow from the stack below it")]
pub fn pause() -> Go {
    let running = RUNNING.get();
    if running.is_null() {
        return Go::On;
    }
    // SAFETY: `RUNNING` is not null only while the fiber whose stack holds this value runs: `resume` puts the outer one back when it
    // returns, and nothing else resumes a fiber.
    unsafe { (*running).suspend(()) }
}
