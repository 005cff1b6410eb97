//! The computer at the other end of the wire: smoltcp, which asks the tenants' servers and answers their questions.
//!
//! * It asks up to [`ASKING_MAX`] tenants at once for their file and checks each byte; it listens for tenants'
//!   questions and answers them.
//! * A talk that a tenant's end cuts is right only if that tenant was killed. Otherwise every talk comes to its end
//!   within [`PATIENCE_MS`] of silence.
//! * It is smoltcp, so that our TCP meets one that we did not write. Its frames go through a wire that loses, doubles
//!   and reorders.
//! * `stop` lets it ask nothing new; the run ends when it is silent.
//!
//! Choices come from the seed. Its address resolution is told beforehand, since smoltcp asks for one neighbour a
//! second.

use crate::whole::card::Wire;
use crate::whole::exchange::{Ends, Exchange, QUESTION_BYTES};
use crate::whole::plan::{MAC as CARD, MS, PEER, Plan, address};
use gyre_engine::simulate::Outside;
use gyre_machine::random::Random;
use gyre_machine::wire::CLEAN;
use gyre_peer::socket::tcp::{RecvError, Socket, State};
use gyre_peer::{SocketHandle, SocketSet, Stack};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The port of the tenants' servers.
pub const TENANT_PORT: u16 = 80;
/// The peer's port.
pub const PEER_PORT: u16 = 7000;
/// Connections that it asks at once.
const ASKING_MAX: usize = 6;
/// How long it waits for a word of a tenant, ms.
const PATIENCE_MS: u64 = 30_000;
/// Sockets that listen.
const LISTENING: usize = 40;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// Its end of the wire.
struct End(Rc<Wire>);

impl gyre_peer::Ends for End {
    fn take(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        self.0.to_peer.borrow_mut().take_at(now_ns)
    }

    fn put(&mut self, now_ns: u64, frame: Vec<u8>) {
        self.0.put(&self.0.to_card, now_ns, frame);
    }
}

/// A connection that it has.
struct Talk {
    handle: SocketHandle,
    /// The tenant that is asked; `None` if a tenant asks.
    asked: Option<usize>,
    exchange: Option<Exchange>,
    question: Vec<u8>,
    sent: usize,
    got: usize,
    is_closed: bool,
}

struct Inner {
    stack: Stack<End>,
    talks: Vec<Talk>,
    random: Random,
    next_ask_ns: u64,
    wake_ns: u64,
    ends: Ends,
}

/// The peer.
pub struct Peer {
    state: RefCell<Inner>,
    wire: Rc<Wire>,
    /// The fill and the bytes of the file that each tenant serves, once it does.
    pub served: RefCell<Vec<Option<(u8, usize)>>>,
    /// Tenants that were killed: what they sent may end anywhere.
    pub killed: RefCell<Vec<usize>>,
    is_over: Cell<bool>,
    gap_ns: u64,
}

impl Peer {
    /// Makes a peer at a wire, for the tenants of a plan.
    pub fn new(wire: Rc<Wire>, plan: &Plan, now_ns: u64) -> Peer {
        let mut random = Random::new(plan.seed, 13);
        let mut stack = Stack::new(End(wire.clone()), MAC, PEER, random.draw(), now_ns);
        stack.patience_ms = Some(PATIENCE_MS);
        let gap_ns = MS / 2 + random.below(4 * MS);
        let state =
            Inner { stack, talks: Vec::new(), random, next_ask_ns: now_ns, wake_ns: now_ns, ends: Ends::default() };
        let peer = Peer {
            state: RefCell::new(state),
            wire,
            served: RefCell::new(vec![None; plan.tenants.len()]),
            killed: RefCell::default(),
            is_over: Cell::new(false),
            gap_ns,
        };
        // smoltcp asks for one neighbour a second: it is told of all before.
        for index in 0..plan.tenants.len() {
            peer.wire.to_peer.borrow_mut().put_at(now_ns, &mut CLEAN.clone(), question_of(index));
        }
        (0..LISTENING).for_each(|_| peer.state.borrow_mut().listen());
        peer
    }

    /// It asks nothing new.
    pub fn stop(&self) {
        self.is_over.set(true);
    }

    /// Returns true if no question of its own is open.
    pub fn is_silent(&self) -> bool {
        !self.state.borrow().talks.iter().any(|talk| talk.asked.is_some())
    }

    fn ask(&self, state: &mut Inner) {
        let served = self.served.borrow();
        let ready: Vec<usize> = (0..served.len()).filter(|index| served[*index].is_some()).collect();
        let Some(&tenant) = ready.get(state.random.below(ready.len() as u64) as usize) else { return };
        let exchange = match (state.random.once_in(3), served[tenant]) {
            (true, Some((fill, bytes))) => Exchange { salt: u32::from(fill), down: bytes, up: 0 },
            _ => Exchange::draw(&mut state.random, 40_000),
        };
        let handle = state.stack.connect(address(tenant), TENANT_PORT);
        state.begin(handle, Some(tenant), Some(exchange));
    }

    fn work(&self, at_ns: u64) {
        let mut state = self.state.borrow_mut();
        if state.next_ask_ns <= at_ns && !self.is_over.get() {
            state.next_ask_ns = at_ns + state.random.below(2 * self.gap_ns);
            if state.talks.iter().filter(|talk| talk.asked.is_some()).count() < ASKING_MAX {
                self.ask(&mut state);
            }
        }
        while state.stack.poll(at_ns) {
            self.talk(&mut state);
        }
        self.talk(&mut state);
        state.stack.poll(at_ns);
        let wake_ns = state.stack.poll_at(at_ns).map_or(u64::MAX, |at| at.max(at_ns + 1000));
        state.wake_ns = wake_ns;
    }

