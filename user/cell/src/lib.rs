//! The runtime of cells: the part of an operating system that lies in a cell, below an unmodified Linux program.
//!
//! A cell owns cores, memory and its page table. The program's `syscall` lands here ([`runtime`]): memory, threads, futexes and signals
//! are answered at once, everything else becomes a line of 64 bytes to the kernel ([`lines`]), and other threads run meanwhile.
//!
//! * [`device`]: the driver of a disk that the cell has through a queue of its own.
//! * Policies are traits with a file for each policy: [`pager`], [`frames`], [`fiber`], [`io`].
//! * The ground is a trait ([`machine::Machine`]): ring 0 of a cell, or an ordinary Linux process, in which the whole runtime can be tested.
//! * `gyre-cell` (`main.rs`, [`launch`]) loads a program, becomes a cell and jumps to it. For C: `include/gyre_cell.h`.
//!
//! Code below [`runtime`] runs on the program's thread pointer: it uses no thread-local memory, no heap and no panic of its own.
//! Source: XOS (seed 003).
#![deny(unsafe_op_in_unsafe_fn)]

pub mod ahead;
pub mod call;
pub mod device;
pub mod error;
pub mod fiber;
pub mod frames;
pub mod io;
pub mod launch;
pub mod lines;
pub mod machine;
pub mod memory;
pub mod pager;
pub mod runtime;
pub mod signal;
#[cfg(test)]
mod testing;
pub mod text;
