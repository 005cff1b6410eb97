//! getsockopt and setsockopt (socket(7), tcp(7), ip(7)).
//!
//! Options that every socket keeps are in [`crate::file::socket::options`]; those of TCP go to its resource, or wait
//! in the socket until it has a connection. Levels and names that Linux does not know answer ENOPROTOOPT. A few that
//! have no effect here (priorities, types of service) are taken and answered as set.
//!
//! Lengths follow Linux: a shorter buffer gets the first bytes, a shorter value is refused (EINVAL).
//!
//! To add an option: an arm where it is set, and a line in [`UNSET`] with the value that Linux shows before. Both
//! directions must know it, since programs read back the options that they set.

use super::socket::socket_of;
use super::usable_file;
use crate::file::buffer::{half, word};
use crate::file::socket::echo::EchoKind;
use crate::file::socket::netlink::NetlinkKind;
use crate::file::socket::options::Options;
use crate::file::socket::unix::UnixKind;
use crate::file::socket::{Socket, tcp::TcpSocket, udp::UdpSocket};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_interface::tcp::{TcpOption, TcpStatus};
use gyre_interface::udp::{Coverage, Kind};
use linux_raw_sys::net;

/// Protocols (in.h).
const IPPROTO_ICMP: u32 = 1;
const SOL_NETLINK: u32 = 270;
const IPPROTO_TCP: u32 = 6;
const IPPROTO_UDP: u32 = 17;
const IPPROTO_UDPLITE: u32 = 136;
/// Names of options of UDP-Lite (udp.h).
const UDPLITE_SEND_CSCOV: u32 = 10;
const UDPLITE_RECV_CSCOV: u32 = 11;
/// The least that a checksum of UDP-Lite covers: its header, bytes.
const COVERED_BYTES_MIN: i32 = 8;
const IPPROTO_IP: u32 = 0;

/// Default buffers, bytes (tcp_wmem, tcp_rmem).
const BUFFER_BYTES: u32 = 212_992;
/// Largest buffer that a program may ask for, bytes.
const BUFFER_BYTES_MAX: u32 = 4 << 20;
/// Option values are read up to here, bytes.
const VALUE_BYTES_MAX: usize = 64;

