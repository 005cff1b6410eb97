//! Clients that ask at moments of their own, whether earlier questions are answered or not: the time of an answer counts from the moment at
//! which the question was due, so that a slow service is not asked less.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{load, namespace::Namespace};

/// Threads that ask; more questions wait at the client.
const THREADS: usize = 24;
/// The time of an answer that did not come, ms: the read limit of the client.
const MISSED_MS: f64 = 5000.0;

/// Answers of a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// Times, ms, in order of size.
    pub times_ms: Vec<f64>,
    /// Questions that were not answered; they are in the times too.
    pub missed: u64,
}

#[derive(Default)]
struct Shared {
    due: Mutex<VecDeque<Instant>>,
    more: Condvar,
    window: Mutex<Window>,
    is_over: AtomicBool,
}

/// A group of clients; it ends when dropped.
pub struct Clients {
    shared: Arc<Shared>,
    random: u64,
    next: Instant,
}

impl Window {
    /// The time within which 99 of 100 answers came, ms; not a number if there were none.
    pub fn p99_ms(&self) -> f64 {
        let last = self.times_ms.len().saturating_sub(1);
        self.times_ms.get(last * 99 / 100).copied().unwrap_or(f64::NAN)
    }
}

impl Clients {
    /// Starts the threads.
    pub fn start(to: SocketAddr, namespace: Namespace, seed: u64) -> Clients {
        let shared: Arc<Shared> = Arc::default();
        for _ in 0..THREADS {
            let (shared, namespace) = (shared.clone(), namespace.clone());
            std::thread::spawn(move || {
                while let Some(due) = shared.take() {
                    let answer = load::one_page(&namespace, to, "/search").map(|_| due.elapsed());
                    shared.note(answer.ok());
                }
            });
        }
        Clients { shared, random: seed | 1, next: Instant::now() }
    }

    /// Asks at random moments, so many times a second on average, until a time; answers what was answered meanwhile.
    pub fn window(&mut self, rate: f64, length: Duration) -> Window {
        let end = Instant::now() + length;
        self.next = self.next.max(Instant::now());
        loop {
            let pause = self.pause(rate);
            self.next += pause;
            if self.next >= end {
                break;
            }
            std::thread::sleep(self.next.saturating_duration_since(Instant::now()));
            self.shared.due.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.next);
            self.shared.more.notify_one();
        }
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        let mut window = std::mem::take(&mut *self.shared.window.lock().unwrap_or_else(PoisonError::into_inner));
        window.times_ms.sort_by(f64::total_cmp);
        window
    }

    /// Time to the next question: exponential, as of many who do not know of each other.
    fn pause(&mut self, rate: f64) -> Duration {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let part = ((self.random >> 11) as f64 / (1_u64 << 53) as f64).max(1e-9);
        Duration::from_secs_f64((-part.ln() / rate.max(0.1)).min(10.0))
    }

    /// Questions that are due and not yet asked are not asked.
    pub fn forget(&self) {
        self.shared.due.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Shared {
    fn take(&self) -> Option<Instant> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.is_over.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(one) = due.pop_front() {
                return Some(one);
            }
            let waited = self.more.wait_timeout(due, Duration::from_millis(100));
            due = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn note(&self, answer: Option<Duration>) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.missed += u64::from(answer.is_none());
        window.times_ms.push(answer.map_or(MISSED_MS, |took| took.as_secs_f64() * 1e3));
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.more.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_window_is_that_of_its_slowest() {
        let window = Window { times_ms: (0..200).map(f64::from).collect(), missed: 0 };
        assert_eq!(window.p99_ms(), 197.0);
        assert!(Window::default().p99_ms().is_nan());
    }

    #[test]
    fn a_question_that_is_not_answered_counts_as_a_slow_one() {
        let shared = Shared::default();
        shared.note(Some(Duration::from_millis(3)));
        shared.note(None);
        let window = shared.window.lock().unwrap().clone();
        assert_eq!(window, Window { times_ms: vec![3.0, MISSED_MS], missed: 1 });
    }
}
