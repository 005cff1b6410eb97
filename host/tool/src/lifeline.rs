//! Connections to a zone's agent that end with the zone.
//!
//! A kernel that panics, hangs or is ended closes nothing: whoever reads from it would wait for ever. Its supervisor is asked each second, and
//! once more if the connection ends before: the next kernel of a zone closes what is left of the one before.

use std::{
    io,
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::{Arc, OnceLock},
    time::Duration,
};

use gyre_contract::zones::{State, View};

use crate::{
    agent::Agent,
    failure::{Context as _, Failure, Result},
    zone::words,
};

/// How often the supervisor is asked.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Looks at a zone whose connection has ended by itself, and the pause between two of them.
const LAST_LOOKS: usize = 8;
const LAST_PAUSE: Duration = Duration::from_millis(250);

/// One life of a zone, from its creation to its end.
#[derive(Clone)]
pub struct Life {
    supervisor: Agent,
    zone: String,
    created: u32,
}

impl Life {
    /// The life that a zone has now; none if the supervisor does not say.
    pub fn now(supervisor: Agent, zone: &str) -> Option<Self> {
        let created = view(&supervisor, zone)?.created;
        Some(Self { supervisor, zone: zone.to_owned(), created })
    }

    /// Waits until it is over, and says how it ended.
    fn end(&self) -> String {
        loop {
            std::thread::sleep(LOOK_AGAIN);
            if let Some(why) = self.look() {
                return why;
            }
        }
    }

    /// Says how it ended, if it has. Silence is no answer: if the machine ends, the connection does.
    fn look(&self) -> Option<String> {
        view(&self.supervisor, &self.zone).and_then(|view| self.over(&view.state, view.created))
    }

    fn over(&self, state: &State, created: u32) -> Option<String> {
        let zone = &self.zone;
        match state {
            State::Absent | State::Ended { .. } | State::Crashed { .. } | State::Vacant => {
                Some(format!("zone `{zone}` does not run any more: it is {}", words::state(state)))
            }
            _ if created != self.created => Some(format!("zone `{zone}` ended, and was made again")),
            State::Booting | State::Running | State::Ending => None,
        }
    }
}

fn view(supervisor: &Agent, zone: &str) -> Option<View> {
    supervisor.zones().ok()?.zones.into_iter().find(|view| view.name == zone)
}

/// A connection that is closed when a life is over.
pub struct Lifeline {
    life: Option<Life>,
    why: Arc<OnceLock<String>>,
}

impl Lifeline {
    /// Holds a connection; without a life it only ends by itself.
    ///
    /// # Errors
    /// When this process can open no further file, or start no thread.
    pub fn new(life: Option<Life>, stream: &UnixStream) -> Result<Self> {
        let why = Arc::new(OnceLock::new());
        if let Some(life) = life.clone() {
            let (said, stream) = (why.clone(), stream.try_clone().context(|| "cannot watch the zone".into())?);
            let watch = move || {
                let _ = said.set(life.end());
                let _ = stream.shutdown(Shutdown::Both);
            };
            std::thread::Builder::new()
                .name("lifeline".into())
                .spawn(watch)
                .context(|| "cannot watch the zone".into())?;
        }
        Ok(Self { life, why })
    }

    /// Returns the end of the life as a failure, if it is over.
    pub fn why(&self) -> Option<Failure> {
        self.why.get().map(Failure::new)
    }

    /// Passes on what a read answered; a failure, and the end of a connection that was closed here, say why.
    ///
    /// # Errors
    /// When the read failed, or the zone has ended.
    pub fn heard(&self, read: io::Result<usize>) -> Result<usize> {
        match (read, self.why.get()) {
            (Ok(0) | Err(_), Some(why)) => Err(Failure::new(why)),
            (Err(error), None) => match self.life.as_ref().and_then(|life| soon(|| life.look())) {
                Some(why) => Err(Failure::new(why)),
                None => Err(error).context(|| "the machine closed the connection".into()),
            },
            (read, _) => read.context(|| "the machine closed the connection".into()),
        }
    }
}

/// Returns what one of some looks finds.
fn soon(mut look: impl FnMut() -> Option<String>) -> Option<String> {
    let looks = (0..LAST_LOOKS).map(|number| {
        std::thread::sleep(if number == 0 { Duration::ZERO } else { LAST_PAUSE });
        look()
    });
    looks.flatten().next()
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, path::Path};

    use super::*;

    fn life() -> Life {
        Life { supervisor: Agent::at(Path::new("/nowhere")), zone: "frail".into(), created: 2 }
    }

    #[test]
    fn a_life_is_over_when_its_zone_ends_or_has_another_one() {
        assert_eq!(life().over(&State::Running, 2), None);
        assert_eq!(life().over(&State::Ending, 2), None, "its programs may still speak");
        assert!(life().over(&State::Running, 3).unwrap().contains("made again"));
        assert!(life().over(&State::Ended { code: 4 }, 2).unwrap().contains("ended (code 4)"));
    }

    #[test]
    fn who_reads_hears_why() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let line = Lifeline { life: None, why: Arc::new(OnceLock::new()) };
        line.why.set("zone `frail` ended".into()).unwrap();
        far.shutdown(Shutdown::Both).unwrap();
        let heard = line.heard(near.read(&mut [0]));
        assert!(format!("{:?}", heard.unwrap_err().report).contains("zone `frail` ended"));
        assert_eq!(line.heard(Ok(3)).unwrap(), 3, "words that came before are passed on");
    }

    #[test]
    fn a_connection_that_ends_before_the_next_look_waits_for_the_word_of_the_supervisor() {
        let mut looks = 0;
        let found = soon(|| {
            looks += 1;
            (looks == 3).then(|| "made again".to_owned())
        });
        assert_eq!((found.as_deref(), looks), (Some("made again"), 3));
        assert_eq!(soon(|| None), None);
    }
}
