//! Crashes of the running machine under a mixed write load: what e2fsck finds, and whether everything that was synced
//! is there.
//!
//! QEMU logs each write and flush. At random moments the length of the console and that of the log are noted, console
//! first; at the end QEMU is killed. Each moment is a crash: the disk holds what was flushed by then and a random part
//! of the sectors written after it; everything that the console had promised by then must be there.
//!
//! * `work` runs a machine and notes its moments; `examine` makes the disk of each and checks it; `report` adds up.
//! * The console comes first since a promise that is noted must be in the log already. The other order would tell of losses that are none.
//! * A disk on which something is missing is kept in the run folder as `lost-N.ext2`, and the note says so.
//!
//! The random numbers are fixed, but QEMU's timing is not, so two runs differ. `check`, `mapping`, `disk_log`
//! and `line` are the parts.

mod check;
mod disk_log;
mod line;
mod mapping;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use gyre_machine_file as file;

use super::{
    experiment::Experiment,
    note,
    plot::{self, Group},
    program,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    build,
    failure::{Context as _, Failure, Result},
    image, module,
    qemu::{self, Qemu},
    ui::Step,
};
use check::{Promised, check};
use disk_log::{Chance, DiskLog};
use line::{HEAD, Line};

/// Crashes, unless the user chose another number.
const CRASHES: u32 = 300;
/// Crashes of one machine; the last one is QEMU's end.
const MOMENTS: u32 = 5;
/// Until the tenant's first promise, in time that the machine had.
const READY_LIMIT: Duration = Duration::from_secs(90);
/// Longest time between two moments, ms.
const PAUSE_MS_MAX: u64 = 2000;

/// A moment: what had been promised before, and how long the log of writes was then.
struct Moment {
    promised: Promised,
    log_bytes: u64,
}

#[derive(Default)]
struct Sums {
    machines: u32,
    crashes: u32,
    repaired: u32,
    writes: usize,
    records: u64,
    rows: u64,
    trees: u64,
    rounds: u64,
    lost: Vec<String>,
    /// A line of each crash.
    lines: String,
}

/// Files of a machine that is crashed.
struct Place {
    folder: PathBuf,
    kernel: PathBuf,
    module: PathBuf,
    image: PathBuf,
    cores: u16,
    memory_bytes: u64,
}

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "crash",
    title: "The running machine stopped at random moments",
    paper: "",
    shows: "After a power cut the file system is whole and holds what was synced.",
    run,
};

/// Runs `gyre exp crash`.
///
/// # Errors
/// When the machine does not boot or a tool is missing; losses are figures of the report.
pub fn run(rig: &Rig) -> Result<Report> {
    let place = prepare(rig)?;
    let wanted = rig.count.unwrap_or(CRASHES);
    let mut sums = Sums::default();
    let mut chance = Chance(0x6779_7265);
    let step = Step::start(format!("crashing the machine {wanted} times"));
    while sums.crashes < wanted && !rig.stop.is_set() {
        let moments = MOMENTS.min(wanted - sums.crashes);
        let (moments, disk, log) = work(rig, &place, moments, &mut chance)?;
        sums.machines += 1;
        sums.writes += log.len();
        for (number, moment) in (1..).zip(moments) {
            examine(&place, &disk, &log, (number, &moment), &mut chance, &mut sums)?;
        }
        step.detail(&format!(
            "{} of {wanted}, {} repaired, {} with losses",
            sums.crashes,
            sums.repaired,
            sums.lost.len()
        ));
        if sums.machines.is_multiple_of(5) {
            note(&format!(
                "{} crashes, {} repaired by e2fsck, {} records, {} rows and {} trees checked, {} with losses",
                sums.crashes,
                sums.repaired,
                sums.records,
                sums.rows,
                sums.trees,
                sums.lost.len()
            ));
        }
    }
    step.done();
    Ok(report(&sums, wanted))
}

