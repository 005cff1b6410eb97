//! The ground that a runtime runs on: ring 0 of a cell ([`privileged`]), or an ordinary process of Linux ([`plain`]).

pub mod plain;
pub mod privileged;
pub mod raw;

use crate::{
    error::Errno,
    fiber::Fiber,
    lines::Lines,
    memory::{Rights, Window},
    signal::Come,
};

/// Parts that the kernel wants back, or offers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wanted {
    /// Lots.
    pub lots: u32,
    /// Cores beside the first one, which each go by themselves ([`crate::runtime::Then::Go`]).
    pub cores: u32,
    /// Cores that the owner offers in the place of those that have gone.
    pub offered: u32,
}

/// The ground.
pub trait Machine: Window {
    /// Nanoseconds on a clock that goes evenly.
    fn now(&self) -> u64;

    /// Nanoseconds since 1970.
    fn wall_clock(&self) -> u64;

    /// Nanoseconds on the clock that Linux calls monotonic.
    fn monotonic_clock(&self) -> u64;

    /// The call lines of all cores.
    fn lines(&self) -> Lines;

    /// How many of them are each core's own.
    fn own_lines(&self) -> usize {
        self.lines().count()
    }

    /// Tells the kernel of new lines, if it wants to be told.
    fn bell(&mut self);

    /// Tells the kernel of new requests at a device.
    fn ring(&mut self);

    /// Makes a call of the runtime's own and waits for its result; EAGAIN if there is no line for it, or no answer for a second.
    fn call(&mut self, number: u32, arguments: [u64; 6]) -> i64;

    /// Waits until a line or a device has answered or a signal has come, so many nanoseconds at most.
    fn idle(&mut self, nanoseconds: u64);

    /// Says which signals all threads hold back from now on, bit `n - 1` for signal `n`: they wait outside.
    fn hold_signals(&mut self, held: u64);

    /// Takes a signal of these that waits and is not held back, if there is one.
    fn take_signal(&mut self, wanted: u64) -> Option<Come>;

    /// Has a core come into the runtime that runs the program.
    fn interrupt(&mut self, _core: usize) {}

    /// Asks for more memory, and calls `add` for each new lot.
    ///
    /// # Errors
    /// The kernel's.
    fn more(&mut self, bytes: u64, add: &mut dyn FnMut(u64)) -> Result<(), Errno>;

    /// Parts that the kernel wants back or offers, once for each order.
    fn wanted(&mut self) -> Wanted;

    /// Gives a lot back that nobody uses.
    ///
    /// # Errors
    /// The kernel's; the lot is the cell's still.
    fn give_lot(&mut self, lot: u64) -> Result<(), Errno>;

    /// Has a page of the process's own mappings made present; the answer is its entry. `None`: the ground does so by itself.
    ///
    /// # Errors
    /// `EFAULT` if there is none with these rights, `ENOMEM`.
    fn fault(&mut self, address: u64, access: Rights) -> Result<Option<u64>, Errno>;

    /// Reads memory of the program that is known to be present, or reads it in a way that cannot fail otherwise.
    ///
    /// # Errors
    /// `EFAULT`.
    fn read_user(&self, address: u64, bytes: &mut [u8]) -> Result<(), Errno>;

    /// Writes such memory.
    ///
    /// # Errors
    /// `EFAULT`.
    fn write_user(&mut self, address: u64, bytes: &[u8]) -> Result<(), Errno>;

    /// Copies bytes of the cell's frames to such memory of the program.
    ///
    /// # Errors
    /// `EFAULT`.
    fn copy_out(&mut self, physical: u64, address: u64, bytes: u64) -> Result<(), Errno>;

    /// Copies such memory of the program to frames of the cell.
    ///
    /// # Errors
    /// `EFAULT`.
    fn copy_in(&mut self, physical: u64, address: u64, bytes: u64) -> Result<(), Errno>;

    /// Another fiber shall go on when the runtime is left. Both are where they stay.
    fn switch(&mut self, from: &mut Fiber, to: &mut Fiber);

    /// Sets the base of the `fs` segment of the fiber that runs.
    fn set_fs(&mut self, base: u64);

    /// Saves the extended registers of the fiber that runs in its place.
    fn save_extended(&mut self, fiber: &mut Fiber);

    /// Loads them from there.
    fn load_extended(&mut self, fiber: &mut Fiber);

    /// The instruction at which a thread leaves the cell: rax says so by then, and it goes on at rcx. `None`: it cannot be left.
    fn way_out(&self) -> Option<u64> {
        None
    }

    /// The cores that the cell began with.
    fn cores(&self) -> u32 {
        1
    }

    /// Ends the process.
    fn exit(&mut self, status: u64) -> !;

    /// Ends the process by a signal.
    fn die(&mut self, signal: u32) -> !;

    /// Says something of the runtime's own on the program's error stream.
    fn say(&mut self, text: &str);
}
