//! The kinds of objects behind a descriptor: how each is read, written and asked for its readiness.
//!
//! [`Object`] is one enum with a variant for each kind; the kinds have a module each beside this one.
//! [`OpenFile::read`], [`OpenFile::write`], [`OpenFile::take`] and [`OpenFile::give`] dispatch on it: the first two
//! copy to and from a program, the others move by reference.
//!
//! Nothing here waits for a peer: a call that cannot go on answers EAGAIN, and its caller waits on the readiness
//! ([`super::calls::Attempts`]). Regular files may wait for their disk.
//!
//! To add a kind: a variant, its module, and its line in each match; the compiler names them. Left out: flags and
//! position ([`super::open_file`]), and calls on one kind only ([`super::calls`]).

use super::buffer::UserBuffer;
use super::calls::uring::Ring;
use super::channel::Channel;
use super::device::Device;
use super::directory;
use super::epoll::{Epoll, Looks};
use super::event_counter::EventCounter;
use super::flow::FlowEnd;
use super::inotify::Inotify;
use super::memory_file::MemoryFile;
use super::mount::Place;
use super::open_file::OpenFile;
use super::pipe::PipeEnd;
use super::process_file::ProcessFile;
use super::regular;
use super::signal_file::SignalFile;
use super::socket::Socket;
use super::tenant_files::TenantFiles;
use super::terminal::TerminalEnd;
use super::timer_file::TimerFile;
use crate::Errno;
use crate::ipc::posix;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::files::NodeKind;
use gyre_interface::io_stream::Endpoint;
use gyre_interface::{Readiness, Ready};
use gyre_object::Bytes;
use linux_raw_sys::general::{IN_ACCESS, IN_MODIFY};

/// Reads, writes and sends up to here go through the stack instead of pages, bytes.
pub(super) const SMALL_BYTES: usize = 512;
/// The smallest of these use a shorter buffer, which is cheaper to clear.
const FEW_BYTES: usize = 64;
/// Bytes that a large read, write or send moves before others may run.
pub const CHUNK_BYTES: usize = 128 * 1024;

/// Something open.
pub enum Object {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A name without contents: symbolic links, and O_PATH of anything but files and directories.
    Name,
    /// An end of a pipe.
    Pipe(PipeEnd),
    /// A character device of /dev.
    Device(Device),
    /// A terminal's end.
    Terminal(TerminalEnd),
    /// A socket.
    Socket(Socket),
    /// An interest list.
    Epoll(Arc<Epoll>),
    /// An event counter.
    Event(EventCounter),
    /// A timer.
    Timer(TimerFile),
    /// Signals as messages.
    Signal(SignalFile),
    /// File system events.
    Inotify(Inotify),
    /// A flow.
    Flow(FlowEnd),
    /// A native channel.
    Channel(Channel),
    /// An end of a native stream.
    Stream(Arc<dyn Endpoint>),
    /// A ring of io_uring.
    Ring(Arc<Ring>),
    /// A process.
    Process(ProcessFile),
    /// The memory of a process, or a text of /proc about it.
    Memory(MemoryFile),
    /// A POSIX message queue.
    MessageQueue(Arc<posix::Queue>),
}

impl Object {
    /// Returns its readiness; `None` for objects that never wait.
    pub fn readiness(&self) -> Option<Arc<Readiness>> {
        match self {
            Object::Regular | Object::Directory | Object::Name | Object::Device(_) | Object::Memory(_) => None,
            Object::Flow(flow) => Some(flow.flow.readiness().clone()),
            Object::Stream(end) => end.readiness(),
            Object::Channel(channel) => Some(channel.readiness().clone()),
            Object::Pipe(end) => Some(end.readiness().clone()),
            Object::Terminal(end) => Some(end.readiness().clone()),
            Object::Socket(socket) => Some(socket.readiness()),
            Object::Epoll(epoll) => Some(epoll.readiness().clone()),
            Object::Event(event) => Some(event.readiness().clone()),
            Object::Timer(timer) => Some(timer.readiness().clone()),
            Object::Signal(signal) => Some(signal.readiness().clone()),
            Object::Inotify(inotify) => Some(inotify.readiness().clone()),
            Object::Ring(ring) => Some(ring.readiness().clone()),
            Object::Process(process) => Some(process.readiness().clone()),
            Object::MessageQueue(queue) => Some(queue.readiness().clone()),
        }
    }

