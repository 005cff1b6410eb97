//! Terminals: a line discipline between a program (the slave) and its user (the master of a pseudo-terminal, or the
//! console's log), after termios(3) and tty_ioctl(4).
//!
//! ```text
//! keyboard -> input() -> [edit line] -> cooked queue -> slave read
//! slave write -> output processing -> log ring, or queue -> master read
//! ```
//!
//! * Both ends have a [`Readiness`]; every change of state ends with `publish`, which sets both.
//! * Canonical mode keeps a line under edit until its end; raw mode gives each byte at once. `lines` says where a read
//!   must stop.
//! * Signals of typed characters are sent after the lock is free, to the foreground group.
//! * States: slaves come and go; the master closes once, then slaves read the end and write EIO.
//!
//! Queues have a bound. A full one is EAGAIN, and nothing typed is lost.

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

/// The surroundings of a terminal: processes that it signals, and its node.
pub trait GroupSignals: Send + Sync {
    /// Hears that the master of a pseudo-terminal was closed.
    fn master_has_gone(&self, terminal: Arc<Terminal>);

    /// Sends `signal` to all processes of `group`.
    fn signal_group(&self, group: i32, signal: u32);
}

/// The target of output.
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
    access: Access,
    packets: Packets,
    /// News for a master that reads packets (TIOCPKT of tty_ioctl(4)).
    news: u8,
}

/// The openers of a slave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Nobody else.
    One,
    /// All.
    Many,
}

/// The form of a master's reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packets {
    /// Output as it is.
    Plain,
    /// A byte of news before it.
    Marked,
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
                access: Access::Many,
                packets: Packets::Plain,
                news: 0,
            }),
            slave: Readiness::new(Ready::WRITE),
            master: Readiness::new(Ready::WRITE),
            foreground: AtomicI32::new(0),
            session: AtomicI32::new(0),
            signals,
        })
    }

    /// Returns a tenant's console. `echo` shows its output on the machine's console too.
    pub fn console(ring: Arc<LogRing>, echo: bool, signals: Arc<dyn GroupSignals>) -> Arc<Terminal> {
        Terminal::new(None, Output::Log { ring, echo }, signals)
    }

    /// Returns a pseudo-terminal.
    pub fn pseudo(number: u32, signals: Arc<dyn GroupSignals>) -> Arc<Terminal> {
        Terminal::new(Some(number), Output::Master(ByteQueue::default()), signals)
    }

    /// Returns an end of it.
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

    /// Returns whether slaves may not be opened.
    pub fn is_locked(&self) -> bool {
        self.state.lock().locked
    }

    /// Says who may open a slave from now on (TIOCEXCL, TIOCNXCL).
    pub fn set_access(&self, access: Access) {
        self.state.lock().access = access;
    }

    /// Returns whether nobody else may open a slave.
    pub fn is_exclusive(&self) -> bool {
        self.state.lock().access == Access::One
    }

    /// Chooses the form of a master's reads (TIOCPKT).
    pub fn set_packets(&self, packets: Packets) {
        let mut state = self.state.lock();
        (state.packets, state.news) = (packets, 0);
        self.publish(&state);
    }

    /// Returns the form of a master's reads.
    pub fn packets(&self) -> Packets {
        self.state.lock().packets
    }

    /// Sends a signal to the foreground group (TIOCSIG).
    pub fn signal_foreground(&self, signal: u32) {
        self.signal(signal);
    }

    /// Returns whether the master is closed.
    pub fn is_hung_up(&self) -> bool {
        !self.state.lock().master_open
    }

    /// Returns the settings.
    pub fn termios(&self) -> Termios {
        self.state.lock().termios
    }

    /// Changes the settings; with `flush`, unread input is forgotten.
    pub fn set_termios(&self, termios: Termios, flush: Flush) {
        let mut state = self.state.lock();
        let (was_canonical, had_flow_control) = (state.termios.is_canonical(), state.termios.has_flow_control());
        state.termios = termios;
        if flush == Flush::Input {
            state.forget_input();
            state.tell(raw::TIOCPKT_FLUSHREAD);
        }
        match (had_flow_control, termios.has_flow_control()) {
            (true, false) => state.tell(raw::TIOCPKT_NOSTOP),
            (false, true) => state.tell(raw::TIOCPKT_DOSTOP),
            _ => {}
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

    /// Returns the window's size.
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

    /// Belongs to no session any more; the foreground group gets SIGHUP, and goes on if it is stopped.
    pub fn leave_session(&self) {
        self.signal(raw::SIGHUP);
        self.signal(raw::SIGCONT);
        self.session.store(0, Ordering::Release);
        self.foreground.store(0, Ordering::Release);
    }

    /// Forgets unread input (TCFLSH).
    pub fn forget_input(&self) {
        let mut state = self.state.lock();
        state.forget_input();
        state.tell(raw::TIOCPKT_FLUSHREAD);
        self.publish(&state);
    }

    fn signal(&self, signal: u32) {
        let group = self.foreground.load(Ordering::Acquire);
        if group > 0 {
            self.signals.signal_group(group, signal);
        }
    }

    /// Takes typed bytes. Returns the bytes taken: fewer if the program does not read, or if there is no memory for
    /// more.
    ///
    /// # Errors
    /// EAGAIN if the program does not read; ENOMEM. Nothing was taken then.
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
        master.set(Ready::READ, has_output || state.news != 0);
        master.set(Ready::WRITE, state.cooked.len().saturating_add(state.line.len()) < QUEUE_BYTES);
        master.set(Ready::HANG_UP, self.master.now().contains(Ready::HANG_UP));
        renew(&self.master, master);
    }

    fn read_slave(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let mut state = self.state.lock();
        if !state.has_input() {
            let waits = state.master_open && state.termios.read_wait_ns() != Some(0);
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
        let (packets, news) = (state.packets, core::mem::take(&mut state.news));
        let Output::Master(queue) = &mut state.output else {
            return Err(Errno::EIO);
        };
        let count = match (packets, into.split_first_mut()) {
            (Packets::Plain, _) => queue.read_into(into),
            (Packets::Marked, None) => return Ok(0),
            (Packets::Marked, Some((mark, _))) if news != 0 => {
                *mark = news;
                1
            }
            (Packets::Marked, Some((mark, rest))) => {
                *mark = raw::TIOCPKT_DATA as u8;
                match queue.read_into(rest) {
                    0 => 0,
                    count => usize::saturating_add(count, 1),
                }
            }
        };
        if count == 0 {
            return Err(if hung_up { Errno::EIO } else { Errno::EAGAIN });
        }
        self.publish(&state);
        Ok(count)
    }

    /// Returns the bytes that a slave can read now (FIONREAD).
    pub fn readable_bytes(&self) -> usize {
        let state = self.state.lock();
        match state.lines.front() {
            Some(line) if state.termios.is_canonical() => *line,
            None if state.termios.is_canonical() => 0,
            _ => state.cooked.len(),
        }
    }
}

/// The queues that a change of settings empties.
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