    fn talk(&self, state: &mut Inner) {
        let Inner { stack, talks, ends, .. } = state;
        let mut over = Vec::new();
        let killed = self.killed.borrow();
        talks.retain_mut(|talk| {
            let may_be_cut = talk.asked.is_some_and(|tenant| killed.contains(&tenant));
            let end = talk.go_on(&mut stack.sockets, may_be_cut);
            match end {
                Some(true) => ends.whole += 1,
                Some(false) => ends.broken += 1,
                None => return true,
            }
            over.push((talk.handle, talk.asked));
            false
        });
        for (handle, asked) in over {
            state.stack.sockets.remove(handle);
            if asked.is_none() {
                state.listen();
            }
        }
    }
}

/// Returns a tenant's question for the peer's hardware address (RFC 826), from which the peer learns the tenant's.
fn question_of(index: usize) -> Vec<u8> {
    let kind: [u8; 10] = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    [&[0xff; 6][..], &CARD, &kind, &CARD, &address(index), &[0; 6], &PEER].concat()
}

impl Inner {
    fn begin(&mut self, handle: SocketHandle, asked: Option<usize>, exchange: Option<Exchange>) {
        let talk = Talk { handle, asked, exchange, question: Vec::new(), sent: 0, got: 0, is_closed: false };
        self.talks.push(talk);
    }

    fn listen(&mut self) {
        let handle = self.stack.listen(PEER_PORT);
        self.begin(handle, None, None);
    }
}

impl Talk {
    /// Does what can be done now; tells at the end whether all bytes came.
    fn go_on(&mut self, sockets: &mut SocketSet<'static>, may_be_cut: bool) -> Option<bool> {
        let socket = sockets.get_mut::<Socket>(self.handle);
        if self.asked.is_none() && matches!(socket.state(), State::Listen | State::SynReceived) {
            return None;
        }
        let has_ended = self.receive(socket);
        self.send(socket);
        let is_whole = self.exchange.is_some_and(|exchange| self.got >= self.expected(&exchange));
        if has_ended && !is_whole && !may_be_cut && self.asked.is_some() {
            panic!("{:?}: the stream ended in order after {} bytes down", self.exchange, self.got);
        }
        match socket.state() {
            State::Closed => Some(is_whole && self.is_closed),
            // The tenant has all of it, and has said so: the socket's memory of it is not needed.
            State::TimeWait => Some(is_whole),
            _ if has_ended && !is_whole => {
                socket.abort();
                None
            }
            _ => None,
        }
    }

    fn expected(&self, exchange: &Exchange) -> usize {
        if self.asked.is_some() { exchange.down } else { exchange.up_bytes() }
    }

    /// Takes what has come; true if the other side has said that no more comes.
    fn receive(&mut self, socket: &mut Socket<'static>) -> bool {
        loop {
            let mut data = [0; 4096];
            match socket.recv_slice(&mut data) {
                Ok(0) => return false,
                Ok(count) => self.check(data.get(..count).unwrap_or(&[])),
                Err(RecvError::Finished) => return true,
                Err(RecvError::InvalidState) => return false,
            }
        }
    }

    fn check(&mut self, data: &[u8]) {
        if self.asked.is_none() && self.exchange.is_none() {
            self.question.extend_from_slice(data);
            self.exchange = Exchange::parse(&self.question);
            if let Some(exchange) = self.exchange {
                exchange.check_up(0, &self.question);
            }
            self.got += data.len();
            return;
        }
        let Some(exchange) = self.exchange else { return };
        match self.asked {
            Some(_) => exchange.check_down(self.got, data),
            None => exchange.check_up(self.got, data),
        }
        self.got += data.len();
        assert!(self.got <= self.expected(&exchange), "{exchange:?}: more came than was sent");
    }

    fn send(&mut self, socket: &mut Socket<'static>) {
        let Some(exchange) = self.exchange else { return };
        let may_answer = self.asked.is_some() || self.got >= QUESTION_BYTES + exchange.up;
        let bytes = if self.asked.is_some() { exchange.up_bytes() } else { exchange.down };
        while may_answer && socket.can_send() && self.sent < bytes {
            let count = (bytes - self.sent).min(4000);
            let part = match self.asked {
                Some(_) => exchange.up(self.sent, count),
                None => exchange.down(self.sent, count),
            };
            self.sent += socket.send_slice(&part).unwrap_or(0);
        }
        if may_answer && self.sent == bytes && !self.is_closed && socket.may_send() {
            self.is_closed = true;
            socket.close();
        }
    }
}

impl core::fmt::Display for Peer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let state = self.state.borrow();
        let of = |talk: &Talk| (talk.asked, state.stack.sockets.get::<Socket>(talk.handle).state());
        let open: Vec<_> = state.talks.iter().map(of).filter(|(_, state)| *state != State::Listen).collect();
        write!(f, "the peer: {:?}, open {open:?}", state.ends)
    }
}

impl Outside for Peer {
    fn next_at(&self) -> Option<u64> {
        let state = self.state.borrow();
        let ask = Some(state.next_ask_ns).filter(|_| !self.is_over.get());
        let wake = Some(state.wake_ns).filter(|at| *at < u64::MAX);
        self.wire.to_peer.borrow().next_at().into_iter().chain(ask).chain(wake).min()
    }

    fn act(&self, at_ns: u64) {
        self.work(at_ns);
    }
}
