//! A thread that looks at the machine once a second and tells everybody who watches.
//!
//! * Until an instance has answered once it is asked more often, each time for a short while: each end is to have a bill.
//! * Each kernel instance is asked by a thread of its own: one that does not answer holds up neither the wire's clock nor
//!   the others. Its figures of a second are missing then, and come back with it.
//! * A supervisor is asked for its zones, too.
//! * [`Sampler::latest`] is the newest answer, none if there is none; [`Sampler::last`] the newest that there ever was.
//!
//! Watchers get samples by a channel that drops them for who is too slow.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gyre_contract::{
    bill::Bill,
    monitor::Snapshot,
    zones::{View, Zones},
};
use tokio::sync::broadcast;

use super::{
    goals::Goals,
    latency::{self, Answers},
    roster::Roster,
    sample::{self, Sample, Window},
};
use crate::{
    agent::{self, Agent},
    failure::{Context as _, Result},
    instances::{Instance, Instances},
    wire::{Counters, Figures},
};

const PERIOD: Duration = Duration::from_secs(1);
/// Time between two tries to get the first answer.
const FIRST_PERIOD: Duration = Duration::from_millis(100);
/// How long the first of these tries may take; each one after it may take twice as long, so that a slow machine is heard too.
const FIRST_TRY: Duration = Duration::from_millis(300);
/// How often the first answer is tried so; an instance that starts later is asked each second.
const FIRST_TRIES: u32 = 600;
/// Ten minutes.
const HISTORY_LENGTH: usize = 600;

/// The sources of a sampler's figures.
pub struct Sources {
    /// The machine's name.
    pub machine: String,
    /// The link's rate.
    pub link_bits_per_second: Option<u64>,
    /// The wire, if this program holds it.
    pub wire: Option<Arc<Counters>>,
    /// The agents of the kernel instances: the only one, or the supervisor and its zones.
    pub agents: Vec<Agent>,
    /// Which zone each of them is.
    pub roster: Arc<Roster>,
    /// The last line of each zone's console, if this program follows them.
    pub lines: LastLines,
}

/// The last line of each zone's console.
#[derive(Clone, Default)]
pub struct LastLines(Arc<Mutex<BTreeMap<String, String>>>);

impl LastLines {
    /// Keeps a line of a zone in place of the one before.
    pub fn keep(&self, zone: &str, line: &str) {
        if let Ok(mut lines) = self.0.lock() {
            lines.insert(zone.to_owned(), line.to_owned());
        }
    }

    /// Returns the last line of a zone; empty if it has none.
    fn of(&self, zone: &str) -> String {
        self.0.lock().ok().and_then(|lines| lines.get(zone).cloned()).unwrap_or_default()
    }
}

impl Sources {
    /// Makes the sources for all instances of a machine.
    pub fn of(machine: &str, instances: &Instances) -> Self {
        Self {
            machine: machine.to_owned(),
            link_bits_per_second: None,
            wire: None,
            agents: instances.all.iter().map(|one| instances.agent(one)).collect(),
            roster: Roster::of(instances),
            lines: LastLines::default(),
        }
    }
}

/// Time between two questions for goals, while there are some and while there are none.
const GOALS_EVERY: Duration = Duration::from_secs(2);
const GOALS_SELDOM: Duration = Duration::from_secs(10);

/// The samples of a machine.
pub struct Sampler {
    /// The machine's name.
    pub machine: String,
    history: Mutex<VecDeque<Sample>>,
    /// The last words of each instance.
    voices: Vec<Voice>,
    /// The last word of the supervisor on its zones.
    zones: Mutex<Option<Zones>>,
    /// The last word on goals; none if nobody has one.
    goals: Mutex<Option<Goals>>,
    /// The answers of tenants between the last two words on goals, of each instance by its zone.
    answers: Mutex<BTreeMap<Option<String>, BTreeMap<String, Answers>>>,
    /// Which zone each instance is; none if there is nothing to look at.
    roster: Option<Arc<Roster>>,
    is_over: AtomicBool,
    /// Troubles that the figures do not show.
    told: Mutex<Vec<String>>,
    news: broadcast::Sender<Sample>,
}

/// An instance's last two answers.
pub struct Look {
    /// Its zone; none for the supervisor, or the only instance.
    pub zone: Option<String>,
    /// The answer before the last.
    pub before: Option<Snapshot>,
    /// The last answer.
    pub last: Option<Snapshot>,
}

/// One instance, as far as it has answered.
#[derive(Default)]
struct Voice {
    latest: Mutex<Option<Snapshot>>,
    /// The newest figures that there were, also of an instance that does not answer any more.
    last: Mutex<Option<Snapshot>>,
    /// Those before them.
    before: Mutex<Option<Snapshot>>,
    answers: AtomicU64,
}

impl Voice {
    fn latest(&self) -> Option<Snapshot> {
        self.latest.lock().ok().and_then(|latest| latest.clone())
    }

    fn last(&self) -> Option<Snapshot> {
        self.last.lock().ok().and_then(|last| last.clone())
    }

