//! The channels to one neighbour: the table of them, and the task that takes the neighbour's lines.
//!
//! Locks: the trunk's, then a channel's; neither is held while a program's end is used. States: detached and attached.
//!
//! Lines for a channel that has ended here are passed over, but for pages, which go back. So both sides may end a channel at once, and nobody
//! waits for the other one's consent.
//!
//! [`Trunk::attach`] and [`Trunk::detach`] may come at any moment between two turns.

use crate::carrier::{Carrier, Chan};
use crate::layout::{DATA_PAGES, SHARED_PAGES};
use crate::line::{Data, Line, MINE};
use crate::live::Live;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_channel::{ChannelError, Channels, End, Message};
use gyre_message::{WaitQueue, select, sleep_ns, yield_now};
use gyre_object::{Page, SpinLock};
use gyre_zone_link::Arena;

/// Channels to a neighbour.
pub(crate) const CHANNELS_MAX: usize = 64;
/// Lines that are taken before other tasks have their turn.
const BATCH: usize = 16;
/// Time between two looks while the peer has lines to take, and while it is told of pages, ns.
const LOOK_NS: u64 = 4_000_000;
const HELD_NS: u64 = 100_000_000;

/// Finds the activity of a tenant of this instance by its name.
pub type Payer = Box<dyn Fn(&str) -> Option<ActivityId> + Send + Sync>;

/// All that a trunk is made of.
pub struct Setup {
    /// The names of the neighbour's tenants.
    pub tenants: Vec<String>,
    /// The listeners of this instance.
    pub channels: &'static Channels,
    /// The activity that pays for a tenant's ends.
    pub payer: Payer,
}

/// The halves of the pages that programs map: this side's, and the peer's.
pub(crate) struct Shared {
    pub own: Vec<Page>,
    pub theirs: Vec<Page>,
}

#[derive(Default)]
pub(crate) struct State {
    pub live: Option<Live>,
    pub channels: BTreeMap<u32, Arc<Chan>>,
    pub last: u32,
    pub shared: Option<Shared>,
}

/// The channels to one neighbour.
pub struct Trunk {
    pub(crate) setup: Setup,
    pub(crate) state: SpinLock<State>,
    rung: Arc<WaitQueue>,
}

/// When the task looks again.
enum Next {
    Now,
    Soon(u64),
    Rung,
}

impl Shared {
    fn of(arena: &dyn Arena) -> Option<Shared> {
        let pages = DATA_PAGES..DATA_PAGES.saturating_add(SHARED_PAGES);
        let own: Vec<Page> = pages.clone().map_while(|page| arena.outbound(page)).collect();
        let theirs: Vec<Page> = pages.map_while(|page| arena.inbound(page)).collect();
        (own.len() == SHARED_PAGES && theirs.len() == SHARED_PAGES).then_some(Shared { own, theirs })
    }
}

/// Returns the bits of pages that channels or programs hold.
pub(crate) fn held(pages: &[Page]) -> u32 {
    pages.iter().rev().fold(0, |bits, page| bits << 1 | u32::from(page.is_shared()))
}

impl State {
    /// Tells the peer which pages are held here; answers whether any are.
    pub(crate) fn say_held(&self) -> bool {
        let (Some(live), Some(shared)) = (&self.live, &self.shared) else { return false };
        let bits = [held(&shared.own), held(&shared.theirs)];
        live.say_held(bits[0], bits[1]);
        bits != [0, 0]
    }
}

impl Trunk {
    /// Makes a trunk without a peer. Nothing runs until [`Trunk::serve`].
    #[must_use]
    pub fn new(setup: Setup) -> Trunk {
        Trunk { setup, state: SpinLock::default(), rung: Arc::new(WaitQueue::new()) }
    }

    /// Gives the trunk a peer. False if there is one already, or the memory is too small.
    #[must_use]
    pub fn attach(&self, arena: Arc<dyn Arena>) -> bool {
        let state = &mut *self.state.lock();
        if state.live.is_some() {
            return false;
        }
        // the supervisor keeps a lot for each link, so the pages are those of the last life
        if state.shared.is_none() {
            state.shared = Shared::of(&*arena);
        }
        state.live = Live::new(arena, self.rung.clone()).filter(|_| state.shared.is_some());
        state.say_held();
        self.rung.wake_all();
        state.live.is_some()
    }

    /// Takes the peer away. All channels to it are lost; pages that programs map stay theirs.
    pub fn detach(&self) {
        let channels = {
            let state = &mut *self.state.lock();
            state.live = None;
            core::mem::take(&mut state.channels)
        };
        channels.values().for_each(|channel| channel.lose());
    }

    /// Returns whether there is a peer.
    pub fn is_attached(&self) -> bool {
        self.state.lock().live.is_some()
    }

    /// The peer has rung.
    pub fn ring(&self) {
        self.rung.wake_all();
    }

