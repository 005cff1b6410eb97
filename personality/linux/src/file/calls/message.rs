//! sendto, sendmsg, sendmmsg, recvfrom, recvmsg, recvmmsg.
//!
//! A message is read from the program in full (header, address, pieces, ancillary data) before anything is sent, and
//! written to it after it was received; so a retry after EAGAIN repeats nothing wrongly. Descriptors in ancillary
//! data become files in flight ([`crate::file::in_flight`]) and descriptors again at the receiver.
//!
//! A send to a stream goes on until all is sent, unless the call may not wait; a datagram goes at once or not at all.
//! The multi-message calls stop at the first error; messages before it count.

use super::read_write::deadline_of;
use super::socket::{put_address, read_address, resolve, socket_of};
use super::{Attempts, install, may_wait, usable_file};
use crate::credentials::Capability;
use crate::file::buffer::{UserBuffer, half, word};
use crate::file::open_file::OpenFile;
use crate::file::socket::{Address, Ancillary, Incoming, PeerCredentials, Receive, Socket};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::Ready;
use linux_raw_sys::net;

/// `struct msghdr` of x86-64, bytes.
const HEADER_BYTES: usize = 56;
/// Bytes of ancillary data that one message may have.
const CONTROL_BYTES_MAX: usize = 16 * 1024;
/// Files that one message may carry (SCM_MAX_FD).
const RIGHTS_MAX: usize = 253;
/// Messages of one sendmmsg or recvmmsg (UIO_MAXIOV).
const MESSAGES_MAX: u32 = 1024;

/// Wait for the first message only (socket.h).
const MSG_WAITFORONE: u32 = 0x1_0000;

/// `struct msghdr`, read once.
struct Header {
    name: u64,
    name_bytes: u32,
    pieces: u64,
    piece_count: usize,
    control: u64,
    control_bytes: usize,
}

impl Header {
    async fn read(thread: &Thread, address: u64) -> Result<Header, Errno> {
        let raw = thread.read_vec(address, HEADER_BYTES).await?;
        Ok(Header {
            name: word(&raw, 0),
            name_bytes: half(&raw, 8),
            pieces: word(&raw, 16),
            piece_count: usize::try_from(word(&raw, 24)).map_err(|_| Errno::EMSGSIZE)?,
            control: word(&raw, 32),
            control_bytes: usize::try_from(word(&raw, 40)).map_err(|_| Errno::ENOBUFS)?,
        })
    }
}

/// Returns whether this call does not wait.
fn nonblocking(thread: &Thread, file: &OpenFile, flags: u32) -> bool {
    !may_wait(thread, file) || flags & net::MSG_DONTWAIT != 0
}

/// `sendto(fd, buffer, bytes, flags, address, address_bytes)`.
pub async fn sendto(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    socket_of(&file)?;
    let to = match a.word(4) {
        0 => None,
        address => Some(read_address(thread, address, a.unsigned(5)).await?),
    };
    let buffer = UserBuffer::new(thread, a.word(1), a.size(2));
    send(thread, &file, buffer, to, Ancillary::default(), a.unsigned(3)).await
}

/// `sendmsg(fd, message, flags)`.
pub async fn sendmsg(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    send_message(thread, &file, a.word(1), a.unsigned(2)).await
}

pub(super) async fn send_message(thread: &Thread, file: &OpenFile, address: u64, flags: u32) -> Outcome {
    let socket = socket_of(file)?;
    let header = Header::read(thread, address).await?;
    let to = match (header.name, header.name_bytes) {
        (0, _) | (_, 0) => None,
        (name, bytes) => Some(read_address(thread, name, bytes).await?),
    };
    let along = match header.control {
        0 => Ancillary::default(),
        _ => read_control(thread, socket, &header).await?,
    };
    let buffer = UserBuffer::from_iovecs(thread, header.pieces, header.piece_count).await?;
    send(thread, file, buffer, to, along, flags).await
}

