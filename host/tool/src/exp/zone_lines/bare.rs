//! Lines between a supervisor and zones without programs: the platform's test kernel times them and prints "lines: NAME COUNT"
//! (`platform/boot_test/src/lines.rs`, `casts.rs`).

use std::{
    path::Path,
    time::{Duration, Instant},
};

use gyre_machine_file::Bus;

use crate::{
    command,
    exp::rig::Rig,
    failure::{Context as _, Failure, Result},
    qemu::{Clock, Machine, Qemu},
    ui::Step,
};

/// Work of the test kernel as a supervisor of one core; other cores and the rest of the memory are its pool.
#[derive(Clone, Copy)]
pub enum Bench {
    /// To one zone and back, beside bare interrupts.
    Lines,
    /// To one, two and three zones and back.
    Casts,
}

impl Bench {
    fn command_line(self) -> &'static str {
        match self {
            Bench::Lines => "supervisor cores=1 memory=2M+64M devices=none bench=lines",
            Bench::Casts => "supervisor cores=1 memory=2M+64M devices=none bench=casts",
        }
    }

    fn cores(self) -> u16 {
        match self {
            Bench::Lines => 2,
            Bench::Casts => 4,
        }
    }
}

const MEMORY_BYTES: u64 = 256 << 20;
const LIMIT: Duration = Duration::from_secs(300);

/// Its counts, by name.
pub struct Lines(Vec<(String, f64)>);

impl Lines {
    /// Boots the kernel and reads what it counts: cycles, which are instructions of both cores on that clock.
    ///
    /// # Errors
    /// When it does not come to its end.
    pub fn measure(rig: &Rig, kernel: &Path, bench: Bench, clock: Clock) -> Result<Lines> {
        let step = Step::start(format!("lines on {} cores, counted by {clock:?}", bench.cores()));
        let folder = rig.project.run_folder("exp-zone-lines")?;
        let (console, module) = (folder.join("console.log"), folder.join("module.bin"));
        let _ = std::fs::remove_file(&console);
        std::fs::write(&module, b"none").context(|| format!("cannot write {}", module.display()))?;
        let mut qemu = Qemu::start(&Machine {
            cores: bench.cores(),
            memory_bytes: MEMORY_BYTES,
            kernel,
            module: &module,
            command_line: bench.command_line(),
            disks: &[],
            throttle: "",
            bus: Bus::Virtio,
            console: &console,
            cards: vec![],
            clock,
            extra: &[],
        })?;
        let begun = Instant::now();
        loop {
            // its words before its end: the last ones are read after it
            let ended = qemu.ended()?;
            let text = String::from_utf8_lossy(&std::fs::read(&console).unwrap_or_default()).into_owned();
            let lines = Lines::parse(&text);
            if lines.get("done").is_some() {
                step.done();
                return Ok(lines);
            }
            if rig.stop.is_set() {
                return Err(Failure::new("ended by the user"));
            }
            if ended.is_some() || begun.elapsed() > LIMIT || text.contains("lines: FAILED") {
                let help = format!("The console's last lines:\n{}", command::last_lines(&text, 20));
                return Err(Failure::with_help("the lines did not come to their end", help));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Reads whole lines only: the last one may be half written.
    fn parse(text: &str) -> Lines {
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let one = |line: &str| {
            let (name, count) = line.trim().rsplit_once("lines: ")?.1.split_once(' ')?;
            Some((name.to_owned(), count.trim().parse().ok()?))
        };
        Lines(whole.lines().filter_map(one).collect())
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, count)| *count)
    }

    /// A count; not a number if it was not counted.
    pub fn count(&self, name: &str) -> f64 {
        self.get(name).unwrap_or(f64::NAN)
    }

    /// A count of cycles in us.
    pub fn us(&self, name: &str) -> f64 {
        self.count(name) * 1e3 / self.count("cycles-per-ms")
    }

    /// Cycles of a line of the stream.
    pub fn of_stream(&self) -> f64 {
        self.count("stream-cycles") / self.count("stream-lines")
    }

    #[cfg(test)]
    pub fn of(text: &str) -> Lines {
        Lines::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_whole_lines() {
        let lines = Lines::parse(
            "[0.1] INFO  0 boot_test::lines: lines: cycles-per-ms 1000\n x lines: halted-best 500\r\nlines: half 12",
        );
        assert_eq!((lines.us("halted-best"), lines.get("half")), (500.0, None));
        assert!(lines.count("polled-best").is_nan());
    }
}
