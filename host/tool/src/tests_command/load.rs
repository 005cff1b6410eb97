//! `--busy`: a host that others use, too. Two threads work for 4 s and rest by turns; they end with this command, however it ends.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Time that a thread works at a stretch.
const WORK: Duration = Duration::from_secs(4);
/// Time that each of them rests in between. They differ, so that there is none of them at work at times, one or both.
const RESTS: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(6)];
/// Time between two looks at whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// Threads that keep the host busy until it is dropped.
pub struct Hogs {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// Sets them to work.
    pub fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let hog = |rest: Duration| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    work(WORK, &is_over);
                    idle(rest, &is_over);
                }
            })
        };
        let threads = RESTS.into_iter().map(hog).collect();
        Self { is_over, threads }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn work(time: Duration, is_over: &AtomicBool) {
    let began = Instant::now();
    while began.elapsed() < time && !is_over.load(Ordering::Relaxed) {
        for number in 0..100_000_u64 {
            black_box(number);
        }
    }
}

fn idle(time: Duration, is_over: &AtomicBool) {
    let began = Instant::now();
    while began.elapsed() < time && !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hogs_work_and_end_at_once_when_they_are_dropped() {
        let hogs = Hogs::start();
        assert_eq!(hogs.threads.len(), RESTS.len());
        let began = Instant::now();
        drop(hogs);
        assert!(began.elapsed() < WORK, "nobody waits for the end of their work");
    }
}
