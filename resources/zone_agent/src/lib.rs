//! A zone's side of the messages with its supervisor: a task that takes questions and offers, and answers each by its token.
//!
//! * [`Agent`]: messages in and out are lines of [`gyre_interface::zone_messages`].
//! * [`Home`]: the zone's kernel, which does what is asked.
//! * [`Agent::wish`]: a wish of the zone's own, one at a time; its token is the zone's.
//!
//! Each question is a task of its own, so that a core which is slow to leave delays no other answer; there are at most [`WORKS_MAX`] of them,
//! and the next one is refused. The supervisor is not trusted with anything but the parts that it gave: a message that is none is passed over.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]
extern crate alloc;
#[cfg(test)]
extern crate std;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_contract::zones::WishDeed;
use gyre_interface::leases::Lots;
use gyre_interface::zone_messages::{
    DiskOffer, Figures, FromZone, Keeper, LinkOffer, Reason, ToZone, VERSION, ZoneName,
};
use gyre_line::{Full, Message};
use gyre_machine::PciAddress;
use gyre_message::wait::Either;
use gyre_message::{WaitQueue, select, sleep_ns, spawn, yield_now};
use gyre_object::SpinLock;

/// Questions that are worked on at once.
pub const WORKS_MAX: u32 = 8;
/// Messages that are taken before other tasks of the zone have their turn.
const MESSAGES_MAX: usize = 16;
/// How long an answer waits for room in the ring, ns, and how often that is tried.
const ROOM_NS: u64 = 1_000_000;
const ROOM_TRIES: u32 = 1_000;

/// How long a zone waits for an answer to its wish, ns: longer than a change takes at most.
pub const WISH_NS: u64 = 120_000_000_000;

/// Work of the zone's kernel that takes a while.
pub type Work<T> = Pin<Box<dyn Future<Output = Result<T, Reason>>>>;

