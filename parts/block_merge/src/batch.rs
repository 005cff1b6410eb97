//! Requests that go to the device as one.

use alloc::vec::Vec;
use gyre_interface::block::BlockError;
use gyre_message::Reply;
use gyre_object::Bytes;
use smallvec::{SmallVec, smallvec};

/// The reply of a request.
pub(crate) enum Answer {
    Read(Reply<Result<Vec<Bytes>, BlockError>>),
    Write(Reply<Result<(), BlockError>>),
}

/// A request in a batch.
pub(crate) struct Part {
    pub(crate) first_sector: u64,
    pub(crate) views: Vec<Bytes>,
    pub(crate) answer: Answer,
}

impl Part {
    pub(crate) fn bytes(&self) -> usize {
        self.views.iter().map(Bytes::len).sum()
    }

    fn send(self, result: Result<Vec<Bytes>, BlockError>) {
        match self.answer {
            Answer::Read(reply) => reply.send(result),
            Answer::Write(reply) => reply.send(result.map(drop)),
        }
    }
}

/// Requests side by side, in the order of their sectors; mostly one.
pub(crate) type Parts = SmallVec<[Part; 1]>;

/// One or more requests, side by side in the order of their sectors, for the device.
pub struct Batch {
    pub(crate) parts: Parts,
}

impl Batch {
    /// Returns the first sector of all.
    pub fn first_sector(&self) -> u64 {
        self.parts.first().map_or(0, |part| part.first_sector)
    }

    /// Returns whether it writes.
    pub fn is_write(&self) -> bool {
        self.parts.first().is_some_and(|part| matches!(part.answer, Answer::Write(_)))
    }

    /// Returns how many requests it is.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Returns the bytes of each request.
    pub fn part_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.parts.iter().map(|part| part.bytes() as u64)
    }

    /// Returns the memory of all requests, in order. One request alone lends its own: [`Batch::give_back`].
    pub fn lend(&mut self) -> Vec<Bytes> {
        match &mut self.parts[..] {
            [one] => core::mem::take(&mut one.views),
            all => all.iter().flat_map(|part| part.views.iter().cloned()).collect(),
        }
    }

    /// Gives the views of a read back, with the data in them.
    pub fn give_back(&mut self, views: Vec<Bytes>) {
        if let [one] = &mut self.parts[..] {
            one.views = views;
        }
    }

    /// Answers each request with its part of the data.
    pub fn answer(self, result: Result<(), BlockError>) {
        for mut part in self.parts {
            let views = core::mem::take(&mut part.views);
            part.send(result.map(|()| views));
        }
    }

    /// Returns the first of its requests: its only one, mostly.
    pub(crate) fn into_one(self) -> Option<Part> {
        self.parts.into_iter().next()
    }

    /// Returns each request alone, after an error, so that a bad sector fails only its own request.
    pub fn split(self) -> impl Iterator<Item = Batch> {
        self.parts.into_iter().map(|part| Batch { parts: smallvec![part] })
    }
}
