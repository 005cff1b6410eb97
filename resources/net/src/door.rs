//! The neighbours that a tenant reaches and is reached by: its door.
//!
//! Nothing passes between a tenant with a closed door and another one unless one of them names the other: the one that names calls, the
//! one that is named answers. The sender's door and the receiver's are both asked where the sender stands, so that it gets an error at
//! once and pays for it; a packet that comes from another instance is asked about at the receiver too.

use crate::wire::Ip;
use crate::wire::tcp::{self, Flags};
use crate::wire::{icmp, ipv4};
use alloc::vec::Vec;

/// The neighbours of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Door {
    /// Each neighbour whose door is open, too.
    #[default]
    Open,
    /// Those alone that are named here.
    Closed {
        /// Addresses with which it may begin something.
        calls: Vec<Ip>,
        /// Addresses that may begin something with it.
        callers: Vec<Ip>,
    },
}

/// The kind of a packet between neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Approach {
    /// It begins something.
    Call,
    /// It may belong to something that the other one has begun.
    Answer,
}

impl Approach {
    /// Returns the kind of a packet that came.
    pub(crate) fn of(header: &ipv4::Header, body: &[u8]) -> Approach {
        let begins = match header.protocol {
            ipv4::PROTOCOL_TCP => tcp::flags(body).is_some_and(|flags| flags & (Flags::SYN | Flags::ACK) == Flags::SYN),
            ipv4::PROTOCOL_ICMP => body.first() == Some(&icmp::ECHO_REQUEST),
            _ => false,
        };
        if begins && header.fragment_offset == 0 { Approach::Call } else { Approach::Answer }
    }
}

impl Door {
    /// Returns whether a packet may go out to a neighbour.
    pub(crate) fn lets_out(&self, to: Ip, approach: Approach) -> bool {
        match self {
            Door::Open => true,
            Door::Closed { calls, callers } => {
                calls.contains(&to) || approach == Approach::Answer && callers.contains(&to)
            }
        }
    }

    /// Returns whether a packet of a neighbour may come in.
    pub(crate) fn lets_in(&self, from: Ip, approach: Approach) -> bool {
        match self {
            Door::Open => true,
            Door::Closed { calls, callers } => {
                callers.contains(&from) || approach == Approach::Answer && calls.contains(&from)
            }
        }
    }
}
