//! A day of a service beside batch work on three cores, as `gyre exp zone-tail` recorded it of zones on 2026-11-26.
//!
//! The law of that day gave a core back whenever the service was early: one core was late from 0.69 of its load on, two were early up to 1.3.

/// The upper threshold of that day, ms.
pub const UPPER_MS: f64 = 102.0;
/// Windows of the day.
pub const WINDOWS: usize = 40;

/// A window: load in parts of what one core serves, 99th percentile in ms, cores of the service.
type Hour = (f64, f64, usize);

#[rustfmt::skip]
pub const RECORDED: [Hour; WINDOWS] = [
    (0.25, 17.3, 1), (0.26, 18.1, 1), (0.28, 15.5, 1), (0.31, 20.7, 1), (0.35, 22.8, 1), (0.40, 22.4, 1), (0.47, 30.4, 1), (0.54, 29.3, 1),
    (0.61, 45.3, 1), (0.69, 522.7, 1), (0.77, 564.8, 2), (0.86, 93.9, 2), (0.94, 219.5, 2), (1.01, 16.3, 2), (1.08, 144.3, 1), (1.15, 188.0, 1),
    (1.20, 456.0, 1), (1.24, 434.3, 2), (1.27, 38.3, 2), (1.29, 47.6, 2), (1.30, 33.5, 2), (1.29, 41.5, 2), (1.27, 35.5, 2), (1.24, 34.5, 2),
    (1.20, 40.6, 2), (1.15, 31.2, 2), (1.08, 130.4, 1), (1.01, 74.6, 1), (0.94, 115.7, 1), (0.86, 106.6, 2), (0.78, 24.9, 2), (0.69, 18.1, 2),
    (0.61, 40.4, 1), (0.54, 27.6, 1), (0.47, 51.1, 1), (0.40, 34.8, 1), (0.35, 24.7, 1), (0.31, 24.5, 1), (0.28, 20.3, 1), (0.26, 19.2, 1),
];

/// Returns the load of a window.
pub fn load(window: usize) -> f64 {
    RECORDED[window].0
}

/// Returns the percentile of a window with so many cores, after one with so many: that of the recorded window with the same cores, and the same
/// before it, whose load is nearest. So the questions that a late window leaves to the next one are in it.
pub fn percentile_ms(window: usize, before: usize, cores: usize) -> f64 {
    let is_like = |at: &usize| RECORDED[*at].2 == cores && RECORDED[at.saturating_sub(1)].2 == before;
    let far = |at: &usize| ((load(*at) - load(window)).abs(), at.abs_diff(window));
    let nearest = (0..WINDOWS).filter(is_like).min_by(|one, other| far(one).partial_cmp(&far(other)).expect("numbers"));
    RECORDED[nearest.expect("each number of cores follows on each")].1
}
