//! /proc/net (proc(5)): the tenant's sockets, interfaces and routes, in Linux's format. Figures that nobody keeps are 0.
//!
//! | files | of |
//! |---|---|
//! | `tcp`, `udp`, `icmp`, `raw`, `unix`, `sockstat` | the tenant's sockets ([`list`]) |
//! | `dev`, `route`, `arp`, `snmp` | its interfaces ([`Network`]) |
//! | `tcp6`, `udp6`, `if_inet6` | nothing: there is no IPv6 |
//!
//! To add a file: a line in [`FILES`] and its text.

use super::window::Window;
use crate::file::interfaces::{Interface, Network};
use crate::file::socket::UnixName;
use crate::file::socket::list::{self, InetEntry, LISTENING, Protocol, UnixEntry};
use crate::file::socket::unix::UnixKind;
use crate::file::tenant_files::TenantFiles;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use gyre_interface::files::FileError;

/// A file's contents.
#[derive(Clone, Copy)]
enum Body {
    /// Sockets of a protocol.
    Sockets(Protocol),
    /// Sockets of a family that there is not: the head alone.
    Nobody,
    Unix,
    Devices,
    Routes,
    Neighbours,
    Counters,
    Totals,
    /// Nothing: no address of IPv6.
    Empty,
}

/// Names and contents.
const FILES: &[(&str, Body)] = &[
    ("tcp", Body::Sockets(Protocol::Tcp)),
    ("tcp6", Body::Nobody),
    ("udp", Body::Sockets(Protocol::Udp)),
    ("udp6", Body::Nobody),
    ("udplite", Body::Sockets(Protocol::UdpLite)),
    ("udplite6", Body::Nobody),
    ("icmp", Body::Sockets(Protocol::Echo)),
    ("raw", Body::Sockets(Protocol::Raw)),
    ("unix", Body::Unix),
    ("dev", Body::Devices),
    ("route", Body::Routes),
    ("arp", Body::Neighbours),
    ("snmp", Body::Counters),
    ("sockstat", Body::Totals),
    ("if_inet6", Body::Empty),
];

/// Names of the files, with their numbers.
pub(super) fn names() -> impl Iterator<Item = (&'static str, u32)> {
    FILES.iter().zip(0..).map(|(file, number)| (file.0, number))
}

/// Returns the number of a file.
pub(super) fn number(name: &[u8]) -> Option<u32> {
    names().find(|(other, _)| other.as_bytes() == name).map(|(_, number)| number)
}

/// Returns at most `bytes` of the text of a file from `offset` on. Lists of sockets are made in turns.
///
/// # Errors
/// NotFound for a number that is none; those of the network path.
pub(super) async fn part(tenant: &TenantFiles, number: u32, offset: u64, bytes: usize) -> Result<Vec<u8>, FileError> {
    let file = usize::try_from(number).ok().and_then(|number| FILES.get(number)).ok_or(FileError::NotFound)?;
    let mut window = Window::new(offset, bytes);
    match file.1 {
        Body::Sockets(protocol) => sockets(&mut window, &list::inet(tenant, protocol).await, protocol).await,
        Body::Unix => {
            window.push(HEAD_UNIX.as_bytes()).await;
            for entry in list::unix(tenant).await {
                window.push(unix_line(&entry).as_bytes()).await;
            }
        }
        short => window.push(short_text(tenant, short).await?.as_bytes()).await,
    }
    Ok(window.into_text())
}

/// Returns a text whose length no program chooses.
async fn short_text(tenant: &TenantFiles, body: Body) -> Result<String, FileError> {
    let looked = async { Network::of(tenant).await.map_err(|_| FileError::Gone) };
    Ok(match body {
        Body::Nobody => HEAD_IPV6.into(),
        Body::Devices => devices(&looked.await?),
        Body::Routes => routes(&looked.await?),
        Body::Neighbours => neighbours(&looked.await?),
        Body::Counters => counters(&looked.await?, &list::inet(tenant, Protocol::Tcp).await),
        Body::Totals => totals(tenant).await,
        Body::Empty | Body::Sockets(_) | Body::Unix => String::new(),
    })
}

const HEAD_TCP: &str =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const HEAD_DATAGRAMS: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";
const HEAD_IPV6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
const HEAD_UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path\n";
const HEAD_DEVICES: &str = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n";
const HEAD_NEIGHBOURS: &str = "IP address       HW type     Flags       HW address            Mask     Device\n";
/// Columns of a line of sockets, and of one of datagrams or routes.
const TCP_COLUMNS: usize = 149;
const COLUMNS: usize = 127;

async fn sockets(window: &mut Window, all: &[InetEntry], protocol: Protocol) {
    let (head, columns) = match protocol {
        Protocol::Tcp => (HEAD_TCP, TCP_COLUMNS),
        Protocol::Udp | Protocol::UdpLite | Protocol::Echo | Protocol::Raw => (HEAD_DATAGRAMS, COLUMNS),
    };
    window.push(format!("{head:<columns$}\n").as_bytes()).await;
    let rest = if protocol == Protocol::Tcp { "1 0000000000000000 100 0 0 10 0" } else { "2 0000000000000000 0" };
    for (index, entry) in all.iter().enumerate() {
        let text = format!("{index:4}: {} {rest}", inet_line(entry));
        window.push(format!("{text:<columns$}\n").as_bytes()).await;
    }
}

