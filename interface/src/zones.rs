//! Zones: creates, ends, changes and shows the instances that this one supervises.
//!
//! The words of a change are the contract's ([`gyre_contract::zones`]): its owner speaks them through native calls.

use alloc::vec::Vec;
use gyre_contract::zones::{Command, Record, Refusal, Zones};
use gyre_message::{Gone, protocol};

/// Whose order a change is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The machine's owner.
    Owner,
    /// A law that moves parts by measured performance.
    Controller,
    /// The supervisor itself: at the boot, and when a zone has ended.
    Supervisor,
    /// A zone, by its place in the description.
    Zone(u16),
}

/// The reason why a request has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ZonesError {
    /// Nothing was changed; the contract's words say why.
    Refused(Refusal),
    /// There is no zone with this place in the description.
    Unknown,
    /// The resource is gone.
    Gone,
}

impl From<Gone> for ZonesError {
    fn from(_: Gone) -> ZonesError {
        ZonesError::Gone
    }
}

/// Bytes of a zone's console, and the place of the first of them in all that it has printed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Printed {
    /// Later than asked for if those bytes are gone.
    pub position: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

protocol! {
    /// The requests of the supervisor's zones.
    pub mod zones {
        /// Does all commands or none of them; waits until that is so. A zone that it creates stands then. Not idempotent.
        async fn change(commands: Vec<Command>, by: By) -> Result<(), ZonesError>;
        /// Takes a piece of the boot module of a zone that is to come, at `offset` of `whole` bytes; answers the bytes that there are. A piece
        /// at 0 begins one, and ends another one that was begun. `Unknown`: the piece does not follow, or the length makes no sense. `Gone`:
        /// there is no memory for it. The sender's activity pays.
        async fn stage(module: u64, whole: u64, offset: u64, bytes: Vec<u8>) -> Result<u64, ZonesError>;
        /// Returns all zones and what nobody holds.
        async fn view() -> Result<Zones, ZonesError>;
        /// Returns up to `room` bytes that a zone has printed, from a position on. Idempotent.
        async fn console(zone: u16, position: u64, room: u32) -> Result<Printed, ZonesError>;
        /// Returns up to `room` records of the log, from a number on. Idempotent.
        async fn log(number: u64, room: u32) -> Result<Vec<Record>, ZonesError>;
    }
}