/// `setsockopt(fd, level, name, value, bytes)`.
pub async fn setsockopt(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let socket = socket_of(&file)?;
    let bytes = usize::try_from(a.int(4)).map_err(|_| Errno::EINVAL)?;
    let value = thread.read_vec(a.word(3), bytes.min(VALUE_BYTES_MAX)).await?;
    match a.unsigned(1) {
        net::SOL_SOCKET => set_common(socket, a.unsigned(2), &value).await?,
        IPPROTO_TCP => match socket {
            Socket::Tcp(tcp) => set_tcp(tcp, a.unsigned(2), &value).await?,
            _ => return Err(Errno::ENOPROTOOPT),
        },
        SOL_NETLINK if matches!(socket, Socket::Netlink(_)) => set_netlink(a.unsigned(2))?,
        IPPROTO_UDPLITE => match socket {
            Socket::Udp(udp) => set_lite(udp, a.unsigned(2), &value).await?,
            _ => return Err(Errno::ENOPROTOOPT),
        },
        IPPROTO_IP if family_of(socket) == net::AF_INET => set_ip(socket, a.unsigned(2), &value)?,
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(0)
}

fn int(value: &[u8]) -> Result<u32, Errno> {
    if value.len() < 4 { Err(Errno::EINVAL) } else { Ok(half(value, 0)) }
}

fn set_flag(flag: &AtomicBool, value: &[u8]) -> Result<bool, Errno> {
    let on = int(value)? != 0;
    flag.store(on, Ordering::Relaxed);
    Ok(on)
}

async fn tell_tcp(socket: &Socket, option: TcpOption) -> Result<(), Errno> {
    match socket {
        Socket::Tcp(tcp) => tcp.set_option(option).await,
        _ => Ok(()),
    }
}

async fn set_common(socket: &Socket, name: u32, value: &[u8]) -> Result<(), Errno> {
    let options = socket.options();
    match name {
        net::SO_REUSEADDR => set_flag(&options.reuse_address, value).map(|_| ()),
        net::SO_REUSEPORT => set_flag(&options.reuse_port, value).map(|_| ()),
        net::SO_BROADCAST => set_flag(&options.broadcast, value).map(|_| ()),
        net::SO_PASSCRED => set_flag(&options.pass_credentials, value).map(|_| ()),
        net::SO_KEEPALIVE => {
            let on = set_flag(&options.keep_alive, value)?;
            tell_tcp(socket, TcpOption::KeepAlive(on)).await
        }
        net::SO_SNDBUF | net::SO_SNDBUFFORCE => {
            let bytes = int(value)?.clamp(2048, BUFFER_BYTES_MAX);
            options.send_bytes.store(bytes.saturating_mul(2), Ordering::Relaxed);
            tell_tcp(socket, TcpOption::SendBuffer((bytes as usize).saturating_mul(2))).await
        }
        net::SO_RCVBUF | net::SO_RCVBUFFORCE => {
            let bytes = int(value)?.clamp(1152, BUFFER_BYTES_MAX);
            options.receive_bytes.store(bytes.saturating_mul(2), Ordering::Relaxed);
            tell_tcp(socket, TcpOption::ReceiveBuffer((bytes as usize).saturating_mul(2))).await
        }
        net::SO_LINGER => {
            let (on, seconds) = (int(value)? != 0, half(value, 4).min(const { u16::MAX as u32 - 1 }));
            options.linger.store(if on { seconds.saturating_add(1) } else { 0 }, Ordering::Relaxed);
            tell_tcp(socket, TcpOption::Linger(on.then_some(seconds as u16))).await
        }
        net::SO_RCVTIMEO_OLD | net::SO_RCVTIMEO_NEW => {
            options.receive_timeout_ns.store(timeval_ns(value)?, Ordering::Relaxed);
            Ok(())
        }
        net::SO_SNDTIMEO_OLD | net::SO_SNDTIMEO_NEW => {
            options.send_timeout_ns.store(timeval_ns(value)?, Ordering::Relaxed);
            Ok(())
        }
        net::SO_PRIORITY
        | net::SO_RCVLOWAT
        | net::SO_OOBINLINE
        | net::SO_TIMESTAMP_OLD
        | net::SO_DONTROUTE
        | net::SO_BUSY_POLL
        | net::SO_INCOMING_CPU => {
            options.kept.lock().insert((net::SOL_SOCKET, name), int(value)?);
            Ok(())
        }
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// Options of UDP-Lite; Linux makes coverages that cannot be the next that can.
async fn set_lite(udp: &UdpSocket, name: u32, value: &[u8]) -> Result<(), Errno> {
    let bytes = match int(value)? as i32 {
        0 => 0,
        wanted => wanted.clamp(COVERED_BYTES_MIN, i32::from(u16::MAX)) as u16,
    };
    let coverage = udp.coverage();
    match name {
        UDPLITE_SEND_CSCOV => udp.set_coverage(Coverage { sent_bytes: bytes, ..coverage }).await,
        UDPLITE_RECV_CSCOV => udp.set_coverage(Coverage { received_bytes_min: Some(bytes), ..coverage }).await,
        _ => Err(Errno::ENOPROTOOPT),
    }
}

fn lite(udp: &UdpSocket, name: u32) -> Result<u32, Errno> {
    let coverage = udp.coverage();
    match name {
        UDPLITE_SEND_CSCOV => Ok(u32::from(coverage.sent_bytes)),
        UDPLITE_RECV_CSCOV => Ok(u32::from(coverage.received_bytes_min.unwrap_or(0))),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// `struct timeval` as ns; 0 waits for ever.
fn timeval_ns(value: &[u8]) -> Result<u64, Errno> {
    if value.len() < 16 {
        return Err(Errno::EINVAL);
    }
    let microseconds = Some(word(value, 8)).filter(|us| *us < 1_000_000).ok_or(Errno::EDOM)?;
    Ok(word(value, 0).saturating_mul(1_000_000_000).saturating_add(microseconds.saturating_mul(1000)))
}

async fn set_tcp(tcp: &TcpSocket, name: u32, value: &[u8]) -> Result<(), Errno> {
    let number = int(value)?;
    tcp.options().kept.lock().insert((IPPROTO_TCP, name), number);
    match name {
        net::TCP_NODELAY => tcp.set_option(TcpOption::NoDelay(number != 0)).await,
        net::TCP_CORK => tcp.set_option(TcpOption::Cork(number != 0)).await,
        // Kept and told: the resource has its own intervals, and wakes an acceptor at once, which programs must expect anyway.
        net::TCP_DEFER_ACCEPT
        | net::TCP_KEEPIDLE
        | net::TCP_KEEPINTVL
        | net::TCP_KEEPCNT
        | net::TCP_QUICKACK
        | net::TCP_USER_TIMEOUT
        | net::TCP_SYNCNT
        | net::TCP_LINGER2
        | net::TCP_NOTSENT_LOWAT => Ok(()),
        _ => {
            tcp.options().kept.lock().remove(&(IPPROTO_TCP, name));
            Err(Errno::ENOPROTOOPT)
        }
    }
}

/// Groups of netlink may be joined and left: nothing that they would tell of ever happens. Everything else would change answers.
fn set_netlink(name: u32) -> Result<(), Errno> {
    /// NETLINK_ADD_MEMBERSHIP and NETLINK_DROP_MEMBERSHIP.
    const MEMBERSHIPS: [u32; 2] = [1, 2];
    MEMBERSHIPS.contains(&name).then_some(()).ok_or(Errno::ENOPROTOOPT)
}

fn set_ip(socket: &Socket, name: u32, value: &[u8]) -> Result<(), Errno> {
    match name {
        net::IP_TOS | net::IP_TTL | net::IP_MTU_DISCOVER | net::IP_BIND_ADDRESS_NO_PORT | net::IP_RECVERR => {
            let number = int(value).or_else(|error| value.first().map(|byte| u32::from(*byte)).ok_or(error))?;
            socket.options().kept.lock().insert((IPPROTO_IP, name), number);
            Ok(())
        }
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// `getsockopt(fd, level, name, value, length)`.
pub async fn getsockopt(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let socket = socket_of(&file)?;
    let mut room = [0; 4];
    thread.copy_in(a.word(4), &mut room).await?;
    let room = usize::try_from(i32::from_le_bytes(room)).map_err(|_| Errno::EINVAL)?;
    let value = match a.unsigned(1) {
        net::SOL_SOCKET => get_common(socket, a.unsigned(2)).await?,
        IPPROTO_TCP => match socket {
            Socket::Tcp(tcp) => get_tcp(tcp, a.unsigned(2)).await?,
            _ => return Err(Errno::ENOPROTOOPT),
        },
        IPPROTO_UDPLITE => match socket {
            Socket::Udp(udp) => number(lite(udp, a.unsigned(2))?),
            _ => return Err(Errno::EOPNOTSUPP),
        },
        IPPROTO_IP => kept(socket, IPPROTO_IP, a.unsigned(2)).ok_or(Errno::ENOPROTOOPT)?,
        _ => return Err(Errno::ENOPROTOOPT),
    };
    let part = value.get(..room.min(value.len())).unwrap_or(&value);
    thread.copy_out(a.word(3), part).await?;
    thread.copy_out(a.word(4), &(part.len() as u32).to_le_bytes()).await?;
    Ok(0)
}

fn number(value: u32) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

/// Options of a number, with the value that Linux shows for one that was never set (socket(7), tcp(7), ip(7)).
const UNSET: &[(u32, u32, u32)] = &[
    (net::SOL_SOCKET, net::SO_DEBUG, 0),
    (net::SOL_SOCKET, net::SO_DONTROUTE, 0),
    (net::SOL_SOCKET, net::SO_OOBINLINE, 0),
    (net::SOL_SOCKET, net::SO_PRIORITY, 0),
    (net::SOL_SOCKET, net::SO_RCVLOWAT, 1),
    (net::SOL_SOCKET, net::SO_SNDLOWAT, 1),
    (net::SOL_SOCKET, net::SO_TIMESTAMP_OLD, 0),
    (net::SOL_SOCKET, net::SO_BUSY_POLL, 0),
    (IPPROTO_TCP, net::TCP_NODELAY, 0),
    (IPPROTO_TCP, net::TCP_CORK, 0),
    (IPPROTO_TCP, net::TCP_KEEPIDLE, 7200),
    (IPPROTO_TCP, net::TCP_KEEPINTVL, 75),
    (IPPROTO_TCP, net::TCP_KEEPCNT, 9),
    (IPPROTO_TCP, net::TCP_SYNCNT, 6),
    (IPPROTO_TCP, net::TCP_LINGER2, 60),
    (IPPROTO_TCP, net::TCP_DEFER_ACCEPT, 0),
    (IPPROTO_TCP, net::TCP_QUICKACK, 1),
    (IPPROTO_TCP, net::TCP_USER_TIMEOUT, 0),
    (IPPROTO_TCP, net::TCP_NOTSENT_LOWAT, 0),
    (IPPROTO_IP, net::IP_TOS, 0),
    (IPPROTO_IP, net::IP_TTL, 64),
    (IPPROTO_IP, net::IP_MTU_DISCOVER, 1),
    (IPPROTO_IP, net::IP_RECVERR, 0),
    (IPPROTO_IP, net::IP_PKTINFO, 0),
    (IPPROTO_IP, net::IP_RECVTOS, 0),
    (IPPROTO_IP, net::IP_RECVTTL, 0),
];

fn unset(level: u32, name: u32) -> Option<u32> {
    UNSET.iter().find(|(of, option, _)| (*of, *option) == (level, name)).map(|(_, _, value)| *value)
}

fn kept(socket: &Socket, level: u32, name: u32) -> Option<Vec<u8>> {
    let set = socket.options().kept.lock().get(&(level, name)).copied();
    set.or_else(|| unset(level, name)).map(number)
}

fn flag(flag: &AtomicBool) -> Vec<u8> {
    number(u32::from(Options::flag(flag)))
}

fn buffer(bytes: u32) -> Vec<u8> {
    number(if bytes == 0 { BUFFER_BYTES } else { bytes })
}

fn timeval(ns: u64) -> Vec<u8> {
    let words = [ns / 1_000_000_000, ns % 1_000_000_000 / 1000];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

async fn get_common(socket: &Socket, name: u32) -> Result<Vec<u8>, Errno> {
    let options = socket.options();
    Ok(match name {
        net::SO_ERROR => number(socket.take_error().await.map_or(0, |error| error.0 as u32)),
        net::SO_TYPE => number(type_of(socket)),
        net::SO_DOMAIN => number(family_of(socket)),
        net::SO_PROTOCOL => number(protocol_of(socket)),
        net::SO_ACCEPTCONN => number(u32::from(is_listening(socket))),
        net::SO_REUSEADDR => flag(&options.reuse_address),
        net::SO_REUSEPORT => flag(&options.reuse_port),
        net::SO_KEEPALIVE => flag(&options.keep_alive),
        net::SO_BROADCAST => flag(&options.broadcast),
        net::SO_PASSCRED => flag(&options.pass_credentials),
        net::SO_SNDBUF => buffer(options.send_bytes.load(Ordering::Relaxed)),
        net::SO_RCVBUF => buffer(options.receive_bytes.load(Ordering::Relaxed)),
        net::SO_RCVTIMEO_OLD | net::SO_RCVTIMEO_NEW => timeval(options.receive_timeout_ns.load(Ordering::Relaxed)),
        net::SO_SNDTIMEO_OLD | net::SO_SNDTIMEO_NEW => timeval(options.send_timeout_ns.load(Ordering::Relaxed)),
        net::SO_LINGER => {
            let linger = options.linger.load(Ordering::Relaxed);
            let words = [u32::from(linger > 0), linger.saturating_sub(1)];
            words.iter().flat_map(|word| word.to_le_bytes()).collect()
        }
        net::SO_PEERCRED => peer_credentials(socket)?,
        _ => kept(socket, net::SOL_SOCKET, name).ok_or(Errno::ENOPROTOOPT)?,
    })
}

fn family_of(socket: &Socket) -> u32 {
    match socket {
        Socket::Unix(_) => net::AF_UNIX,
        Socket::Netlink(_) => net::AF_NETLINK,
        Socket::Tcp(_) | Socket::Udp(_) | Socket::Echo(_) => net::AF_INET,
    }
}

fn type_of(socket: &Socket) -> u32 {
    match socket {
        Socket::Tcp(_) => net::SOCK_STREAM,
        Socket::Udp(_) => net::SOCK_DGRAM,
        Socket::Echo(echo) if echo.kind() == EchoKind::Echoes => net::SOCK_DGRAM,
        Socket::Echo(_) | Socket::Netlink(_) => net::SOCK_RAW,
        Socket::Unix(unix) => match unix.kind() {
            UnixKind::Stream => net::SOCK_STREAM,
            UnixKind::Datagram => net::SOCK_DGRAM,
            UnixKind::Record => net::SOCK_SEQPACKET,
        },
    }
}

fn protocol_of(socket: &Socket) -> u32 {
    match socket {
        Socket::Tcp(_) => IPPROTO_TCP,
        Socket::Udp(udp) => match udp.kind() {
            Kind::Udp => IPPROTO_UDP,
            Kind::Lite => IPPROTO_UDPLITE,
        },
        Socket::Unix(_) => 0,
        Socket::Echo(_) => IPPROTO_ICMP,
        Socket::Netlink(netlink) => match netlink.kind() {
            NetlinkKind::Route => 0,
            NetlinkKind::Diagnosis => 4,
        },
    }
}

fn is_listening(socket: &Socket) -> bool {
    match socket {
        Socket::Tcp(tcp) => tcp.is_listening(),
        Socket::Udp(_) | Socket::Echo(_) | Socket::Netlink(_) => false,
        Socket::Unix(unix) => unix.is_listening(),
    }
}

fn peer_credentials(socket: &Socket) -> Result<Vec<u8>, Errno> {
    let Socket::Unix(unix) = socket else {
        return Err(Errno::ENOPROTOOPT);
    };
    let words = match unix.peer_credentials() {
        Some(peer) => [peer.process as u32, peer.user, peer.group],
        None => [0, u32::MAX, u32::MAX],
    };
    Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

async fn get_tcp(tcp: &TcpSocket, name: u32) -> Result<Vec<u8>, Errno> {
    match name {
        net::TCP_INFO => Ok(tcp_info(&tcp.status().await.unwrap_or_default())),
        net::TCP_MAXSEG => {
            let status = tcp.status().await.unwrap_or_default();
            Ok(number(u32::from(status.segment_bytes_max.max(536))))
        }
        _ => {
            let set = tcp.options().kept.lock().get(&(IPPROTO_TCP, name)).copied();
            set.or_else(|| unset(IPPROTO_TCP, name)).map(number).ok_or(Errno::ENOPROTOOPT)
        }
    }
}

/// `struct tcp_info`: the first 104 bytes, those that are known here.
fn tcp_info(status: &TcpStatus) -> Vec<u8> {
    let mut out = alloc::vec![0u8; 104];
    let mut put = |at: usize, value: u32| {
        if let Some(place) = out.get_mut(at..).and_then(|rest| rest.get_mut(..4)) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    };
    let segment = u32::from(status.segment_bytes_max);
    put(0, u32::from(if status.state == 0 { 7 } else { status.state }));
    put(16, segment);
    put(20, segment);
    put(68, status.round_trip_us);
    put(80, status.congestion_window_bytes.checked_div(segment).unwrap_or(0));
    put(84, segment);
    put(100, status.retransmissions);
    out
}
