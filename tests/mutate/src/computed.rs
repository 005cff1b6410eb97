//! How long a thread has computed: a busy host changes that little, and one that stands still does not change it at all.

use std::{path::PathBuf, time::Duration};

/// The processor time of a thread, which any thread of its process can look at while it lives.
#[derive(Clone, Debug)]
pub struct Computed {
    statistics: PathBuf,
}

impl Computed {
    /// Returns the time of the thread that calls this.
    ///
    /// # Panics
    /// On a system that does not count it.
    #[must_use]
    pub fn by_this_thread() -> Self {
        let thread = std::fs::read_link("/proc/thread-self").expect("/proc is mounted");
        let computed = Self { statistics: PathBuf::from("/proc").join(thread).join("schedstat") };
        assert!(computed.read().is_some(), "{} cannot be read", computed.statistics.display());
        computed
    }

    /// Returns how long the thread has computed since its start, and nothing if it has ended.
    #[must_use]
    pub fn so_far(&self) -> Duration {
        self.read().unwrap_or_default()
    }

    fn read(&self) -> Option<Duration> {
        let text = std::fs::read_to_string(&self.statistics).ok()?;
        text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_computes_nothing_and_whoever_computes_is_seen_by_others() {
        let computed = Computed::by_this_thread();
        let before = computed.so_far();
        std::thread::spawn({
            let computed = computed.clone();
            move || {
                let seen = computed.so_far();
                std::thread::sleep(Duration::from_millis(300));
                assert!(computed.so_far() - seen < Duration::from_millis(200), "the other one waits for this thread");
            }
        })
        .join()
        .unwrap();
        while computed.so_far() < before + Duration::from_millis(20) {}
    }
}
