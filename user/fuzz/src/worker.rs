//! A worker: a process whose threads make calls.

use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::{
    calls,
    counts::Counts,
    deep,
    kinds::{Call, Gives, Place},
    slots,
    sys::{self, Scratch},
    trail::{Author, Trail, Trails},
    values::Maker,
};

/// How long a thread may wait in a call before it is signalled.
const PATIENCE: Duration = Duration::from_millis(4);
/// How long signals may not help (it blocks them) before its worker ends for another one.
const LOST: Duration = Duration::from_millis(300);
/// How long a child may take.
const CHILD_TRIES: u32 = 30;

/// The parts of a round.
pub struct Round<'a> {
    /// Its number and its seed.
    pub number: u64,
    /// The seed of all that is chosen in it.
    pub seed: u64,
    /// Indices of the calls that are made.
    pub chosen: Vec<usize>,
    /// Calls of each thread.
    pub calls: u64,
    /// Which of these are made.
    pub window: (u64, u64),
    /// Threads of each worker.
    pub threads: u64,
    /// The list in which calls are noted.
    pub trails: &'a Trails,
    /// The counts of answers.
    pub counts: Counts,
}

/// Returns a seed of seeds.
pub fn mixed(seed: u64, parts: [u64; 3]) -> u64 {
    parts.iter().fold(seed, |seed, part| Rng::with_seed(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).u64(..))
}

/// One thread's work.
struct Thread {
    maker: Maker,
    trail: Trail,
    counts: Counts,
}

/// Runs a worker of a round to its end; does not come back.
pub fn work(round: &Round, worker: u64, life: u64) -> ! {
    let threads: Vec<_> = (0..round.threads).filter_map(|thread| prepared(round, [worker, life, thread])).collect();
    let trails: Vec<Trail> = threads.iter().map(|thread| thread.trail).collect();
    std::thread::scope(|scope| {
        let running: Vec<_> = threads
            .into_iter()
            .map(|mut thread| {
                let (sender, receiver) = std::sync::mpsc::channel();
                let handle = scope.spawn(move || {
                    let _ = sender.send(sys::short(libc::SYS_gettid as u64, []));
                    thread.run(round);
                });
                (handle, receiver.recv().unwrap_or(0))
            })
            .collect();
        let mut seen: Vec<(u64, Instant)> = trails.iter().map(|trail| (trail.count(), Instant::now())).collect();
        while !running.iter().all(|(handle, _)| handle.is_finished()) {
            std::thread::sleep(PATIENCE / 2);
            for ((seen, trail), (_, thread)) in seen.iter_mut().zip(&trails).zip(&running) {
                poke(seen, *trail, *thread);
            }
        }
    });
    end(0)
}

/// Gets a thread out of a call that waits.
fn poke(seen: &mut (u64, Instant), trail: Trail, thread: i64) {
    if seen.0 != trail.count() {
        *seen = (trail.count(), Instant::now());
    } else if seen.1.elapsed() > LOST {
        end(1);
    } else if seen.1.elapsed() > PATIENCE {
        let own = sys::short(libc::SYS_getpid as u64, []) as u64;
        sys::short(libc::SYS_tgkill as u64, [own, thread as u64, sys::POKE as u64]);
    }
}

/// Ends this process at once.
pub fn end(code: u64) -> ! {
    loop {
        sys::short(libc::SYS_exit_group as u64, [code]);
    }
}

fn prepared(round: &Round, place: [u64; 3]) -> Option<Thread> {
    let scratch = Scratch::map()?;
    let restorer = sys::restorer(scratch);
    let handler = sys::handler(scratch);
    mild_signals(scratch, handler, restorer);
    let trail = round.trails.of((place[0] * round.threads + place[2]) as usize)?;
    trail.begin(Author { seed: round.seed, round: round.number, place });
    let maker = Maker::new(mixed(round.seed, place), scratch, [handler, restorer]);
    Some(Thread { maker, trail, counts: round.counts })
}

/// Signals that calls send to this very process do not end it at once.
fn mild_signals(scratch: Scratch, handler: u64, restorer: u64) {
    for signal in [12, 13, 14, 23, 28, 34, 35, 40, 64] {
        let words = [handler, 0x0400_0000, restorer, 0];
        (0..).zip(words).for_each(|(index, word)| scratch.write(scratch.base() + 8 * index, word, 8));
        sys::short(libc::SYS_rt_sigaction as u64, [signal, scratch.base(), 0, 8]);
    }
}

impl Thread {
    fn run(&mut self, round: &Round) {
        let table: Vec<&Call> = calls::all().collect();
        for index in 0..round.calls {
            let chosen = round.chosen.get(self.maker.random.usize(0..round.chosen.len().max(1))).copied();
            let Some((chosen, call)) = chosen.and_then(|chosen| Some((chosen, *table.get(chosen)?))) else { return };
            let arguments = self.maker.arguments(call.arguments);
            let slot = self.maker.random.usize(slots::FIRST_LOOSE..slots::SLOTS);
            if index < round.window.0 || index > round.window.1 {
                continue;
            }
            self.trail.calls(call.number, arguments);
            let answer = match call.place {
                Place::Here => self.make(call, arguments),
                Place::Child => self.in_child(call, arguments),
            };
            self.trail.answered(answer);
            self.counts.add(chosen, answer);
            if answer >= 0 {
                self.take(call, arguments, answer as u64, slot);
            }
        }
    }

    fn make(&self, call: &Call, arguments: [u64; 6]) -> i64 {
        deep::run(call.number, arguments, self.maker.scratch).unwrap_or_else(|| sys::call(call.number, arguments))
    }

    /// Makes a call in a child, which writes down the answer if it lives to see it.
    fn in_child(&self, call: &Call, arguments: [u64; 6]) -> i64 {
        const DIED: i64 = -(libc::EINTR as i64);
        self.trail.answered(DIED);
        let child = sys::short(libc::SYS_fork as u64, []);
        if child == 0 {
            sys::short(libc::SYS_alarm as u64, [1]);
            let answer = self.make(call, arguments);
            self.trail.answered(answer);
            end(0);
        }
        if child < 0 {
            return child;
        }
        let mut tries = 0;
        while self.lives(child) {
            tries += 1;
            if tries > CHILD_TRIES {
                sys::short(libc::SYS_kill as u64, [child as u64, 9]);
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        self.trail.answer()
    }

    fn lives(&self, child: i64) -> bool {
        sys::short(libc::SYS_wait4 as u64, [child as u64, 0, 1, 0]) == 0
    }

    /// Keeps what a call gave.
    fn take(&mut self, call: &Call, arguments: [u64; 6], answer: u64, slot: usize) {
        let scratch = self.maker.scratch;
        match call.gives {
            Gives::Nothing => {}
            Gives::Answer(kind) => slots::put(kind, slot, answer),
            Gives::Pair(at, kinds) => {
                for (kind, offset) in kinds.into_iter().zip([0, 4]) {
                    let made = scratch.read(arguments.get(at).map_or(0, |at| at + offset), 4);
                    slots::put(kind, (slot + offset as usize / 4).min(slots::SLOTS - 1), made);
                }
            }
            Gives::Word(at, bytes, kind) => {
                slots::put(kind, slot, scratch.read(arguments.get(at).copied().unwrap_or(0), bytes as u64));
            }
        }
    }
}
