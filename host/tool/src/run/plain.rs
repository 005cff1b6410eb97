//! For output that is no terminal: a line each second, or the machine's console as it comes.

use std::{
    io::{Read as _, Write as _},
    path::Path,
    time::Duration,
};

use gyre_config::file::units;

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

/// Starts to copy the machine's console to standard output, as it comes.
///
/// # Errors
/// When it cannot be read.
pub fn console(path: &Path) -> Result<()> {
    let reading = || "cannot read the console".to_owned();
    let mut file = std::fs::File::options().create(true).append(true).read(true).open(path).context(reading)?;
    let copy = move || {
        loop {
            let mut bytes = vec![];
            let read = file.read_to_end(&mut bytes).and_then(|_| std::io::stdout().write_all(&bytes));
            if read.and_then(|()| std::io::stdout().flush()).is_err() {
                return;
            }
            std::thread::sleep(STEP);
        }
    };
    std::thread::Builder::new().name("console".into()).spawn(copy).context(reading)?;
    Ok(())
}

/// Waits until it is over.
///
/// # Errors
/// What `over` says.
pub fn wait(over: &mut impl FnMut() -> Result<bool>) -> Result<()> {
    while !over()? {
        std::thread::sleep(STEP);
    }
    // What the machine said last is on its way to standard output.
    std::thread::sleep(2 * STEP);
    Ok(())
}
