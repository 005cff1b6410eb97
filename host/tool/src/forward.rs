//! Ports and sockets of the host that lead to addresses in the machine's network.
//!
//! * [`port`] forwards a port of the host, until what it returns is dropped; [`unix`] a Unix socket, as the agent has one.
//! * Each connection has threads of its own, which copy both ways until both ends have closed.
//! * A machine that boots does not answer yet: a connection is tried again, for ten seconds that QEMU had or left
//!   unused, or until its client has gone. One that the machine refuses ends at once.
//!
//! Datagrams have no connections: the part `udp` keeps a socket for each client.

mod udp;

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd as _, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use gyre_machine_file::{Forward, Protocol};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage},
};

use crate::{
    failure::{Context as _, Failure, Kind, Result},
    namespace::Namespace,
    qemu::Span,
};

/// How long a connection into the machine may take to stand, in time that QEMU had or left unused.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long the first try may take; each one after it may take twice as long.
const FIRST_TRY: Duration = Duration::from_secs(1);
/// The most that one try may take.
const TRY_MAX: Duration = Duration::from_secs(8);
/// Time before the next try if the machine's address is not known yet.
const PAUSE: Duration = Duration::from_millis(100);

/// A stream that can be copied and half-closed.
trait Duplex: Read + Write + AsFd + Send + Sized + 'static {
    fn copy(&self) -> io::Result<Self>;
    fn close(&self, how: Shutdown);
}

impl Duplex for TcpStream {
    fn copy(&self) -> io::Result<Self> {
        self.try_clone()
    }
    fn close(&self, how: Shutdown) {
        let _ = self.shutdown(how);
    }
}

impl Duplex for UnixStream {
    fn copy(&self) -> io::Result<Self> {
        self.try_clone()
    }
    fn close(&self, how: Shutdown) {
        let _ = self.shutdown(how);
    }
}

/// A port that is forwarded until this is dropped; connections that are under way go on.
pub struct Open {
    is_over: Arc<AtomicBool>,
    socket: OwnedFd,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Wakes who waits for a connection. A socket for datagrams that is not connected cannot be shut down: its thread looks by itself.
        let _ = socket::shutdown(self.socket.as_raw_fd(), socket::Shutdown::Both);
    }
}

/// Forwards a port of the host to an address in the namespace.
///
/// # Errors
/// When the port is taken; `whose` says for whom it was meant.
pub fn port(namespace: &Namespace, port: &Forward, to: SocketAddr, whose: &str) -> Result<Open> {
    let namespace = namespace.clone();
    let is_over = Arc::new(AtomicBool::new(false));
    let cannot = || format!("cannot forward port {}", port.host);
    if port.protocol == Protocol::Udp {
        let socket = match port.address.is_ipv6() {
            true => ipv6_only(port.from(), SockType::Datagram).map(UdpSocket::from),
            false => UdpSocket::bind(port.from()),
        };
        let socket = socket.map_err(|error| taken(&error, port, whose))?;
        let open = Open { is_over: is_over.clone(), socket: socket.try_clone().context(cannot)?.into() };
        udp::serve(socket, namespace, to, is_over)?;
        return Ok(open);
    }
    let listener = match port.address.is_ipv6() {
        true => ipv6_only(port.from(), SockType::Stream).map(TcpListener::from),
        false => TcpListener::bind(port.from()),
    };
    let listener = listener.map_err(|error| taken(&error, port, whose))?;
    let open = Open { is_over: is_over.clone(), socket: listener.try_clone().context(cannot)?.into() };
    serve(format!("port {}", port.host), is_over, move || {
        let (client, _) = listener.accept()?;
        forward(client, namespace.clone(), to);
        Ok(())
    })?;
    Ok(open)
}

/// Forwards a Unix socket to an address in the namespace until the tool ends.
///
/// # Errors
/// When the socket cannot be made.
pub fn unix(namespace: &Namespace, path: &Path, to: SocketAddr) -> Result<()> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).context(|| format!("cannot make the socket {}", path.display()))?;
    let namespace = namespace.clone();
    serve("agent".into(), Arc::default(), move || {
        let (client, _) = listener.accept()?;
        forward(client, namespace.clone(), to);
        Ok(())
    })
}

