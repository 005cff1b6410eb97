//! The whole path over a simulated link: against smoltcp, against itself, against hostile frames.

mod hostile;
mod inside;
mod local;
mod peer;
mod reuse;
mod rig;
mod room;
mod streams;