/// The zone's kernel, as its agent needs it. It refuses what it cannot do.
pub trait Home: Sync + 'static {
    /// Takes a message of the supervisor.
    fn receive(&self) -> Option<Message>;
    /// Sends a message to the supervisor, and rings if it sleeps.
    fn send(&self, message: &Message) -> Result<(), Full>;
    /// Takes a core out of use within so many milliseconds, this one or any but the resident one, and lets it park; answers its hardware
    /// id.
    fn withdraw_core(&'static self, core: Option<u32>, within_ms: u32) -> Work<u32>;
    /// Calls the core that waits in this box.
    fn join_core(&'static self, core: u32, slot: u32) -> Work<()>;
    /// Takes so many lots out of use within so many milliseconds; all of them or none.
    fn withdraw_lots(&'static self, lots: u32, within_ms: u32) -> Work<Vec<Lots>>;
    /// Takes lots into use.
    fn join_lots(&'static self, lots: Lots) -> Work<()>;
    /// Takes a device out of use.
    fn withdraw_device(&'static self, device: PciAddress) -> Work<()>;
    /// Takes a device into use.
    fn join_device(&'static self, device: PciAddress) -> Work<()>;
    /// Takes a link to another instance into use.
    fn join_link(&'static self, offer: LinkOffer) -> Work<()>;
    /// Touches the memory of the link to this instance no more.
    fn leave_link(&'static self, peer: u16) -> Work<()>;
    /// Forgets the link to this instance: the card is the way to its addresses.
    fn forget_link(&'static self, peer: u16) -> Work<()>;
    /// Takes disks into use that the supervisor serves, once.
    fn join_disks(&'static self, offer: DiskOffer) -> Work<()>;
    /// Returns the zone's own figures.
    fn figures(&'static self) -> Work<Figures>;
    /// Ends the zone in order within the grace time.
    fn end(&'static self, grace_ms: u32);
}

/// The agent of a zone.
pub struct Agent {
    home: &'static dyn Home,
    works: AtomicU32,
    rung: WaitQueue,
    wish: SpinLock<Wish>,
    answered: WaitQueue,
}

/// The zone's own wish: one at a time.
#[derive(Default)]
struct Wish {
    /// The number of the last one.
    token: u32,
    is_open: bool,
    /// Its answer: refused for this reason, or done.
    answer: Option<Option<Keeper>>,
}

/// The reason why a wish was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WishError {
    /// The supervisor refused it.
    Refused(Keeper),
    /// Another one is open.
    Busy,
    /// The supervisor did not answer in [`WISH_NS`]; it may still be done.
    Late,
}

/// A wish that is open; it is forgotten when this is dropped.
struct Open<'a>(&'a SpinLock<Wish>);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let mut wish = self.0.lock();
        (wish.is_open, wish.answer) = (false, None);
    }
}

impl Agent {
    /// Makes the agent of a kernel.
    #[must_use]
    pub fn new(home: &'static dyn Home) -> Agent {
        Agent {
            home,
            works: AtomicU32::new(0),
            rung: WaitQueue::new(),
            wish: SpinLock::default(),
            answered: WaitQueue::new(),
        }
    }

    /// The supervisor has rung, or the kernel looks at its own time: the agent takes what is there.
    pub fn ring(&self) {
        self.rung.wake_all();
    }

    /// Greets the supervisor, then answers it for ever.
    pub async fn serve(&'static self) {
        self.answer(FromZone::Hello(VERSION), 0).await;
        loop {
            let rung = self.rung.wait();
            let taken = (0..MESSAGES_MAX).map_while(|_| self.home.receive()).map(|message| self.take(&message)).count();
            match taken < MESSAGES_MAX {
                true => rung.await,
                false => yield_now().await,
            }
        }
    }

    /// Asks the supervisor for a deed that is about another zone, with so many cores and lots, and waits for its answer.
    ///
    /// # Errors
    /// [`WishError`]: nothing has changed, unless it is late.
    pub async fn wish(&self, to: ZoneName, deed: WishDeed, cores: u32, lots: u32) -> Result<(), WishError> {
        let token = {
            let mut wish = self.wish.lock();
            if wish.is_open {
                return Err(WishError::Busy);
            }
            (wish.token, wish.is_open) = (wish.token.wrapping_add(1), true);
            wish.token
        };
        let _open = Open(&self.wish);
        self.answer(FromZone::Wish { to, deed, cores, lots }, token).await;
        let answered = core::pin::pin!(self.answered.until(|| self.wish.lock().answer));
        match select(answered, sleep_ns(WISH_NS)).await {
            Either::First(None) => Ok(()),
            Either::First(Some(why)) => Err(WishError::Refused(why)),
            Either::Second(()) => Err(WishError::Late),
        }
    }

    /// Notes what became of the wish that is open; an answer to another one finds nobody.
    fn wished(&self, token: u32, answer: Option<Keeper>) {
        let mut wish = self.wish.lock();
        if wish.is_open && wish.token == token {
            wish.answer = Some(answer);
            drop(wish);
            self.answered.wake_all();
        }
    }

    fn take(&'static self, message: &Message) {
        let (Some(asked), token) = (ToZone::decode(message), message.token) else { return };
        match asked {
            ToZone::WishDone => return self.wished(token, None),
            ToZone::WishRefused(why) => return self.wished(token, Some(why)),
            _ => {}
        }
        if self.works.fetch_add(1, Ordering::Relaxed) >= WORKS_MAX {
            self.works.fetch_sub(1, Ordering::Relaxed);
            // The ring has room for it, or the supervisor's deadline ends its question.
            let _ = self.home.send(&FromZone::Refused(Reason::InUse).encode(token));
            return;
        }
        let place = Place(self);
        spawn(async move {
            for answer in self.work(asked).await {
                self.answer(answer, token).await;
            }
            drop(place);
        });
    }

    async fn work(&self, asked: ToZone) -> Vec<FromZone> {
        let home = self.home;
        let one = |answer: Result<FromZone, Reason>| alloc::vec![answer.unwrap_or_else(FromZone::Refused)];
        let taken = |answer: Result<(), Reason>| one(answer.map(|()| FromZone::Taken));
        match asked {
            ToZone::CoreAsk { core, within_ms } => {
                one(home.withdraw_core(core, within_ms).await.map(FromZone::CoreGiven))
            }
            ToZone::CoreOffer { core, slot } => taken(home.join_core(core, slot).await),
            ToZone::LotAsk { lots, within_ms } => match home.withdraw_lots(lots, within_ms).await {
                Ok(runs) => gifts(runs),
                Err(reason) => alloc::vec![FromZone::Refused(reason)],
            },
            ToZone::LotOffer { lots, .. } => taken(home.join_lots(lots).await),
            ToZone::DeviceAsk(device) => {
                one(home.withdraw_device(device).await.map(|()| FromZone::DeviceGiven(device)))
            }
            ToZone::DeviceOffer(device) => taken(home.join_device(device).await),
            ToZone::End(grace_ms) => {
                home.end(grace_ms);
                alloc::vec![FromZone::Taken]
            }
            ToZone::FiguresAsk => one(home.figures().await.map(FromZone::Figures)),
            ToZone::LinkOffer(offer) => taken(home.join_link(offer).await),
            ToZone::LinkDown(peer) => taken(home.leave_link(peer).await),
            ToZone::LinkForget(peer) => taken(home.forget_link(peer).await),
            ToZone::DiskOffer(offer) => taken(home.join_disks(offer).await),
            ToZone::WishDone | ToZone::WishRefused(_) => Vec::new(),
        }
    }

    /// Sends an answer; waits a second at most for room.
    async fn answer(&self, answer: FromZone, token: u32) {
        for _ in 0..ROOM_TRIES {
            if self.home.send(&answer.encode(token)).is_ok() {
                return;
            }
            sleep_ns(ROOM_NS).await;
        }
    }
}

/// A place among the questions that are worked on.
struct Place(&'static Agent);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.works.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the messages of lots that are given, each with the number of those that follow.
fn gifts(runs: Vec<Lots>) -> Vec<FromZone> {
    let mut left = runs.iter().fold(0, |sum: u32, run| sum.saturating_add(run.count));
    let gift = |lots: Lots| {
        left = left.saturating_sub(lots.count);
        FromZone::LotGiven { lots, left }
    };
    runs.into_iter().map(gift).collect()
}

#[cfg(test)]
mod tests;
