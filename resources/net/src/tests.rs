//! The whole path over a simulated link: against smoltcp, against itself, against hostile frames.

mod doors;
mod echoes;
mod hostile;
mod inside;
mod links;
mod lite;
mod local;
mod overload;
mod peer;
mod reuse;
mod rig;
mod room;
mod search;
mod streams;
