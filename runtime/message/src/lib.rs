//! Requests and replies between resources.
//!
//! A protocol is declared once with [`protocol!`]; that yields the request enum, the server trait, the client and the
//! dispatcher. A client's method sends at once and returns a [`Call`], a future of the reply; each request carries its typed
//! [`Reply`] token, and a token dropped unsent answers [`Gone`], so no caller waits for ever.
//!
//! Between a client and a server stands a [`Port`]: in the kernel the engine's queues and schedulers, in host tests
//! [`direct`], which serves at once.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod boxed;
#[cfg(any(test, feature = "direct"))]
pub mod direct;
pub mod ending;
pub mod link;
pub mod patience;
mod protocol;
pub mod reply;
pub mod runtime;
pub mod wait;

pub use boxed::boxed;
pub use ending::ending;
pub use gyre_object::promise::keep;
pub use link::{Labels, Link, Port};
pub use patience::within;
pub use reply::{Answer, Call, Gone, Reply, reply_pair};
pub use runtime::{
    Late, RESIDENT, Runtime, at_end_of_turn, set_runtime, sleep_ns, sleep_until, spawn, spawn_on, spawn_resident,
    yield_now,
};
pub use wait::{WaitQueue, select};
