//! The owner of an open file: whoever gets a signal when the file becomes ready (fcntl(2): F_SETOWN, F_SETSIG, O_ASYNC).
//!
//! Each description has room for one [`Owner`], which dup and fork share. With O_ASYNC a task tells it of news ([`news`]). Sockets, pipes,
//! terminals and inotify descriptors have news, as on Linux; for other files O_ASYNC is kept and does nothing.
//!
//! The owner is known by its process, thread or group and not by a number: one that has ended is nobody, also if its number is given
//! again.

mod news;

use self::news::News;
use super::object::Object;
use super::open_file::OpenFile;
use crate::{Process, Thread};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use gyre_interface::Readiness;
use gyre_object::ObjectLock;
use linux_raw_sys::general as raw;

/// The receiver of the signals.
#[derive(Clone, Default)]
pub enum Target {
    /// The file has no owner.
    #[default]
    Nobody,
    /// A process, by its number and itself.
    Process(i32, Weak<Process>),
    /// A thread.
    Thread(i32, Weak<Thread>),
    /// A group of processes.
    Group(i32),
}

/// The user whose rights count: whoever named the owner.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sender {
    /// The real user.
    pub user: u32,
    /// The effective user.
    pub user_effective: u32,
}

/// An owner, and the signal that it gets.
#[derive(Clone, Default)]
pub struct Owner {
    /// The receiver.
    pub target: Target,
    /// The sender.
    pub sender: Sender,
    /// The signal (F_SETSIG), 0 for SIGIO without details.
    pub signal: i32,
}

impl Sender {
    /// Returns whether it may signal a process (Linux: fs/fcntl.c, `sigio_perm`).
    fn may_signal(self, target: &Process) -> bool {
        let to = target.credentials();
        let of_target = [to.user, to.user_saved];
        self.user_effective == 0 || of_target.contains(&self.user) || of_target.contains(&self.user_effective)
    }
}

#[derive(Default)]
struct State {
    owner: Owner,
    news: Option<Arc<News>>,
}

/// The room for an owner.
#[derive(Default)]
pub(super) struct Ownership(ObjectLock<Option<Box<State>>>);

impl Ownership {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(self.0.lock().get_or_insert_default())
    }

    /// Ends the news when the file is closed for good.
    pub fn close(&self, readiness: impl FnOnce() -> Option<Arc<Readiness>>) {
        let news = self.0.lock().take().and_then(|state| state.news);
        if let Some(news) = news {
            news.end(readiness().as_deref());
        }
    }
}

impl OpenFile {
    /// Returns its owner.
    pub fn owner(&self) -> Owner {
        self.ownership.0.lock().as_ref().map(|state| state.owner.clone()).unwrap_or_default()
    }

    /// Names its owner.
    pub fn set_owner(&self, target: Target, sender: Sender) {
        self.ownership.with(|state| (state.owner.target, state.owner.sender) = (target, sender));
    }

    /// Chooses the signal that its owner gets, 0 for SIGIO without details.
    pub fn set_signal(&self, signal: i32) {
        self.ownership.with(|state| state.owner.signal = signal);
    }

    /// Begins or ends to tell its owner, as O_ASYNC says now. `descriptor` is the one that the signal names.
    pub fn follow_async(self: &Arc<Self>, thread: &Thread, descriptor: i32) {
        let is_wanted = self.flags() & raw::FASYNC != 0 && has_news(self.object());
        let is_there = self.ownership.0.lock().as_ref().is_some_and(|state| state.news.is_some());
        if is_wanted == is_there {
            return;
        }
        if is_wanted {
            let news = News::begin(self, thread.tenant(), descriptor);
            self.ownership.with(|state| state.news = news);
        } else if let Some(news) = self.ownership.with(|state| state.news.take()) {
            news.end(self.readiness().as_deref());
        }
    }
}

/// Returns whether a kind of file tells its owner (Linux: those with a `fasync` operation).
fn has_news(object: &Object) -> bool {
    matches!(object, Object::Socket(_) | Object::Pipe(_) | Object::Terminal(_) | Object::Inotify(_))
}
