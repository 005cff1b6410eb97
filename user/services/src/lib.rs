//! Services in tenants of their own: what a monolithic kernel would do for all, done by programs that others reach by channels.
//!
//! ```text
//!   clients ==requests==> listener "service" --a queue each--> turns by a policy --> the one worker --> answers
//!                                                  ^ fractions: admitted, moved by the broker
//! ```
//! * [`protocol`]: the messages; [`client`]: a client's end.
//! * [`fractions`]: who may have how much of a service, and the sum that must fit; [`turns`]: the queues, with a policy of `gyre-schedulers`.
//! * [`service`]: the loop of any service; [`files`], [`network`], [`frames`]: the three.
//! * [`script`]: what the program does at the command line.
//!
//! A service works at its client's expense if that has granted something (`gyre_native::channel::Channel::on_behalf`), and says in its answer
//! whether it did. It has one worker, so its fractions divide one thing; a cell in time gives it its core.
#![forbid(unsafe_code)]

pub mod client;
pub mod files;
pub mod fractions;
pub mod frames;
pub mod inquiry;
pub mod network;
pub mod protocol;
pub mod script;
pub mod service;
pub mod turns;
