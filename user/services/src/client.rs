//! A client's end of a service.

use std::{io, time::Duration};

use gyre_native::channel::Channel;

use crate::protocol::{Answer, Done, Join, Line, MESSAGE_BYTES_MAX, NAME, Refused, Request, Work, decode, encode};

/// A connection to the service of a tenant. Dropped, it is left; its fraction is free once the tenant has no other one.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
}

fn unexpected(answer: impl std::fmt::Debug) -> io::Error {
    io::Error::other(format!("the service answers {answer:?}"))
}

impl Client {
    /// Connects to the service of a tenant.
    ///
    /// # Errors
    /// `ConnectionRefused` if it has none.
    pub fn connect(tenant: &str) -> io::Result<Client> {
        Channel::connect(&format!("{tenant}/{NAME}"), 0).map(|channel| Client { channel })
    }

    /// Becomes a client; answers the fraction.
    ///
    /// # Errors
    /// A refusal in words, or that of the channel.
    pub fn join(&self, wish: &Join) -> io::Result<u32> {
        match self.ask(&Request::Join(*wish))? {
            Answer::Joined(fraction) => Ok(fraction),
            other => Err(unexpected(other)),
        }
    }

    /// Lets the service work at this tenant's expense for so long, in place of what it was granted before.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn grant(&self, time: Duration) -> io::Result<()> {
        self.channel.grant(time).map(drop)
    }

    /// Has a piece of work done.
    ///
    /// # Errors
    /// That of the channel; a refusal is an answer.
    pub fn work(&self, work: Work) -> io::Result<Result<Done, Refused>> {
        match self.ask(&Request::Work(work))? {
            Answer::Done(done) => Ok(Ok(done)),
            Answer::Refused(refused) => Ok(Err(refused)),
            other => Err(unexpected(other)),
        }
    }

    /// Returns all clients and their fractions.
    ///
    /// # Errors
    /// That of the channel.
    pub fn fractions(&self) -> io::Result<Vec<Line>> {
        match self.ask(&Request::Fractions)? {
            Answer::Fractions(lines) => Ok(lines),
            other => Err(unexpected(other)),
        }
    }

    /// Changes fractions, all or none; for the machine's owner.
    ///
    /// # Errors
    /// That of the channel; a refusal is an answer.
    pub fn set(&self, wishes: &[(String, u32)]) -> io::Result<Result<(), Refused>> {
        match self.ask(&Request::SetFractions(wishes.to_vec()))? {
            Answer::Set => Ok(Ok(())),
            Answer::Refused(refused) => Ok(Err(refused)),
            other => Err(unexpected(other)),
        }
    }

    fn ask(&self, request: &Request) -> io::Result<Answer> {
        self.channel.send(&encode(request))?;
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let bytes = self.channel.receive(&mut buffer)?;
        match buffer.get(..bytes).filter(|message| !message.is_empty()) {
            Some(message) => decode(message).map_err(io::Error::other),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
