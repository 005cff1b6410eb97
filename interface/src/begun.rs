//! A transfer that was begun while a file system was looked at: its requests are at the disk, and who looked waits for them.

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

/// A request to the disk for a part of it.
pub enum Part {
    /// One that reads.
    Read(Call<Result<Vec<Bytes>, BlockError>>),
    /// One that writes.
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

/// Something that must stay as it is until the device has answered.
pub trait Hold: Send + Sync {
    /// It may change from here on.
    fn let_go(&self);
    /// The device has done all, or not all: has somebody do what is to be done then, and answers what must be waited for before anybody is
    /// told. Never waits.
    fn settle(self: Arc<Self>, is_done: bool) -> Option<Part> {
        let _ = is_done;
        None
    }
}

/// Lets go when it is dropped.
// recursion: at most 2, because what is held for a device holds nothing that waits for one
pub struct Held(Arc<dyn Hold>);

impl Held {
    /// Of something that is held from now on.
    pub fn new(hold: Arc<dyn Hold>) -> Held {
        Held(hold)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// How far it has come.
struct Steps {
    /// The bytes, or the first error.
    result: Result<usize, FileError>,
    /// What another one has begun.
    others: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Those without an answer yet.
    parts: SmallVec<[Part; 2]>,
    held: Option<Held>,
    is_settled: bool,
}

impl Default for Steps {
    fn default() -> Steps {
        Steps { result: Ok(0), others: None, parts: SmallVec::new(), held: None, is_settled: true }
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
            match self.settle() {
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

    fn settle(&mut self) -> Option<Part> {
        let is_settled = core::mem::replace(&mut self.is_settled, true);
        let hold = self.held.as_ref().filter(|_| !is_settled)?.0.clone();
        hold.settle(self.result.is_ok())
    }

    /// Something is to be done yet, whoever wants to know.
    fn is_under_way(&self) -> bool {
        !self.is_settled || !self.parts.is_empty()
    }
}

/// The transfer. Where it is dropped before its end, what it holds is held until the device has answered all the same.
#[must_use = "the device transfers, whoever waits"]
pub struct Begun {
    steps: Steps,
}

impl Begun {
    /// A transfer of so many bytes.
    pub fn new(bytes: usize, parts: impl Iterator<Item = Part>, held: Held) -> Begun {
        let steps =
            Steps { result: Ok(bytes), parts: parts.collect(), held: Some(held), is_settled: false, others: None };
        Begun { steps }
    }

    /// What another one has begun, and this one waits for.
    pub fn of_another(done: impl Future<Output = ()> + Send + 'static) -> Begun {
        Begun { steps: Steps { others: Some(Box::pin(done)), ..Steps::default() } }
    }

    /// Waits for the device; answers the bytes. All of its requests are waited for, also where one fails.
    ///
    /// # Errors
    /// That of the request that was waited for first among those that failed.
    pub async fn done(mut self) -> Result<usize, FileError> {
        poll_fn(|context| self.steps.poll_done(context)).await
    }

    /// Does `then` with what [`Begun::done`] answers once the device has answered, in the turn of who answers: no task waits for it. `then`
    /// is short and never waits.
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
                // Who wanted to know is gone.
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
