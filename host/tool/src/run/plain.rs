//! For output that is no terminal: a line each second, or the machine's console as it comes.

use std::{
    io::{Read as _, Write as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use gyre_config::file::units;

use crate::{
    failure::{Context as _, Result},
    symbols::Symbols,
    ui,
    view::{Sample, Sampler},
};

const STEP: Duration = Duration::from_millis(50);
/// The console is waited for so long, where standard output does not take it or a kernel's names are slow to read.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(10);

/// Says a line for each sample until it is over.
///
/// # Errors
/// What `over` says.
pub fn watch(sampler: &Sampler, over: &mut impl FnMut() -> Result<bool>) -> Result<()> {
    let mut samples = sampler.subscribe();
    let mut told = vec![];
    while !over()? {
        while let Ok(sample) = samples.try_recv() {
            ui::say(&line(&sample));
            tell(&sample.troubles, &mut told);
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}

/// Warns of what has not been said yet. Of a disk that goes on failing only the first time: the number changes each second.
pub fn tell(troubles: &[String], told: &mut Vec<String>) {
    let head = |text: &String| text.split('(').next().unwrap_or_default().to_owned();
    for trouble in troubles {
        if !told.contains(&head(trouble)) {
            ui::warn(trouble);
            told.push(head(trouble));
        }
    }
}

fn line(sample: &Sample) -> String {
    let rate = units::show_bits_per_second(sample.sent_bits_per_second);
    let mut text = format!("{:4.0} s  {rate:>12}", sample.at_s);
    for tenant in sample.tenants.iter().filter(|tenant| tenant.entitled_percent > 0.0) {
        text += &format!("  {} {:4.1} %", tenant.name, tenant.sent_percent);
    }
    text
}

/// A console that is copied to standard output.
pub struct Copying {
    /// How often all that was there has been copied.
    rounds: Arc<AtomicU64>,
}

impl Copying {
    /// Waits until what the machine has said so far is on standard output.
    pub fn catch_up(&self) {
        let started = Instant::now();
        let first = self.rounds.load(Ordering::Acquire);
        // The round that is under way may have begun before.
        while self.rounds.load(Ordering::Acquire) < first + 2 && started.elapsed() < CATCH_UP_LIMIT {
            std::thread::sleep(STEP);
        }
    }
}

/// Starts to copy the machine's console to standard output, as it comes, with names in the trace of a panic.
///
/// # Errors
/// When it cannot be read.
pub fn console(path: &Path, mut symbols: Symbols) -> Result<Copying> {
    let reading = || "cannot read the console".to_owned();
    let mut file = std::fs::File::options().create(true).append(true).read(true).open(path).context(reading)?;
    let copying = Copying { rounds: Arc::default() };
    let rounds = copying.rounds.clone();
    let copy = move || {
        loop {
            let mut bytes = vec![];
            let read = file.read_to_end(&mut bytes).and_then(|_| std::io::stdout().write_all(&symbols.pass(&bytes)));
            if read.and_then(|()| std::io::stdout().flush()).is_err() {
                return;
            }
            rounds.fetch_add(1, Ordering::AcqRel);
            std::thread::sleep(STEP);
        }
    };
    std::thread::Builder::new().name("console".into()).spawn(copy).context(reading)?;
    Ok(copying)
}

/// Waits until it is over.
///
/// # Errors
/// What `over` says.
pub fn wait(sampler: &Sampler, over: &mut impl FnMut() -> Result<bool>) -> Result<()> {
    let mut told = vec![];
    while !over()? {
        tell(&sampler.troubles(), &mut told);
        std::thread::sleep(STEP);
    }
    Ok(())
}
