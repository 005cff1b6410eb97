//! ioctl on terminals: settings, window, queues, pseudo-terminals, job control (tty_ioctl(4), pty(7)).
//!
//! Requests that change a terminal ask first whether the caller's group may ([`Thread::may_change`]): a background group is stopped by SIGTTOU.
//!
//! * Settings come in three layouts ([`Layout`]); all show the same values.
//! * Requests on a master: the slave's number, its lock, its node (TIOCGPTPEER), packets, signals.
//! * Requests on a session: its terminal and the group in its foreground. Another group of the session only gets it from the session.
//!
//! Breaks, flow control and speeds have no wire here: they are checked and kept, and change nothing.

use super::ioctl::{get_int, put_int};
use crate::credentials::Capability;
use crate::file::object::Object;
use crate::file::open_file::{Location, OpenFile};
use crate::file::permission::Asker;
use crate::file::terminal::{Access, Flush, Packets, Terminal, TerminalEnd, TerminalSide, WindowSize};
use crate::file::terminal_nodes;
use crate::file::termios::{Layout, Termios};
use crate::signal::number;
use crate::{Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use linux_raw_sys::ioctl;

/// Carries out a request on a terminal.
///
/// # Errors
/// ENOTTY for an unknown one, those of tty_ioctl(4).
pub(super) async fn request(
    thread: &Thread,
    file: &OpenFile,
    end: &TerminalEnd,
    request: u32,
    argument: u64,
) -> Outcome {
    let terminal = end.terminal();
    match request {
        ioctl::TCGETS => get_settings(thread, terminal, Layout::Termios, argument).await,
        ioctl::TCGETS2 => get_settings(thread, terminal, Layout::Termios2, argument).await,
        ioctl::TCGETA => get_settings(thread, terminal, Layout::Termio, argument).await,
        ioctl::TCSETS | ioctl::TCSETSW => set_settings(thread, end, Layout::Termios, Flush::None, argument).await,
        ioctl::TCSETSF => set_settings(thread, end, Layout::Termios, Flush::Input, argument).await,
        ioctl::TCSETS2 | ioctl::TCSETSW2 => set_settings(thread, end, Layout::Termios2, Flush::None, argument).await,
        ioctl::TCSETSF2 => set_settings(thread, end, Layout::Termios2, Flush::Input, argument).await,
        ioctl::TCSETA | ioctl::TCSETAW => set_settings(thread, end, Layout::Termio, Flush::None, argument).await,
        ioctl::TCSETAF => set_settings(thread, end, Layout::Termio, Flush::Input, argument).await,
        ioctl::TIOCGWINSZ => get_window(thread, terminal, argument).await,
        ioctl::TIOCSWINSZ => set_window(thread, terminal, argument).await,
        ioctl::TCFLSH | ioctl::TCSBRK | ioctl::TCSBRKP | ioctl::TCXONC => change_queues(thread, end, request, argument),
        // Output goes to its reader at once.
        ioctl::TIOCOUTQ => put_int(thread, argument, 0).await,
        ioctl::TIOCSTI => type_byte(thread, terminal, argument).await,
        ioctl::TIOCEXCL => {
            terminal.set_access(Access::One);
            Ok(0)
        }
        ioctl::TIOCNXCL => {
            terminal.set_access(Access::Many);
            Ok(0)
        }
        ioctl::TIOCGEXCL => put_int(thread, argument, i32::from(terminal.is_exclusive())).await,
        ioctl::TIOCGETD => put_int(thread, argument, raw_discipline()).await,
        ioctl::TIOCSETD if get_int(thread, argument).await? == raw_discipline() => Ok(0),
        ioctl::TIOCSETD => Err(Errno::EINVAL),
        ioctl::TIOCGPTN
        | ioctl::TIOCSPTLCK
        | ioctl::TIOCGPTLCK
        | ioctl::TIOCGPTPEER
        | ioctl::TIOCPKT
        | ioctl::TIOCGPKT
        | ioctl::TIOCSIG => master(thread, file, end, request, argument).await,
        _ => job_control(thread, end, request, argument).await,
    }
}

/// N_TTY, the only line discipline.
const fn raw_discipline() -> i32 {
    0
}

async fn get_settings(thread: &Thread, terminal: &Terminal, layout: Layout, out: u64) -> Outcome {
    let (bytes, count) = terminal.termios().to_layout(layout);
    thread.copy_out(out, bytes.get(..count).unwrap_or(&[])).await?;
    Ok(0)
}

async fn set_settings(thread: &Thread, end: &TerminalEnd, layout: Layout, flush: Flush, from: u64) -> Outcome {
    let (mut bytes, count) = end.terminal().termios().to_layout(layout);
    thread.copy_in(from, bytes.get_mut(..count).unwrap_or_default()).await?;
    thread.may_change(end)?;
    let termios: Termios = end.terminal().termios().with_layout(layout, &bytes);
    end.terminal().set_termios(termios, flush);
    Ok(0)
}

async fn get_window(thread: &Thread, terminal: &Terminal, out: u64) -> Outcome {
    let mut bytes = [0; 8];
    let words: WindowSize = terminal.window();
    bytes.chunks_exact_mut(2).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
    thread.copy_out(out, &bytes).await?;
    Ok(0)
}

async fn set_window(thread: &Thread, terminal: &Terminal, from: u64) -> Outcome {
    let mut bytes = [0; 8];
    thread.copy_in(from, &mut bytes).await?;
    let [a, b, c, d, e, f, g, h] = bytes;
    terminal.set_window([[a, b], [c, d], [e, f], [g, h]].map(u16::from_le_bytes));
    Ok(0)
}

/// Empties queues; breaks and flow control have no wire to act on.
fn change_queues(thread: &Thread, end: &TerminalEnd, request: u32, argument: u64) -> Outcome {
    thread.may_change(end)?;
    let queue = u32::try_from(argument).map_err(|_| Errno::EINVAL)?;
    match request {
        ioctl::TCFLSH if queue > raw::TCIOFLUSH => return Err(Errno::EINVAL),
        ioctl::TCFLSH if queue != raw::TCOFLUSH => end.terminal().forget_input(),
        ioctl::TCXONC if queue > raw::TCION => return Err(Errno::EINVAL),
        _ => {}
    }
    Ok(0)
}

/// Types a byte for the terminal's user; only on the caller's own terminal.
async fn type_byte(thread: &Thread, terminal: &Terminal, from: u64) -> Outcome {
    let session = thread.session();
    let owns = session != 0 && terminal.session.load(Ordering::Acquire) == session;
    if !owns && !Asker::of(thread).has(Capability::SysAdmin) {
        return Err(Errno::EPERM);
    }
    let mut byte = [0];
    thread.copy_in(from, &mut byte).await?;
    terminal.input(&byte).map(|_| 0)
}

/// Requests on the master of a pseudo-terminal.
async fn master(thread: &Thread, file: &OpenFile, end: &TerminalEnd, request: u32, argument: u64) -> Outcome {
    let terminal = end.terminal();
    let (TerminalSide::Master, Some(number)) = (end.side(), terminal.number) else {
        return Err(Errno::ENOTTY);
    };
    match request {
        ioctl::TIOCGPTN => put_int(thread, argument, number as i32).await,
        ioctl::TIOCGPTLCK => put_int(thread, argument, i32::from(terminal.is_locked())).await,
        ioctl::TIOCSPTLCK => {
            terminal.set_locked(get_int(thread, argument).await? != 0);
            Ok(0)
        }
        ioctl::TIOCPKT => {
            let packets = if get_int(thread, argument).await? != 0 { Packets::Marked } else { Packets::Plain };
            terminal.set_packets(packets);
            Ok(0)
        }
        ioctl::TIOCGPKT => put_int(thread, argument, i32::from(terminal.packets() == Packets::Marked)).await,
        ioctl::TIOCSIG => match i32::try_from(argument) {
            Ok(signal @ (number::SIGINT | number::SIGQUIT | number::SIGTSTP)) => {
                terminal.signal_foreground(signal as u32);
                Ok(0)
            }
            _ => Err(Errno::EINVAL),
        },
        _ => open_peer(thread, file, terminal, argument as u32).await,
    }
}

/// Opens the slave by its node, without a walk by the caller's names or rights (TIOCGPTPEER).
async fn open_peer(thread: &Thread, file: &OpenFile, terminal: &Arc<Terminal>, flags: u32) -> Outcome {
    if terminal.is_locked() {
        return Err(Errno::EIO);
    }
    let number = terminal.number.ok_or(Errno::ENOTTY)?;
    let node = terminal_nodes::node(file.tenant(), number).await.ok();
    let location = node.map(|found| Location { place: found.place, path: found.path });
    let object = Object::Terminal(terminal.end(TerminalSide::Slave));
    let slave = OpenFile::new(file.tenant(), object, flags, location)?;
    if flags & raw::O_NOCTTY == 0 {
        thread.adopt_terminal(terminal);
    }
    super::answer(super::install(thread, slave, flags & raw::O_CLOEXEC != 0)?)
}

/// Sessions and foreground groups (tty_ioctl(4), tcsetpgrp(3)).
async fn job_control(thread: &Thread, end: &TerminalEnd, request: u32, argument: u64) -> Outcome {
    let terminal = end.terminal();
    let session = thread.session();
    let owns = terminal.session.load(Ordering::Acquire) == session && session != 0;
    match request {
        ioctl::TIOCSCTTY => {
            if owns || thread.adopt_terminal(terminal) {
                Ok(0)
            } else {
                Err(Errno::EPERM)
            }
        }
        ioctl::TIOCNOTTY if owns => {
            if session == thread.process().id() {
                terminal.leave_session();
            }
            Ok(0)
        }
        ioctl::TIOCGPGRP if owns || end.side() == TerminalSide::Master => {
            put_int(thread, argument, terminal.foreground.load(Ordering::Acquire)).await
        }
        ioctl::TIOCSPGRP if owns => {
            let group = get_int(thread, argument).await?;
            thread.may_change(end)?;
            set_foreground(thread, terminal, session, group)
        }
        ioctl::TIOCGSID if owns => put_int(thread, argument, session).await,
        _ => Err(Errno::ENOTTY),
    }
}

/// Gives a terminal to another group of its session.
fn set_foreground(thread: &Thread, terminal: &Terminal, session: i32, group: i32) -> Outcome {
    if group <= 0 {
        return Err(Errno::EINVAL);
    }
    match thread.tenant().tree.lock().session_of_group(group) {
        None => Err(Errno::ESRCH),
        Some(other) if other != session => Err(Errno::EPERM),
        Some(_) => {
            terminal.foreground.store(group, Ordering::Release);
            Ok(0)
        }
    }
}