fn prepare(rig: &Rig) -> Result<Place> {
    let description = file::read(&rig.project.root.join("experiments/crash.toml"))?;
    let machine = &description.machine;
    let folder = rig.project.run_folder(&machine.name)?;
    let tenant = description.tenants.first().ok_or_else(|| Failure::new("crash.toml has no tenant"))?;
    let mut image =
        description.images.get(&tenant.image).cloned().ok_or_else(|| Failure::new("crash.toml has no image"))?;
    image.files.insert("/srv/map_writer".into(), program::compile(&rig.project, "crash/map_writer.c")?);
    let place = Place {
        kernel: rig.kernel.clone().map_or_else(|| build::kernel(&rig.project), Ok)?,
        module: folder.join("module.bin"),
        image: image::build(&rig.project, &tenant.image, &image)?,
        cores: machine.cores,
        memory_bytes: machine.memory_bytes,
        folder,
    };
    module::write(machine, &build::agent(&rig.project)?, &place.module)?;
    Ok(place)
}

/// Lets a machine work, notes moments, kills it. Answers the moments, the disk as it was at first, and the log of its writes.
fn work(rig: &Rig, place: &Place, moments: u32, chance: &mut Chance) -> Result<(Vec<Moment>, Vec<u8>, DiskLog)> {
    let (disk, log) = (place.folder.join("crash.disk"), place.folder.join("crash.log"));
    let console = place.folder.join("console.log");
    image::copy_for(&place.image, &disk)?;
    std::fs::write(&log, "").context(|| format!("cannot write {}", log.display()))?;
    let _ = std::fs::remove_file(&console);
    let first = read(&disk)?;
    let mut qemu = Qemu::start(&qemu::Machine {
        cores: place.cores,
        memory_bytes: place.memory_bytes,
        kernel: &place.kernel,
        module: &place.module,
        command_line: "",
        disks: &[],
        throttle: "",
        bus: gyre_machine_file::Bus::Virtio,
        clock: qemu::Clock::Host,
        console: &console,
        cards: vec![],
        extra: &logged_disk(&disk, &log),
    })?;
    wait(rig, &mut qemu, &console, Duration::MAX, || Promised::read(&text(&console)).records > 0)?;
    let mut noted = vec![];
    for _ in 0..moments {
        let pause = Duration::from_millis(chance.next() % PAUSE_MS_MAX);
        wait(rig, &mut qemu, &console, pause, || false)?;
        let promised = Promised::read(&text(&console));
        let log_bytes = std::fs::metadata(&log).map_or(0, |data| data.len());
        noted.push(Moment { promised, log_bytes });
    }
    drop(qemu);
    Ok((noted, first, DiskLog::parse(read(&log)?)?))
}

