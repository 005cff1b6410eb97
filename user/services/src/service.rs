//! The loop of a service: a thread that accepts, one that reads each channel, and one worker that does the work in the order of the turns.
//!
//! ```text
//!   accept --> one reader a channel --> turns --> the worker --> answers by the request's channel
//! ```
//!
//! States of a channel: new (only `Join`, and the owner's requests), client. A client whose queue is full is not read, so its own sends wait. Whoever
//! sends nonsense is refused; whoever goes loses what waits. The worker holds no lock while it works.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use gyre_native::channel::{Channel, Listener};
use gyre_schedulers::Readiness;

use crate::{
    fractions::Fractions,
    protocol::{Answer, Done, Join, MESSAGE_BYTES_MAX, NAME, OWNER, Refused, Request, Work, decode, encode},
    turns::{Division, Turns},
};

/// The work of one kind of service.
pub trait Server: Send {
    /// Does a piece of work for a client of that number; answers its data, and how much of the service it used if that is not the time: bytes.
    ///
    /// # Errors
    /// [`Refused::WrongService`], [`Refused::Invalid`].
    fn work(&mut self, client: usize, work: &Work) -> Result<(Vec<u8>, u64), Refused>;
}

/// A request that waits.
struct Pending {
    channel: Arc<Channel>,
    work: Work,
    came: Instant,
}

struct State {
    fractions: Fractions,
    turns: Turns<Pending>,
}

/// See the module.
pub struct Service {
    division: Division,
    began: Instant,
    state: Mutex<State>,
    /// A request came, or one has gone.
    changed: Condvar,
}

