//! Work that goes on by itself when an answer comes, without a task that waits for it.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use gyre_object::SpinLock;

/// Does `then` with what a future comes to, in the turn of who wakes it last, or now where it waits for nothing. For futures that wait for
/// answers and do nothing else: whoever answers polls it, in the name of whoever that is done for. `then` is short and never waits.
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
        let Poll::Ready(output) = Pin::new(future).poll(&mut Context::from_waker(&waker)) else { return };
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

    #[test]
    fn nobody_answers_any_more_is_an_answer() {
        let (reply, call) = reply_pair();
        let (seen, then) = told();
        ending(call, then);
        drop(reply);
        assert_eq!(*seen.lock(), [Err(Gone)]);
    }
}
