//! Signals that Linux has delivered to the launcher, for the program: its handlers note them here at any moment.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::signal::{Come, INFO_WORDS, Info, SIGNALS, bit};

/// Signals that have come, each once, with what is known of the last one.
#[derive(Debug)]
pub struct Arrivals {
    come: AtomicU64,
    infos: [[AtomicU64; INFO_WORDS]; SIGNALS],
}

impl Default for Arrivals {
    fn default() -> Self {
        let infos = [const { [const { AtomicU64::new(0) }; INFO_WORDS] }; SIGNALS];
        Self { come: AtomicU64::new(0), infos }
    }
}

impl Arrivals {
    /// Notes one with the first words of its `siginfo_t`. May be called in a handler.
    pub fn note(&self, signal: u32, info: &[u64; INFO_WORDS]) {
        let Some(places) = (signal as usize).checked_sub(1).and_then(|index| self.infos.get(index)) else { return };
        places.iter().zip(info).for_each(|(place, word)| place.store(*word, Ordering::Relaxed));
        self.come.fetch_or(bit(signal), Ordering::Release);
    }

    /// Takes the first one of these.
    pub fn take(&self, wanted: u64) -> Option<Come> {
        let come = self.come.load(Ordering::Acquire) & wanted;
        if come == 0 {
            return None;
        }
        let index = come.trailing_zeros();
        self.come.fetch_and(!(1 << index), Ordering::AcqRel);
        let words = self.infos.get(index as usize)?.each_ref().map(|word| word.load(Ordering::Relaxed));
        Some(Come { signal: index + 1, info: Info::of_words(words) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_come_once_each_as_they_are_wanted() {
        let (arrivals, mut words) = (Arrivals::default(), [0; INFO_WORDS]);
        for (signal, code) in [(12, 3), (10, 5), (12, 4)] {
            words[1] = code;
            arrivals.note(signal, &words);
        }
        let of = |come: Option<Come>| come.map(|come| (come.signal, come.info.code));
        assert_eq!(
            [!bit(10), !bit(10), u64::MAX, u64::MAX].map(|wanted| of(arrivals.take(wanted))),
            [Some((12, 4)), None, Some((10, 5)), None]
        );
    }
}
