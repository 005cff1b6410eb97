//! Questions about sockets (sock_diag(7)): those of the asking tenant, of TCP, UDP, raw ICMP and the local family.

use super::message::{Answers, Request};
use crate::Errno;
use crate::file::buffer::half;
use crate::file::socket::UnixName;
use crate::file::socket::list::{self, InetEntry, LISTENING, Protocol, UnixEntry};
use crate::file::socket::unix::UnixKind;
use crate::file::tenant_files::TenantFiles;
use alloc::vec::Vec;

/// SOCK_DIAG_BY_FAMILY.
const BY_FAMILY: u16 = 20;
/// Families.
const UNIX: u8 = 1;
const INET: u8 = 2;
const INET6: u8 = 10;
/// Bytes of `struct inet_diag_req_v2` and `struct unix_diag_req`.
const INET_BYTES: usize = 56;
const UNIX_BYTES: usize = 24;
/// The attributes that a question about local sockets wants to see (unix_diag.h).
const SHOW_NAME: u32 = 1;
const SHOW_PEER: u32 = 4;
const SHOW_QUEUES: u32 = 16;

/// Answers a request.
///
/// # Errors
/// EOPNOTSUPP for the old kinds; ENOENT for families and protocols that have no such answers, or without the socket asked for; EINVAL
/// for a request that is too short.
pub async fn answer(tenant: &TenantFiles, request: &Request<'_>, answers: &mut Answers) -> Result<(), Errno> {
    if request.kind != BY_FAMILY {
        return Err(Errno::EOPNOTSUPP);
    }
    match *request.body.first().ok_or(Errno::EINVAL)? {
        family @ (INET | INET6) => {
            let body = request.body.get(..INET_BYTES).ok_or(Errno::EINVAL)?;
            let protocol = protocol_of(*body.get(1).ok_or(Errno::EINVAL)?).ok_or(Errno::ENOENT)?;
            let all = if family == INET { list::inet(tenant, protocol).await } else { Vec::new() };
            match request.is_dump() {
                true => all
                    .iter()
                    .filter(|entry| is_wanted(half(body, 4), entry.state))
                    .for_each(|one| put_inet(one, answers)),
                false => put_inet(all.iter().find(|entry| is_named(body, entry)).ok_or(Errno::ENOENT)?, answers),
            }
        }
        UNIX => {
            let body = request.body.get(..UNIX_BYTES).ok_or(Errno::EINVAL)?;
            let (states, number, show) = (half(body, 4), half(body, 8), half(body, 12));
            let all = list::unix(tenant).await;
            match request.is_dump() {
                true => {
                    all.iter().filter(|one| is_wanted(states, one.state)).for_each(|one| put_unix(one, show, answers))
                }
                false => {
                    let found = all.iter().find(|one| one.number == u64::from(number));
                    put_unix(found.ok_or(Errno::ENOENT)?, show, answers);
                }
            }
        }
        _ => return Err(Errno::ENOENT),
    }
    Ok(())
}

fn protocol_of(number: u8) -> Option<Protocol> {
    match number {
        6 => Some(Protocol::Tcp),
        17 => Some(Protocol::Udp),
        136 => Some(Protocol::UdpLite),
        255 => Some(Protocol::Raw),
        _ => None,
    }
}

fn is_wanted(states: u32, state: u8) -> bool {
    states.checked_shr(u32::from(state)).is_some_and(|rest| rest & 1 == 1)
}

/// Returns whether a request names a socket by both ends.
fn is_named(body: &[u8], entry: &InetEntry) -> bool {
    body.get(8..).is_some_and(|id| id.starts_with(&ports(entry)) && id.get(4..8) == Some(&entry.local.address[..]))
        && body.get(28..32) == Some(&entry.remote.address[..])
}

fn ports(entry: &InetEntry) -> [u8; 4] {
    let ([a, b], [c, d]) = (entry.local.port.to_be_bytes(), entry.remote.port.to_be_bytes());
    [a, b, c, d]
}

/// `struct inet_diag_msg`.
fn put_inet(entry: &InetEntry, answers: &mut Answers) {
    let mut body = [0; 72];
    (body[0], body[1]) = (INET, entry.state);
    body[4..8].copy_from_slice(&ports(entry));
    body[8..12].copy_from_slice(&entry.local.address);
    body[24..28].copy_from_slice(&entry.remote.address);
    body[44..52].copy_from_slice(&entry.number.to_le_bytes());
    let queue = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    body[56..60].copy_from_slice(&queue(entry.receive_queued));
    body[60..64].copy_from_slice(&queue(entry.send_queued));
    body[64..68].copy_from_slice(&entry.user.to_le_bytes());
    body[68..72].copy_from_slice(&(entry.number as u32).to_le_bytes());
    answers.add(BY_FAMILY, &body, |_| ());
}

/// `struct unix_diag_msg` and its attributes.
fn put_unix(entry: &UnixEntry, show: u32, answers: &mut Answers) {
    let kind = match entry.kind {
        UnixKind::Stream => 1,
        UnixKind::Datagram => 2,
        UnixKind::Record => 5,
    };
    let mut body = [0; 16];
    (body[0], body[1], body[2]) = (UNIX, kind, entry.state);
    body[4..8].copy_from_slice(&(entry.number as u32).to_le_bytes());
    body[8..16].copy_from_slice(&entry.number.to_le_bytes());
    answers.add(BY_FAMILY, &body, |attributes| {
        match &entry.name {
            _ if show & SHOW_NAME == 0 => {}
            UnixName::Unnamed => {}
            UnixName::Path { path, .. } => attributes.bytes(0, &[path, &[0][..]].concat()),
            UnixName::Abstract(name) => attributes.bytes(0, &[&[0], &name[..]].concat()),
        }
        if let Some(peer) = entry.peer.filter(|_| show & SHOW_PEER != 0) {
            attributes.number(2, peer as u32);
        }
        if show & SHOW_QUEUES != 0 {
            let waits = u32::try_from(entry.receive_queued).unwrap_or(u32::MAX);
            let room = if entry.state == LISTENING { 4096_u32 } else { 0 };
            attributes.bytes(4, &[waits.to_le_bytes(), room.to_le_bytes()].concat());
        }
        attributes.byte(6, 0);
        attributes.number(7, entry.user);
    });
}