/// Returns a message's ancillary data (cmsg(3)).
async fn read_control(thread: &Thread, socket: &Socket, header: &Header) -> Result<Ancillary, Errno> {
    if header.control_bytes > CONTROL_BYTES_MAX {
        return Err(Errno::ENOBUFS);
    }
    let raw = thread.read_vec(header.control, header.control_bytes).await?;
    let mut rest = &raw[..];
    let mut along = Ancillary::default();
    while rest.len() >= 16 {
        let bytes = usize::try_from(word(rest, 0)).ok().filter(|bytes| (16..=rest.len()).contains(bytes));
        let bytes = bytes.ok_or(Errno::EINVAL)?;
        let data = rest.get(16..bytes).unwrap_or(&[]);
        match (socket, half(rest, 8), half(rest, 12)) {
            (Socket::Unix(_), net::SOL_SOCKET, net::SCM_RIGHTS) => {
                let table = thread.process().files();
                for descriptor in data.chunks_exact(4) {
                    along.rights.push(table.table().get(half(descriptor, 0) as i32)?);
                }
            }
            (Socket::Unix(_), net::SOL_SOCKET, net::SCM_CREDENTIALS) => along.sender = Some(named(thread, data)?),
            (Socket::Unix(_), ..) => return Err(Errno::EINVAL),
            _ => {}
        }
        rest = bytes.checked_next_multiple_of(8).and_then(|bytes| rest.get(bytes..)).unwrap_or(&[]);
    }
    if along.rights.len() > RIGHTS_MAX { Err(Errno::EINVAL) } else { Ok(along) }
}

/// Checks the credentials that a program sends: its own, or with capabilities those of any process, user or group
/// (unix(7)).
fn named(thread: &Thread, data: &[u8]) -> Result<PeerCredentials, Errno> {
    if data.len() < 12 {
        return Err(Errno::EINVAL);
    }
    let named = PeerCredentials { process: half(data, 0) as i32, user: half(data, 4), group: half(data, 8) };
    let who = thread.credentials();
    let may_name = |own: [u32; 3], named: u32, capability| own.contains(&named) || who.has(capability);
    let is_allowed = (named.process == thread.process().id() || who.has(Capability::SysAdmin))
        && may_name([who.user, who.user_effective, who.user_saved], named.user, Capability::Setuid)
        && may_name([who.group, who.group_effective, who.group_saved], named.group, Capability::Setgid);
    if is_allowed { Ok(named) } else { Err(Errno::EPERM) }
}