fn logged_disk(disk: &Path, log: &Path) -> Vec<String> {
    let file = |path: &Path, name: &str| format!("driver=file,filename={},node-name={name}", path.display());
    let words = [
        ("-blockdev", file(disk, "image")),
        ("-blockdev", file(log, "log")),
        ("-blockdev", "driver=blklogwrites,file=image,log=log,node-name=disk".to_owned()),
        ("-device", "virtio-blk-pci,drive=disk,disable-legacy=on,addr=0x4".to_owned()),
    ];
    words.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

fn wait(rig: &Rig, qemu: &mut Qemu, console: &Path, pause: Duration, is_over: impl Fn() -> bool) -> Result<()> {
    let (started, mut span) = (Instant::now(), qemu.span());
    while started.elapsed() < pause && !is_over() {
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        if let Some(status) = qemu.ended()? {
            return Err(qemu.unexpected_end(status));
        }
        if pause == Duration::MAX && span.passed() > READY_LIMIT {
            let said = crate::command::last_lines(&text(console), 20);
            return Err(Failure::with_help("the machine does not begin to work", said));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Makes a crash's disk and checks it.
fn examine(
    place: &Place,
    first: &[u8],
    log: &DiskLog,
    (number, moment): (u32, &Moment),
    chance: &mut Chance,
    sums: &mut Sums,
) -> Result<()> {
    let mut disk = first.to_vec();
    log.crash(&mut disk, moment.log_bytes, chance);
    let path = place.folder.join("crashed.ext2");
    std::fs::write(&path, &disk).context(|| format!("cannot write {}", path.display()))?;
    let found = check(&path, &place.folder.join("crashed"), &moment.promised)?;
    sums.crashes += 1;
    sums.repaired += u32::from(found.code == 1);
    let (machine, promised) = (sums.machines, &moment.promised);
    let (writes, durable) = log.before(moment.log_bytes);
    let line = Line { machine, moment: number, writes, unflushed: writes - durable, promised, found: &found };
    sums.lines += &line.text(sums.crashes);
    sums.records += moment.promised.records;
    sums.rows += moment.promised.rows;
    sums.trees += u64::from(moment.promised.tree > 0);
    sums.rounds += moment.promised.rounds;
    if !found.lost.is_empty() {
        let kept = place.folder.join(format!("lost-{}.ext2", sums.crashes));
        std::fs::write(&kept, &disk).context(|| format!("cannot write {}", kept.display()))?;
        note(&format!("crash {} ({}): {}", sums.crashes, kept.display(), found.lost.join("; ")));
        sums.lost.push(found.lost.join("; "));
    }
    Ok(())
}

fn report(sums: &Sums, wanted: u32) -> Report {
    let mut report = EXPERIMENT.report();
    let row = |what: &str, count: u64| Figure::count(what, count);
    report.figures.extend([
        row("crashes", sums.crashes.into()).goal(format!(">= {wanted}"), sums.crashes >= wanted),
        row("machines killed", sums.machines.into()),
        row("writes and flushes in their logs", sums.writes as u64),
        row("file systems that e2fsck had to repair", sums.repaired.into()),
        row("synced records checked", sums.records).goal("> 0", sums.records > 0),
        row("SQLite rows checked", sums.rows).goal("> 0", sums.rows > 0),
        row("unpacked trees compared", sums.trees).goal("> 0", sums.trees > 0),
        row("synced rounds of writes through a mapping", sums.rounds).goal("> 0", sums.rounds > 0),
        row("crashes after which something synced was missing", sums.lost.len() as u64).goal("0", sums.lost.is_empty()),
    ]);
    report.plot("crash.svg", plot::bars("Findings after crashes", "", &["disks"], &found(sums)));
    report.notes.extend(sums.lost.iter().take(5).cloned());
    report.lines = Some(format!("{HEAD}\n{}", sums.lines));
    report.notes.push("Each crash is a line of [results/crash.csv](../../results/crash.csv).".into());
    report.notes.push(format!(
        "{MOMENTS} moments of each machine, up to {PAUSE_MS_MAX} ms apart; of the sectors written after the last flush about half are lost, at random."
    ));
    report
}

/// Bars of what was found.
fn found(sums: &Sums) -> [Group; 3] {
    [("crashed", sums.crashes), ("repaired by e2fsck", sums.repaired), ("something lost", sums.lost.len() as u32)]
        .map(|(name, count)| Group { name: name.into(), values: vec![count.into()] })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context(|| format!("cannot read {}", path.display()))
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_a_goal_missed_and_a_bar_of_the_plot() {
        let sums = Sums {
            crashes: 2,
            records: 1,
            rows: 1,
            trees: 1,
            rounds: 1,
            lost: vec!["row 3".into()],
            ..Sums::default()
        };
        let with = report(&sums, 2);
        assert!(!with.is_met() && with.notes.contains(&"row 3".to_owned()));
        assert!(with.lines.is_some_and(|lines| lines.starts_with("crash,machine,")));
        assert!(with.plots[0].svg.contains("something lost"));
        assert!(report(&Sums { lost: vec![], ..sums }, 2).is_met());
    }
}
