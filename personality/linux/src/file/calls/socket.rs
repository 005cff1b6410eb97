//! socket, bind, listen, accept, connect, shutdown, names of sockets.

use super::descriptors::put_pair;
use super::names::make_node;
use super::{Attempts, answer, install, may_wait, usable_file};
use crate::credentials::Capability;
use crate::file::credentials_of;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::permission::{Asker, WRITE};
use crate::file::socket::address::{ADDRESS_BYTES_MAX, INET, UNIX};
use crate::file::socket::tcp::TcpSocket;
use crate::file::socket::udp::UdpSocket;
use crate::file::socket::unix::{UnixKind, UnixSocket};
use crate::file::socket::{Address, Socket, UnixName};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use gyre_interface::Ready;
use gyre_interface::files::NodeKind;
use gyre_interface::tcp::Direction;
use linux_raw_sys::{general as raw, net};

/// Protocols (in.h).
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;

/// Flags beside a socket's type.
const TYPE_FLAGS: u32 = raw::O_CLOEXEC | raw::O_NONBLOCK;
/// The largest number that a type may have (SOCK_PACKET).
const TYPE_MAX: u32 = 10;

/// A socket's type and its flags, which come in one number.
fn type_and_flags(word: u32) -> Result<(u32, u32), Errno> {
    match (word & !TYPE_FLAGS, word & TYPE_FLAGS) {
        (TYPE_MAX.., _) => Err(Errno::EINVAL),
        pair => Ok(pair),
    }
}

pub(super) fn socket_of(file: &OpenFile) -> Result<&Socket, Errno> {
    match file.object() {
        Object::Socket(socket) => Ok(socket),
        _ => Err(Errno::ENOTSOCK),
    }
}

fn install_socket(thread: &Thread, socket: Socket, flags: u32) -> Result<i32, Errno> {
    let files = thread.process().files();
    let kept = raw::O_RDWR | flags & raw::O_NONBLOCK;
    let file = OpenFile::new(files.tenant(), Object::Socket(socket), kept, None)?;
    install(thread, file, flags & raw::O_CLOEXEC != 0)
}

fn unix_kind(kind: u32) -> Result<UnixKind, Errno> {
    match kind {
        net::SOCK_STREAM => Ok(UnixKind::Stream),
        net::SOCK_DGRAM | net::SOCK_RAW => Ok(UnixKind::Datagram),
        net::SOCK_SEQPACKET => Ok(UnixKind::Record),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

/// `socket(family, type, protocol)`.
pub fn socket(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (family, protocol) = (a.int(0), a.unsigned(2));
    let (kind, flags) = type_and_flags(a.unsigned(1))?;
    let files = thread.process().files();
    let tenant = files.tenant();
    let socket = match u16::try_from(family) {
        Ok(UNIX) => {
            if protocol > 1 {
                return Err(Errno::EPROTONOSUPPORT);
            }
            Socket::Unix(UnixSocket::new(unix_kind(kind)?, tenant))
        }
        Ok(INET) => match (kind, protocol) {
            (net::SOCK_STREAM, 0 | IPPROTO_TCP) => {
                Socket::Tcp(TcpSocket::new(tenant.tcp.ok_or(Errno::EAFNOSUPPORT)?, tenant.small_sends.clone()))
            }
            (net::SOCK_DGRAM, 0 | IPPROTO_UDP) => Socket::Udp(UdpSocket::new(tenant.udp.ok_or(Errno::EAFNOSUPPORT)?)),
            (net::SOCK_RAW, _) => return Err(Errno::EPERM),
            (net::SOCK_STREAM | net::SOCK_DGRAM, _) => return Err(Errno::EPROTONOSUPPORT),
            _ => return Err(Errno::ESOCKTNOSUPPORT),
        },
        _ => return Err(Errno::EAFNOSUPPORT),
    };
    answer(install_socket(thread, socket, flags)?)
}

/// `socketpair(family, type, protocol, out)`.
pub async fn socketpair(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if u16::try_from(a.int(0)) != Ok(UNIX) {
        return Err(if a.int(0) == i32::from(INET) { Errno::EOPNOTSUPP } else { Errno::EAFNOSUPPORT });
    }
    let (kind, flags) = type_and_flags(a.unsigned(1))?;
    let kind = unix_kind(kind)?;
    let files = thread.process().files();
    let (first, second) = UnixSocket::pair(kind, files.tenant(), credentials_of(thread));
    let kept = raw::O_RDWR | flags & raw::O_NONBLOCK;
    let first = OpenFile::new(files.tenant(), Object::Socket(Socket::Unix(first)), kept, None)?;
    let second = OpenFile::new(files.tenant(), Object::Socket(Socket::Unix(second)), kept, None)?;
    put_pair(thread, first, second, a.word(3), flags & raw::O_CLOEXEC != 0).await
}

/// An address from the program.
pub(super) async fn read_address(thread: &Thread, address: u64, bytes: u32) -> Result<Address, Errno> {
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= ADDRESS_BYTES_MAX).ok_or(Errno::EINVAL)?;
    let raw = thread.read_vec(address, bytes).await?;
    Address::parse(&raw)
}

/// Writes an address as accept and its like do: what fits, and the whole length.
pub(super) async fn put_address(thread: &Thread, address: &Address, out: u64, length: u64) -> Result<(), Errno> {
    if out == 0 {
        return Ok(());
    }
    let mut room = [0; 4];
    thread.copy_in(length, &mut room).await?;
    let room = usize::try_from(i32::from_le_bytes(room)).map_err(|_| Errno::EINVAL)?;
    let raw = address.to_bytes();
    thread.copy_out(out, raw.get(..room.min(raw.len())).unwrap_or(&raw)).await?;
    thread.copy_out(length, &(raw.len() as u32).to_le_bytes()).await
}

/// `bind(fd, address, bytes)`. A local path gets a node.
pub async fn bind(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let socket = socket_of(&file)?;
    let mut address = read_address(thread, a.word(1), a.unsigned(2)).await?;
    if let (Socket::Unix(_), Address::Unix(UnixName::Path { path, node })) = (socket, &mut address) {
        let made = make_node(thread, raw::AT_FDCWD, path, |_| (), NodeKind::Socket, 0o777).await;
        let (walked, attributes) =
            made.map_err(|error| if error == Errno::EEXIST { Errno::EADDRINUSE } else { error })?;
        *node = Some((walked.parent.place.mount.id, attributes.node.0));
    }
    if let Address::Inet(end) = &address
        && (1..1024).contains(&end.port)
        && !Asker::of(thread).has(Capability::NetBindService)
    {
        return Err(Errno::EACCES);
    }
    socket.bind(address).await?;
    Ok(0)
}

/// Resolves a local path to its node, and checks the right to write to it.
pub(super) async fn resolve(thread: &Thread, address: Address) -> Result<Address, Errno> {
    let Address::Unix(UnixName::Path { path, .. }) = address else {
        return Ok(address);
    };
    let target = thread.process().files().find(thread, raw::AT_FDCWD, &path, 0).await?;
    let found = target.node(Errno::ECONNREFUSED)?;
    if found.attributes.kind != NodeKind::Socket {
        return Err(Errno::ECONNREFUSED);
    }
    Asker::of(thread).check(&found.attributes, WRITE)?;
    let node = Some((found.place.mount.id, found.place.node.0));
    Ok(Address::Unix(UnixName::Path { path, node }))
}

/// `listen(fd, backlog)`.
pub async fn listen(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    socket_of(&file)?.listen(u32::try_from(a.int(1)).unwrap_or(0)).await?;
    Ok(0)
}

/// `accept(fd, address, length)`.
pub async fn accept(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    accept_with(thread, a, 0).await
}

/// `accept4(fd, address, length, flags)`.
pub async fn accept4(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.unsigned(3) & !TYPE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    accept_with(thread, a, a.unsigned(3)).await
}

async fn accept_with(thread: &Thread, a: Arguments, flags: u32) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    accept_on(thread, &file, (a.word(1), a.word(2)), flags).await
}