/// Binds a socket of IPv6 alone, so that IPv4 may have the same port; one of connections listens.
fn ipv6_only(at: SocketAddr, kind: SockType) -> io::Result<OwnedFd> {
    let socket = socket::socket(AddressFamily::Inet6, kind, SockFlag::SOCK_CLOEXEC, None)?;
    socket::setsockopt(&socket, socket::sockopt::Ipv6V6Only, &true)?;
    if kind == SockType::Stream {
        socket::setsockopt(&socket, socket::sockopt::ReuseAddr, &true)?;
    }
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(at))?;
    if kind == SockType::Stream {
        socket::listen(&socket, Backlog::MAXCONN)?;
    }
    Ok(socket)
}

fn taken(error: &io::Error, port: &Forward, whose: &str) -> Failure {
    let host = port.host;
    let help = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("another program uses it; change `ports` of tenant {whose}, or end that program")
        }
        io::ErrorKind::PermissionDenied => "ports below 1024 need root".to_owned(),
        io::ErrorKind::AddrNotAvailable => format!("this host has no address {}", port.address),
        _ => "take another port".to_owned(),
    };
    let protocol = if port.protocol == Protocol::Udp { " (UDP)" } else { "" };
    Failure::with_help(format!("cannot listen on port {host}{protocol}: {error}"), help).kind(Kind::Environment)
}

fn serve(
    name: String,
    is_over: Arc<AtomicBool>,
    mut accept: impl FnMut() -> io::Result<()> + Send + 'static,
) -> Result<()> {
    // A failed accept (a client that gave up, no descriptor left) is that client's loss only; the pause keeps it from spinning.
    let run = move || {
        while !is_over.load(Ordering::Acquire) {
            if accept().is_err() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    };
    std::thread::Builder::new().name(name).spawn(run).context(|| "cannot start a thread".into())?;
    Ok(())
}

fn forward(client: impl Duplex, namespace: Namespace, to: SocketAddr) {
    std::thread::spawn(move || {
        if let Ok(server) = connect(&client, &namespace, to) {
            let _ = splice(client, server);
        }
    });
}

/// Connects to an address in the machine, which may be about to boot: what is sent before it listens is lost.
fn connect(client: &impl Duplex, namespace: &Namespace, to: SocketAddr) -> io::Result<TcpStream> {
    let mut span = Span::of_own();
    let mut patience = FIRST_TRY;
    loop {
        let tried = namespace.connect(to, patience);
        let is_silent = tried
            .as_ref()
            .is_err_and(|error| matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable));
        if !is_silent || span.passed() >= CONNECT_LIMIT || has_gone(client) {
            return tried;
        }
        patience = (patience * 2).min(TRY_MAX);
        std::thread::sleep(PAUSE);
    }
}

/// Returns whether a client waits for nothing any more, neither to send nor to receive.
fn has_gone(client: &impl Duplex) -> bool {
    let mut sockets = [PollFd::new(client.as_fd(), PollFlags::empty())];
    poll(&mut sockets, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Copies both ways until both ends have closed.
fn splice(client: impl Duplex, server: TcpStream) -> io::Result<()> {
    let _ = server.set_nodelay(true);
    let (mut from_client, mut to_client) = (client.copy()?, client);
    let (mut from_server, mut to_server) = (server.copy()?, server);
    let up = std::thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        to_server.close(Shutdown::Write);
    });
    let _ = io::copy(&mut from_server, &mut to_client);
    to_client.close(Shutdown::Write);
    let _ = up.join();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_listens_still_has_not_gone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert!(!has_gone(&ours));
        theirs.shutdown(Shutdown::Write).unwrap();
        assert!(!has_gone(&ours), "it has sent all and waits for the answer");
        drop(theirs);
        assert!(has_gone(&ours));
    }
}
