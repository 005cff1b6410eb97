//! Two neighbours that say how long what they do takes, beside a third tenant who does something else from case to case.
//!
//! Time is counted in instructions (`-icount shift=0`), so that what else the host does changes nothing. A neighbour's program says
//! "MARK: begins 0", "MARK: p50 NS", "MARK: p99 NS", "MARK: done 0", or "MARK: FAILED .."; the third tenant's may say "MARK: did TIMES".

use std::time::{Duration, Instant};

use gyre_machine_file as file;

use super::{program, rig::Rig};
use crate::{
    cli::Kernel,
    failure::{Failure, Result},
    qemu,
    run::{self, Running},
    ui::Step,
};

const NEIGHBOURS: [&str; 2] = ["gold", "silver"];
/// The name of the third tenant.
const OTHER: &str = "bronze";
/// No run takes that long.
const LIMIT: Duration = Duration::from_secs(400);

/// A machine with neighbours, and what the third tenant does.
pub struct Beside<'a> {
    /// The machine is `experiments/NAME.toml`; the programs' words begin with "NAME: ".
    pub name: &'a str,
    /// The neighbours' program, below `experiments`, and its place in all images.
    pub program: (&'a str, &'a str),
    /// The third tenant's command, if it differs from the file's.
    pub other: Option<Vec<String>>,
    /// The message while it runs.
    pub step: String,
}

/// The neighbours' figures in one run: the worse of both.
#[derive(Clone, Copy, Default)]
pub struct Outcome {
    pub p50_us: f64,
    pub p99_us: f64,
    /// The most that one of them read from its disk meanwhile.
    pub read_bytes: u64,
    /// The third tenant's count of its own work meanwhile, if it says so.
    pub done: u64,
}

impl Beside<'_> {
    /// Runs the machine until both neighbours are done.
    ///
    /// # Errors
    /// When it does not run, or a program fails or does not come to its end.
    pub fn measure(&self, rig: &Rig, on: Kernel) -> Result<Outcome> {
        let path = rig.project.root.join(format!("experiments/{}.toml", self.name));
        let mut description = file::read(&path)?;
        let (source, place) = self.program;
        let program = program::compile(&rig.project, source)?;
        for image in description.images.values_mut() {
            image.files.insert(place.into(), program.clone());
        }
        let other = description.machine.tenants.iter_mut().find(|tenant| tenant.name == OTHER);
        if let (Some(program), Some(words)) = (other.and_then(|tenant| tenant.program.as_mut()), &self.other) {
            program.argv.clone_from(words);
        }
        let arguments = rig.arguments(path, on);
        let mut running =
            run::start_with_clock(&rig.project, description, &arguments, &rig.stop, qemu::Clock::Instructions)?;
        let step = Step::start(format!("{} on {on:?}", self.step));
        self.wait(rig, &mut running, &step, "begins")?;
        let (before, done_before) = (read_bytes(&running)?, self.done(&running));
        let ended = self.wait(rig, &mut running, &step, "done")?;
        let (after, done) = (read_bytes(&running)?, self.done(&running));
        step.done();
        let mut outcome = Outcome { done: done.saturating_sub(done_before), ..Outcome::default() };
        for (text, (before, after)) in ended.iter().zip(before.into_iter().zip(after)) {
            let us = |name: &str| self.value(text, name).unwrap_or(0) as f64 / 1000.0;
            outcome.p50_us = outcome.p50_us.max(us("p50"));
            outcome.p99_us = outcome.p99_us.max(us("p99"));
            outcome.read_bytes = outcome.read_bytes.max(after.saturating_sub(before));
        }
        Ok(outcome)
    }

    /// Waits until each neighbour has said `word`; answers what they said so far.
    fn wait(&self, rig: &Rig, running: &mut Running, step: &Step, word: &str) -> Result<Vec<String>> {
        let started = Instant::now();
        let failed = format!("{}: FAILED", self.name);
        loop {
            // The machine's clock runs while it boots: no answer yet is no failure.
            let said = |name: &&str| running.agent.get(&format!("/logs/{name}")).unwrap_or_default();
            let texts: Vec<String> = NEIGHBOURS.iter().map(said).collect();
            if texts.iter().all(|text| self.value(text, word).is_some()) {
                return Ok(texts);
            }
            if let Some(status) = running.qemu.ended()? {
                return Err(running.qemu.unexpected_end(status));
            }
            if rig.stop.is_set() {
                return Err(Failure::new("ended by the user"));
            }
            let other = said(&OTHER);
            if started.elapsed() > LIMIT || texts.iter().chain([&other]).any(|text| text.contains(&failed)) {
                let why =
                    format!("the neighbours did not come to `{word}`; they said: {texts:?}, {OTHER} said: {other:?}");
                return Err(Failure::new(why));
            }
            step.detail(&format!("{} s", started.elapsed().as_secs()));
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// How often the third tenant has done what it does, as it said last.
    fn done(&self, running: &Running) -> u64 {
        let text = running.agent.get(&format!("/logs/{OTHER}")).unwrap_or_default();
        self.value(&text, "did").unwrap_or(0)
    }

    /// Finds the number behind a program's word, at the word's last place.
    fn value(&self, text: &str, word: &str) -> Option<u64> {
        let said = |line: &str| -> Option<u64> {
            let (name, number) = line.trim().strip_prefix(self.name)?.strip_prefix(": ")?.split_once(' ')?;
            number.trim().parse().ok().filter(|_| name == word)
        };
        text.lines().rev().find_map(said)
    }
}

/// Returns the bytes that the neighbours' disks have read so far.
fn read_bytes(running: &Running) -> Result<Vec<u64>> {
    let snapshot = running.agent.snapshot()?;
    let of = |name: &&str| {
        snapshot.activities.iter().find(|activity| activity.name == **name).map_or(0, |activity| activity.read_bytes)
    };
    Ok(NEIGHBOURS.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbours_figures_are_read_from_its_log() {
        let beside = Beside { name: "memory", program: ("", ""), other: None, step: String::new() };
        let text = "memory: begins 0\nmemory: p50 12\r\nmemory: p99 x\nmemory: did 4\nmemory: did 5\nnames: max 3\n";
        assert_eq!(beside.value(text, "did"), Some(5), "the last one");
        assert_eq!((beside.value(text, "p50"), beside.value(text, "begins")), (Some(12), Some(0)));
        assert_eq!(
            (beside.value(text, "p99"), beside.value(text, "done"), beside.value(text, "max")),
            (None, None, None)
        );
    }
}
