//! The calls of channels (R5): numbers, arguments and errors are in `gyre_contract::native`.
//!
//! The kernel has the table of names and knows the caller's tenant; what is opened is a descriptor as any other: `read`, `write`, `poll`,
//! `epoll`, `fcntl`, `dup` and `close` know it.
//!
//! * A listener is found under a name of its own tenant; `connect` looks in this instance, then asks the neighbours
//!   ([`Abroad`]), which may wait.
//! * Accept waits unless the descriptor is non-blocking. All other calls answer at once.
//! * Pages of a channel are one piece of shared memory that both ends map; `unmap` refuses an address that shows
//!   something else.
//! * A grant is replaced as a whole: the answer is the rest of the one before.
//!
//! `system/kernel` calls these functions in the thread of the program and passes the tenant's name and payer.

use super::{Attempts, answer, install, usable_file};
use crate::behalf;
use crate::file::buffer::UserBuffer;
use crate::file::channel::{Channel, errno};
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_account::grant::Spent;
use gyre_account::{ActivityId, Grant};
use gyre_address_space::{MapRequest, Options, PageIndex, Place, Provider, Rights};
use gyre_channel::{Abroad, ChannelError, Channels, End, NAME_BYTES_MAX, Name};
use gyre_contract::native::{GRANT_LOOK, GRANT_NS_MAX};
use gyre_interface::Ready;
use gyre_machine::PAGE_BYTES;
use linux_raw_sys::general as raw;

/// Flags of `channel_open` and `channel_accept`.
const LISTEN: u64 = 1;
const NONBLOCK: u64 = 2;
/// Longest full name: a tenant's, a slash, and a name within.
const FULL_BYTES_MAX: usize = 2 * NAME_BYTES_MAX + 1;

/// The tables in which names of channels are found.
#[derive(Clone, Copy)]
pub struct Names {
    /// Those of this instance.
    pub channels: &'static Channels,
    /// Those of its neighbours.
    pub abroad: &'static dyn Abroad,
}

impl Names {
    async fn connect(self, name: &Name, own: &str, pages: usize) -> Result<End, ChannelError> {
        match self.abroad.connect(name, own.into(), pages) {
            Some(connecting) => connecting.await,
            None => self.channels.connect(name, own, pages),
        }
    }
}

fn open_end(thread: &Thread, channel: Channel, flags: u64) -> Outcome {
    let nonblock = if flags & NONBLOCK != 0 { raw::O_NONBLOCK } else { 0 };
    let files = thread.process().files();
    let file = OpenFile::new(files.tenant(), Object::Channel(channel), raw::O_RDWR | nonblock, None)?;
    answer(install(thread, file, true)?)
}

fn channel_of(file: &OpenFile) -> Result<&Channel, Errno> {
    match file.object() {
        Object::Channel(channel) => Ok(channel),
        _ => Err(Errno::EINVAL),
    }
}

/// Returns the end of a channel that a descriptor stands for.
///
/// # Errors
/// EBADF; EINVAL for another descriptor.
pub(crate) fn end_of(thread: &Thread, descriptor: i32) -> Result<Arc<End>, Errno> {
    channel_of(&*usable_file(thread, descriptor)?)?.end().cloned()
}

/// The account of what the peer of a channel spends at the expense of a tenant.
///
/// # Errors
/// EHOSTUNREACH if the peer is of another zone.
pub type SpentBy<'a> = &'a (dyn Fn(ActivityId, &str) -> Result<Spent, Errno> + Sync);

/// `grant(channel, ns, from) -> ns`, for a program of the tenant `payer`.
///
/// # Errors
/// See `gyre_contract::native::GRANT`.
pub fn grant(spent_by: SpentBy<'_>, payer: ActivityId, thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (end, amount_ns) = (end_of(thread, a.int(0))?, a.word(1));
    let rest = |grant: Option<Arc<Grant>>| Ok(behalf::ns(grant.map_or(0, |grant| grant.left())));
    if amount_ns == GRANT_LOOK {
        return rest(end.given());
    }
    if amount_ns > GRANT_NS_MAX {
        return Err(Errno::EINVAL);
    }
    let cycles = behalf::cycles(amount_ns);
    let grant = match (amount_ns, a.int(2)) {
        (0, _) => None,
        (_, -1) => Some(Grant::new(payer, cycles, spent_by(payer, end.peer())?)),
        (_, from) => {
            let from = end_of(thread, from)?.grant().ok_or(Errno::EACCES)?;
            let spent = spent_by(from.payer(), end.peer())?;
            Some(Grant::pass_on(&from, cycles, spent).ok_or(Errno::ELOOP)?)
        }
    };
    let left = end.given().map_or(0, |before| before.left());
    end.give_grant(grant.map(Arc::new)).map_err(errno)?;
    Ok(behalf::ns(left))
}

