//! An inquirer's end of a service: it asks, and looks later whether the answer is there. Nothing here waits, so a service that never answers
//! stops nobody but itself.
//!
//! One question may be open at a time. [`Inquiry::set`] asks for a change whose answer is not told: the next [`Inquiry::answer`] shows the
//! fractions as they are then.

use std::io;

use gyre_native::channel::Channel;

use crate::protocol::{Answer, Line, MESSAGE_BYTES_MAX, NAME, Request, decode, encode};

/// Messages that an open question has at most before it: the answer to a change, and its own.
const MESSAGES_MAX: usize = 2;

/// A connection to the service of a tenant. Dropped, it is left.
#[derive(Debug)]
pub struct Inquiry {
    channel: Channel,
}

impl Inquiry {
    /// Connects to the service of a tenant.
    ///
    /// # Errors
    /// `ConnectionRefused` if it has none; `WouldBlock` if too many wait there.
    pub fn connect(tenant: &str) -> io::Result<Inquiry> {
        Channel::connect_without_waiting(&format!("{tenant}/{NAME}"), 0).map(|channel| Inquiry { channel })
    }

    /// Asks for all clients and their fractions.
    ///
    /// # Errors
    /// That of the channel; `WouldBlock` if the service reads nothing.
    pub fn ask(&self) -> io::Result<()> {
        self.channel.send(&encode(&Request::Fractions))
    }

    /// Asks for other fractions, all or none; for the machine's owner.
    ///
    /// # Errors
    /// As [`Inquiry::ask`].
    pub fn set(&self, wishes: &[(String, u32)]) -> io::Result<()> {
        self.channel.send(&encode(&Request::SetFractions(wishes.to_vec())))
    }

    /// Returns all clients and their fractions, once the answer is there.
    ///
    /// # Errors
    /// That of the channel; `UnexpectedEof` if the service is gone; `InvalidData` if it says something else.
    pub fn answer(&self) -> io::Result<Option<Vec<Line>>> {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        for _ in 0..MESSAGES_MAX {
            let bytes = match self.channel.receive(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                received => received?,
            };
            if let Some(lines) = fractions(buffer.get(..bytes).unwrap_or_default())? {
                return Ok(Some(lines));
            }
        }
        Err(invalid("its service answers what nobody asked"))
    }
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// Reads a message; nothing if it answers a change.
fn fractions(message: &[u8]) -> io::Result<Option<Vec<Line>>> {
    if message.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match decode(message).map_err(invalid)? {
        Answer::Fractions(lines) => Ok(Some(lines)),
        Answer::Set | Answer::Refused(_) => Ok(None),
        Answer::Joined(_) | Answer::Done(_) => Err(invalid("its service answers what nobody asked")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Done, Refused};

    #[test]
    fn answers_are_told_from_those_to_a_change_from_the_end_and_from_nonsense() {
        let read = |answer: &Answer| fractions(&encode(answer)).map_err(|error| error.kind());
        let lines = vec![Line { client: "shop".into(), fraction: 1, ..Line::default() }];
        assert_eq!(read(&Answer::Fractions(lines.clone())), Ok(Some(lines)));
        assert_eq!((read(&Answer::Set), read(&Answer::Refused(Refused::Unpaid))), (Ok(None), Ok(None)));
        assert_eq!(read(&Answer::Done(Done::default())), Err(io::ErrorKind::InvalidData));
        let kind = |message: &[u8]| fractions(message).map_err(|error| error.kind());
        assert_eq!(kind(&[]), Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(kind(&[2, 200]), Err(io::ErrorKind::InvalidData));
    }
}
