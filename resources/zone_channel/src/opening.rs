//! Channels that are opened: by a tenant here, and by one of the neighbour's.
//!
//! Shared pages are of the half of who opens. They are cleared before they are used, and taken only if neither side holds them.

use crate::carrier::{Carrier, Chan};
use crate::layout::SHARED_PAGES;
use crate::line::{Line, MINE};
use crate::trunk::{CHANNELS_MAX, State, Trunk, held};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_address_space::SharedMemory;
use gyre_channel::{ChannelError, End, Name};
use gyre_machine::PAGE_BYTES;
use gyre_message::{select, sleep_ns};
use gyre_object::Page;

/// How long the other kernel may take to answer, and how often it is looked whether it has come.
const ANSWER_NS: u64 = 10_000_000_000;
const COME_NS: u64 = 5_000_000;
const COME_TRIES: u32 = 400;

/// Shared pages, and their bits.
type Taken = (u32, Vec<Page>);

impl State {
    fn free_key(&mut self, mark: u32) -> Option<u32> {
        if self.channels.len() >= CHANNELS_MAX {
            return None;
        }
        self.last = self.last.wrapping_add(1) & !MINE;
        Some(self.last | mark).filter(|key| !self.channels.contains_key(key))
    }

    /// Takes free pages of this side's half, and clears them.
    fn take_shared(&self, pages: usize) -> Result<Taken, ChannelError> {
        let (Some(live), Some(shared)) = (&self.live, &self.shared) else { return Err(ChannelError::Unreachable) };
        let taken = held(&shared.own) | live.held_by_peer().ok_or(ChannelError::Unreachable)?;
        let free: Vec<u32> = (0..SHARED_PAGES as u32).filter(|page| taken >> page & 1 == 0).take(pages).collect();
        if free.len() < pages {
            return Err(ChannelError::NoMemory);
        }
        let page = |number: &u32| shared.own.get(*number as usize).cloned();
        let pages: Vec<Page> = free.iter().filter_map(page).collect();
        pages.iter().for_each(clear);
        Ok((free.iter().fold(0, |bits, page| bits | 1 << page), pages))
    }

    /// Returns the pages of the peer's half that it names, if no other channel has them.
    fn their_shared(&self, bits: u32) -> Result<Vec<Page>, ChannelError> {
        let shared = self.shared.as_ref().ok_or(ChannelError::Unreachable)?;
        if bits >> SHARED_PAGES != 0 || bits & held(&shared.theirs) != 0 {
            return Err(ChannelError::Invalid);
        }
        let named = shared.theirs.iter().enumerate().filter(|(number, _)| bits >> number & 1 == 1);
        Ok(named.map(|(_, page)| page.clone()).collect())
    }
}

fn clear(page: &Page) {
    let zeroes = [0; 256];
    for at in (0..PAGE_BYTES).step_by(zeroes.len()) {
        page.write(at, &zeroes);
    }
}

impl Trunk {
    /// Connects the tenant `own` to who listens under a name at the neighbour.
    ///
    /// # Errors
    /// [`ChannelError::Unreachable`] if the neighbour is away or does not answer, [`ChannelError::NoMemory`] without pages, or as the neighbour
    /// answers.
    pub(crate) async fn connect(&'static self, name: Name, own: String, pages: usize) -> Result<End, ChannelError> {
        let payer = (self.setup.payer)(&own).ok_or(ChannelError::Forbidden)?;
        for _ in 0..COME_TRIES {
            if !self.with_live(|live| live.held_by_peer().is_none()) {
                break;
            }
            sleep_ns(COME_NS).await;
        }
        let (carrier, memory) = self.ask(&name, &own, pages)?;
        match select(carrier.answer(), sleep_ns(ANSWER_NS)).await {
            gyre_message::wait::Either::First(answer) => answer?,
            gyre_message::wait::Either::Second(()) => return Err(ChannelError::Unreachable),
        }
        let [end, near] = End::pair_over([own.as_str(), name.tenant()], pages, memory)?;
        self.carry(carrier, near, payer);
        Ok(end)
    }

    /// Asks the neighbour for a channel.
    fn ask(&'static self, name: &Name, own: &str, pages: usize) -> Result<(Carrier, Arc<SharedMemory>), ChannelError> {
        let text = alloc::format!("{}/{} {own}", name.tenant(), name.within());
        let state = &mut *self.state.lock();
        let (bits, shared) = state.take_shared(pages)?;
        let key = state.free_key(MINE).ok_or(ChannelError::Again)?;
        let live = state.live.as_mut().ok_or(ChannelError::Unreachable)?;
        let page = live.write_names(text.as_bytes()).ok_or(ChannelError::Again)?;
        let chan = Arc::new(Chan::default());
        state.channels.insert(key, chan.clone());
        live.send(key, &Line::Open { page, bytes: u16::try_from(text.len()).unwrap_or(u16::MAX), shared: bits });
        Ok((Carrier { trunk: self, key, chan }, Arc::new(SharedMemory::of_pages(shared))))
    }

    /// Connects a tenant of the neighbour's to who listens here.
    pub(crate) fn accept(&'static self, key: u32, text: &[u8], bits: u32) -> Result<(), ChannelError> {
        let text = core::str::from_utf8(text).map_err(|_| ChannelError::Invalid)?;
        let (name, peer) = text.split_once(' ').ok_or(ChannelError::Invalid)?;
        if !self.setup.tenants.iter().any(|tenant| tenant == peer) {
            return Err(ChannelError::Forbidden);
        }
        let name = Name::read(name.as_bytes(), "")?;
        let payer = (self.setup.payer)(name.tenant()).ok_or(ChannelError::Refused)?;
        let (chan, pages) = {
            let state = &mut *self.state.lock();
            if state.channels.len() >= CHANNELS_MAX || state.channels.contains_key(&key) {
                return Err(ChannelError::Again);
            }
            let (chan, pages) = (Arc::new(Chan::default()), state.their_shared(bits)?);
            state.channels.insert(key, chan.clone());
            (chan, pages)
        };
        let carrier = Carrier { trunk: self, key, chan };
        let (count, memory) = (pages.len(), Arc::new(SharedMemory::of_pages(pages)));
        let near = self.setup.channels.connect_over(&name, peer, count, memory).inspect_err(|_| {
            // it never was: the answer says so, and nothing is to be ended
            self.state.lock().channels.remove(&key);
        })?;
        self.carry(carrier, near, payer);
        self.state.lock().say_held();
        Ok(())
    }
}
