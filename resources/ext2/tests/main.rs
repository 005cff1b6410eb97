//! The file system over a block device in memory, as a client of its protocol sees it.
//!
//! One program for all of it: each one more would be compiled with the whole support, and linked.

mod around;
mod contents;
mod cost;
#[allow(dead_code, unused_imports, reason = "examples use the rest")]
mod crash;
mod crowd;
mod direct;
mod failing;
mod features;
mod fetch;
#[allow(dead_code, unused_imports, reason = "examples use the rest")]
mod hostile;
mod killed;
mod lent;
mod mapped;
mod model;
mod moments;
mod moved;
mod near;
mod random_reads;
mod reading;
mod reading_around;
mod room;
mod search;
mod shared;
mod stale;
mod storm;
mod support;
mod taken;
mod unmounting;
mod writing;
