//! Channels behind descriptors ([`gyre_channel`]): a listener, and an end that is read and written a message at a time.

use super::buffer::UserBuffer;
use crate::Errno;
use alloc::sync::Arc;
use gyre_channel::{ChannelError, End, Listener};
use gyre_interface::Readiness;

/// A descriptor of a channel.
pub enum Channel {
    /// Waits for connections.
    Listener(Arc<Listener>),
    /// One end.
    End(Arc<End>),
}

/// Returns an error of a channel as a call's.
pub(super) fn errno(error: ChannelError) -> Errno {
    match error {
        ChannelError::Again => Errno::EAGAIN,
        ChannelError::Invalid => Errno::EINVAL,
        ChannelError::TooLong => Errno::EMSGSIZE,
        ChannelError::InUse => Errno::EADDRINUSE,
        ChannelError::Refused => Errno::ECONNREFUSED,
        ChannelError::Ended => Errno::EPIPE,
        ChannelError::Lost => Errno::ECONNRESET,
        ChannelError::Unreachable => Errno::EHOSTUNREACH,
        ChannelError::Forbidden => Errno::EACCES,
        ChannelError::NoMemory => Errno::ENOMEM,
    }
}

impl Channel {
    /// Returns its readiness.
    pub fn readiness(&self) -> &Arc<Readiness> {
        match self {
            Channel::Listener(listener) => listener.readiness(),
            Channel::End(end) => end.readiness(),
        }
    }

    /// Returns the end; a listener is none.
    ///
    /// # Errors
    /// EINVAL.
    pub fn end(&self) -> Result<&Arc<End>, Errno> {
        match self {
            Channel::Listener(_) => Err(Errno::EINVAL),
            Channel::End(end) => Ok(end),
        }
    }

    /// Reads a message whole; nothing once the peer is gone.
    pub(super) async fn read(&self, buffer: &mut UserBuffer<'_>) -> Result<usize, Errno> {
        match self.end()?.receive(buffer.left()).map_err(errno)? {
            Some(message) => buffer.put_pieces(&message).await,
            None => Ok(0),
        }
    }

    /// Writes a message whole, or nothing of it.
    pub(super) async fn write(&self, buffer: &mut UserBuffer<'_>) -> Result<usize, Errno> {
        let (end, bytes) = (self.end()?, buffer.left());
        // Nothing is copied that there is no room for.
        end.check_room(bytes).map_err(errno)?;
        let message = buffer.gather(bytes).await?;
        let gathered = message.iter().fold(0, |sum: usize, piece| sum.saturating_add(piece.len()));
        let sent = if gathered == bytes { end.send(message).map_err(errno) } else { Err(Errno::EFAULT) };
        sent.inspect_err(|_| buffer.give_back(gathered)).map(|()| bytes)
    }
}
