//! One line a second, for output that is no terminal.

use std::time::{Duration, Instant};

use gyre_config::file::units;

use super::{Running, is_over};
use crate::{
    cli,
    failure::Result,
    stop::Stop,
    ui,
    wire::Figures,
};

/// Watches a machine until it is to end.
///
/// # Errors
/// When the machine stops by itself.
pub fn watch(running: &mut Running, arguments: &cli::Run, stop: &Stop) -> Result<()> {
    let started = Instant::now();
    let mut before = running.wire.counters.read();
    let mut last = started;
    while !is_over(running, started, arguments.duration, stop)? {
        std::thread::sleep(Duration::from_millis(50));
        if last.elapsed() >= Duration::from_secs(1) {
            let now = running.wire.counters.read();
            ui::say(&line(started.elapsed(), last.elapsed(), &before, &now));
            (before, last) = (now, Instant::now());
        }
    }
    Ok(())
}

fn line(since: Duration, window: Duration, before: &[Figures], now: &[Figures]) -> String {
    let sent: Vec<(&str, u64)> =
        now.iter().zip(before).map(|(now, before)| (now.name.as_str(), now.sent_bytes - before.sent_bytes)).collect();
    let sum: u64 = sent.iter().map(|(_, bytes)| bytes).sum();
    let rate = units::show_bits_per_second(sum as f64 * 8.0 / window.as_secs_f64());
    let mut text = format!("{:4.0} s  {rate:>12}", since.as_secs_f64());
    for (name, bytes) in sent.iter().filter(|(name, _)| *name != "system" && *name != "other") {
        text += &format!("  {name} {:4.1} %", *bytes as f64 * 100.0 / sum.max(1) as f64);
    }
    text
}
