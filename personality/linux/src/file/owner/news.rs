//! A file's news for its owner.
//!
//! A caller that makes a file ready may hold locks, so it only notes what has come and starts a task, which sends the signal and ends: a task that
//! stayed would keep its core from leaving the instance. News that come before it has sent are told by one signal; Linux queues a signal for
//! each if F_SETSIG chose a real-time one.

use super::{Owner, Target};
use crate::file::open_file::OpenFile;
use crate::file::pace::Pace;
use crate::signal::SignalInfo;
use crate::signal::info::SI_KERNEL;
use crate::signal::number::SIGIO;
use crate::{Errno, Process, Tenant};
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use gyre_interface::readiness::{Crowded, Source, Subscriber};
use gyre_interface::{Readiness, Ready};
use linux_raw_sys::general as raw;

/// News of a file that were not told yet.
pub(super) struct News {
    /// Bits of [`Ready`].
    bits: AtomicU32,
    is_over: AtomicBool,
    /// A task is about to tell.
    is_telling: AtomicBool,
    descriptor: i32,
    file: Weak<OpenFile>,
    tenant: Weak<Tenant>,
    this: Weak<News>,
}

impl News {
    /// Begins to tell of a file; `None` if too many others hear of it.
    pub fn begin(file: &Arc<OpenFile>, tenant: &Arc<Tenant>, descriptor: i32) -> Option<Arc<News>> {
        let news = Arc::new_cyclic(|this| News {
            bits: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            is_telling: AtomicBool::new(false),
            descriptor,
            file: Arc::downgrade(file),
            tenant: Arc::downgrade(tenant),
            this: this.clone(),
        });
        file.readiness()?.subscribe(news.clone()).map_err(|Crowded| ()).ok()?;
        Some(news)
    }

    /// Ends it.
    pub fn end(self: Arc<Self>, readiness: Option<&Readiness>) {
        self.is_over.store(true, Ordering::SeqCst);
        let this: Arc<dyn Subscriber> = self;
        if let Some(readiness) = readiness {
            readiness.unsubscribe(&this);
        }
    }

    /// Returns true if there is something to tell, and nobody is about to: the caller tells then.
    fn begin_telling(&self) -> bool {
        let has_news = self.bits.load(Ordering::SeqCst) != 0 && !self.is_over.load(Ordering::SeqCst);
        has_news && !self.is_telling.swap(true, Ordering::SeqCst)
    }

    /// Takes the news; `None` if there are none, or nobody is told any more.
    fn take(&self) -> Option<Ready> {
        let bits = self.bits.swap(0, Ordering::SeqCst);
        (bits != 0 && !self.is_over.load(Ordering::SeqCst)).then_some(Ready::from_bits_truncate(bits))
    }
}

impl Subscriber for News {
    fn changed(&self, now: Ready) -> Option<Arc<dyn Source>> {
        self.bits.fetch_or(now.bits(), Ordering::SeqCst);
        if let Some(this) = self.this.upgrade()
            && self.begin_telling()
        {
            gyre_message::spawn(tell(Teller(this)));
        }
        None
    }
}

/// The task's right to tell, until dropped, also with a task that is killed.
struct Teller(Arc<News>);

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.is_telling.store(false, Ordering::SeqCst);
    }
}

async fn tell(mut teller: Teller) {
    loop {
        let news = teller.0.clone();
        while let Some(ready) = news.take() {
            let (Some(file), Some(tenant)) = (news.file.upgrade(), news.tenant.upgrade()) else {
                return;
            };
            let owner = file.owner();
            drop(file);
            send(&owner, &Telling { ready, descriptor: news.descriptor }, &tenant).await;
        }
        drop(teller);
        // News that came after the last look found a teller.
        if !news.begin_telling() {
            return;
        }
        teller = Teller(news);
    }
}

/// News in the form in which a signal carries them.
struct Telling {
    ready: Ready,
    descriptor: i32,
}

impl Telling {
    /// Returns `si_code` and `si_band`: an end before data, data before room.
    fn reason(&self) -> (u32, u32) {
        let reasons = [
            (Ready::HANG_UP, raw::POLL_HUP, raw::POLLHUP | raw::POLLERR),
            (Ready::ERROR, raw::POLL_ERR, raw::POLLERR),
            (Ready::URGENT, raw::POLL_PRI, raw::POLLPRI | raw::POLLRDBAND),
            (Ready::READ | Ready::READ_HANG_UP, raw::POLL_IN, raw::POLLIN | raw::POLLRDNORM),
        ];
        let found = reasons.into_iter().find(|(bits, ..)| self.ready.intersects(*bits));
        found.map_or((raw::POLL_OUT, raw::POLLOUT | raw::POLLWRNORM | raw::POLLWRBAND), |(_, code, band)| (code, band))
    }

    fn info(&self, signal: i32) -> SignalInfo {
        let (code, band) = self.reason();
        SignalInfo::of_file(signal, code as i32, band, self.descriptor)
    }
}

async fn send(owner: &Owner, telling: &Telling, tenant: &Tenant) {
    match &owner.target {
        Target::Nobody => {}
        Target::Process(_, process) => {
            if let Some(process) = process.upgrade() {
                send_to(owner, &process, telling, |info| process.send(info));
            }
        }
        Target::Thread(_, thread) => {
            if let Some(thread) = thread.upgrade() {
                send_to(owner, thread.process(), telling, |info| thread.send(info));
            }
        }
        Target::Group(group) => {
            let members = tenant.tree.lock().group_members(*group);
            let mut pace = Pace::new();
            for process in members {
                send_to(owner, &process, telling, |info| process.send(info));
                pace.step().await;
            }
        }
    }
}

/// Sends the chosen signal; SIGIO without details if none is chosen, or if no more of the chosen one may wait.
fn send_to(owner: &Owner, target: &Process, telling: &Telling, send: impl Fn(SignalInfo) -> Result<(), Errno>) {
    if !owner.sender.may_signal(target) {
        return;
    }
    if owner.signal == 0 || send(telling.info(owner.signal)).is_err() {
        let _ = send(SignalInfo::new(SIGIO, SI_KERNEL));
    }
}
