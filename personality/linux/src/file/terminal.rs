//! Terminals: a line discipline between a program (the slave) and who types and sees (the master of a pseudo-terminal, or
//! the console's log), after termios(3) and tty_ioctl(4).
//!
//! ```text
//! keyboard -> input() -> [edit line] -> cooked queue -> slave read
//! slave write -> output processing -> log ring, or queue -> master read
//! ```

mod end;
mod line;

pub use end::{TerminalEnd, TerminalSide};

use super::log_ring::LogRing;
use super::termios::Termios;
use crate::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering};
use gyre_interface::{Readiness, Ready};
use gyre_machine::OutOfMemory;
use gyre_object::{ByteQueue, ObjectLock};
use linux_raw_sys::general as raw;

/// Bytes queued in either direction.
const QUEUE_BYTES: usize = 16 * 1024;
/// Longest line under edit (Linux: N_TTY_BUF_SIZE).
const LINE_BYTES: usize = 4096;

/// Sends a terminal's signals to a group of processes.
pub trait GroupSignals: Send + Sync {
    /// Sends `signal` to all processes of `group`.
    fn signal_group(&self, group: i32, signal: u32);
}

/// Where output goes.
enum Output {
    /// Kept for `gyre logs`; with `echo`, shown on the machine's console too.
    Log { ring: Arc<LogRing>, echo: bool },
    /// Read by a master.
    Master(ByteQueue),
}

/// `struct winsize`: rows, columns, and pixels.
pub type WindowSize = [u16; 4];

struct State {
    termios: Termios,
    window: WindowSize,
    line: Vec<u8>,
    cooked: ByteQueue,
    /// Ends of lines in `cooked`: how many bytes each read may give at most; an empty one is the end of file.
    lines: alloc::collections::VecDeque<usize>,
    output: Output,
    slaves: usize,
    master_open: bool,
    locked: bool,
}

/// A terminal.
pub struct Terminal {
    /// Number in /dev/pts; the console has none.
    pub number: Option<u32>,
    state: ObjectLock<State>,
    slave: Arc<Readiness>,
    master: Arc<Readiness>,
    /// Foreground process group; 0 without one.
    pub foreground: AtomicI32,
    /// Session whose controlling terminal it is; 0 without one.
    pub session: AtomicI32,
    signals: Arc<dyn GroupSignals>,
}

impl Terminal {
    fn new(number: Option<u32>, output: Output, signals: Arc<dyn GroupSignals>) -> Arc<Terminal> {
        Arc::new(Terminal {
            number,
            state: ObjectLock::new(State {
                termios: Termios::default(),
                window: [24, 80, 0, 0],
                line: Vec::new(),
                cooked: ByteQueue::default(),
                lines: Default::default(),
                output,
                slaves: 0,
                master_open: true,
                locked: number.is_some(),
            }),
            slave: Readiness::new(Ready::WRITE),
            master: Readiness::new(Ready::WRITE),
            foreground: AtomicI32::new(0),
            session: AtomicI32::new(0),
            signals,
        })
    }

    /// A tenant's console. `echo` shows its output on the machine's console too.
    pub fn console(ring: Arc<LogRing>, echo: bool, signals: Arc<dyn GroupSignals>) -> Arc<Terminal> {
        Terminal::new(None, Output::Log { ring, echo }, signals)
    }

    /// A pseudo-terminal.
    pub fn pseudo(number: u32, signals: Arc<dyn GroupSignals>) -> Arc<Terminal> {
        Terminal::new(Some(number), Output::Master(ByteQueue::default()), signals)
    }

    /// An end of it.
    pub fn end(self: &Arc<Terminal>, side: TerminalSide) -> TerminalEnd {
        if side == TerminalSide::Slave {
            let mut state = self.state.lock();
            state.slaves = state.slaves.saturating_add(1);
            drop(state);
            self.master.clear(Ready::HANG_UP);
        }
        TerminalEnd { terminal: self.clone(), side }
    }

    /// Allows slaves to be opened (TIOCSPTLCK).
    pub fn set_locked(&self, locked: bool) {
        self.state.lock().locked = locked;
    }

    /// True while slaves may not be opened.
    pub fn is_locked(&self) -> bool {
        self.state.lock().locked
    }

    /// True once the master is closed.
    pub fn is_hung_up(&self) -> bool {
        !self.state.lock().master_open
    }

    /// The settings.
    pub fn termios(&self) -> Termios {
        self.state.lock().termios
    }

    /// Changes the settings; with `flush`, unread input is forgotten.
    pub fn set_termios(&self, termios: Termios, flush: Flush) {
        let mut state = self.state.lock();
        let was_canonical = state.termios.is_canonical();
        state.termios = termios;
        if flush == Flush::Input {
            state.forget_input();
        }
        if was_canonical && !termios.is_canonical() {
            // Without memory for it the line goes before the next byte typed.
            let _ = state.release_bytes();
            state.lines.clear();
        } else if !was_canonical && termios.is_canonical() && !state.cooked.is_empty() {
            let bytes = state.cooked.len();
            state.lines.push_back(bytes);
        }
        self.publish(&state);
    }

