//! ioctl on sockets: questions about interfaces (netdevice(7)). A request that would change one is refused.

use crate::file::interfaces::{Interface, Network};
use crate::file::tenant_files::TenantFiles;
use crate::{Errno, Outcome, Thread};
use alloc::vec::Vec;

/// Requests (sockios.h).
const NAME_OF: u32 = 0x8910;
const ALL: u32 = 0x8912;
const FLAGS: u32 = 0x8913;
const ADDRESS: u32 = 0x8915;
const PEER_ADDRESS: u32 = 0x8917;
const BROADCAST: u32 = 0x8919;
const MASK: u32 = 0x891b;
const METRIC: u32 = 0x891d;
const MTU: u32 = 0x8921;
const HARDWARE: u32 = 0x8927;
const INDEX: u32 = 0x8933;
const QUEUE: u32 = 0x8942;
const TOOL: u32 = 0x8946;
const MAP: u32 = 0x8970;
/// Requests about interfaces, whatever they want.
const FIRST: u32 = 0x8910;
const LAST: u32 = 0x8999;

/// Bytes of `struct ifreq` and of the name that it begins with.
const REQUEST_BYTES: usize = 40;
const NAME_BYTES: usize = 16;
const INET: u16 = 2;

/// Does a request of a socket.
///
/// # Errors
/// ENODEV; EPERM for changes; EADDRNOTAVAIL; EOPNOTSUPP; ENOTTY for requests that are none.
pub(super) async fn request(thread: &Thread, tenant: &TenantFiles, request: u32, argument: u64) -> Outcome {
    match request {
        ALL => all(thread, &Network::of(tenant).await?, argument).await,
        NAME_OF | FLAGS | ADDRESS | PEER_ADDRESS | BROADCAST | MASK | METRIC | MTU | HARDWARE | INDEX | QUEUE | MAP => {
            one(thread, &Network::of(tenant).await?, request, argument).await
        }
        TOOL => Err(Errno::EOPNOTSUPP),
        // those that change something have even numbers behind those that ask
        FIRST..=LAST => Err(Errno::EPERM),
        _ => Err(Errno::ENOTTY),
    }
}

/// `SIOCGIFCONF`: as many as fit, or with no buffer the room that they want.
async fn all(thread: &Thread, network: &Network, argument: u64) -> Outcome {
    let raw = thread.read_vec(argument, 16).await?;
    let room = raw.first_chunk::<4>().map_or(0, |four| i32::from_le_bytes(*four));
    let out = crate::file::buffer::word(&raw, 8);
    let mut entries = Vec::new();
    for one in &network.interfaces {
        entries.extend_from_slice(&entry(one.name, &socket_address(one.address)));
    }
    let bytes = match out {
        0 => entries.len(),
        _ => {
            let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
            let fits = (room / REQUEST_BYTES).saturating_mul(REQUEST_BYTES).min(entries.len());
            thread.copy_out(out, entries.get(..fits).unwrap_or(&[])).await?;
            fits
        }
    };
    super::ioctl::put_int(thread, argument, i32::try_from(bytes).unwrap_or(i32::MAX)).await
}

fn entry(name: &str, rest: &[u8]) -> Vec<u8> {
    let mut raw = name.as_bytes().to_vec();
    raw.resize(NAME_BYTES, 0);
    raw.extend_from_slice(rest);
    raw.resize(REQUEST_BYTES, 0);
    raw
}

fn socket_address(address: [u8; 4]) -> Vec<u8> {
    let mut raw = INET.to_le_bytes().to_vec();
    raw.extend_from_slice(&[0, 0]);
    raw.extend_from_slice(&address);
    raw.resize(16, 0);
    raw
}

async fn one(thread: &Thread, network: &Network, request: u32, argument: u64) -> Outcome {
    let raw = thread.read_vec(argument, REQUEST_BYTES).await?;
    let name = raw.get(..NAME_BYTES).unwrap_or(&[]);
    let number = crate::file::buffer::half(&raw, NAME_BYTES);
    let found = match request {
        NAME_OF => network.numbered(number),
        _ => network.named(label_less(name)),
    };
    let found = found.ok_or(Errno::ENODEV)?;
    if request == NAME_OF {
        thread.copy_out(argument, entry(found.name, &[]).get(..NAME_BYTES).unwrap_or(&[])).await?;
        return Ok(0);
    }
    thread.copy_out(argument.wrapping_add(NAME_BYTES as u64), &answer(found, request)?).await?;
    Ok(0)
}

/// Returns a name without NUL and without the label of an alias (`eth0:1`).
fn label_less(name: &[u8]) -> &[u8] {
    name.split(|byte| matches!(byte, 0 | b':')).next().unwrap_or(name)
}

fn answer(one: &Interface, request: u32) -> Result<Vec<u8>, Errno> {
    let number = |number: u32| number.to_le_bytes().to_vec();
    Ok(match request {
        // the upper half is for those who ask by netlink
        FLAGS => (one.flags as u16).to_le_bytes().to_vec(),
        ADDRESS => socket_address(one.address),
        PEER_ADDRESS => socket_address(one.address),
        BROADCAST => socket_address(one.broadcast().unwrap_or([0; 4])),
        MASK => socket_address(one.mask()),
        METRIC => number(0),
        MTU => number(one.packet_bytes_max),
        HARDWARE => {
            let mut raw = one.hardware().to_le_bytes().to_vec();
            raw.extend_from_slice(&one.mac);
            raw.resize(16, 0);
            raw
        }
        INDEX => number(one.index),
        QUEUE => number(one.queue),
        MAP => alloc::vec![0; 24],
        _ => return Err(Errno::EINVAL),
    })
}