    /// Brings a readiness up to date that is not kept exact all the time.
    // recursion: at most 5 lists, because epoll_ctl refuses deeper nests (NESTING_MAX)
    pub(super) fn refresh(&self, looks: &mut Looks) {
        match self {
            Object::Epoll(epoll) => epoll.refresh(looks),
            Object::Ring(ring) => ring.refresh(),
            _ => {}
        }
    }

    /// Returns the kind that stat shows for things without a node.
    pub fn kind(&self) -> NodeKind {
        match self {
            Object::Directory => NodeKind::Directory,
            Object::Pipe(_) | Object::Stream(_) => NodeKind::Pipe,
            Object::Device(_) | Object::Terminal(_) => NodeKind::CharacterDevice,
            Object::Socket(_) => NodeKind::Socket,
            _ => NodeKind::File,
        }
    }

    /// Returns the text that /proc shows for objects without a path.
    pub fn label(&self) -> &'static str {
        match self {
            Object::Pipe(_) => "pipe:[0]",
            Object::Socket(_) => "socket:[0]",
            Object::Epoll(_) => "anon_inode:[eventpoll]",
            Object::Event(_) => "anon_inode:[eventfd]",
            Object::Timer(_) => "anon_inode:[timerfd]",
            Object::Signal(_) => "anon_inode:[signalfd]",
            Object::Inotify(_) => "anon_inode:inotify",
            Object::Flow(_) => "anon_inode:[flow]",
            Object::Stream(_) => "anon_inode:[stream]",
            Object::Channel(_) => "anon_inode:[channel]",
            Object::Ring(_) => "anon_inode:[io_uring]",
            Object::Process(_) => "anon_inode:[pidfd]",
            Object::Terminal(_) => "/dev/console",
            _ => "/",
        }
    }

    /// Returns whether it has a position that lseek moves.
    pub fn is_seekable(&self) -> bool {
        matches!(
            self,
            Object::Regular | Object::Directory | Object::Device(_) | Object::MessageQueue(_) | Object::Memory(_)
        )
    }

    /// Ends its use: sends the requests that close it at its resources.
    pub(super) fn close(&self, tenant: &Arc<TenantFiles>, place: Option<Place>, path_only: bool) {
        match (self, place) {
            (Object::Regular | Object::Directory, Some(place)) if !path_only => regular::close(place),
            (Object::Socket(socket), _) => socket.close(),
            (Object::Epoll(list), _) => list.close(tenant),
            (Object::Ring(ring), _) => ring.close(),
            (Object::Inotify(inotify), _) => inotify.close(),
            _ => {}
        }
    }
}

impl OpenFile {
    /// Reads into a program's buffer, at `at` or the position.
    ///
    /// # Errors
    /// EBADF, EISDIR, EAGAIN if there is nothing yet, those of the object.
    pub async fn read(&self, buffer: &mut UserBuffer<'_>, at: Option<u64>) -> Result<usize, Errno> {
        if !self.is_readable() {
            return Err(Errno::EBADF);
        }
        match self.object() {
            Object::Regular => regular::read(self, buffer, at).await.inspect(|count| self.tell_some(*count, IN_ACCESS)),
            Object::Directory => Err(Errno::EISDIR),
            Object::Name => Err(Errno::EBADF),
            Object::Pipe(end) => read_stream(buffer, |into| end.read(into), |bytes| end.take(bytes)).await,
            Object::Device(device) => device.read(buffer).await,
            Object::Terminal(end) => {
                buffer.thread().may_read(end)?;
                read_small(buffer, |into| end.read(into)).await
            }
            Object::Socket(socket) => socket.read(buffer).await,
            Object::Epoll(_) | Object::Ring(_) | Object::Process(_) => Err(Errno::EINVAL),
            Object::Flow(flow) => read_small(buffer, |into| flow.read(into)).await,
            Object::Channel(channel) => channel.read(buffer).await,
            Object::Stream(end) => {
                let pieces = self.tenant().passage.client().read(end.clone(), 0, buffer.left()).await?;
                buffer.put_pieces(&pieces).await
            }
            Object::Event(event) => read_small(buffer, |into| event.read(into)).await,
            Object::Timer(timer) => read_small(buffer, |into| timer.read(into)).await,
            Object::Signal(signal) => {
                let thread = buffer.thread();
                read_small(buffer, |into| signal.read(thread, into)).await
            }
            Object::Inotify(inotify) => read_small(buffer, |into| inotify.read(into)).await,
            Object::MessageQueue(queue) => posix::read(self, queue, buffer, at).await,
            Object::Memory(memory) => {
                Box::pin(memory.read(self, buffer, at)).await.inspect(|count| self.tell_some(*count, IN_ACCESS))
            }
        }
    }

