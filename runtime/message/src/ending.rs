//! Work that goes on by itself when an answer comes, without a task that waits for it.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use gyre_object::{SpinLock, budget};

/// Does `then` with the result of a future, in the turn of the one that wakes it last, or now if it waits for nothing. For futures that wait for
/// answers and do nothing else: the one that answers polls it, in the name of the activity for which that is done. `then` is short and never waits.
pub fn ending<F>(future: F, then: impl FnOnce(F::Output) + Send + 'static)
where
    F: Future + Send + Unpin + 'static,
{
    Arc::new(Ending { left: SpinLock::new(Some((future, then))) }).advance();
}

struct Ending<F, T> {
    /// `None` once it has ended.
    left: SpinLock<Option<(F, T)>>,
}

impl<F, T> Ending<F, T>
where
    F: Future + Send + Unpin + 'static,
    T: FnOnce(F::Output) + Send + 'static,
{
    fn advance(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut left = self.left.lock();
        let Some((future, _)) = left.as_mut() else { return };
        // It is not the work of whose turn this is; and refused a turn, it would wake itself while `left` is held.
        let polled = budget::apart(|| Pin::new(future).poll(&mut Context::from_waker(&waker)));
        let Poll::Ready(output) = polled else { return };
        let ended = left.take();
        drop(left);
        if let Some((future, then)) = ended {
            drop(future);
            then(output);
        }
    }
}

impl<F, T> Wake for Ending<F, T>
where
    F: Future + Send + Unpin + 'static,
    T: FnOnce(F::Output) + Send + 'static,
{
    fn wake(self: Arc<Self>) {
        self.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Call, Gone, reply_pair};
    use alloc::vec::Vec;

    type Told = Arc<SpinLock<Vec<Result<u32, Gone>>>>;

    fn told() -> (Told, impl FnOnce(Result<u32, Gone>) + Send + 'static) {
        let told = Told::default();
        let list = told.clone();
        (told, move |answer| list.lock().push(answer))
    }

    #[test]
    fn it_ends_once_when_the_answer_comes_or_is_there() {
        let (reply, call): (_, Call<Result<u32, Gone>>) = reply_pair();
        let (seen, then) = told();
        ending(call, then);
        assert!(seen.lock().is_empty());
        reply.send(Ok(4));
        assert_eq!(*seen.lock(), [Ok(4)]);
        let (reply, call) = reply_pair();
        reply.send(Ok(5));
        let (seen, then) = told();
        ending(call, then);
        assert_eq!(*seen.lock(), [Ok(5)]);
    }

    /// It would wake itself under its own lock.
    #[test]
    fn it_ends_also_in_a_turn_that_is_spent() {
        gyre_machine::set_virtual_time(0);
        budget::begin(1);
        while budget::take_turn() {}
        let queue = Arc::new(crate::WaitQueue::new());
        let waiting = queue.clone();
        let wait = alloc::boxed::Box::pin(async move { waiting.wait().await });
        let ended = Arc::new(SpinLock::new(false));
        let seen = ended.clone();
        ending(wait, move |()| *seen.lock() = true);
        gyre_machine::advance(10_000_000);
        queue.wake_all();
        assert!(*ended.lock());
    }

    #[test]
    fn nobody_answers_any_more_is_an_answer() {
        let (reply, call) = reply_pair();
        let (seen, then) = told();
        ending(call, then);
        drop(reply);
        assert_eq!(*seen.lock(), [Err(Gone)]);
    }
}
