//! The messages between a service and its clients, in the form of `postcard`. One message is one request or one answer; a client may ask on before it
//! has its answers, which come in its own order.

use serde::{Deserialize, Serialize};

/// The name under which a service listens in its tenant.
pub const NAME: &str = "service";
/// The tenant whose programs may move fractions.
pub const OWNER: &str = "system";
/// All of a service, in the unit of fractions.
pub const WHOLE: u32 = 1000;
/// Largest message of this protocol, bytes.
pub const MESSAGE_BYTES_MAX: usize = 60 << 10;

/// A question to a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Become a client: before any work.
    Join(Join),
    /// Do something.
    Work(Work),
    /// Tell all fractions.
    Fractions,
    /// Change fractions, all of them or none: for the machine's owner.
    SetFractions(Vec<(String, u32)>),
}

/// The wishes of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// Thousandths of the service that are to be its own.
    pub fraction: u32,
    /// Answers in 1,000 seconds that it wants to have; 0 for none. The broker moves its fraction by this.
    pub goal_per_ks: u64,
    /// Time in which it wants each answer, ns; 0 for none. A frame service serves the earliest deadline first.
    pub response_ns: u64,
}

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// A file service reads so many bytes of a file in its folder.
    Read {
        /// Its name, without folders.
        name: String,
        /// The first byte.
        offset: u64,
        /// Bytes, at most 48 KiB.
        bytes: u32,
    },
    /// A file service writes them.
    Write {
        /// See there.
        name: String,
        /// See there.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// A network service sends a datagram.
    Send {
        /// Address and port.
        to: String,
        /// The bytes.
        data: Vec<u8>,
    },
    /// A frame service draws a frame of so many pixels into its client's part of the screen.
    Draw {
        /// Number of the frame: the picture depends on it.
        number: u64,
        /// Pixels, at most 2^20.
        pixels: u32,
    },
}

/// The answer of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It is a client, with this fraction.
    Joined(u32),
    /// The work is done.
    Done(Done),
    /// All clients.
    Fractions(Vec<Line>),
    /// The fractions are as asked for.
    Set,
    /// Nothing was done.
    Refused(Refused),
}

/// Work that is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The bytes read; of a frame the sum of its pixels, 8 bytes.
    pub data: Vec<u8>,
    /// From the arrival of the request to this answer, ns.
    pub response_ns: u64,
    /// The part of it that the client's grant paid, ns; 0 if the service paid.
    pub paid_ns: u64,
}

/// Why a service does not do something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refused {
    /// It does other work.
    WrongService,
    /// Join first.
    NoClient,
    /// So many thousandths are free, less than asked for.
    Full(u32),
    /// Only [`OWNER`] moves fractions.
    NotOwner,
    /// The work makes no sense, in words.
    Invalid(String),
    /// The client's grant is used up: grant more and ask again.
    Unpaid,
}

/// A client in the table of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its tenant.
    pub client: String,
    /// Thousandths.
    pub fraction: u32,
    /// See [`Join::goal_per_ks`].
    pub goal_per_ks: u64,
    /// See [`Join::response_ns`].
    pub response_ns: u64,
    /// Answers since it joined.
    pub done: u64,
    /// Of these, later than `response_ns`.
    pub late: u64,
    /// Its use, in the service's unit: bytes, or ns of drawing.
    pub used: u64,
}

/// Writes a message.
#[must_use]
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    // a message of this protocol always has a form
    postcard::to_stdvec(message).unwrap_or_default()
}

/// Reads a message.
///
/// # Errors
/// In words, if it is none.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    postcard::from_bytes(bytes)
        .map_err(|error| format!("a message of {} bytes is none of this protocol: {error}", bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nonsense_is_refused() {
        let request = Request::Work(Work::Send { to: "10.0.2.2:9".into(), data: vec![1, 2, 3] });
        assert_eq!(decode(&encode(&request)), Ok(request));
        assert!(decode::<Request>(&[200, 1]).is_err());
        assert!(decode::<Request>(&[]).is_err());
    }
}
