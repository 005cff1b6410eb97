//! The rival: Linux in the same emulator, from which a core, 512 MiB and a card are taken by sysfs, and to which they are given back.

use std::time::{Duration, Instant};

use gyre_machine_file as file;

use super::super::{program, rig::Rig};
use crate::{
    cli::Kernel,
    failure::{Failure, Result},
    run::{self, Running},
    ui::Step,
};

/// So much of Linux' memory holds nothing that cannot be moved, so that it can be taken.
const MOVABLE: &str = "movablecore=1G";
/// A second card, behind all that the machine file asks for: the first one is the agent's way.
const CARD: [&str; 4] =
    ["-netdev", "hubport,id=spare,hubid=0", "-device", "virtio-net-pci,netdev=spare,disable-legacy=on,addr=0x1c"];
const TENANT: &str = "hotplug";
const LIMIT: Duration = Duration::from_secs(240);

/// Linux' times of a change, ms: the median, and nine of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    pub median_ms: f64,
    pub most_ms: f64,
}

/// Linux' times, by the program's words: `core-off`, `core-on`, and so for `memory` and `card`.
pub struct Hotplug(String);

impl Hotplug {
    /// Boots Linux and measures it.
    ///
    /// # Errors
    /// When it does not run, or a part cannot be taken.
    pub fn measure(rig: &Rig, rounds: u32) -> Result<Self> {
        let path = rig.project.root.join("experiments/zone-elastic-linux.toml");
        let mut description = file::read(&path)?;
        let program = program::compile(&rig.project, "zone_elastic/hotplug.c")?;
        if let Some(image) = description.images.get_mut("hotplug") {
            image.files.insert("/hotplug".into(), program);
        }
        if let Some(program) = description.machine.tenants.iter_mut().find_map(|tenant| tenant.program.as_mut()) {
            program.argv = vec!["/hotplug".into(), rounds.to_string()];
        }
        let mut arguments = rig.arguments(path, Kernel::Linux);
        arguments.append = MOVABLE.into();
        arguments.qemu.extend(CARD.map(str::to_owned));
        let mut running = run::start(&rig.project, description, &arguments, &rig.stop)?;
        let step = Step::start("taking parts from Linux and giving them back".to_owned());
        let text = until_done(rig, &mut running)?;
        step.done();
        Ok(Self(text))
    }

    /// The times of a change; none if it was not measured.
    pub fn times(&self, name: &str) -> Option<Times> {
        let of = |part: &str| Some(value(&self.0, &format!("{name}-{part}"))? / 1e6);
        Some(Times { median_ms: of("50")?, most_ms: of("90")? })
    }
}

fn until_done(rig: &Rig, running: &mut Running) -> Result<String> {
    let begun = Instant::now();
    loop {
        // A core that goes may be the agent's: no answer is no failure.
        let text = running.agent.get(&format!("/logs/{TENANT}")).unwrap_or_default();
        if value(&text, "done").is_some() {
            return Ok(text);
        }
        if text.contains("FAILED") || begun.elapsed() > LIMIT {
            return Err(Failure::new(format!("Linux' parts were not measured; the program said: {text}")));
        }
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        if let Some(status) = running.qemu.ended()? {
            return Err(running.qemu.unexpected_end(status));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn value(text: &str, word: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let (name, number) = line.trim().strip_prefix("hotplug: ")?.split_once(' ')?;
        number.parse().ok().filter(|_| name == word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_times_are_read_from_what_the_program_said() {
        let hotplug =
            Hotplug("hotplug: core-off-50 66000000\r\nhotplug: core-off-90 119000000\nhotplug: done 0\n".into());
        assert_eq!(hotplug.times("core-off"), Some(Times { median_ms: 66.0, most_ms: 119.0 }));
        assert_eq!(hotplug.times("core-on"), None);
    }
}