/// Accepts; the peer's address goes to the first address, its length to the second, where they are not null.
pub(super) async fn accept_on(thread: &Thread, file: &OpenFile, (to, length): (u64, u64), flags: u32) -> Outcome {
    if flags & !TYPE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let socket = socket_of(file)?;
    let deadline = super::read_write::deadline_of(file, Ready::READ);
    let mut attempts = Attempts::default();
    let (accepted, address) = loop {
        match socket.accept().await {
            Err(Errno::EAGAIN) if !file.is_nonblocking() => {
                attempts.wait(thread, file, Ready::READ, deadline).await?;
            }
            outcome => break outcome?,
        }
    };
    let descriptor = install_socket(thread, accepted, flags)?;
    if let Err(error) = put_address(thread, &address, to, length).await {
        drop(thread.process().files().table().remove(descriptor));
        return Err(error);
    }
    answer(descriptor)
}

/// `connect(fd, address, bytes)`.
pub async fn connect(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    socket_of(&file)?;
    let address = read_address(thread, a.word(1), a.unsigned(2)).await?;
    connect_to(thread, &file, address).await
}

/// Connects.
pub(super) async fn connect_to(thread: &Thread, file: &OpenFile, address: Address) -> Outcome {
    let socket = socket_of(file)?;
    let address = resolve(thread, address).await?;
    let sender = credentials_of(thread);
    let deadline = super::read_write::deadline_of(file, Ready::WRITE);
    let (mut under_way, mut attempts) = (false, Attempts::default());
    loop {
        let listener = socket.listener(&address);
        let room = listener.as_ref().map(|listener| listener.room());
        match socket.connect(address.clone(), sender).await {
            Err(Errno::EINPROGRESS | Errno::EALREADY) if may_wait(thread, file) => {
                under_way = true;
                let waited = attempts.wait(thread, file, Ready::WRITE, deadline).await;
                waited.map_err(|error| if error == Errno::EAGAIN { Errno::EINPROGRESS } else { error })?;
            }
            // A local listener whose backlog is full.
            Err(Errno::EAGAIN) if may_wait(thread, file) => {
                let room = room.ok_or(Errno::EAGAIN)?;
                thread.interruptible_until(deadline, room).await?.ok_or(Errno::EAGAIN)?;
            }
            Err(Errno::EISCONN) if under_way => return Ok(0),
            outcome => return outcome.map(|()| 0),
        }
    }
}

/// `shutdown(fd, how)`.
pub async fn shutdown(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let direction = match a.unsigned(1) {
        net::SHUT_RD => Direction::Receive,
        net::SHUT_WR => Direction::Send,
        net::SHUT_RDWR => Direction::Both,
        _ => return Err(Errno::EINVAL),
    };
    socket_of(&file)?.shut_down(direction).await?;
    Ok(0)
}

/// `getsockname(fd, address, length)`.
pub async fn getsockname(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let name = socket_of(&file)?.local_name();
    put_address(thread, &name, a.word(1), a.word(2)).await?;
    Ok(0)
}

/// `getpeername(fd, address, length)`.
pub async fn getpeername(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let name = socket_of(&file)?.peer_name()?;
    put_address(thread, &name, a.word(1), a.word(2)).await?;
    Ok(0)
}
