//! A channel to another instance, and the task that carries its messages.
//!
//! ```text
//!   program -- End == near end --> Hands.outward --> pages of messages --> the peer
//!                              <-- Hands.inward  <-- copied <-- come <-- the trunk's task
//! ```
//! The task holds the near end: to the program here it is the peer. A turn takes at most one message in each direction.
//!
//! States: open; closed (the peer's end is gone: what has come is still read); lost (its instance is gone). It ends when the program here has let
//! its end go and all that it wrote was sent, or when the peer is gone and all that it wrote was read.

use crate::line::{Data, Line, WINDOW};
use crate::trunk::Trunk;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use gyre_channel::{ChannelError, End, MESSAGE_BYTES_MAX, Message};
use gyre_interface::Ready;
use gyre_message::{WaitQueue, select, yield_now};
use gyre_object::SpinLock;

/// How a channel stands with the peer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Peer {
    #[default]
    There,
    Closed,
    Lost,
}

struct Inner {
    /// Messages that the peer has room for.
    room: u32,
    /// Messages that have come.
    come: VecDeque<Data>,
    answer: Option<Result<(), ChannelError>>,
    peer: Peer,
}

/// A channel as the trunk knows it.
pub(crate) struct Chan {
    inner: SpinLock<Inner>,
    changed: WaitQueue,
}

impl Default for Chan {
    fn default() -> Chan {
        let inner = Inner { room: WINDOW, come: VecDeque::new(), answer: None, peer: Peer::There };
        Chan { inner: SpinLock::new(inner), changed: WaitQueue::new() }
    }
}

impl Chan {
    fn note(&self, work: impl FnOnce(&mut Inner)) {
        work(&mut self.inner.lock());
        self.changed.wake_all();
    }

    /// The peer has answered.
    pub(crate) fn answered(&self, result: Result<(), ChannelError>) {
        self.note(|inner| inner.answer = Some(result));
    }

    /// The peer has read a message.
    pub(crate) fn more_room(&self) {
        self.note(|inner| inner.room = inner.room.saturating_add(1).min(WINDOW));
    }

    /// The peer's end is gone.
    pub(crate) fn closed(&self) {
        self.note(|inner| inner.peer = Peer::Closed);
    }

    /// Its instance is gone, and what had come and was not copied with it.
    pub(crate) fn lose(&self) {
        self.note(|inner| {
            inner.peer = Peer::Lost;
            inner.come.clear();
        });
    }

    /// Something else has changed.
    pub(crate) fn look(&self) {
        self.changed.wake_all();
    }

    /// A message has come; it is given back if there is no room that was promised.
    pub(crate) fn arrived(&self, data: Data) -> Result<(), Data> {
        let mut inner = self.inner.lock();
        if inner.come.len() >= WINDOW as usize || inner.peer != Peer::There {
            return Err(data);
        }
        inner.come.push_back(data);
        drop(inner);
        self.changed.wake_all();
        Ok(())
    }
}

/// The holder of a channel at this side. Dropping it ends the channel.
pub(crate) struct Carrier {
    pub trunk: &'static Trunk,
    pub key: u32,
    pub chan: Arc<Chan>,
}

/// Messages between the near end and the trunk.
#[derive(Default)]
struct Hands {
    /// For the program.
    inward: Option<Message>,
    /// For the peer.
    outward: Option<Message>,
}

/// How a turn ended.
enum Turn {
    Again,
    /// Until the channel changes, or the near end is ready for one of these.
    Wait(Ready),
    Over,
    Lost,
}

fn bytes_of(message: &Message) -> usize {
    message.iter().fold(0, |sum, piece| sum.saturating_add(piece.len()))
}

impl Carrier {
    /// Waits for the answer of the peer.
    pub(crate) async fn answer(&self) -> Result<(), ChannelError> {
        let look = || {
            let inner = self.chan.inner.lock();
            match (inner.answer, inner.peer) {
                (Some(answer), _) => Some(answer),
                (None, Peer::There) => None,
                (None, Peer::Closed) => Some(Err(ChannelError::Refused)),
                (None, Peer::Lost) => Some(Err(ChannelError::Unreachable)),
            }
        };
        self.chan.changed.until(look).await
    }

    /// Carries messages until the channel ends.
    pub(crate) async fn carry(self, near: End) {
        let mut hands = Hands::default();
        loop {
            let changed = self.chan.changed.wait();
            match self.turn(&near, &mut hands) {
                Turn::Again => yield_now().await,
                Turn::Wait(ready) if ready.is_empty() => changed.await,
                Turn::Wait(ready) => _ = select(changed, near.readiness().wait(ready)).await,
                Turn::Over => return,
                Turn::Lost => return near.cut(),
            }
        }
    }

    fn turn(&self, near: &End, hands: &mut Hands) -> Turn {
        let peer = self.chan.inner.lock().peer;
        let inward = self.inward(near, hands);
        match (inward, peer) {
            (Turn::Wait(ready), Peer::There) => match self.outward(near, hands) {
                Turn::Wait(other) => Turn::Wait(ready | other),
                turn => turn,
            },
            // all that has come was read
            (Turn::Wait(ready), Peer::Closed) if ready.is_empty() => Turn::Over,
            (Turn::Wait(_), Peer::Lost) => Turn::Lost,
            (turn, _) => turn,
        }
    }

    /// Hands the program what has come.
    fn inward(&self, near: &End, hands: &mut Hands) -> Turn {
        if hands.inward.is_none() {
            let come = self.chan.inner.lock().come.pop_front();
            let Some(data) = come else { return Turn::Wait(Ready::empty()) };
            match self.trunk.copy_in(self.key, data) {
                Some(message) => hands.inward = Some(message),
                // without memory for it the channel cannot keep its promise
                None => return Turn::Lost,
            }
        }
        match hands.inward.as_ref().map(|message| near.check_room(bytes_of(message))) {
            Some(Err(ChannelError::Again)) => return Turn::Wait(Ready::WRITE),
            Some(Ok(())) => {
                // a program that goes meanwhile reads nothing more
                let _ = near.send(hands.inward.take().unwrap_or_default());
            }
            _ => hands.inward = None,
        }
        self.trunk.with_live(|live| live.send(self.key, &Line::Room));
        Turn::Again
    }

    /// Sends what the program wrote.
    fn outward(&self, near: &End, hands: &mut Hands) -> Turn {
        if self.chan.inner.lock().room == 0 {
            return Turn::Wait(Ready::empty());
        }
        if hands.outward.is_none() {
            match near.receive(MESSAGE_BYTES_MAX) {
                Ok(Some(message)) => hands.outward = Some(message),
                Err(ChannelError::Again) => return Turn::Wait(Ready::READ),
                Ok(None) | Err(_) => return Turn::Over,
            }
        }
        let Some(message) = &hands.outward else { return Turn::Again };
        if !self.trunk.with_live(|live| live.send_data(self.key, message, bytes_of(message))) {
            return Turn::Wait(Ready::empty());
        }
        hands.outward = None;
        self.chan.note(|inner| inner.room = inner.room.saturating_sub(1));
        Turn::Again
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        let state = &mut *self.trunk.state.lock();
        let is_known = state.channels.get(&self.key).is_some_and(|known| Arc::ptr_eq(known, &self.chan));
        if !is_known {
            return;
        }
        state.channels.remove(&self.key);
        let left = core::mem::take(&mut self.chan.inner.lock().come);
        let Some(live) = &mut state.live else { return };
        left.into_iter().for_each(|data| live.send(self.key, &Line::Done(data.pages)));
        live.send(self.key, &Line::Close);
    }
}
