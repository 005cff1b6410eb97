//! The zones over instances that are not there: fakes of every temper.

mod bad_input;
mod changes;
mod comers;
mod crashes;
mod ends;
mod fake;
mod furnished;
mod links;
mod random;
mod search;
mod serving;
mod wishes;
pub(crate) mod world;
