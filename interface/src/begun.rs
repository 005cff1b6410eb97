//! Transfers that a look at a file system begins: their requests are at the disk while the caller still runs.
//!
//! Protocol of use: a file system sends its requests, makes a [`Begun`] of their calls and a [`Hold`] of what must
//! not change until the device has answered, and returns it from its near part ([`crate::near`]). The caller then
//! either awaits [`Begun::done`] or leaves a closure with [`Begun::then`].
//!
//! States: under way (parts without an answer), finished ([`Hold::finish`] has been called, at most one more request
//! follows), done. Dropping a `Begun` early keeps the hold until the device has answered.
//!
//! Left out: cancelling. A device's request cannot be taken back.

use crate::block::BlockError;
use crate::files::FileError;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use gyre_message::{Call, ending, spawn};
use gyre_object::Bytes;
use smallvec::SmallVec;

/// One request to the disk, for a part of a transfer.
pub enum Part {
    /// A request that reads.
    Read(Call<Result<Vec<Bytes>, BlockError>>),
    /// A request that writes.
    Write(Call<Result<(), BlockError>>),
}

impl Part {
    fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BlockError>> {
        match self {
            Part::Read(call) => Pin::new(call).poll(context).map_ok(drop),
            Part::Write(call) => Pin::new(call).poll(context),
        }
    }
}

/// Something that must stay unchanged until the device has answered.
pub trait Hold: Send + Sync {
    /// Ends the protection: the object may change from here on.
    fn let_go(&self);
    /// Tells that the device has answered every request; `is_done` says whether all succeeded. Starts what must
    /// follow, and returns a further request that callers must wait for. Never waits.
    fn finish(self: Arc<Self>, is_done: bool) -> Option<Part> {
        let _ = is_done;
        None
    }
}

/// Lets go of its hold when it is dropped.
// recursion: at most 2, because what is held for a device holds nothing that waits for one
pub struct Held(Arc<dyn Hold>);

impl Held {
    /// Holds `hold` from now on.
    pub fn new(hold: Arc<dyn Hold>) -> Held {
        Held(hold)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// The progress of a transfer.
struct Steps {
    /// The number of bytes, or the first error.
    result: Result<usize, FileError>,
    /// A transfer that another caller has begun and that this one waits for.
    others: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The requests without an answer yet.
    parts: SmallVec<[Part; 2]>,
    held: Option<Held>,
    is_finished: bool,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { result: Ok(0), others: None, parts: SmallVec::new(), held: None, is_finished: true }
    }
}

impl Steps {
    fn poll_done(&mut self, context: &mut Context<'_>) -> Poll<Result<usize, FileError>> {
        if let Some(others) = &mut self.others {
            ready!(others.as_mut().poll(context));
            self.others = None;
        }
        loop {
            ready!(self.poll_parts(context));
            match self.finish() {
                Some(part) => self.parts.push(part),
                None => return Poll::Ready(self.result),
            }
        }
    }

    fn poll_parts(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(part) = self.parts.last_mut() {
            let answer = ready!(part.poll_done(context));
            self.parts.pop();
            if let Err(error) = answer {
                self.result = self.result.and(Err(error.into()));
            }
        }
        Poll::Ready(())
    }

    fn finish(&mut self) -> Option<Part> {
        let is_finished = core::mem::replace(&mut self.is_finished, true);
        let hold = self.held.as_ref().filter(|_| !is_finished)?.0.clone();
        hold.finish(self.result.is_ok())
    }

    /// Returns whether requests or the finish are still to come.
    fn is_under_way(&self) -> bool {
        !self.is_finished || !self.parts.is_empty()
    }
}

/// A transfer under way. If it is dropped early, what it holds stays held until the device has answered.
#[must_use = "the device transfers, whoever waits"]
pub struct Begun {
    steps: Steps,
}

impl Begun {
    /// Makes a transfer of `bytes` bytes out of its requests and its hold.
    pub fn new(bytes: usize, parts: impl Iterator<Item = Part>, held: Held) -> Begun {
        let steps =
            Steps { result: Ok(bytes), parts: parts.collect(), held: Some(held), is_finished: false, others: None };
        Begun { steps }
    }

