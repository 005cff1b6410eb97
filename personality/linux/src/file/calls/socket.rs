//! socket, bind, listen, accept, connect, shutdown, names of sockets.
//!
//! Calls read and write addresses in Linux's layout ([`crate::file::socket::address`]) and repeat an attempt that
//! answers EAGAIN, unless the socket is non-blocking. Names of local sockets are files: bind makes one, connect
//! resolves it here, with the caller's rights. io_uring uses [`accept_on`] and [`connect_to`].
//!
//! * A descriptor is made last: an error before it leaves no trace, and one after it takes it back.
//! * `connect` that waits and meets a signal goes on in the background; the next call answers EALREADY or EISCONN, as
//!   on Linux.
//! * Ports below 1024 want CAP_NET_BIND_SERVICE; raw sockets want CAP_NET_RAW.

use super::descriptors::put_pair;
use super::names::make_node;
use super::{Attempts, answer, install, may_wait, usable_file};
use crate::credentials::Capability;
use crate::file::credentials_of;
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::permission::{Asker, WRITE};
use crate::file::socket::address::{ADDRESS_BYTES_MAX, INET, NETLINK, UNIX};
use crate::file::socket::echo::{EchoKind, EchoSocket};
use crate::file::socket::netlink::{NetlinkKind, NetlinkSocket};
use crate::file::socket::tcp::TcpSocket;
use crate::file::socket::udp::UdpSocket;
use crate::file::socket::unix::{UnixKind, UnixSocket};
use crate::file::socket::{Address, Socket, UnixName};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_interface::Ready;
use gyre_interface::files::NodeKind;
use gyre_interface::tcp::Direction;
use gyre_interface::udp::Kind;
use linux_raw_sys::{general as raw, net};

/// Protocols (in.h).
const IPPROTO_ICMP: u32 = 1;
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;
const IPPROTO_UDPLITE: u32 = 136;

/// Flags beside a socket's type.
const TYPE_FLAGS: u32 = raw::O_CLOEXEC | raw::O_NONBLOCK;
/// The largest number that a type may have (SOCK_PACKET).
const TYPE_MAX: u32 = 10;

/// Returns a socket's type and its flags, which come in one number.
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

/// Notes whose socket it is.
fn own(thread: &Thread, socket: &Socket) {
    socket.options().owner.store(thread.credentials().user_effective, Ordering::Relaxed);
}

fn install_socket(thread: &Thread, socket: Socket, flags: u32) -> Result<i32, Errno> {
    own(thread, &socket);
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
pub async fn socket(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let (kind, flags) = type_and_flags(a.unsigned(1))?;
    let socket = new_socket(thread, a)?;
    if let (Socket::Echo(raw), net::SOCK_RAW) = (&socket, kind) {
        // it misses nothing from now on
        raw.opened().await?;
    }
    answer(install_socket(thread, socket, flags)?)
}

/// Does `socket` for all that need not wait.
pub fn socket_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    let is_raw = matches!(type_and_flags(a.unsigned(1)), Ok((net::SOCK_RAW, _))) && a.int(0) == i32::from(INET);
    (!is_raw).then(|| {
        let (_, flags) = type_and_flags(a.unsigned(1))?;
        answer(install_socket(thread, new_socket(thread, a)?, flags)?)
    })
}

fn new_socket(thread: &Arc<Thread>, a: Arguments) -> Result<Socket, Errno> {
    let (family, protocol) = (a.int(0), a.unsigned(2));
    let (kind, _) = type_and_flags(a.unsigned(1))?;
    match u16::try_from(family) {
        Ok(UNIX) if protocol > 1 => Err(Errno::EPROTONOSUPPORT),
        Ok(UNIX) => {
            let files = thread.process().files();
            Ok(Socket::Unix(UnixSocket::new(unix_kind(kind)?, files.tenant())))
        }
        Ok(INET) => inet(thread, kind, protocol),
        Ok(NETLINK) => netlink(thread, kind, protocol),
        _ => Err(Errno::EAFNOSUPPORT),
    }
}

