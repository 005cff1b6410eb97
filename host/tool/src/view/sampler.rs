//! A thread that looks at the machine once a second and tells everybody who watches.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gyre_config::monitor::Snapshot;
use tokio::sync::broadcast;

use super::sample::{self, Sample, Window};
use crate::{
    agent::Agent,
    failure::{Context as _, Result},
    wire::{Counters, Figures},
};

const PERIOD: Duration = Duration::from_secs(1);
/// Ten minutes.
const HISTORY_LENGTH: usize = 600;

/// What is looked at.
pub struct Sources {
    /// The machine's name.
    pub machine: String,
    /// Names and shares of the tenants, the system tenant first.
    pub shares: Vec<(String, u32)>,
    /// The link's rate.
    pub link_bits_per_second: Option<u64>,
    /// The wire, where we hold it.
    pub wire: Option<Arc<Counters>>,
    /// The machine's agent.
    pub agent: Agent,
}

/// The samples of a machine.
pub struct Sampler {
    /// The machine's name.
    pub machine: String,
    history: Mutex<VecDeque<Sample>>,
    latest: Mutex<Option<Snapshot>>,
    /// The newest figures that there were, also of a machine that does not answer any more.
    last: Mutex<Option<Snapshot>>,
    answers: AtomicU64,
    /// What is wrong beside what the figures say.
    told: Mutex<Vec<String>>,
    news: broadcast::Sender<Sample>,
}

struct Before {
    at: Instant,
    wire: Option<Vec<Figures>>,
    machine: Option<Snapshot>,
}

impl Sampler {
    /// Starts to look; ends with the process.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn start(sources: Sources) -> Result<Arc<Self>> {
        let sampler = Arc::new(Self {
            machine: sources.machine.clone(),
            history: Mutex::default(),
            latest: Mutex::default(),
            last: Mutex::default(),
            answers: AtomicU64::new(0),
            told: Mutex::default(),
            news: broadcast::channel(16).0,
        });
        let (samples, figures) = (sampler.clone(), sampler.clone());
        let agent = sources.agent.clone();
        // The agent in a thread of its own: a machine that does not answer must not stop the wire's clock.
        let ask = move || figures.ask(&agent);
        std::thread::Builder::new().name("agent".into()).spawn(ask).context(|| "cannot start the sampler".into())?;
        let run = move || samples.run(&sources);
        std::thread::Builder::new().name("sampler".into()).spawn(run).context(|| "cannot start the sampler".into())?;
        Ok(sampler)
    }

    /// Returns all samples that are kept, the oldest first.
    pub fn history(&self) -> Vec<Sample> {
        self.history.lock().map_or_else(|_| vec![], |history| history.iter().cloned().collect())
    }

    /// Returns the newest figures of the machine.
    pub fn latest(&self) -> Option<Snapshot> {
        self.latest.lock().ok().and_then(|latest| latest.clone())
    }

    /// Returns the newest figures that there were: a bill needs them also when the machine does not answer any more.
    pub fn last(&self) -> Option<Snapshot> {
        self.last.lock().ok().and_then(|last| last.clone())
    }

    /// How often the machine has answered.
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Says something of the whole machine to everybody who watches.
    pub fn tell(&self, text: &str) {
        if let Ok(mut told) = self.told.lock() {
            told.push(text.to_owned());
        }
    }

    /// What was said of the whole machine.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().map_or_else(|_| vec![], |told| told.clone())
    }

    /// What is wrong: of the machine, then of each tenant.
    pub fn troubles(&self) -> Vec<String> {
        let told = self.told();
        let tenants = self.last().map(|snapshot| sample::troubles(&snapshot)).unwrap_or_default();
        told.into_iter().chain(tenants).collect()
    }

    /// Gets every sample from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Sample> {
        self.news.subscribe()
    }

    fn run(&self, sources: &Sources) {
        let started = Instant::now();
        let mut before = self.look(sources);
        let mut next = started + PERIOD;
        loop {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next = (next + PERIOD).max(Instant::now());
            let now = self.look(sources);
            self.publish(Sample { troubles: self.troubles(), ..sample(sources, started, &before, &now) });
            before = now;
        }
    }

    fn look(&self, sources: &Sources) -> Before {
        Before { at: Instant::now(), wire: sources.wire.as_ref().map(|wire| wire.read()), machine: self.latest() }
    }

    /// Keeps the newest figures of the machine; none while its agent does not answer.
    fn ask(&self, agent: &Agent) {
        let mut next = Instant::now();
        loop {
            let answer = agent.snapshot().ok();
            if let (Some(_), Ok(mut last)) = (&answer, self.last.lock()) {
                last.clone_from(&answer);
                self.answers.fetch_add(1, Ordering::Relaxed);
            }
            if let Ok(mut latest) = self.latest.lock() {
                *latest = answer;
            }
            next = (next + PERIOD).max(Instant::now());
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    fn publish(&self, sample: Sample) {
        if let Ok(mut history) = self.history.lock() {
            if history.len() == HISTORY_LENGTH {
                history.pop_front();
            }
            history.push_back(sample.clone());
        }
        // Nobody watching is not a failure.
        let _ = self.news.send(sample);
    }
}

fn sample(sources: &Sources, started: Instant, before: &Before, now: &Before) -> Sample {
    Sample::of(&Window {
        at_s: (now.at - started).as_secs_f64(),
        seconds: (now.at - before.at).as_secs_f64(),
        shares: &sources.shares,
        link_bits_per_second: sources.link_bits_per_second,
        wire: before.wire.as_deref().zip(now.wire.as_deref()),
        machine: before
            .machine
            .as_ref()
            .zip(now.machine.as_ref())
            .filter(|(before, now)| now.uptime_ns > before.uptime_ns),
    })
}
