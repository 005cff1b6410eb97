//! ioctl: what terminals and descriptors in general understand.

use super::file_of;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::terminal::{Flush, TerminalEnd, TerminalSide};
use crate::file::termios::{self, Termios};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;
use linux_raw_sys::ioctl;

/// `ioctl(fd, request, argument)`.
pub async fn ioctl(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (descriptor, request, argument) = (a.int(0), a.unsigned(1), a.word(2));
    let file = file_of(thread, descriptor)?;
    if file.is_path_only() {
        return Err(Errno::EBADF);
    }
    let files = thread.process().files();
    match request {
        ioctl::FIOCLEX => {
            files.table().set_close_on_exec(descriptor, true)?;
            Ok(0)
        }
        ioctl::FIONCLEX => {
            files.table().set_close_on_exec(descriptor, false)?;
            Ok(0)
        }
        ioctl::FIONBIO => set_flag(thread, &file, raw::O_NONBLOCK, argument).await,
        ioctl::FIOASYNC => set_flag(thread, &file, raw::FASYNC, argument).await,
        ioctl::FIONREAD => {
            let bytes = readable_bytes(&file).await?;
            put_int(thread, argument, i32::try_from(bytes).unwrap_or(i32::MAX)).await
        }
        _ => match file.object() {
            Object::Terminal(end) => terminal(thread, &file, end, request, argument).await,
            _ => Err(Errno::ENOTTY),
        },
    }
}

async fn set_flag(thread: &Thread, file: &OpenFile, flag: u32, argument: u64) -> Outcome {
    let mut on = [0; 4];
    thread.copy_in(argument, &mut on).await?;
    file.change_flags(flag, on != [0; 4]);
    Ok(0)
}

async fn put_int(thread: &Thread, out: u64, value: i32) -> Outcome {
    thread.copy_out(out, &value.to_le_bytes()).await?;
    Ok(0)
}

async fn get_int(thread: &Thread, from: u64) -> Result<i32, Errno> {
    let mut value = [0; 4];
    thread.copy_in(from, &mut value).await?;
    Ok(i32::from_le_bytes(value))
}

async fn readable_bytes(file: &OpenFile) -> Result<usize, Errno> {
    match file.object() {
        Object::Pipe(end) => Ok(end.readable_bytes()),
        Object::Terminal(end) => Ok(end.terminal().readable_bytes()),
        Object::Socket(socket) => Ok(socket.readable_bytes().await),
        Object::Inotify(inotify) => Ok(inotify.bytes()),
        Object::Regular => {
            let place = file.place().ok_or(Errno::EBADF)?;
            let size = place.system().attributes(place.node).await?.size_bytes;
            let left = size.saturating_sub(file.position.peek());
            Ok(usize::try_from(left).unwrap_or(usize::MAX))
        }
        _ => Err(Errno::ENOTTY),
    }
}

async fn terminal(thread: &Thread, file: &OpenFile, end: &TerminalEnd, request: u32, argument: u64) -> Outcome {
    let terminal = end.terminal();
    match request {
        ioctl::TCGETS => {
            thread.copy_out(argument, &terminal.termios().to_bytes()).await?;
            Ok(0)
        }
        ioctl::TCSETS | ioctl::TCSETSW | ioctl::TCSETSF => {
            let mut bytes = [0; termios::BYTES];
            thread.copy_in(argument, &mut bytes).await?;
            let flush = if request == ioctl::TCSETSF { Flush::Input } else { Flush::None };
            terminal.set_termios(Termios::from_bytes(&bytes), flush);
            Ok(0)
        }
        ioctl::TCFLSH => {
            if argument != u64::from(raw::TCOFLUSH) {
                terminal.forget_input();
            }
            Ok(0)
        }
        ioctl::TCSBRK | ioctl::TCXONC => Ok(0),
        ioctl::TIOCGWINSZ => {
            let mut bytes = [0; 8];
            let words = terminal.window();
            bytes.chunks_exact_mut(2).zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
            thread.copy_out(argument, &bytes).await?;
            Ok(0)
        }
        ioctl::TIOCSWINSZ => {
            let mut bytes = [0; 8];
            thread.copy_in(argument, &mut bytes).await?;
            let [a, b, c, d, e, f, g, h] = bytes;
            terminal.set_window([[a, b], [c, d], [e, f], [g, h]].map(u16::from_le_bytes));
            Ok(0)
        }
        ioctl::TIOCGPTN | ioctl::TIOCSPTLCK | ioctl::TIOCGPTPEER => master(thread, file, end, request, argument).await,
        _ => job_control(thread, end, request, argument).await,
    }
}

/// Requests on the master of a pseudo-terminal.
async fn master(thread: &Thread, file: &OpenFile, end: &TerminalEnd, request: u32, argument: u64) -> Outcome {
    let terminal = end.terminal();
    let (TerminalSide::Master, Some(number)) = (end.side(), terminal.number) else {
        return Err(Errno::ENOTTY);
    };
    match request {
        ioctl::TIOCGPTN => put_int(thread, argument, number as i32).await,
        ioctl::TIOCSPTLCK => {
            terminal.set_locked(get_int(thread, argument).await? != 0);
            Ok(0)
        }
        _ => {
            let flags = argument as u32;
            let object = Object::Terminal(terminal.end(TerminalSide::Slave));
            let slave = OpenFile::new(file.tenant(), object, flags, None)?;
            super::answer(super::install(thread, slave, flags & raw::O_CLOEXEC != 0)?)
        }
    }
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
                terminal.session.store(0, Ordering::Release);
                terminal.foreground.store(0, Ordering::Release);
            }
            Ok(0)
        }
        ioctl::TIOCGPGRP if owns || end.side() == TerminalSide::Master => {
            put_int(thread, argument, terminal.foreground.load(Ordering::Acquire)).await
        }
        ioctl::TIOCSPGRP if owns => {
            let group = get_int(thread, argument).await?;
            if group <= 0 {
                return Err(Errno::EINVAL);
            }
            terminal.foreground.store(group, Ordering::Release);
            Ok(0)
        }
        ioctl::TIOCGSID if owns => put_int(thread, argument, session).await,
        _ => Err(Errno::ENOTTY),
    }
}