fn inet_line(entry: &InetEntry) -> String {
    let end =
        |end: gyre_interface::tcp::SocketAddress| format!("{:08X}:{:04X}", u32::from_le_bytes(end.address), end.port);
    format!(
        "{} {} {:02X} {:08X}:{:08X} 00:00000000 00000000 {:5}        0 {}",
        end(entry.local),
        end(entry.remote),
        entry.state,
        entry.send_queued,
        entry.receive_queued,
        entry.user,
        entry.number,
    )
}

fn unix_line(entry: &UnixEntry) -> String {
    let kind = match entry.kind {
        UnixKind::Stream => 1,
        UnixKind::Datagram => 2,
        UnixKind::Record => 5,
    };
    // accepting, and the states of `struct socket`: unconnected, connected
    let flags = if entry.state == LISTENING { 0x1_0000 } else { 0 };
    let state = if entry.state == list::ESTABLISHED { 3 } else { 1 };
    let name = match &entry.name {
        UnixName::Unnamed => String::new(),
        UnixName::Path { path, .. } => format!(" {}", String::from_utf8_lossy(path)),
        UnixName::Abstract(name) => format!(" @{}", String::from_utf8_lossy(name).replace('\0', "@")),
    };
    format!("0000000000000000: 00000002 00000000 {flags:08X} {kind:04X} {state:02X} {:5}{name}\n", entry.number)
}

fn devices(network: &Network) -> String {
    let line = |one: &Interface| {
        let passed = &one.passed;
        format!(
            "{:>6}: {:7} {:7}    0 {:4}    0     0          0         0 {:8} {:7}    0    0    0     0       0          0\n",
            one.name,
            passed.received_bytes,
            passed.received_packets,
            passed.dropped,
            passed.sent_bytes,
            passed.sent_packets,
        )
    };
    [HEAD_DEVICES.into(), network.interfaces.iter().map(line).collect::<String>()].concat()
}

/// Flags of a route: it is up, and it leads to a router.
const UP: u32 = 1;
const GATEWAY: u32 = 2;

fn routes(network: &Network) -> String {
    let line = |name: &str, [to, gateway, mask]: [[u8; 4]; 3], flags: u32| {
        let word = |address: [u8; 4]| format!("{:08X}", u32::from_le_bytes(address));
        let text = format!("{name}\t{}\t{}\t{flags:04X}\t0\t0\t0\t{}\t0\t0\t0", word(to), word(gateway), word(mask));
        format!("{text:<COLUMNS$}\n")
    };
    let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
    let mut text = format!("{head:<COLUMNS$}\n");
    if let Some((gateway, one)) = network.way_out() {
        text.push_str(&line(one.name, [[0; 4], gateway, [0; 4]], UP | GATEWAY));
    }
    for one in network.interfaces.iter().filter(|one| !one.is_loopback()) {
        text.push_str(&line(one.name, [one.network(), [0; 4], one.mask()], UP));
    }
    text
}

fn neighbours(network: &Network) -> String {
    let line = network.way_out().zip(network.facts.gateway_mac).map(|(([a, b, c, d], one), [e, f, g, h, i, j])| {
        let (address, mac) = (format!("{a}.{b}.{c}.{d}"), format!("{e:02x}:{f:02x}:{g:02x}:{h:02x}:{i:02x}:{j:02x}"));
        format!("{address:<16} 0x1         0x2         {mac}     *        {}\n", one.name)
    });
    [HEAD_NEIGHBOURS.into(), line.unwrap_or_default()].concat()
}

fn counters(network: &Network, connections: &[InetEntry]) -> String {
    let (interface, local) = (&network.facts.interface, &network.facts.local);
    let received = interface.received_packets.saturating_add(local.received_packets);
    let sent = interface.sent_packets.saturating_add(local.sent_packets);
    let open = connections.iter().filter(|one| one.state == list::ESTABLISHED).count();
    let (dropped, repeated, no_socket) = (interface.dropped, network.facts.retransmissions, network.facts.no_socket);
    format!(
        "Ip: Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates\n\
         Ip: 2 64 {received} 0 0 0 0 {dropped} {received} {sent} 0 0 0 0 0 0 0 0 0\n\
         Icmp: InMsgs InErrors InCsumErrors InDestUnreachs InTimeExcds InParmProbs InSrcQuenchs InRedirects InEchos InEchoReps InTimestamps InTimestampReps InAddrMasks InAddrMaskReps OutMsgs OutErrors OutDestUnreachs OutTimeExcds OutParmProbs OutSrcQuenchs OutRedirects OutEchos OutEchoReps OutTimestamps OutTimestampReps OutAddrMasks OutAddrMaskReps\n\
         Icmp: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
         Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors\n\
         Tcp: 1 200 120000 -1 0 0 0 0 {open} 0 0 {repeated} 0 0 0\n\
         Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors\n\
         Udp: 0 {no_socket} 0 0 0 0 0 0 0\n"
    )
}

async fn totals(tenant: &TenantFiles) -> String {
    let all = list::count(tenant).await;
    let tcp = list::inet(tenant, Protocol::Tcp).await.len();
    let udp = list::inet(tenant, Protocol::Udp).await.len();
    let raw = list::inet(tenant, Protocol::Raw).await.len();
    format!(
        "sockets: used {all}\nTCP: inuse {tcp} orphan 0 tw 0 alloc {tcp} mem 0\nUDP: inuse {udp} mem 0\nUDPLITE: inuse 0\nRAW: inuse {raw}\nFRAG: inuse 0 memory 0\n"
    )
}
