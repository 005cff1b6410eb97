//! The promise of a reply, and the future that waits for it.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use gyre_object::budget;
use gyre_object::oneshot::{Receiver, Sender, oneshot};
use gyre_object::promise::Promise;

/// The server that should have answered is gone: it was killed, its queue was full or it dropped the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone;

/// A type that can say that there is no one left to answer.
pub trait Answer: Sized {
    /// Returns the value that a dropped reply token sends.
    fn gone() -> Self;
}

impl<T, E: From<Gone>> Answer for Result<T, E> {
    fn gone() -> Self {
        Err(Gone.into())
    }
}

impl Answer for () {
    fn gone() -> Self {}
}

/// Makes a token and the future of its answer.
#[inline]
pub fn reply_pair<T: Answer>() -> (Reply<T>, Call<T>) {
    let (sender, receiver) = oneshot();
    (Reply { sender: Some(sender) }, Call { receiver, is_put_off: false })
}

/// The server's duty to answer once. Dropped unsent it answers [`Gone`].
pub struct Reply<T: Answer> {
    /// Taken when it is sent.
    sender: Option<Sender<T>>,
}

impl<T: Answer> Reply<T> {
    /// Answers; the caller is resumed by a queued message of its own activity.
    #[inline]
    pub fn send(mut self, value: T) {
        if let Some(sender) = self.sender.take() {
            sender.send(value);
        }
    }

    /// Returns true if the caller has given up; work for it may be dropped.
    pub fn is_abandoned(&self) -> bool {
        self.sender.as_ref().is_none_or(Sender::is_closed)
    }
}

impl<T: Answer> Promise for Reply<T> {
    type Value = T;
    #[inline]
    fn keep(self, value: T) {
        self.send(value);
    }
}

impl<T: Answer> Drop for Reply<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            sender.send(T::gone());
        }
    }
}

/// A request on its way: the future of its reply. Dropping it abandons the request.
#[must_use = "a call that is not awaited is abandoned"]
pub struct Call<T> {
    receiver: Receiver<T>,
    /// The answer was there, and the poll had no turn left: the next one takes it.
    is_put_off: bool,
}

impl<T> Future for Call<T> {
    type Output = T;
    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if self.receiver.is_sent() && !budget::take_turn() && !self.is_put_off {
            self.is_put_off = true;
            // This poll has had its turns: the task comes again by a message, behind others.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.receiver).poll(context)
    }
}
