//! The engine: queues in front of resources, a scheduler before each, tasks, timers, the loop of a core, accounting.
//!
//! See README.md for how a kernel is wired together with it. Reading order: [`grid`], [`port`](Engine::port), `dispatch`, `state`,
//! then the primitives `task`, `slab`, `queue`, `ring`, `sleep`.
//!
//! Invariants:
//! * A core's state is borrowed only for moments in which no foreign code runs; no handler, drop or waker runs under a borrow.
//! * A future is polled, or dropped, by the one that put its header into the state Running.
//! * Every start and every resumption is a queued, scheduled, stamped and charged message, or an inline call charged as such.
//! * The spans of a core sum up to its elapsed time, exactly.
#![no_std]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

mod aggregate;
mod balance;
mod behalf;
mod bits;
pub mod cause;
mod cells;
pub mod compute;
pub mod containment;
pub mod control;
mod depart;
mod dispatch;
mod elastic;
mod engine;
mod entitlement;
mod event;
#[cfg(feature = "fault-injection")]
pub mod fault;
pub mod grid;
mod hot;
mod inbox;
mod kept;
pub mod kill;
mod labels;
mod late;
pub mod limits;
mod local;
#[cfg(all(test, loom))]
mod loom_tests;
mod map;
mod member;
mod notice;
mod origin;
mod pinned;
mod placement;
mod port;
mod queue;
mod record;
mod report;
mod resource;
mod resumption;
mod ring;
mod runtime;
mod scheduler;
#[cfg(not(target_os = "none"))]
pub mod simulate;
mod slab;
mod sleep;
mod slots;
pub mod snapshot;
mod state;
mod suspend;
mod sync;
mod task;
mod thread;
mod ticks;
mod timer;
mod turn;
mod vtable;
mod wake;
mod waker;
mod watch;

pub use aggregate::{AGGREGATES_MAX, AGGREGATES_OF_PROCESS_MAX, Aggregate, AggregateError, Standing, ThreadPolicy};
pub use behalf::Mark;
pub use cells::CellsError;
pub use compute::{Run, ThreadParams};
pub use containment::{Lost, Mourner, Obituary, Reach};
pub use dispatch::Step;
pub use elastic::{Holder, JoinError, WithdrawError, Withdrawal, Withdrawn};
pub use engine::{COMPUTE, Engine, FIRST_RESOURCE, GridError, LEASE};
pub use entitlement::Entitlement;
pub use event::InterruptHandler;
pub use grid::{GridConfig, ResourceConfig, weighted_cpu};
pub use notice::{Notice, NoticeRoute};
pub use origin::Origin;
pub use report::Say;
pub use slots::RESIDENT;
pub use suspend::{ResourceHandle, UntilAccepted};
pub use ticks::Ticks;
