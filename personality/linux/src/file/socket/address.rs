//! Socket addresses as programs write them (ip(7), unix(7)).

use crate::Errno;
use crate::file::buffer::half;
use alloc::vec::Vec;
use gyre_interface::tcp::SocketAddress;

/// AF_UNSPEC.
const UNSPECIFIED: u16 = 0;
/// AF_UNIX.
pub const UNIX: u16 = 1;
/// AF_INET.
pub const INET: u16 = 2;
/// AF_NETLINK.
pub const NETLINK: u16 = super::netlink::NETLINK;
/// Longest path of a local address, bytes.
const PATH_BYTES: usize = 108;
/// Longest address that any family has (`struct sockaddr_storage`), bytes.
pub const ADDRESS_BYTES_MAX: usize = 128;

/// A local socket's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum UnixName {
    /// None.
    #[default]
    Unnamed,
    /// A path; the socket is found by the node there.
    Path {
        /// The path in the program's spelling.
        path: Vec<u8>,
        /// Mount and node; set when it was resolved.
        node: Option<(u32, u64)>,
    },
    /// A name in the tenant's own name space.
    Abstract(Vec<u8>),
}

/// Any address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// AF_UNSPEC: ends a datagram socket's connection.
    Unspecified,
    /// AF_INET.
    Inet(SocketAddress),
    /// AF_UNIX.
    Unix(UnixName),
    /// AF_NETLINK.
    Netlink {
        /// The number of the socket; 0 is the kernel.
        port: u32,
        /// The groups that it hears.
        groups: u32,
    },
}

impl Address {
    /// Reads a program's bytes.
    ///
    /// # Errors
    /// EINVAL for lengths that do not fit the family; EAFNOSUPPORT for other families.
    pub fn parse(raw: &[u8]) -> Result<Address, Errno> {
        let (family, rest) = raw.split_first_chunk::<2>().ok_or(Errno::EINVAL)?;
        match u16::from_le_bytes(*family) {
            UNSPECIFIED => Ok(Address::Unspecified),
            INET => parse_inet(rest).map(Address::Inet),
            UNIX => parse_unix(rest).map(Address::Unix),
            NETLINK => parse_netlink(rest),
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    /// Returns the bytes for a program.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Address::Unspecified => UNSPECIFIED.to_le_bytes().to_vec(),
            Address::Inet(end) => {
                let mut raw = INET.to_le_bytes().to_vec();
                raw.extend_from_slice(&end.port.to_be_bytes());
                raw.extend_from_slice(&end.address);
                raw.resize(16, 0);
                raw
            }
            Address::Netlink { port, groups } => {
                let mut raw = NETLINK.to_le_bytes().to_vec();
                raw.extend_from_slice(&[0, 0]);
                raw.extend_from_slice(&port.to_le_bytes());
                raw.extend_from_slice(&groups.to_le_bytes());
                raw
            }
            Address::Unix(name) => {
                let mut raw = UNIX.to_le_bytes().to_vec();
                match name {
                    UnixName::Unnamed => {}
                    UnixName::Path { path, .. } => {
                        raw.extend_from_slice(path);
                        raw.push(0);
                    }
                    UnixName::Abstract(name) => {
                        raw.push(0);
                        raw.extend_from_slice(name);
                    }
                }
                raw
            }
        }
    }
}

fn parse_inet(rest: &[u8]) -> Result<SocketAddress, Errno> {
    let (port, rest) = rest.split_first_chunk::<2>().ok_or(Errno::EINVAL)?;
    let (address, rest) = rest.split_first_chunk::<4>().ok_or(Errno::EINVAL)?;
    if rest.len() < 8 {
        return Err(Errno::EINVAL);
    }
    Ok(SocketAddress { address: *address, port: u16::from_be_bytes(*port) })
}

/// `struct sockaddr_nl` behind its family.
fn parse_netlink(rest: &[u8]) -> Result<Address, Errno> {
    let words = rest.get(2..10).ok_or(Errno::EINVAL)?;
    Ok(Address::Netlink { port: half(words, 0), groups: half(words, 4) })
}

fn parse_unix(rest: &[u8]) -> Result<UnixName, Errno> {
    if rest.len() > PATH_BYTES {
        return Err(Errno::EINVAL);
    }
    match rest.split_first() {
        None => Ok(UnixName::Unnamed),
        Some((0, name)) => Ok(UnixName::Abstract(name.to_vec())),
        Some(_) => {
            let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
            Ok(UnixName::Path { path: rest.get(..end).unwrap_or(rest).to_vec(), node: None })
        }
    }
}
