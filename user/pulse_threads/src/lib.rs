//! A scheduler of one's own under the threads of an unmodified program: this library stands before functions of the C library (LD_PRELOAD).
//!
//! ```sh
//! GYRE_PULSE_POLICY=work-stealing GYRE_PULSE_CORES=2 LD_PRELOAD=libgyre_pulse_threads.so xz -T4 file
//! ```
//!
//! | variable | meaning |
//! |---|---|
//! | GYRE_PULSE_POLICY | round-robin (if it is not set), earliest-deadline, speed-balancing, work-stealing |
//! | GYRE_PULSE_CORES | threads that run at a time, 1 to 64; the processors that the program may use, if it is not set |
//! | GYRE_PULSE_TICK_US | microseconds between ticks, 50 to 10,000,000; 1,000 if it is not set |
//!
//! | module | holds |
//! |---|---|
//! | [`setting`] | the start of the library |
//! | [`real`] | the functions of the C library itself |
//! | [`threads`] | threads begin, end and yield |
//! | [`waits`] | functions that may wait: the thread gives its virtual core up first |
//!
//! Other calls that wait keep their virtual core until the next tick. A fork's child is scheduled by the kernel alone until it executes a program.
#![deny(unsafe_op_in_unsafe_fn)]

mod real;
mod setting;
mod threads;
mod waits;