    /// Writes from a program's buffer, at `at` or the position (or the end, with O_APPEND).
    ///
    /// # Errors
    /// EBADF, EAGAIN if there is no room, those of the object.
    pub async fn write(&self, buffer: &mut UserBuffer<'_>, at: Option<u64>) -> Result<usize, Errno> {
        if !self.is_writable() {
            return Err(Errno::EBADF);
        }
        match self.object() {
            Object::Regular => {
                regular::write(self, buffer, at).await.inspect(|count| self.tell_some(*count, IN_MODIFY))
            }
            Object::Directory => Err(Errno::EISDIR),
            Object::Name => Err(Errno::EBADF),
            Object::Pipe(end) => write_pipe(buffer, end).await,
            Object::Device(device) => device.write(buffer).await,
            Object::Terminal(end) => write_terminal(buffer, end).await,
            Object::Socket(socket) => socket.write(self, buffer).await,
            Object::Stream(end) => write_stream(self, end, buffer).await,
            Object::Channel(channel) => channel.write(buffer).await,
            Object::Memory(memory) => Box::pin(memory.write(self, buffer, at)).await,
            Object::Event(event) => {
                let mut value = [0; 8];
                if buffer.get(&mut value).await? < value.len() {
                    return Err(Errno::EINVAL);
                }
                event.add(u64::from_le_bytes(value)).inspect_err(|_| buffer.give_back(8))?;
                Ok(value.len())
            }
            Object::Epoll(_)
            | Object::Timer(_)
            | Object::Signal(_)
            | Object::Inotify(_)
            | Object::Flow(_)
            | Object::Ring(_)
            | Object::Process(_)
            | Object::MessageQueue(_) => Err(Errno::EINVAL),
        }
    }

    /// Tells of a transfer that moved something.
    pub fn tell_some(&self, count: usize, event: u32) {
        if count > 0 {
            self.tell(event);
        }
    }

