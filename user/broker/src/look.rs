//! Looks: a sample of responses for laws that learn from them.
//!
//! A program that beats in a loop works at one beat at a time. If it used all that it held and its beats took longer than the time between
//! them, then the rest of their time was spent behind earlier beats. That is a queue, which no allocation of the present explains: a law that
//! took it for work would give ever more to who was late once.

use gyre_broker::{ResourceSet, Sample, resource::Parts};

use crate::{divided::parts, measure::Measured};

/// A tenant that uses this part of what it holds has no time left.
const BOUND: f64 = 0.9;

/// The surroundings of a measure.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The time since the last look, ns.
    pub wall_ns: u64,
    /// The resources that are divided.
    pub divided: ResourceSet,
    /// The parts that the tenant held.
    pub granted: Parts,
    /// The parts that it used.
    pub used: Parts,
}

/// Returns the sample of a look; nothing without times.
pub fn sample(measured: &Measured, look: &Look) -> Option<Sample> {
    let whole_ms = measured.mean_ms()?;
    let between_ms = look.wall_ns as f64 / 1e6 * f64::from(measured.loops) / measured.beats.max(1) as f64;
    let is_bound = |at: usize| look.used[at] >= BOUND * look.granted[at];
    let waits = measured.loops > 0 && look.divided.iter().any(|resource| is_bound(resource.index()));
    let response_ms = if waits { whole_ms.min(between_ms) } else { whole_ms };
    let beats = measured.beats;
    // what it had while it worked: more than it holds, if others slept meanwhile
    let busy_ns = (measured.sum_ns as f64).clamp(1.0, look.wall_ns.max(1) as f64);
    let had = |used: f64, granted: f64| (used * look.wall_ns as f64 / busy_ns).clamp(granted.min(1.0), 1.0);
    let granted = parts(look.divided, |resource| had(look.used[resource.index()], look.granted[resource.index()]));
    Some(Sample { granted, response_ms, waits_ms: whole_ms - response_ms, beats })
}

#[cfg(test)]
mod tests {
    use gyre_broker::Resource;
    use gyre_contract::goals::{BUCKETS, bucket_of};

    use super::*;

    fn look(wall_ns: u64, granted: f64, used: f64) -> Look {
        let divided = ResourceSet::of(&[Resource::Cpu]);
        Look { wall_ns, divided, granted: parts(divided, |_| granted), used: parts(divided, |_| used) }
    }

    /// Four beats of `ms` each within a quarter of a second.
    fn taken(ms: u64, used: f64, loops: u32) -> Sample {
        let mut buckets = vec![0; BUCKETS];
        buckets[bucket_of(ms * 1_000_000)] = 4;
        let measured = Measured { beats: 4, buckets, sum_ns: 4 * ms * 1_000_000, loops, ..Measured::default() };
        sample(&measured, &look(250_000_000, 0.2, used)).unwrap()
    }

    #[test]
    fn beats_that_take_longer_than_there_is_between_them_waited_for_the_processor() {
        let seen = taken(1000, 0.2, 1);
        assert_eq!((seen.response_ms, seen.waits_ms, seen.beats), (62.5, 937.5, 4));
    }

    #[test]
    fn time_is_no_queue_if_the_processor_was_not_used_or_others_answered_meanwhile() {
        for (used, loops) in [(0.1, 1), (0.2, 0)] {
            let seen = taken(1000, used, loops);
            assert_eq!((seen.response_ms, seen.waits_ms), (1000.0, 0.0), "{used} {loops}");
        }
        assert_eq!(taken(40, 0.2, 1).response_ms, 40.0);
    }

    #[test]
    fn who_counts_nothing_gives_no_sample() {
        assert_eq!(sample(&Measured { loops: 1, ..Measured::default() }, &look(0, 0.0, 0.0)), None);
    }
}