    fn hear(&self, answer: Option<Snapshot>) {
        if let (Some(_), Ok(mut last), Ok(mut before)) = (&answer, self.last.lock(), self.before.lock()) {
            *before = last.take();
            last.clone_from(&answer);
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        if let Ok(mut latest) = self.latest.lock() {
            *latest = answer;
        }
    }
}

struct Before {
    at: Instant,
    wire: Option<Vec<Figures>>,
    machines: Vec<Option<Snapshot>>,
}

impl Sampler {
    /// Starts to look, until the process ends or [`Sampler::end`].
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn start(sources: Sources) -> Result<Arc<Self>> {
        let sampler = Arc::new(Self {
            machine: sources.machine.clone(),
            history: Mutex::default(),
            voices: sources.agents.iter().map(|_| Voice::default()).collect(),
            zones: Mutex::default(),
            goals: Mutex::default(),
            answers: Mutex::default(),
            roster: Some(sources.roster.clone()),
            is_over: AtomicBool::new(false),
            told: Mutex::default(),
            news: broadcast::channel(16).0,
        });
        // Each agent in a thread of its own: an instance that does not answer must not stop the wire's clock, nor another's.
        for (index, agent) in sources.agents.iter().enumerate() {
            let (figures, agent) = (sampler.clone(), agent.clone());
            spawn("agent", move || {
                figures.ask_first(index, &agent);
                figures.each_second(|| figures.ask(index, &agent));
            })?;
        }
        if let [supervisor, _, ..] = &sources.agents[..] {
            let (zones, agent) = (sampler.clone(), supervisor.clone());
            spawn("zones", move || zones.each_second(|| zones.ask_zones(&agent)))?;
        }
        for (index, agent) in sources.agents.iter().enumerate() {
            let (goals, agent) = (sampler.clone(), agent.clone());
            spawn("goals", move || goals.follow_goals(index, &agent))?;
        }
        let samples = sampler.clone();
        spawn("sampler", move || samples.run(&sources))?;
        Ok(sampler)
    }

    /// Makes one that has nothing to look at: the machine has ended.
    pub fn of_the_past(machine: &str) -> Arc<Self> {
        Arc::new(Self {
            machine: machine.to_owned(),
            history: Mutex::default(),
            voices: vec![],
            zones: Mutex::default(),
            goals: Mutex::default(),
            answers: Mutex::default(),
            roster: None,
            is_over: AtomicBool::new(true),
            told: Mutex::default(),
            news: broadcast::channel(1).0,
        })
    }

    /// Looks no more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn each_second(&self, mut ask: impl FnMut()) {
        let mut next = Instant::now();
        while !self.is_over() {
            ask();
            next = (next + PERIOD).max(Instant::now());
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    /// Returns the last two answers of each instance.
    pub fn looks(&self) -> Vec<Look> {
        let before = |voice: &Voice| voice.before.lock().ok().and_then(|before| before.clone());
        let look = |(index, voice): (usize, &Voice)| Look {
            zone: self.zone(index),
            before: before(voice),
            last: voice.last(),
        };
        self.voices.iter().enumerate().map(look).collect()
    }

    fn zone(&self, index: usize) -> Option<String> {
        self.roster.as_ref().and_then(|roster| roster.zone(index))
    }

    /// Returns all samples that are kept, the oldest first.
    pub fn history(&self) -> Vec<Sample> {
        self.history.lock().map_or_else(|_| vec![], |history| history.iter().cloned().collect())
    }

    /// Returns the newest figures of the machine, or of its supervisor.
    pub fn latest(&self) -> Option<Snapshot> {
        self.voices.first().and_then(Voice::latest)
    }

    /// Returns the newest figures that there were of each instance: a bill needs them also when it does not answer any more.
    pub fn last(&self) -> Vec<Option<Snapshot>> {
        self.voices.iter().map(Voice::last).collect()
    }

    /// Returns what the supervisor said last of its zones.
    pub fn zones(&self) -> Option<Zones> {
        self.zones.lock().ok().and_then(|zones| zones.clone())
    }

    /// How often the machine, or its supervisor, has answered.
    pub fn answers(&self) -> u64 {
        self.voices.first().map_or(0, |voice| voice.answers.load(Ordering::Relaxed))
    }

    /// Says something of the whole machine to everybody who watches.
    pub fn tell(&self, text: &str) {
        if let Ok(mut told) = self.told.lock() {
            told.push(text.to_owned());
        }
    }

    /// Returns the troubles of the whole machine that were told.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().map_or_else(|_| vec![], |told| told.clone())
    }

    /// Returns all troubles: of the machine, of zones, then of each tenant.
    pub fn troubles(&self) -> Vec<String> {
        let zones = self.zones().as_ref().map(sample::zone_troubles).unwrap_or_default();
        let tenants = self.last().into_iter().flatten().flat_map(|snapshot| sample::troubles(&snapshot));
        self.told().into_iter().chain(zones).chain(tenants).collect()
    }

    /// Gets every sample from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Sample> {
        self.news.subscribe()
    }