fn inet(thread: &Arc<Thread>, kind: u32, protocol: u32) -> Result<Socket, Errno> {
    let files = thread.process().files();
    let tenant = files.tenant();
    match (kind, protocol) {
        (net::SOCK_STREAM, 0 | IPPROTO_TCP) => {
            let client = tenant.tcp.ok_or(Errno::EAFNOSUPPORT)?;
            Ok(Socket::Tcp(TcpSocket::new(client, tenant.small_sends.clone())))
        }
        (net::SOCK_DGRAM, 0 | IPPROTO_UDP) => datagrams(thread, Kind::Udp),
        (net::SOCK_DGRAM, IPPROTO_UDPLITE) => datagrams(thread, Kind::Lite),
        (net::SOCK_DGRAM, IPPROTO_ICMP) => echo(thread, EchoKind::Echoes),
        (net::SOCK_RAW, _) if !Asker::of(thread).has(Capability::NetRaw) => Err(Errno::EPERM),
        // Other protocols have no raw sockets here.
        (net::SOCK_RAW, IPPROTO_ICMP) => echo(thread, EchoKind::Raw),
        (net::SOCK_STREAM | net::SOCK_DGRAM | net::SOCK_RAW, _) => Err(Errno::EPROTONOSUPPORT),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

fn datagrams(thread: &Thread, kind: Kind) -> Result<Socket, Errno> {
    let client = thread.process().files().tenant().udp.ok_or(Errno::EAFNOSUPPORT)?;
    Ok(Socket::Udp(UdpSocket::new(client, kind)))
}

fn echo(thread: &Thread, kind: EchoKind) -> Result<Socket, Errno> {
    let client = thread.process().files().tenant().icmp.ok_or(Errno::EAFNOSUPPORT)?;
    Ok(Socket::Echo(EchoSocket::new(client, kind)))
}

fn netlink(thread: &Thread, kind: u32, protocol: u32) -> Result<Socket, Errno> {
    if !matches!(kind, net::SOCK_RAW | net::SOCK_DGRAM) {
        return Err(Errno::ESOCKTNOSUPPORT);
    }
    let of = match protocol {
        0 => NetlinkKind::Route,
        4 => NetlinkKind::Diagnosis,
        _ => return Err(Errno::EPROTONOSUPPORT),
    };
    let process = thread.process();
    Ok(Socket::Netlink(NetlinkSocket::new(of, process.files().tenant(), process.id())))
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
    let (first, second) = (Socket::Unix(first), Socket::Unix(second));
    own(thread, &first);
    own(thread, &second);
    let first = OpenFile::new(files.tenant(), Object::Socket(first), kept, None)?;
    let second = OpenFile::new(files.tenant(), Object::Socket(second), kept, None)?;
    put_pair(thread, first, second, a.word(3), flags & raw::O_CLOEXEC != 0).await
}

/// Returns an address from the program.
pub(super) async fn read_address(thread: &Thread, address: u64, bytes: u32) -> Result<Address, Errno> {
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= ADDRESS_BYTES_MAX).ok_or(Errno::EINVAL)?;
    let raw = thread.read_vec(address, bytes).await?;
    Address::parse(&raw)
}

/// Writes an address as accept and its like do: as much as fits, and the whole length.
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
    // A negative number is a large one, as on Linux: the bound is the machine's.
    let backlog_max = file.tenant().proc.backlog_max();
    socket_of(&file)?.listen(a.unsigned(1).min(backlog_max)).await?;
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

/// Accepts; the peer's address goes to the first address, its length to the second, if they are not null.
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

/// Connects the socket of a file.
///
/// # Errors
/// As connect(2).
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
    let name = socket_of(&file)?.peer_name().await?;
    put_address(thread, &name, a.word(1), a.word(2)).await?;
    Ok(0)
}