/// Sends: all of a stream's data if the call may wait, else one message.
pub(super) async fn send(
    thread: &Thread,
    file: &OpenFile,
    mut buffer: UserBuffer<'_>,
    to: Option<Address>,
    mut along: Ancillary,
    flags: u32,
) -> Outcome {
    if flags & net::MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let socket = socket_of(file)?;
    let to = match to {
        Some(address) => Some(resolve(thread, address).await?),
        None => None,
    };
    let deadline = deadline_of(file, Ready::WRITE);
    let mut attempts = Attempts::default();
    loop {
        let outcome = match socket.send_buffer(&mut buffer, to.clone(), along.clone()).await {
            Ok(_) if buffer.left() == 0 || socket.keeps_borders() => return Ok(buffer.done() as u64),
            Ok(_) => {
                along.rights.clear();
                attempts.renew();
                Ok(())
            }
            Err(Errno::EAGAIN) if !nonblocking(thread, file, flags) => {
                attempts.wait(thread, file, Ready::WRITE, deadline).await
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {}
            Err(_) if buffer.done() > 0 => return Ok(buffer.done() as u64),
            Err(error) if flags & net::MSG_NOSIGNAL != 0 => return Err(error),
            Err(error) => return Err(super::read_write::broken_pipe(thread, error)),
        }
    }
}

/// Receives a message, waiting for it if that is allowed.
async fn receive(thread: &Thread, file: &OpenFile, bytes: usize, flags: u32) -> Result<Incoming, Errno> {
    if flags & (net::MSG_OOB | net::MSG_ERRQUEUE) != 0 {
        return Err(if flags & net::MSG_OOB != 0 { Errno::EINVAL } else { Errno::EAGAIN });
    }
    let socket = socket_of(file)?;
    let how = if flags & net::MSG_PEEK != 0 { Receive::Peek } else { Receive::Take };
    let deadline = deadline_of(file, Ready::READ);
    let mut attempts = Attempts::default();
    loop {
        match socket.receive(bytes, how).await {
            Err(Errno::EAGAIN) if !nonblocking(thread, file, flags) => {
                attempts.wait(thread, file, Ready::READ, deadline).await?;
            }
            outcome => return outcome,
        }
    }
}

/// Returns the answer of a receiving call: with MSG_TRUNC the whole length of the datagram.
fn answer_bytes(socket: &Socket, message: &Incoming, copied: usize, flags: u32) -> u64 {
    if flags & net::MSG_TRUNC != 0 && socket.keeps_borders() { message.whole_bytes as u64 } else { copied as u64 }
}

/// Fills the buffer; with MSG_WAITALL a stream goes on until it is full or ends. Answers the first message, and the bytes copied.
async fn receive_into(
    thread: &Thread,
    file: &OpenFile,
    buffer: &mut UserBuffer<'_>,
    flags: u32,
) -> Result<Incoming, Errno> {
    let mut first = receive(thread, file, buffer.left(), flags).await?;
    buffer.put_pieces(&first.data).await?;
    let socket = socket_of(file)?;
    let all = flags & net::MSG_WAITALL != 0 && flags & net::MSG_PEEK == 0 && !socket.keeps_borders();
    while all && buffer.left() > 0 && !first.data.is_empty() {
        match receive(thread, file, buffer.left(), flags).await {
            Ok(more) if more.data.is_empty() => break,
            Ok(mut more) => {
                first.rights.append(&mut more.rights);
                buffer.put_pieces(&more.data).await?;
            }
            Err(_) => break,
        }
    }
    Ok(first)
}

/// Receives without the sender's address.
pub(super) async fn receive_bytes(
    thread: &Thread,
    file: &OpenFile,
    buffer: &mut UserBuffer<'_>,
    flags: u32,
) -> Outcome {
    let message = receive_into(thread, file, buffer, flags).await?;
    Ok(answer_bytes(socket_of(file)?, &message, buffer.done(), flags))
}

/// `recvfrom(fd, buffer, bytes, flags, address, length)`.
pub async fn recvfrom(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let socket = socket_of(&file)?;
    let mut buffer = UserBuffer::new(thread, a.word(1), a.size(2));
    let message = receive_into(thread, &file, &mut buffer, a.unsigned(3)).await?;
    if a.word(4) != 0 {
        match &message.from {
            Some(from) => put_address(thread, from, a.word(4), a.word(5)).await?,
            None => thread.copy_out(a.word(5), &[0; 4]).await?,
        }
    }
    Ok(answer_bytes(socket, &message, buffer.done(), a.unsigned(3)))
}

/// `recvmsg(fd, message, flags)`.
pub async fn recvmsg(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    receive_message(thread, &file, a.word(1), a.unsigned(2)).await
}

pub(super) async fn receive_message(thread: &Thread, file: &OpenFile, address: u64, flags: u32) -> Outcome {
    let socket = socket_of(file)?;
    let header = Header::read(thread, address).await?;
    let mut buffer = UserBuffer::from_iovecs(thread, header.pieces, header.piece_count).await?;
    let message = receive_into(thread, file, &mut buffer, flags).await?;
    let mut out_flags = 0;
    if socket.keeps_borders() && message.whole_bytes > buffer.done() {
        out_flags |= net::MSG_TRUNC;
    }
    let mut name_bytes = 0;
    if header.name != 0
        && let Some(from) = &message.from
    {
        let raw = from.to_bytes();
        let part = raw.get(..(header.name_bytes as usize).min(raw.len())).unwrap_or(&raw);
        thread.copy_out(header.name, part).await?;
        name_bytes = raw.len() as u32;
    }
    let answer = answer_bytes(socket, &message, buffer.done(), flags);
    let (control, cut) = make_control(thread, message, &header, flags)?;
    if cut {
        out_flags |= net::MSG_CTRUNC;
    }
    if header.control != 0 {
        thread.copy_out(header.control, &control).await?;
    }
    thread.copy_out(address.wrapping_add(8), &name_bytes.to_le_bytes()).await?;
    thread.copy_out(address.wrapping_add(40), &(control.len() as u64).to_le_bytes()).await?;
    thread.copy_out(address.wrapping_add(48), &out_flags.to_le_bytes()).await?;
    Ok(answer)
}

/// Makes the ancillary data for the program: sender and files, which get descriptors. Returns whether it had to be
/// cut.
fn make_control(thread: &Thread, message: Incoming, header: &Header, flags: u32) -> Result<(Vec<u8>, bool), Errno> {
    let room = if header.control == 0 { 0 } else { header.control_bytes.min(CONTROL_BYTES_MAX) };
    let mut out = Vec::new();
    let mut cut = false;
    if let Some(sender) = message.sender {
        let words = [sender.process as u32, sender.user, sender.group];
        cut |= !push_control(&mut out, room, net::SCM_CREDENTIALS, &words);
    }
    let fits = room.saturating_sub(out.len()).saturating_sub(16) / 4;
    let count = message.rights.len().min(fits);
    cut |= count < message.rights.len();
    let mut descriptors = Vec::with_capacity(count);
    for file in message.rights.into_iter().take(count) {
        match install(thread, file, flags & net::MSG_CMSG_CLOEXEC != 0) {
            Ok(descriptor) => descriptors.push(descriptor as u32),
            Err(_) => {
                cut = true;
                break;
            }
        }
    }
    if !descriptors.is_empty() {
        push_control(&mut out, room, net::SCM_RIGHTS, &descriptors);
    }
    Ok((out, cut))
}

/// Adds one entry of 32-bit words; false if it does not fit. The padding after the last entry may be missing.
fn push_control(out: &mut Vec<u8>, room: usize, kind: u32, words: &[u32]) -> bool {
    let bytes = size_of_val(words).saturating_add(16);
    let end = out.len().saturating_add(bytes);
    if end > room {
        return false;
    }
    out.extend_from_slice(&(bytes as u64).to_le_bytes());
    out.extend_from_slice(&net::SOL_SOCKET.to_le_bytes());
    out.extend_from_slice(&kind.to_le_bytes());
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.resize(end.checked_next_multiple_of(8).unwrap_or(room).min(room), 0);
    true
}

/// `sendmmsg(fd, messages, count, flags)`: `struct mmsghdr` is a header, its answer and padding.
pub async fn sendmmsg(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let mut sent = 0;
    for index in 0..u64::from(a.unsigned(2).min(MESSAGES_MAX)) {
        let address = a.word(1).wrapping_add(index.wrapping_mul(64));
        match send_message(thread, &file, address, a.unsigned(3)).await {
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break,
            Ok(bytes) => {
                thread.copy_out(address.wrapping_add(HEADER_BYTES as u64), &(bytes as u32).to_le_bytes()).await?
            }
        }
        sent = index.saturating_add(1);
    }
    Ok(sent)
}

/// `recvmmsg(fd, messages, count, flags, timeout)`: with MSG_WAITFORONE only the first is waited for. The timeout is looked at
/// between messages, as Linux does.
pub async fn recvmmsg(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = usable_file(thread, a.int(0))?;
    let timeout = super::poll::Timeout::from_timespec(thread, a.word(4)).await?;
    let deadline = timeout.deadline();
    let mut flags = a.unsigned(3);
    let mut received = 0;
    for index in 0..u64::from(a.unsigned(2).min(MESSAGES_MAX)) {
        let address = a.word(1).wrapping_add(index.wrapping_mul(64));
        match receive_message(thread, &file, address, flags & !MSG_WAITFORONE).await {
            Err(error) if received == 0 => return Err(error),
            Err(_) => break,
            Ok(bytes) => {
                thread.copy_out(address.wrapping_add(HEADER_BYTES as u64), &(bytes as u32).to_le_bytes()).await?
            }
        }
        received = index.saturating_add(1);
        if flags & MSG_WAITFORONE != 0 {
            flags |= net::MSG_DONTWAIT;
        }
        if deadline.is_some_and(|deadline| gyre_machine::now() >= deadline) {
            break;
        }
    }
    Ok(received)
}