/// `channel_open(name, length, pages, flags) -> descriptor`, for a program of the tenant `own`.
///
/// # Errors
/// EINVAL, EFAULT; EADDRINUSE, EACCES for a listener; ECONNREFUSED, EAGAIN for who connects, and EHOSTUNREACH, ENOMEM to another instance;
/// EMFILE, ENFILE.
pub async fn open(names: Names, own: &str, thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (bytes, flags) = (a.size(1), a.word(3));
    if flags & !(LISTEN | NONBLOCK) != 0 || bytes > FULL_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let pages = usize::try_from(a.word(2)).map_err(|_| Errno::EINVAL)?;
    let text = thread.read_vec(a.word(0), bytes).await?;
    let name = Name::read(&text, own).map_err(errno)?;
    let channel = match flags & LISTEN {
        0 => Channel::End(Arc::new(names.connect(&name, own, pages).await.map_err(errno)?)),
        _ if name.tenant() != own => return Err(Errno::EACCES),
        _ => Channel::Listener(names.channels.listen(name, pages).map_err(errno)?),
    };
    open_end(thread, channel, flags)
}

/// `channel_accept(descriptor, flags) -> descriptor`: waits for a connection.
///
/// # Errors
/// EBADF, EINVAL; EAGAIN if the listener does not wait; EMFILE, ENFILE.
pub async fn accept(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (file, flags) = (usable_file(thread, a.int(0))?, a.word(1));
    let Channel::Listener(listener) = channel_of(&file)? else { return Err(Errno::EINVAL) };
    if flags & !NONBLOCK != 0 {
        return Err(Errno::EINVAL);
    }
    let mut attempts = Attempts::default();
    loop {
        match listener.accept().map_err(errno) {
            Err(Errno::EAGAIN) if !file.is_nonblocking() => attempts.wait(thread, &file, Ready::READ, None).await?,
            end => return open_end(thread, Channel::End(Arc::new(end?)), flags),
        }
    }
}

/// `channel_close(descriptor)`.
///
/// # Errors
/// EBADF; EINVAL for another descriptor.
pub async fn close(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    channel_of(&*usable_file(thread, a.int(0))?)?;
    super::descriptors::close(thread, a).await
}

/// `channel_read(descriptor, address, bytes) -> bytes`.
///
/// # Errors
/// As read; EMSGSIZE if the message is longer: it stays.
pub async fn read(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    channel_of(&file)?;
    let mut buffer = UserBuffer::new(thread, a.word(1), a.size(2));
    super::read_write::read_file(thread, &file, &mut buffer, None).await
}

/// `channel_write(descriptor, address, bytes) -> bytes`.
///
/// # Errors
/// As write; EMSGSIZE for more than a message may have.
pub async fn write(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    channel_of(&file)?;
    let mut buffer = UserBuffer::new(thread, a.word(1), a.size(2));
    super::read_write::write_file(thread, &file, &mut buffer, None).await
}

/// `channel_map(descriptor) -> address`: shows the channel's pages to the program.
///
/// # Errors
/// EBADF, EINVAL for a channel without pages; ENOMEM.
pub async fn map(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let (memory, pages) = channel_of(&file)?.end()?.memory().map_err(errno)?;
    let rights = Rights::READ | Rights::WRITE;
    let request = MapRequest {
        place: Place::Anywhere(0),
        bytes: bytes_of(pages),
        rights,
        rights_max: rights,
        options: Options::SHARED,
        provider: Provider::Memory(memory),
        first_index: PageIndex::FIRST,
    };
    thread.space().map(request).await.map_err(Errno::from)
}

/// `channel_unmap(descriptor, address)`.
///
/// # Errors
/// EBADF; EINVAL if the channel's pages are not mapped there.
pub async fn unmap(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let (memory, pages) = channel_of(&file)?.end()?.memory().map_err(errno)?;
    let shown = thread.space().shared_memory_at(a.word(1)).ok_or(Errno::EINVAL)?;
    if !Arc::ptr_eq(&shown, &memory) {
        return Err(Errno::EINVAL);
    }
    thread.space().unmap_shared(a.word(1), bytes_of(pages), &memory).await?;
    Ok(0)
}

/// `channel_figures(descriptor, buffer, length) -> length`: the form is `gyre_contract::native::ChannelFigures`.
///
/// # Errors
/// EBADF, EINVAL, EFAULT.
pub async fn figures(
    thread: &Arc<Thread>,
    a: Arguments,
    form: impl Fn(&gyre_channel::Figures) -> [u8; 128],
) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let bytes = form(&channel_of(&file)?.end()?.figures());
    let room = a.size(2).min(bytes.len());
    thread.copy_out(a.word(1), bytes.get(..room).unwrap_or(&bytes)).await?;
    Ok(bytes.len() as u64)
}

fn bytes_of(pages: usize) -> u64 {
    (pages as u64).saturating_mul(PAGE_BYTES as u64)
}
