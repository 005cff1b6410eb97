//! One run of a program on one kernel: the CPU time of the virtual machine from `begins` to `worked`, and the bill of that time.

use std::time::{Duration, Instant};

use gyre_contract::bill::Bill;
use gyre_machine_file as file;
use gyre_machine_file::Description;

use super::program::Program;
use crate::{
    cli::Kernel,
    command,
    exp::rig::Rig,
    failure::{Context as _, Failure, Result},
    run::{self, Running},
    ui::Step,
};

const TENANT: &str = "program";
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The results of a run.
pub struct Trial {
    /// Units of work.
    pub work: u64,
    /// CPU time of the virtual processors, seconds of the host.
    pub processor_s: f64,
    /// The program's own tests that failed.
    pub failures: u64,
    /// The bill of the work's time; Linux makes none.
    pub bill: Option<Bill>,
}

impl Trial {
    /// Runs a program to its end.
    ///
    /// # Errors
    /// When the machine does not run, or the program says that something is wrong, or does not come to its end.
    pub fn run(rig: &Rig, program: &Program, on: Kernel) -> Result<Self> {
        let path = rig.project.root.join("experiments/programs.toml");
        let mut description = file::read(&path)?;
        put(rig, program, &mut description)?;
        let mut running = run::start(&rig.project, description, &rig.arguments(path, on), &rig.stop)?;
        let step = Step::start(format!("{} on {on:?}", program.name));
        let mut wait = Wait { rig, program, step: &step, started: Instant::now() };
        wait.until(&mut running, "begins")?;
        let (bill, processor_s) = (snapshot(&running, on)?, running.qemu.processor_seconds());
        let work = wait.until(&mut running, "worked")?.1;
        let processor_s = running.qemu.processor_seconds() - processor_s;
        let after = snapshot(&running, on)?;
        let text = wait.until(&mut running, "done")?.0;
        step.done();
        let bill = after.zip(bill).map(|(after, before)| Bill::of(&after.since(&before)));
        Ok(Self { work, processor_s, failures: value(&text, "failures").unwrap_or(0), bill })
    }

    /// Returns the work done for each CPU second of the virtual machine.
    pub fn per_second(&self) -> f64 {
        self.work as f64 / self.processor_s.max(1e-3)
    }
}

/// The words of a program, waited for.
struct Wait<'a> {
    rig: &'a Rig,
    program: &'a Program,
    step: &'a Step,
    started: Instant,
}

impl Wait<'_> {
    /// Waits until the program has said a word; returns all that it said so far, and the word's number.
    fn until(&mut self, running: &mut Running, word: &str) -> Result<(String, u64)> {
        loop {
            // The agent may be slow to answer while the machine boots or works: no answer yet is no failure.
            let text = running.agent.get(&format!("/logs/{TENANT}")).unwrap_or_default();
            if let Some(number) = value(&text, word) {
                return Ok((text, number));
            }
            if let Some(status) = running.qemu.ended()? {
                return Err(running.qemu.unexpected_end(status));
            }
            if self.rig.stop.is_set() {
                return Err(Failure::new("ended by the user"));
            }
            let is_late = self.started.elapsed() > self.program.limit;
            if is_late || text.contains("programs: FAILED") || text.contains("[gyre: the first program") {
                let help = format!("its last lines:\n{}", command::last_lines(&text, 20));
                return Err(Failure::with_help(format!("{} did not come to `{word}`", self.program.name), help));
            }
            self.step.detail(&format!("{} s", self.started.elapsed().as_secs()));
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

fn snapshot(running: &Running, on: Kernel) -> Result<Option<gyre_contract::monitor::Snapshot>> {
    if on == Kernel::Linux { Ok(None) } else { running.agent.snapshot().map(Some) }
}

/// Puts a program into the machine's image and tenant.
fn put(rig: &Rig, program: &Program, description: &mut Description) -> Result<()> {
    let folder = rig.project.cache("programs")?.join(program.name);
    std::fs::create_dir_all(&folder).context(|| format!("cannot make {}", folder.display()))?;
    for image in description.images.values_mut() {
        image.packages.extend(program.packages.iter().map(|name| (*name).to_owned()));
        image.size_bytes = Some(program.size_mib << 20);
        image.generate.extend(program.generate.iter().map(|(path, bytes)| ((*path).to_owned(), *bytes)));
        for (place, (path, text)) in program.files.iter().enumerate() {
            let from = folder.join(place.to_string());
            std::fs::write(&from, text).context(|| format!("cannot write {}", from.display()))?;
            image.files.insert((*path).to_owned(), from);
        }
    }
    let commands = description.machine.tenants.iter_mut().filter(|tenant| tenant.name == TENANT);
    for command in commands.filter_map(|tenant| tenant.program.as_mut()) {
        command.argv = ["/bin/busybox", "sh", "-c", &program.commands()].map(str::to_owned).to_vec();
    }
    Ok(())
}

/// Finds the number behind a program's word.
fn value(text: &str, word: &str) -> Option<u64> {
    // The last line may be half written.
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let said = |line: &str| -> Option<u64> {
        let (name, number) = line.trim().strip_prefix("programs: ")?.split_once(' ')?;
        number.trim().parse().ok().filter(|_| name == word)
    };
    whole.lines().find_map(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_words_are_read_from_its_log() {
        let text = "x\nprograms: begins 0\r\nprograms: worked 48000\nprograms: failures 2\nprograms: done 0";
        assert_eq!(["begins", "worked", "failures"].map(|word| value(text, word)), [Some(0), Some(48_000), Some(2)]);
        assert_eq!(value(text, "done"), None, "half a line says nothing yet");
        let trial = Trial { work: 48_000, processor_s: 24.0, failures: 0, bill: None };
        assert_eq!(trial.per_second(), 2000.0);
    }
}