    /// The window's size.
    pub fn window(&self) -> WindowSize {
        self.state.lock().window
    }

    /// Changes the window's size and tells the foreground group.
    pub fn set_window(&self, window: WindowSize) {
        let changed = core::mem::replace(&mut self.state.lock().window, window) != window;
        if changed {
            self.signal(raw::SIGWINCH);
        }
    }

    /// Forgets unread input (TCFLSH).
    pub fn forget_input(&self) {
        let mut state = self.state.lock();
        state.forget_input();
        self.publish(&state);
    }

    fn signal(&self, signal: u32) {
        let group = self.foreground.load(Ordering::Acquire);
        if group > 0 {
            self.signals.signal_group(group, signal);
        }
    }

    /// What is typed. Answers the bytes taken: fewer where the program does not read, or where there is no memory for more.
    ///
    /// # Errors
    /// EAGAIN where the program does not read; ENOMEM. Nothing was taken then.
    pub fn input(&self, data: &[u8]) -> Result<usize, Errno> {
        let mut signals = Vec::new();
        let mut taken = 0;
        let mut refusal = Errno::EAGAIN;
        {
            let mut state = self.state.lock();
            for byte in data {
                if state.cooked.len().saturating_add(state.line.len()) >= QUEUE_BYTES {
                    break;
                }
                match state.type_byte(*byte) {
                    Ok(signal) => signals.extend(signal),
                    Err(OutOfMemory) => {
                        refusal = Errno::ENOMEM;
                        break;
                    }
                }
                taken = usize::saturating_add(taken, 1);
            }
            self.publish(&state);
        }
        signals.into_iter().for_each(|signal| self.signal(signal));
        if taken == 0 && !data.is_empty() { Err(refusal) } else { Ok(taken) }
    }

    fn publish(&self, state: &State) {
        let mut slave = Ready::empty();
        slave.set(Ready::READ, state.has_input() || !state.master_open);
        slave.set(Ready::WRITE, state.output_room() > 1 || !state.master_open);
        slave.set(Ready::HANG_UP, !state.master_open);
        renew(&self.slave, slave);
        let mut master = Ready::empty();
        let has_output = matches!(&state.output, Output::Master(queue) if !queue.is_empty());
        master.set(Ready::READ, has_output);
        master.set(Ready::WRITE, state.cooked.len().saturating_add(state.line.len()) < QUEUE_BYTES);
        master.set(Ready::HANG_UP, self.master.now().contains(Ready::HANG_UP));
        renew(&self.master, master);
    }

    fn read_slave(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        if !state.has_input() {
            let waits = state.master_open && state.termios.patience_ns() != Some(0);
            return if waits { Err(Errno::EAGAIN) } else { Ok(0) };
        }
        let mut bytes = into.len();
        if state.termios.is_canonical()
            && let Some(line) = state.lines.front_mut()
        {
            bytes = bytes.min(*line);
            *line = line.saturating_sub(bytes);
            if *line == 0 {
                state.lines.pop_front();
            }
        }
        let count = state.cooked.read_into(into.get_mut(..bytes).unwrap_or_default());
        self.publish(&state);
        Ok(count)
    }

    fn write_slave(&self, data: &[u8]) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        if !state.master_open {
            return Err(Errno::EIO);
        }
        // Output processing at most doubles the bytes.
        let count = data.len().min(state.output_room() / 2);
        if count == 0 && !data.is_empty() {
            return Err(Errno::EAGAIN);
        }
        state.emit(data.get(..count).unwrap_or(&[]))?;
        self.publish(&state);
        Ok(count)
    }

    fn read_master(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        let hung_up = self.master.now().contains(Ready::HANG_UP);
        let Output::Master(queue) = &mut state.output else {
            return Err(Errno::EIO);
        };
        let count = queue.read_into(into);
        if count == 0 {
            return Err(if hung_up { Errno::EIO } else { Errno::EAGAIN });
        }
        self.publish(&state);
        Ok(count)
    }

    /// Bytes that a slave can read now (FIONREAD).
    pub fn readable_bytes(&self) -> usize {
        let state = self.state.lock();
        match state.lines.front() {
            Some(line) if state.termios.is_canonical() => *line,
            None if state.termios.is_canonical() => 0,
            _ => state.cooked.len(),
        }
    }
}

/// What a change of settings forgets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// Nothing.
    None,
    /// Input not read yet.
    Input,
}

fn renew(readiness: &Readiness, bits: Ready) {
    readiness.clear(!bits);
    readiness.set(bits);
}