    /// Reads by reference, for sendfile and splice.
    ///
    /// # Errors
    /// EINVAL for objects that cannot be read by reference; as [`OpenFile::read`].
    pub async fn take(&self, at: u64, bytes: usize) -> Result<Vec<Bytes>, Errno> {
        if !self.is_readable() {
            return Err(Errno::EBADF);
        }
        match self.object() {
            Object::Regular => {
                regular::take(self, at, bytes).await.inspect(|pieces| self.tell_some(pieces.len(), IN_ACCESS))
            }
            Object::Pipe(end) => end.take(bytes),
            Object::Socket(socket) => socket.take(bytes).await,
            Object::Device(device) => device.take(bytes),
            Object::Stream(end) => Ok(end.take_near(at, bytes).ok_or(Errno::EINVAL)??),
            Object::Directory => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Writes by reference. Returns the bytes taken.
    ///
    /// # Errors
    /// EINVAL for objects that cannot be written by reference; as [`OpenFile::write`].
    pub async fn give(&self, at: Option<u64>, data: Vec<Bytes>) -> Result<usize, Errno> {
        if !self.is_writable() {
            return Err(Errno::EBADF);
        }
        match self.object() {
            Object::Regular => regular::give(self, at, data).await.inspect(|count| self.tell_some(*count, IN_MODIFY)),
            Object::Pipe(end) => end.give(&data),
            Object::Socket(socket) => socket.give(data).await,
            Object::Device(device) => device.give(&data),
            Object::Stream(end) => Ok(end.give_near(at, data).map_err(|_| Errno::EINVAL)??),
            Object::Terminal(end) => {
                let mut done = 0;
                for piece in &data {
                    match end.write(piece.as_slice()) {
                        Ok(count) => done = usize::saturating_add(done, count),
                        Err(error) if done == 0 => return Err(error),
                        Err(_) => break,
                    }
                }
                Ok(done)
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Entries of a directory in the form of getdents64, up to `bytes_max`.
    ///
    /// # Errors
    /// ENOTDIR; EINVAL if not even one entry fits; those of the file system.
    pub async fn read_entries(&self, bytes_max: usize) -> Result<Vec<u8>, Errno> {
        match self.object() {
            Object::Directory if self.is_readable() => directory::read_entries(self, bytes_max).await,
            Object::Directory => Err(Errno::EBADF),
            _ => Err(Errno::ENOTDIR),
        }
    }
}

/// Reads a stream of bytes: small reads by copying through the stack, large ones by reference.
pub(super) async fn read_stream(
    buffer: &mut UserBuffer<'_>,
    copy: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    take: impl FnOnce(usize) -> Result<Vec<Bytes>, Errno>,
) -> Result<usize, Errno> {
    if buffer.left() == 0 {
        return Ok(0);
    }
    if buffer.left() <= SMALL_BYTES {
        return read_small(buffer, copy).await;
    }
    let pieces = take(buffer.left())?;
    buffer.put_pieces(&pieces).await
}

/// Reads at most [`SMALL_BYTES`].
pub(crate) async fn read_small(
    buffer: &mut UserBuffer<'_>,
    copy: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    if buffer.left() <= FEW_BYTES {
        return read_through::<FEW_BYTES>(buffer, copy).await;
    }
    read_through::<SMALL_BYTES>(buffer, copy).await
}

async fn read_through<const BYTES: usize>(
    buffer: &mut UserBuffer<'_>,
    copy: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut small = [0; BYTES];
    let into = small.get_mut(..buffer.left().min(BYTES)).unwrap_or_default();
    let count = copy(into)?;
    buffer.put(small.get(..count).unwrap_or(&[])).await
}

/// Writes once to a native stream, as much as there is room for.
async fn write_stream(file: &OpenFile, end: &Arc<dyn Endpoint>, buffer: &mut UserBuffer<'_>) -> Result<usize, Errno> {
    // Nothing is copied that there is no room for.
    if !file.ready().intersects(Ready::WRITE | Ready::ERROR) {
        return Err(Errno::EAGAIN);
    }
    let pieces = buffer.gather(buffer.left().min(CHUNK_BYTES)).await?;
    let gathered: usize = pieces.iter().map(Bytes::len).sum();
    let written = file.tenant().passage.client().write(end.clone(), None, pieces).await;
    buffer.give_back(gathered.saturating_sub(written.unwrap_or(0)));
    Ok(written?)
}

/// Writes once to a pipe: all of a small write or nothing, and as much of a large one as there is room for.
async fn write_pipe(buffer: &mut UserBuffer<'_>, end: &PipeEnd) -> Result<usize, Errno> {
    let bytes = buffer.left();
    if bytes == 0 {
        return Ok(0);
    }
    end.check_room(bytes)?;
    if bytes <= SMALL_BYTES {
        let mut small = [0; SMALL_BYTES];
        let into = small.get_mut(..bytes).unwrap_or_default();
        let count = buffer.get(into).await?;
        let written = end.write(small.get(..count).unwrap_or(&[]));
        return written.inspect_err(|_| buffer.give_back(count));
    }
    let pieces = buffer.gather(bytes.min(CHUNK_BYTES)).await?;
    let gathered: usize = pieces.iter().map(Bytes::len).sum();
    let written = end.give(&pieces);
    buffer.give_back(gathered.saturating_sub(written.unwrap_or(0)));
    written
}

async fn write_terminal(buffer: &mut UserBuffer<'_>, end: &TerminalEnd) -> Result<usize, Errno> {
    buffer.thread().may_write(end)?;
    let before = buffer.done();
    while buffer.left() > 0 {
        let mut small = [0; SMALL_BYTES];
        let count = match buffer.get(&mut small).await {
            Err(error) if buffer.done() == before => return Err(error),
            Err(_) => break,
            Ok(count) => count,
        };
        let written = end.write(small.get(..count).unwrap_or(&[]));
        buffer.give_back(count.saturating_sub(written.unwrap_or(0)));
        match written {
            Err(error) if buffer.done() == before => return Err(error),
            Err(_) => break,
            Ok(written) if written < count => break,
            Ok(_) => {}
        }
    }
    Ok(buffer.done_since(before))
}
