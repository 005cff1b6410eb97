//! For output that is no terminal: a line each second, or the machine's console as it comes.

use std::{
    io::{Read as _, Write as _},
    time::Duration,
};

use gyre_config::file::units;

use super::Running;
use crate::{
    failure::{Context as _, Result},
    ui,
    view::{Sample, Sampler},
};

const STEP: Duration = Duration::from_millis(50);

/// Says a line for each sample until it is over.
///
/// # Errors
/// What `over` says.
pub fn watch(sampler: &Sampler, over: &mut impl FnMut() -> Result<bool>) -> Result<()> {
    let mut samples = sampler.subscribe();
    while !over()? {
        while let Ok(sample) = samples.try_recv() {
            ui::say(&line(&sample));
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}

fn line(sample: &Sample) -> String {
    let rate = units::show_bits_per_second(sample.sent_bits_per_second);
    let mut text = format!("{:4.0} s  {rate:>12}", sample.at_s);
    for tenant in sample.tenants.iter().filter(|tenant| tenant.entitled_percent > 0.0) {
        text += &format!("  {} {:4.1} %", tenant.name, tenant.sent_percent);
    }
    text
}

/// Copies the console to standard output until it is over.
///
/// # Errors
/// What `over` says.
pub fn console(running: &mut Running, mut over: impl FnMut(&mut Running) -> Result<bool>) -> Result<()> {
    let reading = || "cannot read the console".to_owned();
    let mut file = std::fs::File::open(&running.console).context(reading)?;
    loop {
        let ended = over(running);
        let mut bytes = vec![];
        file.read_to_end(&mut bytes).context(reading)?;
        std::io::stdout().write_all(&bytes).context(|| "cannot write to standard output".into())?;
        if ended? {
            return Ok(());
        }
        std::thread::sleep(STEP);
    }
}