    /// Takes the peer's lines for ever. One task of the infrastructure's does.
    pub async fn serve(&'static self) {
        let mut pause_ns = LOOK_NS;
        loop {
            let rung = self.rung.wait();
            match self.look() {
                Next::Now => yield_now().await,
                Next::Rung => rung.await,
                Next::Soon(ns) => {
                    let is_late = matches!(
                        select(rung, sleep_ns(ns.max(pause_ns))).await,
                        gyre_message::wait::Either::Second(())
                    );
                    // a peer that does not come is rung less and less often
                    pause_ns = if is_late { pause_ns.saturating_mul(2).min(HELD_NS) } else { LOOK_NS };
                    if is_late {
                        self.ring_again();
                    }
                }
            }
        }
    }

    fn ring_again(&self) {
        let state = self.state.lock();
        state.live.iter().filter(|live| live.is_awaited()).for_each(Live::ring_again);
    }

    /// Takes the lines that have come, at most [`BATCH`].
    fn look(&'static self) -> Next {
        let lines: Vec<_> = {
            let state = &mut *self.state.lock();
            let Some(live) = &mut state.live else { return Next::Rung };
            live.flush();
            (0..BATCH).map_while(|_| live.take()).collect()
        };
        for message in &lines {
            match Line::decode(message) {
                Some(line) => self.take(message.token, line),
                None => self.with_live(Live::note_malformed),
            }
        }
        if self.with_live(|live| live.is_hostile()) {
            // its kernel is broken or means harm: it is heard again once it was made again
            log::warn!("channels to the tenants of {:?} are cut: their kernel writes nonsense", self.setup.tenants);
            self.detach();
            return Next::Rung;
        }
        if lines.len() == BATCH {
            return Next::Now;
        }
        let state = self.state.lock();
        match (state.say_held(), state.live.as_ref().is_some_and(Live::is_awaited)) {
            (_, true) => Next::Soon(LOOK_NS),
            (true, false) => Next::Soon(HELD_NS),
            (false, false) => Next::Rung,
        }
    }

    /// Does something with the memory, if there is a peer.
    pub(crate) fn with_live<T: Default>(&self, work: impl FnOnce(&mut Live) -> T) -> T {
        self.state.lock().live.as_mut().map(work).unwrap_or_default()
    }

    fn take(&'static self, key: u32, line: Line) {
        match line {
            Line::Open { page, bytes, shared } => self.opened(key, page, bytes, shared),
            Line::Done(pages) => self.returned(&pages),
            Line::Data(data) => self.data(key, data),
            Line::Answer(result) => self.with(key, |channel| channel.answered(result)),
            Line::Room => self.with(key, Chan::more_room),
            Line::Close => self.with(key, Chan::closed),
        }
    }

    fn with(&self, key: u32, work: impl FnOnce(&Chan)) {
        // one that has ended here is heard of no more
        let channel = self.state.lock().channels.get(&key).cloned();
        if let Some(channel) = channel {
            work(&channel);
        }
    }

    fn returned(&self, pages: &[u16]) {
        let channels: Vec<Arc<Chan>> = {
            let state = &mut *self.state.lock();
            state.live.iter_mut().for_each(|live| live.returned(pages));
            state.channels.values().cloned().collect()
        };
        channels.iter().for_each(|channel| channel.look());
    }

    fn data(&self, key: u32, data: Data) {
        let state = &mut *self.state.lock();
        let Some(live) = &mut state.live else { return };
        if data.pages.iter().any(|page| usize::from(*page) >= DATA_PAGES) {
            live.note_malformed();
            return;
        }
        let refused = match state.channels.get(&key) {
            Some(channel) => channel.arrived(data).inspect_err(|_| live.note_malformed()).err(),
            None => Some(data),
        };
        if let Some(data) = refused {
            live.send(key, &Line::Done(data.pages));
        }
    }

    /// The peer asks for a channel.
    fn opened(&'static self, key: u32, page: u16, bytes: u16, shared: u32) {
        let text = self.with_live(|live| {
            let text = live.read_names(page, bytes);
            live.send(key, &Line::Done(alloc::vec![page]));
            text
        });
        let result = match text {
            Some(text) if key & MINE == 0 => self.accept(key, &text, shared),
            _ => Err(ChannelError::Invalid),
        };
        self.with_live(|live| live.send(key, &Line::Answer(result)));
    }

    /// Starts the task of a channel, in the name of the tenant here.
    pub(crate) fn carry(&'static self, carrier: Carrier, near: End, payer: ActivityId) {
        let task = move || -> gyre_message::runtime::LocalTask { Box::pin(carrier.carry(near)) };
        gyre_message::spawn_on(gyre_message::runtime::RESIDENT, payer, Box::new(task));
    }

    /// Copies a message that has come.
    pub(crate) fn copy_in(&self, key: u32, data: Data) -> Option<Message> {
        self.state.lock().live.as_mut()?.copy_in(key, data).ok()
    }
}