impl Service {
    /// Makes a service without clients.
    #[must_use]
    pub fn new(division: Division) -> Arc<Service> {
        let state = State { fractions: Fractions::default(), turns: Turns::new(division) };
        Arc::new(Service { division, began: Instant::now(), state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Serves for ever.
    ///
    /// # Errors
    /// If the name is taken, or the machine has no channels.
    pub fn run(self: Arc<Self>, mut server: Box<dyn Server>) -> io::Result<()> {
        let listener = Listener::new(NAME, 0)?;
        let worker = self.clone();
        std::thread::spawn(move || worker.work(&mut *server));
        loop {
            let channel = Arc::new(listener.accept()?);
            let service = self.clone();
            std::thread::spawn(move || service.read(&channel));
        }
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // a panic in one thread leaves tables that are whole: they change under the lock in one step each
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a channel until its peer is gone.
    fn read(&self, channel: &Arc<Channel>) {
        let Ok(peer) = channel.peer() else { return };
        let mut client = None;
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        while let Ok(bytes) = channel.receive(&mut buffer) {
            let Some(message) = buffer.get(..bytes).filter(|message| !message.is_empty()) else { break };
            let answer = match decode::<Request>(message) {
                Ok(Request::Work(work)) => self.take_in(client, channel, work),
                Ok(request) => Some(self.answer(&peer, &mut client, request)),
                Err(why) => Some(Answer::Refused(Refused::Invalid(why))),
            };
            if answer.is_some_and(|answer| channel.send(&encode(&answer)).is_err()) {
                break;
            }
        }
        self.leave(client);
    }

    /// Puts work into the client's queue, and waits for a place there; an answer if that cannot be.
    fn take_in(&self, client: Option<usize>, channel: &Arc<Channel>, work: Work) -> Option<Answer> {
        let Some(number) = client else { return Some(Answer::Refused(Refused::NoClient)) };
        let mut state = self.state();
        while !state.turns.has_room(number) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let request = Pending { channel: channel.clone(), work, came: Instant::now() };
        state.turns.push(number, request, self.now_ns());
        drop(state);
        self.changed.notify_all();
        None
    }

    /// Answers what needs no work.
    fn answer(&self, peer: &str, client: &mut Option<usize>, request: Request) -> Answer {
        let mut state = self.state();
        let state = &mut *state;
        let done = match request {
            Request::Join(wish) if client.is_none() => state.join(peer, &wish, self.now_ns()).map(|number| {
                *client = Some(number);
                Answer::Joined(state.fractions.line(number).map_or(0, |line| line.fraction))
            }),
            Request::Join(_) => Err(Refused::Invalid("this channel has joined".into())),
            Request::Fractions => Ok(Answer::Fractions(state.fractions.lines())),
            Request::SetFractions(_) if peer != OWNER => Err(Refused::NotOwner),
            Request::SetFractions(wishes) => state.set(&wishes, self.now_ns()).map(|()| Answer::Set),
            Request::Work(_) => Err(Refused::NoClient),
        };
        done.unwrap_or_else(Answer::Refused)
    }

    fn leave(&self, client: Option<usize>) {
        let Some(number) = client else { return };
        let mut state = self.state();
        if state.fractions.leave(number) {
            state.turns.remove(number, self.now_ns());
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Does what waits, for ever.
    fn work(&self, server: &mut dyn Server) {
        loop {
            let (number, request) = self.next();
            let began = Instant::now();
            let (answer, used) = serve(server, number, &request);
            let spent_ns = began.elapsed().as_nanos() as u64;
            let response_ns = request.came.elapsed().as_nanos() as u64;
            let used = if self.division == Division::Deadlines { spent_ns } else { used };
            let answer = match answer {
                Answer::Done(done) => Answer::Done(Done { response_ns, ..done }),
                other => other,
            };
            let is_done = matches!(answer, Answer::Done(_));
            {
                let mut state = self.state();
                if is_done {
                    state.fractions.note(number, response_ns, used);
                }
                state.turns.charge(number, used, self.now_ns());
            }
            self.changed.notify_all();
            // whoever does not read its answers loses them: the worker waits for nobody
            let _ = request.channel.try_send(&encode(&answer));
        }
    }

    /// Waits for the request whose turn it is.
    fn next(&self) -> (usize, Pending) {
        let mut state = self.state();
        loop {
            let now_ns = self.now_ns();
            if let Some(next) = state.turns.take(now_ns) {
                return next;
            }
            let patience = match state.turns.ready(now_ns) {
                Readiness::At(at_ns) => Duration::from_nanos(at_ns.saturating_sub(now_ns).max(1)),
                Readiness::Now | Readiness::Never => Duration::from_secs(1),
            };
            state = self.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    fn join(&mut self, peer: &str, wish: &Join, now_ns: u64) -> Result<usize, Refused> {
        let number = self.fractions.join(peer, wish)?;
        let Some(line) = self.fractions.line(number) else { return Err(Refused::NoClient) };
        match self.turns.add(number, line, now_ns) {
            // another channel of the tenant has joined before
            Ok(()) | Err(gyre_schedulers::PolicyError::DuplicateClient) => Ok(number),
            Err(error) => {
                self.fractions.leave(number);
                Err(Refused::Invalid(error.to_string()))
            }
        }
    }

    fn set(&mut self, wishes: &[(String, u32)], now_ns: u64) -> Result<(), Refused> {
        let before: BTreeMap<usize, u32> =
            self.fractions.numbers().filter_map(|at| Some((at, self.fractions.line(at)?.fraction))).collect();
        self.fractions.set(wishes)?;
        // what shrinks first, or the policy's own admission would refuse what grows
        let mut numbers: Vec<usize> = before.keys().copied().collect();
        let grows =
            |at: &usize| self.fractions.line(*at).map_or(0, |line| i64::from(line.fraction) - i64::from(before[at]));
        numbers.sort_by_key(grows);
        let updated = numbers.iter().filter_map(|&at| Some((at, self.fractions.line(at)?)));
        let results: Vec<_> = updated.map(|(at, line)| self.turns.update(at, line, now_ns)).collect();
        results.into_iter().collect::<Result<(), _>>().map_err(|error| Refused::Invalid(error.to_string()))
    }
}

/// Works at the client's expense if it has granted something; a grant that is used up is a refusal.
fn serve(server: &mut dyn Server, number: usize, request: &Pending) -> (Answer, u64) {
    let payment = match request.channel.on_behalf() {
        Ok(payment) => Some(payment),
        Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => return (Answer::Refused(Refused::Unpaid), 0),
        // it has granted nothing: the service pays, within the client's fraction
        Err(_) => None,
    };
    let done = server.work(number, &request.work);
    let paid_ns = payment.map_or(0, |payment| payment.end());
    match done {
        Ok((data, used)) => (Answer::Done(Done { data, paid_ns, response_ns: 0 }), used),
        Err(refused) => (Answer::Refused(refused), 0),
    }
}
