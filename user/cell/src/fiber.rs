//! Fibers: the threads of a program in a cell. A policy says who runs next ([`RoundRobin`], [`Newest`]).

mod newest;
mod registers;
mod round_robin;

pub use newest::Newest;
pub use registers::{Extended, Registers};
pub use round_robin::RoundRobin;

/// Fibers of a cell.
pub const FIBERS_MAX: usize = 64;

/// A fiber by its place.
pub type FiberId = usize;

/// A fiber's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The place is free.
    Free,
    /// It runs, or waits for its turn.
    Ready,
    /// It waits for the line with this index.
    Line(usize),
    /// It waits for the cell's disk.
    Disk,
    /// It waits for the cell's network card, until a time in nanoseconds ([`NEVER`]: without limit).
    Card(u64),
    /// It waits at a word of memory, with a mask of reasons, until a time in nanoseconds ([`NEVER`]: without limit).
    Word {
        /// The word's address.
        address: u64,
        /// Bits of the reasons for which it may be woken.
        mask: u32,
        /// The time at which it gives up.
        until: u64,
    },
    /// It sleeps until a time in nanoseconds.
    Asleep(u64),
}

/// A time that does not come.
pub const NEVER: u64 = u64::MAX;

impl State {
    /// The time at which it goes on by itself.
    pub fn deadline(self) -> u64 {
        match self {
            Self::Word { until, .. } | Self::Asleep(until) | Self::Card(until) => until,
            _ => NEVER,
        }
    }
}

/// A thread of the program.
#[derive(Debug)]
pub struct Fiber {
    /// Its registers, while it does not run.
    pub registers: Registers,
    /// The base of its `fs` segment: its thread-local memory.
    pub fs: u64,
    /// Its state.
    pub state: State,
    /// Its number.
    pub tid: u32,
    /// A word that is set to 0, and woken, when it ends; 0 for none.
    pub clear_at_end: u64,
    /// Signals that are held back, bit `n - 1` for signal `n`.
    pub blocked: u64,
    /// Signals that were sent to this thread alone and wait.
    pub pending: u64,
    /// The value of `blocked` before the thread began to wait under another mask.
    pub blocked_before: Option<u64>,
    /// Its stack for signals: address and bytes; none if 0.
    pub signal_stack: [u64; 2],
    /// The call that its line stands for.
    pub call: Call,
    /// The call that is answered when that one is.
    pub then: Option<Call>,
    /// That call was given up because of a signal, and may be made again after it.
    pub is_interrupted: bool,
    /// Floating-point and vector registers.
    pub extended: Extended,
}

/// A system call.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Call {
    /// Its number.
    pub number: u32,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// How often it was sent.
    pub sent: u32,
}

impl Fiber {
    /// An empty place.
    pub const FREE: Self = Self {
        registers: Registers::ZERO,
        fs: 0,
        state: State::Free,
        tid: 0,
        clear_at_end: 0,
        blocked: 0,
        pending: 0,
        blocked_before: None,
        signal_stack: [0; 2],
        call: Call { number: 0, arguments: [0; 6], sent: 0 },
        then: None,
        is_interrupted: false,
        extended: Extended::NEW,
    };
}

/// A policy for who runs next. It holds fibers that are ready and do not run.
pub trait Scheduler {
    /// A fiber has become ready.
    fn add(&mut self, fiber: FiberId);

    /// A fiber lets others go first.
    fn give_way(&mut self, fiber: FiberId) {
        self.add(fiber);
    }

    /// Takes the next one.
    fn next(&mut self) -> Option<FiberId>;
}
