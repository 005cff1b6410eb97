//! A thread of the program: a stack, a place for its registers, and what its scheduler wants to know of it.
//!
//! | type | is |
//! |---|---|
//! | [`Fiber`] | the thread, on the heap from its start to its end |
//! | [`Held`] | the right to say when it goes on; there is one while it does not run, and none while it runs |
//! | [`Stack`] | a mapping with a page below that faults |
//!
//! States: parked on its stack, stopped by a tick with its registers saved, running. One that stands for a kernel thread has no stack here.

use std::{
    cell::{Cell, UnsafeCell},
    io,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering},
};

use gyre_contract::pulse::CONTEXT_BYTES;

use crate::mutex::Word;

/// The most threads at a time.
pub const THREADS_MAX: usize = 1024;

/// Bytes of a stack, and of the page below it that faults.
pub(crate) const STACK_BYTES: usize = 64 << 10;
const GUARD_BYTES: usize = 4096;

/// A mapping for a stack, with a page below that faults.
pub(crate) struct Stack {
    base: NonNull<u8>,
    bytes: usize,
}

impl Stack {
    pub(crate) fn new(bytes: usize) -> io::Result<Stack> {
        let whole = bytes + GUARD_BYTES;
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), whole, rights, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the first page of our own mapping.
        unsafe { libc::mprotect(base, GUARD_BYTES, libc::PROT_NONE) };
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Stack { base, bytes: whole })
    }

    pub(crate) fn end(&self) -> u64 {
        self.base.as_ptr() as u64 + self.bytes as u64
    }

    fn words(&mut self) -> &mut [u64] {
        let words = (self.bytes - GUARD_BYTES) / size_of::<u64>();
        // SAFETY: the part above the guard is ours, readable, writable, aligned and zero.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(GUARD_BYTES).cast(), words) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: our own mapping; nobody runs on it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// The place at which a thread that does not run goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At a stack that it left itself.
    Parked,
    /// In the context that a tick has saved.
    Stopped,
}

/// A saved context, as `gyre_contract::pulse::Context` says.
#[repr(C, align(64))]
pub(crate) struct Saved(pub(crate) UnsafeCell<[u8; CONTEXT_BYTES]>);

pub(crate) struct Fiber {
    pub(crate) context: Saved,
    pub(crate) place: Cell<Place>,
    /// Stack pointer while parked.
    pub(crate) parked: Cell<u64>,
    /// Masks of ticks when it parked.
    pub(crate) masks: Cell<u32>,
    pub(crate) work: Cell<Option<Box<dyn FnOnce() + Send>>>,
    /// Its deadline by itself and by those who wait for it, ns; `u64::MAX` for none.
    pub(crate) deadline_ns: AtomicU64,
    pub(crate) inherited_ns: AtomicU64,
    /// The mutex that it waits for.
    pub(crate) waits_for: AtomicPtr<Word>,
    /// Mutexes that it holds.
    pub(crate) holds: Cell<u32>,
    /// Time that it has run, and when it began to.
    pub(crate) run_ns: AtomicU64,
    pub(crate) since_ns: Cell<u64>,
    pub(crate) last_ns: Cell<u64>,
    /// Of a kernel thread: the virtual core that it has, by its number plus 1; 0 while it waits for one.
    pub(crate) turn: AtomicU32,
    /// None for a kernel thread, which has its own.
    stack: Option<Stack>,
}

impl Fiber {
    pub(crate) fn new(work: Box<dyn FnOnce() + Send>, entry: extern "C" fn(*const u8) -> !) -> io::Result<Box<Fiber>> {
        let mut stack = Stack::new(STACK_BYTES)?;
        let mut fiber = Fiber::of_thread();
        fiber.work = Cell::new(Some(work));
        let argument = (&raw const *fiber).cast();
        fiber.parked = Cell::new(crate::switch::prepare(stack.words(), entry, argument));
        fiber.stack = Some(stack);
        Ok(fiber)
    }

    /// One that stands for a kernel thread.
    pub(crate) fn of_thread() -> Box<Fiber> {
        Box::new(Fiber {
            context: Saved(UnsafeCell::new([0; CONTEXT_BYTES])),
            place: Cell::new(Place::Parked),
            parked: Cell::new(0),
            masks: Cell::new(1),
            work: Cell::new(None),
            deadline_ns: AtomicU64::new(u64::MAX),
            inherited_ns: AtomicU64::new(u64::MAX),
            waits_for: AtomicPtr::new(std::ptr::null_mut()),
            holds: Cell::new(0),
            run_ns: AtomicU64::new(0),
            since_ns: Cell::new(0),
            last_ns: Cell::new(0),
            turn: AtomicU32::new(0),
            stack: None,
        })
    }

    /// It begins to run.
    pub(crate) fn begin_run(&self, now_ns: u64) {
        self.since_ns.set(now_ns);
    }

    /// It does not run any more.
    pub(crate) fn end_run(&self, now_ns: u64) {
        self.last_ns.set(now_ns.saturating_sub(self.since_ns.get()));
        self.run_ns.fetch_add(self.last_ns.get(), Ordering::Relaxed);
    }

    pub(crate) fn context_address(&self) -> u64 {
        self.context.0.get() as u64
    }

    /// The deadline that counts.
    pub(crate) fn due_ns(&self) -> u64 {
        self.deadline_ns.load(Ordering::Relaxed).min(self.inherited_ns.load(Ordering::Relaxed))
    }
}

/// A thread that does not run. There is one for each: who has it decides when the thread goes on.
pub struct Held(NonNull<Fiber>);

// SAFETY: whoever has it is the only one who touches the parts of the thread that are no atomics.
unsafe impl Send for Held {}

impl Held {
    /// # Safety
    /// The fiber is on the heap, does not run, and nobody else has one for it.
    pub(crate) unsafe fn new(fiber: NonNull<Fiber>) -> Held {
        Held(fiber)
    }

    pub(crate) fn fiber(&self) -> &Fiber {
        // SAFETY: it lives while it is held.
        unsafe { self.0.as_ref() }
    }

    /// Gives it to code in another language, as an address.
    pub fn into_raw(self) -> *mut u8 {
        self.into_fiber().as_ptr().cast()
    }

    /// Takes it back.
    ///
    /// # Safety
    /// The address is one of [`Held::into_raw`], and taken back once.
    pub unsafe fn from_raw(address: *mut u8) -> Option<Held> {
        NonNull::new(address.cast()).map(Held)
    }

    pub(crate) fn into_fiber(self) -> NonNull<Fiber> {
        let fiber = self.0;
        std::mem::forget(self);
        fiber
    }

    /// A number that no other thread has at this time.
    pub fn id(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    /// The time at which the thread, or one that waits for a mutex of it, must be done, ns; `u64::MAX` for never.
    pub fn deadline_ns(&self) -> u64 {
        self.fiber().due_ns()
    }

    /// Time of its last run, ns.
    pub fn last_run_ns(&self) -> u64 {
        self.fiber().last_ns.get()
    }

    /// Time that it has run, ns.
    pub fn run_ns(&self) -> u64 {
        self.fiber().run_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Its thread could never go on, and the program never end.
        eprintln!("gyre-pulse: a scheduler has lost a thread");
        std::process::abort();
    }
}