    fn run(&self, sources: &Sources) {
        let started = Instant::now();
        let mut before = self.look(sources);
        let mut next = started + PERIOD;
        while !self.is_over() {
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next = (next + PERIOD).max(Instant::now());
            let now = self.look(sources);
            let mut sample = sample(sources, started, &before, &now);
            self.add_answers(&mut sample);
            let goals = self.goals.lock().ok().and_then(|goals| goals.clone());
            self.publish(Sample { troubles: self.troubles(), zones: self.zones_now(sources, &now), goals, ..sample });
            before = now;
        }
    }

    fn look(&self, sources: &Sources) -> Before {
        sources.roster.look();
        Before {
            at: Instant::now(),
            wire: sources.wire.as_ref().map(|wire| wire.read()),
            machines: self.voices.iter().map(Voice::latest).collect(),
        }
    }

    fn zones_now(&self, sources: &Sources, now: &Before) -> Vec<sample::Zone> {
        let (zones, roster) = (self.zones().unwrap_or_default(), sources.roster.now());
        let of = |view: &View| {
            let at = roster.iter().position(|one| one.zone.as_ref() == Some(&view.name));
            let snapshot = at.and_then(|at| now.machines.get(at)?.as_ref());
            // The console of a place keeps the place's name.
            let place = at.and_then(|at| roster.get(at)?.place.as_ref());
            let last_line = sources.lines.of(place.unwrap_or(&view.name));
            sample::Zone { bill: snapshot.map(Bill::of), last_line, ..sample::Zone::of(view) }
        };
        zones.zones.iter().map(of).collect()
    }

    /// Asks an instance until it has answered once.
    fn ask_first(&self, index: usize, agent: &Agent) {
        let mut patience = FIRST_TRY;
        for _ in 0..FIRST_TRIES {
            if self.is_over() {
                return;
            }
            if let Ok(answer) = agent.snapshot_within(patience) {
                return self.hear(index, Some(answer));
            }
            patience = (patience * 2).min(agent::PATIENCE);
            std::thread::sleep(FIRST_PERIOD);
        }
    }

    /// Keeps the newest figures of an instance; none while its agent does not answer.
    fn ask(&self, index: usize, agent: &Agent) {
        self.hear(index, agent.snapshot().ok());
    }

    fn hear(&self, index: usize, answer: Option<Snapshot>) {
        if let Some(voice) = self.voices.get(index) {
            voice.hear(answer);
        }
    }

    fn ask_zones(&self, agent: &Agent) {
        if let (Ok(answer), Ok(mut zones)) = (agent.zones(), self.zones.lock()) {
            *zones = Some(answer);
        }
    }

    /// Asks an instance for goals and answers: seldom while nobody has a goal and nobody watches, as each answer costs the machine something.
    /// Goals are those of the first instance.
    fn follow_goals(&self, index: usize, agent: &Agent) {
        let mut before: Option<gyre_contract::goals::Goals> = None;
        while !self.is_over() {
            let zone = self.zone(index);
            let shown = agent.goals().ok();
            let goals = shown.as_ref().and_then(Goals::of);
            if let (Some(before), Some(now), Ok(mut answers)) = (&before, &shown, self.answers.lock()) {
                answers.insert(zone, latency::between(before, &now.goals));
            }
            before = shown.map(|shown| shown.goals);
            let is_watched = goals.is_some() || self.news.receiver_count() > 0;
            if let (0, Ok(mut own)) = (index, self.goals.lock()) {
                *own = goals;
            }
            std::thread::sleep(if is_watched { GOALS_EVERY } else { GOALS_SELDOM });
        }
    }

    fn add_answers(&self, sample: &mut Sample) {
        let Ok(answers) = self.answers.lock() else { return };
        for tenant in &mut sample.tenants {
            tenant.answers = answers.get(&tenant.zone).and_then(|own| own.get(&tenant.name)).copied();
        }
    }

    fn publish(&self, sample: Sample) {
        if let Ok(mut history) = self.history.lock() {
            if history.len() == HISTORY_LENGTH {
                history.pop_front();
            }
            history.push_back(sample.clone());
        }
        // A view without watchers is no failure.
        let _ = self.news.send(sample);
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(run).context(|| "cannot start the sampler".into())?;
    Ok(())
}

fn sample(sources: &Sources, started: Instant, before: &Before, now: &Before) -> Sample {
    let roster = sources.roster.now();
    let of = |(index, instance): (usize, &Instance)| {
        let machine = |looked: &'_ Before| looked.machines.get(index).and_then(Option::as_ref).cloned();
        let (earlier, later) = (machine(before), machine(now));
        Sample::of(&Window {
            zone: instance.zone.as_deref(),
            at_s: (now.at - started).as_secs_f64(),
            seconds: (now.at - before.at).as_secs_f64(),
            shares: &instance.tenants,
            link_bits_per_second: sources.link_bits_per_second,
            wire: before.wire.as_deref().zip(now.wire.as_deref()),
            machine: earlier.as_ref().zip(later.as_ref()).filter(|(before, now)| now.uptime_ns > before.uptime_ns),
        })
    };
    let mut parts = roster.iter().enumerate().map(of);
    let first = parts.next().unwrap_or_default();
    first.join(parts)
}
