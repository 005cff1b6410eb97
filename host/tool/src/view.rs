//! The live view of a machine: sampled once a second, shown in the terminal and on a page.

mod goals;
pub mod harmless;
mod latency;
pub mod metrics;
pub mod page;
mod roster;
pub mod sample;
pub mod sampler;
pub mod terminal;

pub use sample::Sample;
pub use sampler::Sampler;

/// Writes a time as people say it.
pub fn wait(us: f64) -> String {
    match us {
        _ if us < 1000.0 => format!("{us:.1} us"),
        _ if us < 1e6 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.1} s", us / 1e6),
    }
}
