//! A tenant's sockets, for those who ask: /proc/net and sock_diag(7).
//!
//! * They are found in the descriptors of its processes; one that lies in a local socket's message is not seen.
//! * Each entry is a copy of the state at the time of the look.
//! * A tenant's descriptors are bounded, and so is the list. It may be long: descriptors and sockets are looked at in turns
//!   ([`Pace`]), so that two entries may be from two times.
//! * Sockets without a name are left out, except for local ones.
//!
//! /proc and netlink call it in the thread that reads; nothing here is called under a lock.

use super::address::UnixName;
use super::echo::EchoKind;
use super::tcp::ANY;
use super::unix::{UnixKind, UnixSocket};
use super::{Options, Socket};
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::pace::Pace;
use crate::file::tenant_files::TenantFiles;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_interface::tcp::SocketAddress;
use gyre_interface::udp::Kind;

/// States of TCP that other protocols use too (tcp_states.h).
pub const ESTABLISHED: u8 = 1;
/// It has asked for a connection and has no answer.
pub const SYN_SENT: u8 = 2;
/// Neither connected nor listening.
pub const CLOSED: u8 = 7;
/// It waits for connections.
pub const LISTENING: u8 = 10;

/// A protocol of the Internet's family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// UDP-Lite.
    UdpLite,
    /// Echoes of ICMP.
    Echo,
    /// Raw ICMP.
    Raw,
}

/// A socket of the Internet's family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InetEntry {
    /// Its own end.
    pub local: SocketAddress,
    /// The other end.
    pub remote: SocketAddress,
    /// Its state.
    pub state: u8,
    /// Bytes, or connections, that wait to be taken.
    pub receive_queued: usize,
    /// Bytes that wait to be sent.
    pub send_queued: usize,
    /// The user who made it.
    pub user: u32,
    /// Its number, which /proc shows for its descriptors too.
    pub number: u64,
}

/// A local socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnixEntry {
    /// Its kind.
    pub kind: UnixKind,
    /// Its state.
    pub state: u8,
    /// Its name.
    pub name: UnixName,
    /// The number of the other end.
    pub peer: Option<u64>,
    /// Messages, or connections, that wait to be taken.
    pub receive_queued: usize,
    /// The user who made it.
    pub user: u32,
    /// Its number.
    pub number: u64,
}

/// Returns the open sockets of a tenant, each once, in the order of their numbers. The descriptors are looked at in turns.
async fn open(tenant: &TenantFiles) -> Vec<Arc<OpenFile>> {
    let mut found = BTreeMap::new();
    let mut pace = Pace::new();
    for files in tenant.proc.tables() {
        let mut first = 0;
        loop {
            let some = files.table().some_from(first);
            let Some((last, _)) = some.last() else { break };
            first = last.saturating_add(1);
            for (_, file) in some {
                if let Object::Socket(socket) = file.object() {
                    found.insert(number_of(socket.options()), file.clone());
                }
                pace.step().await;
            }
        }
    }
    found.into_values().collect()
}

fn number_of(options: &Options) -> u64 {
    options.number.load(Ordering::Relaxed)
}

fn user_of(options: &Options) -> u32 {
    options.owner.load(Ordering::Relaxed)
}

/// Returns how many sockets a tenant has open.
pub async fn count(tenant: &TenantFiles) -> usize {
    open(tenant).await.len()
}

/// Returns the sockets of a protocol that have a name.
pub async fn inet(tenant: &TenantFiles, protocol: Protocol) -> Vec<InetEntry> {
    let mut entries = Vec::new();
    let mut pace = Pace::new();
    for file in open(tenant).await {
        if let Object::Socket(socket) = file.object() {
            entries.extend(entry_of(socket, protocol).await);
        }
        pace.step().await;
    }
    entries
}

async fn entry_of(socket: &Socket, protocol: Protocol) -> Option<InetEntry> {
    let (number, user) = (number_of(socket.options()), user_of(socket.options()));
    let entry = |local, remote: Option<SocketAddress>| {
        let state = if remote.is_some() { ESTABLISHED } else { CLOSED };
        let remote = remote.unwrap_or(ANY);
        InetEntry { local, remote, state, receive_queued: 0, send_queued: 0, user, number }
    };
    match (socket, protocol) {
        (Socket::Tcp(tcp), Protocol::Tcp) => {
            let status = tcp.status().await?;
            let (receive_queued, send_queued) = (status.receive_queued_bytes, status.send_queued_bytes);
            let entry = entry(tcp.local(), tcp.remote().ok());
            Some(InetEntry { state: status.state, receive_queued, send_queued, ..entry })
        }
        (Socket::Udp(udp), Protocol::Udp | Protocol::UdpLite)
            if udp.local().port != 0 && (udp.kind() == Kind::Lite) == (protocol == Protocol::UdpLite) =>
        {
            let receive_queued = udp.readable_bytes().await;
            Some(InetEntry { receive_queued, ..entry(udp.local(), udp.remote().ok()) })
        }
        (Socket::Echo(echo), Protocol::Echo) if echo.kind() == EchoKind::Echoes && echo.local().port != 0 => {
            Some(entry(echo.local(), echo.remote().ok()))
        }
        (Socket::Echo(echo), Protocol::Raw) if echo.kind() == EchoKind::Raw => {
            // Linux shows the protocol in the place of a port.
            Some(entry(SocketAddress { port: 1, ..ANY }, echo.remote().ok()))
        }
        _ => None,
    }
}

/// Returns the local sockets.
pub async fn unix(tenant: &TenantFiles) -> Vec<UnixEntry> {
    let files = open(tenant).await;
    let mut pace = Pace::new();
    let mut numbers: BTreeMap<usize, u64> = BTreeMap::new();
    for socket in files.iter().filter_map(local) {
        numbers.insert(Arc::as_ptr(socket.peer_part()) as usize, number_of(socket.options()));
        pace.step().await;
    }
    let mut entries = Vec::new();
    for file in files {
        entries.extend(local(&file).map(|socket| unix_entry(socket, &numbers)));
        pace.step().await;
    }
    entries
}

fn local(file: &Arc<OpenFile>) -> Option<&UnixSocket> {
    match file.object() {
        Object::Socket(Socket::Unix(socket)) => Some(socket),
        _ => None,
    }
}

fn unix_entry(socket: &UnixSocket, numbers: &BTreeMap<usize, u64>) -> UnixEntry {
    let look = socket.look();
    UnixEntry {
        kind: socket.kind(),
        state: look.state,
        name: socket.name(),
        peer: look.peer.and_then(|peer| numbers.get(&peer).copied()),
        receive_queued: look.receive_queued,
        user: user_of(socket.options()),
        number: number_of(socket.options()),
    }
}
