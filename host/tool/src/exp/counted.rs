//! A program of our own, alone on a machine, that prints "MARK: NAME COUNT" for what it measured and "MARK: done 0" at its end.

use std::{
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use gyre_contract::{boot::TenantKind, zones::DeviceAddress};
use gyre_machine_file as file;
use gyre_machine_file::Description;

use super::{marks::Marks, program, rig::Rig};
use crate::{
    build, cell,
    cli::Kernel,
    command,
    failure::{Failure, Result},
    image, linux, module,
    project::Project,
    qemu::{self, Clock, Qemu},
    ui::Step,
    wire,
};

/// The source of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// `experiments/NAME/NAME.c`.
    C,
    /// The package `gyre-pulse`.
    Pulse,
    /// The package `gyre-filters`.
    Filters,
}

/// A program and the machine that it runs on.
pub struct Counted<'a> {
    /// Its name: the machine is `experiments/NAME.toml`, the source `experiments/NAME/NAME.c`, in the image `/NAME`, its mark `NAME: `.
    pub name: &'a str,
    /// The tenant's command, if it differs from the file's.
    pub words: &'a [&'a str],
    /// The unit of its counts: nanoseconds or instructions.
    pub clock: Clock,
    /// No run takes that long, Linux's boot included.
    pub limit: Duration,
    /// Its source.
    pub source: Source,
    /// True if the program makes marks at which the emulator counts instructions.
    pub has_marks: bool,
}

impl Counted<'_> {
    /// Boots the program and reads what it counted, in its order.
    ///
    /// # Errors
    /// When it cannot be compiled or does not come to its end.
    pub fn count(&self, rig: &Rig, on: Kernel) -> Result<Vec<(String, u64)>> {
        let step = Step::start(format!("counting on {on:?}"));
        let folder = rig.project.run_folder(&format!("exp-{}", self.name))?;
        let console = folder.join(format!("console-{on:?}-{:?}.log", self.clock).to_lowercase());
        let _ = std::fs::remove_file(&console);
        let marks = self.has_marks.then(|| Marks::prepare(&rig.project, &folder)).transpose()?;
        let (mut qemu, _wire) = self.start(rig, on, &folder, &console, marks.as_ref())?;
        let started = Instant::now();
        loop {
            let bytes = std::fs::read(&console).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let (lines, is_over) = self.parse(&text);
            step.detail(&format!("{} counts", lines.len()));
            if is_over && !self.has_failed(&text) {
                step.done();
                return match marks {
                    Some(marks) => marks.resolve(lines),
                    None => Ok(lines),
                };
            }
            if rig.stop.is_set() {
                return Err(Failure::new("ended by the user"));
            }
            if let Some(status) = qemu.ended()? {
                return Err(qemu.unexpected_end(status));
            }
            if started.elapsed() > self.limit || self.has_failed(&text) {
                let help = format!("The console's last lines:\n{}", command::last_lines(&text, 20));
                return Err(Failure::with_help(format!("the program did not come to its end on {on:?}"), help));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn has_failed(&self, console: &str) -> bool {
        console.contains(&format!("{}: FAILED", self.name))
    }

    /// Names and counts of the lines so far; true if the last one has come.
    fn parse(&self, console: &str) -> (Vec<(String, u64)>, bool) {
        let mark = format!("{}: ", self.name);
        let one = |line: &str| {
            let (name, count) = line.trim().split_once(&mark)?.1.split_once(' ')?;
            Some((name.to_owned(), count.trim().parse().ok()?))
        };
        // The last line may be half written.
        let whole = &console[..console.rfind('\n').map_or(0, |end| end + 1)];
        let mut lines: Vec<(String, u64)> = whole.lines().filter_map(one).collect();
        let is_over = lines.last().is_some_and(|(name, _)| name == "done");
        lines.retain(|(name, _)| name != "done");
        (lines, is_over)
    }

    fn start(
        &self,
        rig: &Rig,
        on: Kernel,
        folder: &Path,
        console: &Path,
        marks: Option<&Marks>,
    ) -> Result<(Qemu, UnixStream)> {
        let project = &rig.project;
        let mut description = file::read(&project.root.join(format!("experiments/{}.toml", self.name)))?;
        let program = match self.source {
            Source::C => program::compile(project, &format!("{0}/{0}.c", self.name))?,
            Source::Pulse => build::pulse(project)?,
            Source::Filters => build::filters(project)?,
        };
        for image in description.images.values_mut() {
            image.files.insert(format!("/{}", self.name), program.clone());
        }
        cell::provide(project, &mut description)?;
        if on == Kernel::Linux && self.clock != Clock::Host {
            // Its other cores would wait for each other in loops, which are instructions too.
            description.machine.cores = 1;
        }
        let customers = description.machine.tenants.iter_mut().filter(|tenant| tenant.kind != TenantKind::System);
        for program in customers.filter_map(|tenant| tenant.program.as_mut()).filter(|_| !self.words.is_empty()) {
            program.argv = self.words.iter().map(|word| (*word).to_owned()).collect();
        }
        let path = self.disk(project, &description, folder)?;
        let machine = &description.machine;
        let (kernel, module, command_line) = match on {
            Kernel::Linux => {
                let linux = linux::prepare(project, machine, folder, None)?;
                (linux.kernel, linux.initrd, linux::COMMAND_LINE)
            }
            Kernel::Gyre => {
                let module = folder.join("module.bin");
                module::write(machine, &build::agent(project)?, &module)?;
                (rig.kernel.clone().map_or_else(|| build::kernel(project), Ok)?, module, "")
            }
        };
        let disk =
            |address: &DeviceAddress| qemu::Disk { path: path.clone(), address: *address, queues: machine.cores };
        let disks: Vec<qemu::Disk> = description.devices.disks.iter().take(1).map(disk).collect();
        // Loopback needs a network path, which needs a device. There is no peer at the other end.
        let (ours, theirs) = wire::sockets()?;
        let qemu = Qemu::start(&qemu::Machine {
            cores: machine.cores,
            memory_bytes: machine.memory_bytes,
            kernel: &kernel,
            module: &module,
            command_line,
            disks: &disks,
            throttle: "",
            bus: gyre_machine_file::Bus::Virtio,
            console,
            cards: vec![qemu::Card {
                socket: theirs,
                mac: machine.link.mac,
                address: description.devices.card.unwrap_or_default(),
            }],
            clock: self.clock,
            extra: &marks.map_or(vec![], |marks| marks.arguments().to_vec()),
        })?;
        Ok((qemu, ours))
    }

    fn disk(&self, project: &Project, description: &Description, folder: &Path) -> Result<PathBuf> {
        let (name, image) =
            description.images.first_key_value().ok_or_else(|| Failure::new("the machine has no image"))?;
        let disk = folder.join(format!("{}.ext2", self.name));
        image::copy_for(&image::build(project, name, image)?, &disk)?;
        Ok(disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_a_console() {
        let counted = Counted {
            source: Source::C,
            name: "calls",
            words: &[],
            clock: Clock::Instructions,
            limit: Duration::ZERO,
            has_marks: false,
        };
        let text = "[ 0.1] INFO x\ncalls: getpid 2596\r\ncalls: a-b 7\ncalls: half 12";
        let (lines, is_over) = counted.parse(text);
        assert_eq!(lines, [("getpid".to_owned(), 2596), ("a-b".to_owned(), 7)]);
        assert!(!is_over);
        assert!(counted.parse("calls: getpid 1\ncalls: done 0\n").1);
    }
}