    /// Waits for a transfer that another caller has begun.
    pub fn of_another(done: impl Future<Output = ()> + Send + 'static) -> Begun {
        Begun { steps: Steps { others: Some(Box::pin(done)), ..Steps::default() } }
    }

    /// Waits until the device has answered all requests, also if one fails, and returns the number of bytes.
    ///
    /// # Errors
    /// The error of the request that was waited for first among those that failed.
    pub async fn done(mut self) -> Result<usize, FileError> {
        poll_fn(|context| self.steps.poll_done(context)).await
    }

    /// Calls `then` with the result of [`Begun::done`] once the device has answered. `then` runs within the turn in
    /// which the last answer comes, so no task waits; it must be short and never wait.
    pub fn then(self, then: impl FnOnce(Result<usize, FileError>) + Send + 'static) {
        let mut begun = self;
        ending(poll_fn(move |context| begun.steps.poll_done(context)), then);
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if self.steps.is_under_way() {
            let mut steps = core::mem::take(&mut self.steps);
            spawn(async move {
                // The caller is gone, so the result is not needed.
                let _ = poll_fn(|context| steps.poll_done(context)).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};
    use gyre_message::direct::block_on;
    use gyre_message::{reply_pair, sleep_ns};
    use gyre_object::SpinLock;

    #[derive(Default)]
    struct Door(AtomicU32);

    impl Hold for Door {
        fn let_go(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn begun(parts: usize) -> (Vec<gyre_message::Reply<Result<Vec<Bytes>, BlockError>>>, Begun, Arc<Door>) {
        let door = Arc::new(Door::default());
        let (replies, calls): (Vec<_>, Vec<_>) = (0..parts).map(|_| reply_pair()).unzip();
        (replies, Begun::new(700, calls.into_iter().map(Part::Read), Held::new(door.clone())), door)
    }

    #[test]
    fn it_ends_when_all_have_answered_and_says_what_failed() {
        block_on(async {
            let (mut replies, begun, door) = begun(3);
            spawn(async move {
                for reply in replies.drain(..2) {
                    reply.send(Ok(Vec::new()));
                }
                sleep_ns(10).await;
                replies.remove(0).send(Err(BlockError::Io));
            });
            assert_eq!(door.0.load(Ordering::Relaxed), 0);
            assert_eq!(begun.done().await, Err(FileError::Io));
            assert_eq!(door.0.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn what_is_to_be_done_then_is_done_once_when_all_have_answered_by_who_answers_last() {
        block_on(async {
            let (mut replies, begun, door) = begun(2);
            let told = Arc::new(SpinLock::new(Vec::new()));
            let (list, held) = (told.clone(), door.clone());
            begun.then(move |result| list.lock().push((result, held.0.load(Ordering::Relaxed))));
            replies.remove(1).send(Err(BlockError::Io));
            assert!(told.lock().is_empty());
            replies.remove(0).send(Ok(Vec::new()));
            assert_eq!(*told.lock(), [(Err(FileError::Io), 1)], "what was held is let go before");
        });
        let (_, begun, _) = begun(0);
        let told = Arc::new(AtomicU32::new(0));
        let count = told.clone();
        begun.then(move |result| _ = count.fetch_add(result.unwrap() as u32, Ordering::Relaxed));
        assert_eq!(told.load(Ordering::Relaxed), 700, "nothing to wait for");
    }

    #[test]
    fn what_it_holds_is_held_until_the_device_has_answered_although_nobody_waits() {
        block_on(async {
            let (mut replies, begun, door) = begun(2);
            drop(begun);
            for _ in 0..2 {
                sleep_ns(10).await;
                assert_eq!(door.0.load(Ordering::Relaxed), 0);
                replies.remove(0).send(Ok(Vec::new()));
            }
            sleep_ns(10).await;
            assert_eq!(door.0.load(Ordering::Relaxed), 1);
        });
    }
}
