//! mq_notify (mq_notify(2), mq_notify(3)): one process is told once that an empty queue has got a message for which
//! nobody waits.
//!
//! A notice is a signal, or 32 bytes to a netlink socket: C libraries start a function in a thread that reads it
//! (SIGEV_THREAD). It ends when it was given, when its process asks, closes a descriptor of the queue, executes another
//! program, or ends.

use super::calls::queue_of;
use crate::file::FileContext;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::socket::Socket;
use crate::signal::{SIGNAL_MAX, SignalInfo};
use crate::{Arguments, Errno, Outcome, Process, Thread};
use alloc::sync::{Arc, Weak};
use linux_raw_sys::general as raw;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes that a netlink socket gets; the last one tells what has happened.
const COOKIE_BYTES: usize = 32;
/// A message has come.
const COMES: u8 = 1;
/// The notice was removed.
const REMOVED: u8 = 2;

/// `struct sigevent`, 64 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Event {
    value: u64,
    signal: i32,
    notify: u32,
    rest: [u32; 12],
}

const _: () = assert!(size_of::<Event>() == 64);

/// The way in which a process is told.
enum Way {
    Nothing,
    Signal { signal: i32, value: u64 },
    Socket { file: Weak<OpenFile>, cookie: [u8; COOKIE_BYTES] },
}

/// The process that is told, and the way.
pub(super) struct Notice {
    process: Weak<Process>,
    id: i32,
    /// The descriptors of the process then: a new program has other ones.
    files: Weak<FileContext>,
    way: Way,
}

/// The sender of a message.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    pub(super) process: i32,
    pub(super) user: u32,
}

impl Notice {
    /// Returns whether its process lives and runs the program that has registered.
    pub(super) fn is_valid(&self) -> bool {
        let runs = |process: &Arc<Process>| {
            !process.is_ending() && Weak::ptr_eq(&Arc::downgrade(&process.files()), &self.files)
        };
        self.process.upgrade().is_some_and(|process| runs(&process))
    }

    /// Returns whether this process has registered.
    pub(super) fn is_of(&self, process: i32) -> bool {
        self.id == process
    }

    /// Returns the kind (SIGEV_*), the signal and the process, for the queue's text.
    pub(super) fn figures(&self) -> (u32, i32, i32) {
        match self.way {
            Way::Nothing => (raw::SIGEV_NONE, 0, self.id),
            Way::Signal { signal, .. } => (raw::SIGEV_SIGNAL, signal, self.id),
            Way::Socket { .. } => (raw::SIGEV_THREAD, 0, self.id),
        }
    }

    /// Tells of a message.
    pub(super) fn tell(self, sender: Sender) {
        if !self.is_valid() {
            return;
        }
        match self.way {
            // Signal 0 is none (kill(2)), and would wait for ever.
            Way::Nothing | Way::Signal { signal: 0, .. } => {}
            Way::Signal { signal, value } => {
                let info = SignalInfo::message(signal, sender.process, sender.user, value);
                // If too many signals wait this one is lost, as on Linux.
                _ = self.process.upgrade().map(|process| process.send(info));
            }
            Way::Socket { file, cookie } => write_cookie(&file, cookie, COMES),
        }
    }

    /// Ends it without a message.
    pub(super) fn end(self) {
        if let Way::Socket { file, cookie } = self.way {
            write_cookie(&file, cookie, REMOVED);
        }
    }
}

fn write_cookie(file: &Weak<OpenFile>, mut cookie: [u8; COOKIE_BYTES], what: u8) {
    let Some(file) = file.upgrade() else { return };
    if let Object::Socket(Socket::Netlink(socket)) = file.object() {
        cookie[COOKIE_BYTES - 1] = what;
        socket.give(&cookie);
    }
}

/// `mq_notify(queue, event)`; without an event it ends the notice of the caller's process.
pub async fn mq_notify(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let process = thread.process();
    if a.word(1) == 0 {
        let file = process.open_file(a.int(0))?;
        queue_of(&file)?.forget_notice(process.id());
        return Ok(0);
    }
    let event: Event = thread.read_struct(a.word(1)).await?;
    let way = way(thread, &event).await?;
    let file = process.open_file(a.int(0))?;
    let files = Arc::downgrade(&process.files());
    queue_of(&file)?.register(Notice { process: Arc::downgrade(process), id: process.id(), files, way })?;
    Ok(0)
}

async fn way(thread: &Thread, event: &Event) -> Result<Way, Errno> {
    match event.notify {
        raw::SIGEV_NONE => Ok(Way::Nothing),
        raw::SIGEV_SIGNAL if (0..=SIGNAL_MAX).contains(&event.signal) => {
            Ok(Way::Signal { signal: event.signal, value: event.value })
        }
        raw::SIGEV_THREAD => {
            let mut cookie = [0; COOKIE_BYTES];
            thread.copy_in(event.value, &mut cookie).await?;
            let file = thread.process().open_file(event.signal)?;
            match file.object() {
                Object::Socket(Socket::Netlink(_)) => Ok(Way::Socket { file: Arc::downgrade(&file), cookie }),
                Object::Socket(_) => Err(Errno::EINVAL),
                _ => Err(Errno::ENOTSOCK),
            }
        }
        _ => Err(Errno::EINVAL),
    }
}
