//! Filters of event streams (Vortex, 2003, section 5; WAIF): small client programs in four languages, each with a guaranteed share of one
//! service's processor, a limit of memory and a bounded queue of events.
//!
//! | module | holds |
//! |---|---|
//! | [`event`] | events, and a filter's mailbox |
//! | [`fiber`] | a stack for each filter, so that the hook of any interpreter can hold it and go on later |
//! | [`turn`] | the turn of a filter: when it is over, and what its program asks |
//! | [`language`] | the four languages behind one trait: [`lua`], [`javascript`], [`rhai`], [`wasm`] |
//! | [`host`] | filters, their figures, and the choice of the next one by a policy of `gyre_schedulers` |
//! | [`samples`] | programs that correlate, loop, allocate, throw and recurse |
//! | [`play`] | many of them for a time, measured |
//! | [`serve`] | the service: clients upload filters, send events and follow what filters emit |
//!
//! A filter is charged the processor time of the service's thread while its program runs, so a filter that computes more per event gets
//! fewer events, not more time. Events for which its queue has no room are its own loss, and counted.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod event;
pub mod fiber;
pub mod host;
pub mod javascript;
pub mod language;
pub mod lua;
pub mod play;
pub mod rhai;
pub mod samples;
pub mod serve;
pub mod turn;
pub mod wasm;

#[cfg(test)]
mod tests;
