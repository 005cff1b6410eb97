//! Load averages: how many threads of a tenant ran or waited to, over 1, 5 and 15 minutes.
//!
//! Linux samples every 5 s. Nothing samples here: the running and waiting times of a tenant's threads are in the
//! ledger. So the mean since the last look is exact, and at each look the averages fade by as many steps of 5 s as
//! have passed.

/// Bits behind the point of an average.
pub const FRACTION_BITS: u32 = 20;
const ONE: u64 = 1 << FRACTION_BITS;
const STEP_NS: u64 = 5_000_000_000;
/// The rest of an average after a step: e^(-5 s / 1, 5, 15 min).
const LEFT: [u64; 3] = [964_736, 1_031_245, 1_042_767];

/// The averages as of the last look.
#[derive(Debug, Default)]
pub struct LoadAverages {
    at_ns: u64,
    /// The wanted time until then, ns of threads.
    wanted_ns: u64,
    averages: [u64; 3],
}

impl LoadAverages {
    /// Looks at `now_ns`: until then threads ran or waited for `wanted_ns` altogether. Answers threads, in parts of 2^-[`FRACTION_BITS`].
    pub fn look(&mut self, now_ns: u64, wanted_ns: u64) -> [u64; 3] {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        let steps = elapsed_ns / STEP_NS;
        if steps == 0 {
            return self.averages;
        }
        let wanted = u128::from(wanted_ns.saturating_sub(self.wanted_ns));
        let mean = part(wanted, u128::from(ONE), elapsed_ns).min(u64::MAX >> FRACTION_BITS);
        for (average, left) in self.averages.iter_mut().zip(LEFT) {
            let left = power(left, steps);
            let faded = u128::from(*average).saturating_mul(u128::from(left));
            let fresh = u128::from(mean).saturating_mul(u128::from(ONE.saturating_sub(left)));
            *average = (faded.saturating_add(fresh) >> FRACTION_BITS) as u64;
        }
        let looked_ns = steps.saturating_mul(STEP_NS);
        self.at_ns = self.at_ns.saturating_add(looked_ns);
        self.wanted_ns = self.wanted_ns.saturating_add(part(wanted, u128::from(looked_ns), elapsed_ns));
        self.averages
    }
}

/// Returns `amount * times / whole`, at most the largest `u64`.
fn part(amount: u128, times: u128, whole: u64) -> u64 {
    let part = amount.saturating_mul(times).checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Returns the product of two parts of [`ONE`].
fn product(a: u64, b: u64) -> u64 {
    a.saturating_mul(b) >> FRACTION_BITS
}

/// Returns a part of [`ONE`] multiplied with itself.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = ONE;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = product(result, base);
        }
        base = product(base, base);
        exponent >>= 1;
    }
    result
}

/// Returns an average as /proc/loadavg shows it: whole threads and hundredths.
pub fn shown(average: u64) -> (u64, u64) {
    let hundredths = average.saturating_mul(100).saturating_add(ONE / 2) >> FRACTION_BITS;
    (hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn averages_rise_and_fall_as_those_that_are_sampled() {
        let mut load = LoadAverages::default();
        assert_eq!(load.look(4 * S, 8 * S), [0; 3], "no step has passed");
        for second in 5..=60 {
            load.look(second * S, second * 2 * S);
        }
        // 2 (1 - 1/e), as after a minute of samples
        assert_eq!(load.averages.map(shown), [(1, 26), (0, 36), (0, 13)]);
        let rest = load.look(120 * S, 120 * S);
        assert_eq!(shown(rest[0]), (0, 47), "nothing ran for a minute: 1.26 / e");
    }

    #[test]
    fn one_look_after_long_is_the_mean_of_that_time() {
        let mut load = LoadAverages::default();
        let averages = load.look(7 * 86_400 * S, 3 * 7 * 86_400 * S);
        assert!(averages.iter().all(|average| average.abs_diff(3 * ONE) < ONE / 100), "{averages:?}");
        assert!(load.look(u64::MAX, u64::MAX).iter().all(|average| *average <= 4 * ONE));
    }
}
