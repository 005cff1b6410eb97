//! The tenant that must be answered: a page each second.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    failure::{Context as _, Failure, Result},
    load,
    run::Running,
};

/// How long a page may take before that is a failure.
pub const PATIENCE: Duration = Duration::from_secs(10);
const NAME: &str = "web";
const PORT: u16 = 80;
const PAGE: &str = "/4k";

/// The pages that it has served.
#[derive(Clone, Copy, Default)]
pub struct Answers {
    /// Pages.
    pub count: u64,
    /// The longest that one took, after the first.
    pub slowest: Duration,
}

#[derive(Default)]
struct State {
    answers: Answers,
    wrong: Option<String>,
}

/// A thread that asks until it is dropped.
pub struct Neighbour {
    state: Arc<Mutex<State>>,
    ended: Arc<AtomicBool>,
}

impl Neighbour {
    /// Starts to ask.
    ///
    /// # Errors
    /// When the machine has no such tenant.
    pub fn start(running: &Running) -> Result<Self> {
        let zones = running.description.zones.iter().map(|zone| &zone.machine);
        let mut machines = std::iter::once(&running.description.machine).chain(zones);
        let tenant = machines.find_map(|machine| machine.tenants.iter().find(|tenant| tenant.name == NAME));
        let tenant = tenant.ok_or_else(|| Failure::new(format!("the machine has no tenant `{NAME}`")))?;
        let to = SocketAddr::from((Ipv4Addr::from(tenant.address), PORT));
        let (state, ended) = (Arc::new(Mutex::new(State::default())), Arc::new(AtomicBool::new(false)));
        let (shared, over, namespace) = (state.clone(), ended.clone(), running.namespace.clone());
        let ask = move || {
            let is_over = || over.load(Ordering::Relaxed);
            while !is_over() {
                let asked = Instant::now();
                let is_first = lock(&shared).answers.count == 0;
                // It boots with the machine.
                let limit = if is_first { 9 * PATIENCE } else { PATIENCE };
                let answer = load::first_page(&namespace, to, PAGE, limit, is_over);
                lock(&shared).take(answer, is_first);
                std::thread::sleep(Duration::from_secs(1).saturating_sub(asked.elapsed()));
            }
        };
        std::thread::Builder::new()
            .name("neighbour".into())
            .spawn(ask)
            .context(|| "cannot ask the neighbour".into())?;
        Ok(Self { state, ended })
    }

    /// Returns its trouble, if there is any.
    pub fn wrong(&self) -> Option<String> {
        lock(&self.state).wrong.clone()
    }

    /// Returns the pages that it has served so far.
    pub fn answers(&self) -> Answers {
        lock(&self.state).answers
    }
}

impl State {
    fn take(&mut self, answer: Result<Duration>, is_first: bool) {
        match answer {
            Ok(time) => {
                self.answers.count += 1;
                if !is_first {
                    self.answers.slowest = self.answers.slowest.max(time);
                }
            }
            Err(failure) => self.wrong = Some(format!("the neighbour does not answer: {}", failure.report)),
        }
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_never_comes_is_told() {
        let mut state = State::default();
        state.take(Ok(Duration::from_secs(8)), true);
        state.take(Ok(Duration::from_millis(3)), false);
        assert_eq!(
            (state.answers.count, state.answers.slowest),
            (2, Duration::from_millis(3)),
            "the first is the boot"
        );
        assert!(state.wrong.is_none());
        state.take(Err(Failure::new("no page")), false);
        assert!(state.wrong.is_some_and(|wrong| wrong.contains("no page")));
    }
}
