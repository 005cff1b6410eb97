//! Ticks at round numbers.

/// Steps that are round, as parts of a power of ten.
const ROUND: [f64; 5] = [1.0, 2.0, 2.5, 5.0, 10.0];

/// An axis from 0 on.
pub struct Scale {
    /// Its end.
    pub high: f64,
    /// The distance of its ticks.
    pub step: f64,
}

impl Scale {
    /// Makes an axis that holds all values, ends at a tick, and has about so many.
    pub fn holding(values: impl Iterator<Item = f64>, ticks: f64) -> Self {
        let high = values.filter(|value| value.is_finite()).fold(1e-9, f64::max) * 1.05;
        let step = step(high / ticks);
        Self { high: (high / step).ceil() * step, step }
    }

    /// Makes an axis that ends at a value.
    pub fn until(high: f64, ticks: f64) -> Self {
        Self { high, step: step(high / ticks) }
    }

    /// Returns the ticks with their words.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let count = (self.high / self.step * 1.000_001).floor().clamp(0.0, 1000.0) as u32;
        (0..=count).map(|index| f64::from(index) * self.step).map(|value| (value, self.words(value))).collect()
    }

    /// A tick is as exact as the step.
    fn words(&self, value: f64) -> String {
        let decimals = (1.0 - self.step.log10().floor()).clamp(0.0, 9.0) as usize;
        let text = format!("{value:.decimals$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }
}

fn step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    ROUND.map(|factor| factor * power).into_iter().find(|step| *step >= rough * 0.999_999).unwrap_or(rough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_hold_all_values_and_step_by_round_numbers() {
        for high in [0.0004, 0.9, 7.0, 49.9, 50.1, 123_456.0] {
            let scale = Scale::holding([high].into_iter(), 5.0);
            assert!(scale.high >= high);
            assert!((2.0..=12.0).contains(&(scale.high / scale.step)), "{high}: {} by {}", scale.high, scale.step);
        }
    }

    #[test]
    fn ticks_are_even_and_say_what_they_are() {
        let words = |scale: &Scale| scale.ticks().into_iter().map(|(_, words)| words).collect::<Vec<_>>();
        assert_eq!(words(&Scale::until(9.0, 5.0)), ["0", "2", "4", "6", "8"]);
        assert_eq!(words(&Scale::until(19.0, 5.0)), ["0", "5", "10", "15"]);
        assert_eq!(words(&Scale::holding([0.09].into_iter(), 5.0)), ["0", "0.02", "0.04", "0.06", "0.08", "0.1"]);
        assert_eq!(words(&Scale::holding([9.0].into_iter(), 4.0)), ["0", "2.5", "5", "7.5", "10"]);
    }
}
