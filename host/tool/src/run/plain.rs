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

use gyre_machine_file::units;

use crate::{
    failure::{Context as _, Result},
    instances::SUPERVISOR,
    symbols::Symbols,
    ui,
    view::{Sample, Sampler, harmless::harmless, sample::Zone},
    zone::words,
};

const STEP: Duration = Duration::from_millis(50);
/// Time to wait for the console if standard output does not take it or a kernel's names are slow to read.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(10);

/// Says a line for each sample until it is over.
///
/// # Errors
/// An error of `over`.
pub fn watch(sampler: &Sampler, over: &mut impl FnMut() -> Result<bool>) -> Result<()> {
    let mut samples = sampler.subscribe();
    let (mut told, mut zones) = (vec![], vec![]);
    while !over()? {
        while let Ok(sample) = samples.try_recv() {
            ui::say(&line(&sample));
            news(&zones, &sample.zones).iter().for_each(|line| ui::say(line));
            zones.clone_from(&sample.zones);
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
            ui::warn(&harmless(trouble));
            told.push(head(trouble));
        }
    }
}

fn line(sample: &Sample) -> String {
    let rate = units::show_bits_per_second(sample.sent_bits_per_second);
    let mut text = format!("{:4.0} s  {rate:>12}", sample.at_s);
    let mut zone = None;
    for tenant in sample.tenants.iter().filter(|tenant| tenant.entitled_percent > 0.0) {
        if tenant.zone != zone {
            zone.clone_from(&tenant.zone);
            text += &format!("  | {}:", zone.as_deref().unwrap_or(SUPERVISOR));
        }
        text += &format!("  {} {:4.1} %", tenant.name, tenant.sent_percent);
    }
    text
}

/// Returns a line for each zone that is not as it was a second ago.
fn news(before: &[Zone], now: &[Zone]) -> Vec<String> {
    let same = |zone: &&Zone| {
        let is_it = |old: &&Zone| old.name == zone.name;
        let like = |old: &Zone| {
            (&old.state, old.cores, old.memory_bytes, old.restarts)
                == (&zone.state, zone.cores, zone.memory_bytes, zone.restarts)
        };
        before.iter().find(is_it).is_some_and(like)
    };
    let line = |zone: &Zone| {
        let parts = words::parts(zone.cores, zone.memory_bytes, &[]);
        let parts = if parts.is_empty() { parts } else { format!(": {parts}") };
        format!("       zone {} is {}{parts}", zone.name, zone.state)
    };
    now.iter().filter(|zone| !same(zone)).map(line).collect()
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
/// An error of `over`.
pub fn wait(sampler: &Sampler, over: &mut impl FnMut() -> Result<bool>) -> Result<()> {
    let mut told = vec![];
    while !over()? {
        tell(&sampler.troubles(), &mut told);
        std::thread::sleep(STEP);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::sample::Tenant;

    #[test]
    fn tenants_stand_behind_the_name_of_their_zone() {
        let tenant = |zone: &str, name: &str| Tenant {
            name: name.into(),
            zone: Some(zone.into()),
            entitled_percent: 50.0,
            sent_percent: 50.0,
            ..Tenant::default()
        };
        let tenants = vec![tenant("a", "gold"), tenant("a", "silver"), tenant("b", "bronze")];
        let text = line(&Sample { tenants, ..Sample::default() });
        assert!(text.ends_with("  | a:  gold 50.0 %  silver 50.0 %  | b:  bronze 50.0 %"), "{text}");
    }

    #[test]
    fn a_zone_is_told_when_it_changes_and_not_while_it_stays() {
        let zone = |state: &str, cores| Zone { name: "a".into(), state: state.into(), cores, ..Zone::default() };
        let running = [zone("running", 2)];
        assert_eq!(news(&[], &running), ["       zone a is running: 2 cores"]);
        assert!(news(&running, &running).is_empty());
        assert_eq!(news(&running, &[zone("crashed (x)", 0)]), ["       zone a is crashed (x)"]);
    }
}
