//! One request of an input: eight bytes that say what is asked, of which nodes and names, with which numbers, and how it is waited for.

use super::numbers::count;
use crate::support::{Random, aligned_views};
use gyre_interface::block::SECTOR_BYTES;
use gyre_object::Bytes;

/// Bytes of an input that say one request.
pub const BYTES: usize = 8;

/// The way in which a request is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// The next one is made after its answer.
    InTurn,
    /// The next ones are made beside it.
    Beside,
    /// It is given up after so many ns.
    Killed(u64),
}

/// The things that a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    Names,
    Contents,
    Memory,
    Nodes,
}

/// A request; its bytes become arguments as it needs them.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub family: Family,
    /// Its number in its family, below 16.
    pub call: u8,
    pub manner: Manner,
    pub node: u8,
    pub name: u8,
    pub other_node: u8,
    pub other_name: u8,
    pub at: u8,
    pub bytes: u8,
    pub extra: u8,
}

impl Request {
    pub fn of(bytes: &[u8]) -> Request {
        let [first, node, name, other_node, other_name, at, bytes, extra] =
            <[u8; BYTES]>::try_from(bytes).expect("so many bytes");
        let manner = match first >> 6 {
            0 | 1 => Manner::InTurn,
            2 => Manner::Beside,
            // Requests to the disk take 1000 ns each.
            _ => Manner::Killed(700 * u64::from(extra)),
        };
        let family = [Family::Names, Family::Contents, Family::Memory, Family::Nodes][usize::from(first >> 4 & 3)];
        Request { family, call: first & 15, manner, node, name, other_node, other_name, at, bytes, extra }
    }

    /// Returns views of whole sectors, for transfers past the cache.
    pub fn views(&self) -> Vec<Bytes> {
        let bytes = count(self.bytes) / SECTOR_BYTES * SECTOR_BYTES;
        aligned_views(&vec![self.extra; bytes], &mut Random(u64::from(self.extra)))
    }
}
