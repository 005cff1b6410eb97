//! Something that is done later, unless it is no longer needed then.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

/// Does something after a while; dropped before, it does nothing.
pub struct Patience(Option<(Sender<()>, thread::JoinHandle<()>)>);

impl Patience {
    /// Begins to wait. `None` if there is no thread to be had: a late warning is never more than a courtesy.
    pub fn start(wait: Duration, then: impl FnOnce() + Send + 'static) -> Option<Self> {
        let (kept, ended) = mpsc::channel();
        let run = move || {
            if ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                then();
            }
        };
        let thread = thread::Builder::new().name("patience".into()).spawn(run).ok()?;
        Some(Self(Some((kept, thread))))
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        if let Some((kept, thread)) = self.0.take() {
            drop(kept);
            // So that nothing is said of a step after its end.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_done_after_a_while_and_not_where_that_was_not_needed() {
        let (told, heard) = mpsc::channel();
        let long = Patience::start(Duration::from_millis(1), move || told.send(()).unwrap()).unwrap();
        assert_eq!(heard.recv_timeout(Duration::from_secs(600)), Ok(()));
        drop(long);
        let (told, heard) = mpsc::channel::<()>();
        drop(Patience::start(Duration::from_secs(600), move || told.send(()).unwrap()));
        assert_eq!(heard.recv(), Err(mpsc::RecvError));
    }
}
