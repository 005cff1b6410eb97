//! The age of a broker's last word, in time that the machine had.
//!
//! A machine whose host stopped it finds later that a long time has passed, in which nobody could say anything: of each time between two looks
//! no more counts than twice what was meant.

use std::time::Duration;

/// Windows that a broker may miss.
const WINDOWS: u32 = 10;

/// How often a broker is looked at, and how long it may be silent at least.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Time between two looks.
    pub look: Duration,
    /// It may be silent for so long, and for ten windows.
    pub least: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { look: Duration::from_secs(2), least: Duration::from_secs(30) }
    }
}

/// The silence of a broker.
#[derive(Debug, Default)]
pub struct Watch {
    window: Duration,
    silent: Duration,
}

impl Watch {
    /// A broker begins, with such windows.
    pub fn begin(&mut self, window: Duration) {
        *self = Watch { window, silent: Duration::ZERO };
    }

    /// It has said something.
    pub fn hear(&mut self) {
        self.silent = Duration::ZERO;
    }

    /// Lets the time between two looks pass; answers how long the broker has been silent, if that is too long.
    pub fn pass(&mut self, passed: Duration, patience: &Patience) -> Option<Duration> {
        self.silent = self.silent.saturating_add(passed.min(patience.look.saturating_mul(2)));
        (self.silent > patience.least.max(self.window.saturating_mul(WINDOWS))).then_some(self.silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PATIENCE: Patience = Patience { look: SECOND, least: Duration::from_secs(30) };

    /// Looks that a silent broker survives, with windows of so many seconds.
    fn looks(window_s: u32) -> u32 {
        let mut watch = Watch::default();
        watch.begin(SECOND * window_s);
        (1..).find(|_| watch.pass(SECOND, &PATIENCE).is_some()).unwrap_or(0)
    }

    #[test]
    fn a_broker_is_given_up_after_half_a_minute_and_ten_windows() {
        assert_eq!((looks(0), looks(3), looks(600)), (31, 31, 6001));
    }

    #[test]
    fn time_that_the_machine_did_not_have_and_time_before_a_word_do_not_count() {
        let mut watch = Watch::default();
        watch.begin(SECOND);
        assert_eq!(watch.pass(SECOND * 3600, &PATIENCE), None);
        (0..28).for_each(|_| assert_eq!(watch.pass(SECOND, &PATIENCE), None));
        watch.hear();
        (0..30).for_each(|_| assert_eq!(watch.pass(SECOND, &PATIENCE), None));
        assert_eq!(watch.pass(SECOND, &PATIENCE), Some(SECOND * 31));
    }
}
