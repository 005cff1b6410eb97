//! A transfer that was begun while a file system was looked at: its requests are at the disk, and who looked waits for them.

use crate::block::BlockError;
use crate::files::FileError;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_message::{Call, spawn};
use gyre_object::Bytes;
use smallvec::SmallVec;

/// A request to the disk for a part of it.
pub type Part = Call<Result<Vec<Bytes>, BlockError>>;

/// Something that must stay as it is until the device has answered.
pub trait Hold: Send + Sync {
    /// It may change from here on.
    fn let_go(&self);
}

/// Lets go when it is dropped.
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

/// The transfer. Where it is dropped before its end, what it holds is held until the device has answered all the same.
#[must_use = "the device transfers, whoever waits"]
pub struct Begun {
    bytes: usize,
    /// Those without an answer yet.
    parts: SmallVec<[Part; 2]>,
    held: Option<Held>,
}

impl Begun {
    /// A transfer of so many bytes.
    pub fn new(bytes: usize, parts: impl Iterator<Item = Part>, held: Held) -> Begun {
        Begun { bytes, parts: parts.collect(), held: Some(held) }
    }

    /// Waits for the device; answers the bytes. All of its requests are waited for, also where one fails.
    ///
    /// # Errors
    /// That of the request that was waited for first among those that failed.
    pub async fn done(mut self) -> Result<usize, FileError> {
        let mut result = Ok(self.bytes);
        while let Some(part) = self.parts.last_mut() {
            let answer = part.await;
            self.parts.pop();
            if let Err(error) = answer {
                result = result.and(Err(error.into()));
            }
        }
        result
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let (parts, held) = (core::mem::take(&mut self.parts), self.held.take());
        if parts.is_empty() {
            return;
        }
        spawn(async move {
            for part in parts {
                // Who wanted to know is gone.
                let _ = part.await;
            }
            drop(held);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};
    use gyre_message::direct::block_on;
    use gyre_message::{reply_pair, sleep_ns};

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
        (replies, Begun::new(700, calls.into_iter(), Held::new(door.clone())), door)
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
