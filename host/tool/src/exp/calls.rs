//! What system calls, page faults, fork and hand-overs cost in instructions, here and on Linux.
//!
//! QEMU counts instructions as nanoseconds (`-icount shift=0`), so that the time stamp counter counts what program and kernel execute,
//! whatever else the host does. It does not count what instructions cost: a flushed translation buffer is as cheap as an addition.

use std::{
    collections::BTreeMap,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use gyre_config::file::{self, Description};

use super::{
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    build,
    cli::Kernel,
    command,
    failure::{Failure, Result},
    image, linux, module,
    project::Project,
    qemu::{self, Qemu},
    ui::Step,
    wire,
};

/// No run takes that long, Linux's boot included.
const LIMIT: Duration = Duration::from_secs(240);
/// What begins the program's lines.
const MARK: &str = "calls: ";
/// What we promise, in instructions.
const GOALS: &[(&str, u64)] = &[
    ("getpid", 700),
    ("pipe-round-trip", 18_000),
    ("anonymous-fault", 3_100),
    ("fork-exit-wait", 200_000),
    ("mprotect", 8_000),
];

/// Runs the program on both kernels.
///
/// # Errors
/// When it cannot be compiled or does not come to its end.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = Report::new("calls", "Instructions per call, beside Linux");
    let theirs = count(rig, Kernel::Linux)?;
    let ours: BTreeMap<_, _> = count(rig, Kernel::Gyre)?.into_iter().collect();
    for (name, linux) in theirs {
        let Some(&gyre) = ours.get(&name) else { continue };
        let ratio = gyre as f64 / linux.max(1) as f64;
        let figure = Figure::new(name.clone(), linux.to_string(), format!("{gyre} ({ratio:.2} of Linux)"));
        let goal = GOALS.iter().find(|(known, _)| *known == name);
        report.figures.push(match goal {
            Some((_, most)) => figure.goal(format!("<= {most}"), gyre <= *most),
            None => figure,
        });
    }
    report
        .notes
        .push("One core, -icount shift=0: instructions of program and kernel, the cheapest of five batches.".into());
    Ok(report)
}

/// Boots the program and reads what it counted, in its order.
fn count(rig: &Rig, on: Kernel) -> Result<Vec<(String, u64)>> {
    let step = Step::start(format!("counting on {on:?}"));
    let folder = rig.project.run_folder("exp-calls")?;
    let console = folder.join("console.log");
    let _ = std::fs::remove_file(&console);
    let (mut qemu, _wire) = start(&rig.project, on, &folder, &console)?;
    let started = Instant::now();
    loop {
        let text =
            std::fs::read(&console).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let (lines, is_over) = parse(&text);
        step.detail(&format!("{} counts", lines.len()));
        if is_over {
            step.done();
            return Ok(lines);
        }
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        if let Some(status) = qemu.ended()? {
            return Err(qemu::unexpected_end(status, &console));
        }
        if started.elapsed() > LIMIT || text.contains("calls: FAILED") {
            let help = format!("The console's last lines:\n{}", command::last_lines(&text, 20));
            return Err(Failure::with_help(format!("the program did not come to its end on {on:?}"), help));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Names and counts of the lines so far; true where the last one has come.
fn parse(console: &str) -> (Vec<(String, u64)>, bool) {
    let one = |line: &str| {
        let (name, count) = line.trim().split_once(MARK)?.1.split_once(' ')?;
        Some((name.to_owned(), count.trim().parse().ok()?))
    };
    // The last line may be half written.
    let whole = &console[..console.rfind('\n').map_or(0, |end| end + 1)];
    let mut lines: Vec<(String, u64)> = whole.lines().filter_map(one).collect();
    let is_over = lines.last().is_some_and(|(name, _)| name == "done");
    lines.retain(|(name, _)| name != "done");
    (lines, is_over)
}

fn start(project: &Project, on: Kernel, folder: &Path, console: &Path) -> Result<(Qemu, UnixStream)> {
    let mut description = file::read(&project.root.join("experiments/calls.toml"))?;
    let program = compile(project)?;
    for image in description.images.values_mut() {
        image.files.insert("/calls".into(), program.clone());
    }
    let disk = disk(project, &description, folder)?;
    let machine = &description.machine;
    let (kernel, module, command_line) = match on {
        Kernel::Linux => {
            let linux = linux::prepare(project, machine, folder, None)?;
            (linux.kernel, linux.initrd, linux::COMMAND_LINE)
        }
        Kernel::Gyre => {
            let module = folder.join("module.bin");
            module::write(machine, &build::agent(project)?, &module)?;
            (build::kernel(project)?, module, "")
        }
    };
    // Loopback needs a network path, which needs a device. Nobody is at the other end.
    let (ours, theirs) = wire::sockets()?;
    let qemu = Qemu::start(&qemu::Machine {
        cores: machine.cores,
        memory_bytes: machine.memory_bytes,
        kernel: &kernel,
        module: &module,
        command_line,
        disks: &[disk],
        console,
        wire: Some(theirs),
        clock: qemu::Clock::Instructions,
        extra: &[],
    })?;
    Ok((qemu, ours))
}

fn compile(project: &Project) -> Result<PathBuf> {
    let program = project.cache("calls")?.join("calls");
    let mut cc = command::program("cc")?;
    cc.args(["-O1", "-static", "-pthread", "-o"]).arg(&program).arg(project.root.join("experiments/calls/calls.c"));
    command::output(&mut cc)?;
    Ok(program)
}

fn disk(project: &Project, description: &Description, folder: &Path) -> Result<PathBuf> {
    let (name, image) = description.images.first_key_value().ok_or_else(|| Failure::new("the machine has no image"))?;
    let disk = folder.join("calls.ext2");
    image::copy_for(&image::build(project, name, image)?, &disk)?;
    Ok(disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_a_console() {
        let text = "[ 0.1] INFO x\ncalls: getpid 2596\r\ncalls: a-b 7\ncalls: half 12";
        let (lines, is_over) = parse(text);
        assert_eq!(lines, [("getpid".to_owned(), 2596), ("a-b".to_owned(), 7)]);
        assert!(!is_over);
        assert!(parse("calls: getpid 1\ncalls: done 0\n").1);
    }
}
