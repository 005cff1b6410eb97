//! Linux with control groups (version 2): the neighbour's figures in our form.
//!
//! One cycle stands for a nanosecond. Linux does not say which core ran a group, so all cores appear as one; what was busy but in no
//! tenant's group is reported as unattributed: that is what Linux cannot put on a bill.
//!
//! Changes are files of the groups too: see `control`. Goals come from a file, measures of them from groups and pages: see `goals`.
//!
//! A tenant is a folder in `/tenants`, and a group of the same name.

use std::{
    fs, io,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};

use gyre_contract::{
    goals::Goals,
    monitor::{Activity, ActivityKind, CoreTime, Handling, Memory, Snapshot, VERSION},
    native::Change,
    promise::{Answer, Together},
    session::ExecRequest,
    zones::{Wish, WishAnswer},
};

use gyre_broker_program::services::Service;

use super::{Program, Source, Streams, child};

mod control;
mod goals;

/// Of the figures of block devices, whatever the device's own are.
const SECTOR_BYTES: u64 = 512;
/// Linux counts time in /proc/stat in hundredths of a second.
const NS_PER_TICK: u64 = 10_000_000;

/// The Linux that the agent runs on; tenants are the groups that have a folder in `/tenants`.
pub struct Linux {
    groups: PathBuf,
    tenants: PathBuf,
    goals: PathBuf,
    changes: AtomicU64,
}

impl Default for Linux {
    fn default() -> Self {
        Self {
            groups: "/sys/fs/cgroup".into(),
            tenants: "/tenants".into(),
            goals: "/goals.json".into(),
            changes: AtomicU64::new(0),
        }
    }
}

impl Source for Linux {
    fn snapshot(&self) -> io::Result<Snapshot> {
        let mut activities = vec![named(0, "root", ActivityKind::Root)];
        for (name, id) in self.names()?.iter().zip(1..) {
            activities.push(self.activity(name, id)?);
        }
        let handling: Vec<Handling> = activities
            .iter()
            .skip(1)
            .zip(self.names()?)
            .map(|(activity, name)| self.handling(activity.id, &name))
            .collect();
        Ok(Snapshot {
            version: VERSION,
            machine: "linux".into(),
            uptime_ns: uptime_ns()?,
            cycles_per_second: 1_000_000_000,
            cores: vec![core(&fs::read_to_string("/proc/stat")?, handling)],
            activities,
            memory: memory(&fs::read_to_string("/proc/meminfo")?),
            ..Snapshot::default()
        })
    }

    fn log(&self, tenant: &str, offset: u64) -> io::Result<(u64, Vec<u8>)> {
        let mut file = fs::File::open(self.root(tenant)?.join("var/log/console"))?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = vec![];
        file.take(16 << 10).read_to_end(&mut bytes)?;
        Ok((offset, bytes))
    }

    fn set(&self, change: &Change) -> io::Result<()> {
        control::make(&self.groups, &self.names()?, std::slice::from_ref(change))
    }

    fn change(&self, together: &Together) -> io::Result<u64> {
        control::make(&self.groups, &self.names()?, &together.changes)?;
        Ok(self.changes.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn goals(&self) -> io::Result<Goals> {
        goals::goals(&self.goals, &self.groups, &self.tenants)
    }

    fn spawn(&self, request: &ExecRequest, streams: Streams) -> io::Result<Box<dyn Program>> {
        let root = self.root(&request.tenant)?;
        let group = self.groups.join(&request.tenant).join("cgroup.procs");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo 0 > \"$0\"; root=\"$1\"; shift; exec chroot \"$root\" \"$@\""]);
        command.arg(group).arg(root).args(&request.argv);
        command.envs(request.env.iter().filter_map(|pair| pair.split_once('=')));
        child::start(command, streams)
    }
}

/// One broker divides both machines.
impl gyre_broker_program::Machine for Linux {
    fn goals(&self) -> io::Result<Goals> {
        Source::goals(self)
    }

    fn change(&self, together: &Together) -> io::Result<Answer> {
        Source::change(self, together).map(Ok)
    }

    /// Linux has no zones.
    fn wish(&self, wish: &Wish) -> io::Result<WishAnswer> {
        Source::wish(self, wish)
    }

    /// Services are native programs of a machine of ours.
    fn service(&self, tenant: &str) -> io::Result<Box<dyn Service>> {
        let text = format!("tenant {tenant} has no service: this machine is not Gyre");
        Err(io::Error::new(io::ErrorKind::ConnectionRefused, text))
    }
}

impl Linux {
    fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.tenants)?;
        let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    fn root(&self, tenant: &str) -> io::Result<PathBuf> {
        match self.names()?.iter().any(|name| name == tenant) {
            true => Ok(self.tenants.join(tenant)),
            false => {
                let names = self.names()?;
                Err(super::no_tenant_of(tenant, &names.iter().map(String::as_str).collect::<Vec<_>>()))
            }
        }
    }

    fn activity(&self, name: &str, id: u32) -> io::Result<Activity> {
        let group = self.groups.join(name);
        let user_us = field(&fs::read_to_string(group.join("cpu.stat"))?, "user_usec");
        let weight = number(&group.join("cpu.weight"));
        Ok(Activity {
            share: u32::try_from(weight).unwrap_or(1),
            memory_bytes: number(&group.join("memory.current")),
            memory_bytes_max: number(&group.join("memory.peak")),
            memory_bytes_limit: number(&group.join("memory.max")),
            process_memory_bytes_limit: u64::MAX,
            cache_bytes: field(&fs::read_to_string(group.join("memory.stat")).unwrap_or_default(), "file"),
            read_bytes: self.disk_sectors(name).0 * SECTOR_BYTES,
            written_bytes: self.disk_sectors(name).1 * SECTOR_BYTES,
            processes: u32::try_from(number(&group.join("pids.current"))).unwrap_or(0),
            user_cycles: user_us * 1000,
            ..named(id, name, ActivityKind::Tenant)
        })
    }

    /// Sectors read from and written to the disk that is a tenant's root.
    fn disk_sectors(&self, name: &str) -> (u64, u64) {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let root = self.tenants.join(name);
        let mut mounts = mounts.lines().map(|line| line.split_whitespace());
        let device = mounts.find_map(|mut words| {
            let device = words.next()?;
            (Path::new(words.next()?) == root).then_some(device)
        });
        let disk = device.and_then(|device| device.strip_prefix("/dev/")).unwrap_or_default();
        let figures = fs::read_to_string(Path::new("/sys/block").join(disk).join("stat")).unwrap_or_default();
        let at = |index: usize| figures.split_whitespace().nth(index).and_then(|word| word.parse().ok()).unwrap_or(0);
        // Documentation/admin-guide/iostats.rst: sectors read are the third field, sectors written the seventh.
        (at(2), at(6))
    }

    fn handling(&self, activity: u32, name: &str) -> Handling {
        let text = fs::read_to_string(self.groups.join(name).join("cpu.stat")).unwrap_or_default();
        Handling { activity, cycles: field(&text, "usage_usec") * 1000 }
    }
}

fn named(id: u32, name: &str, kind: ActivityKind) -> Activity {
    Activity { id, name: name.into(), kind, alive: true, ..Activity::default() }
}

fn number(path: &Path) -> u64 {
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Finds the number after a word at the start of a line ("usage_usec 12").
fn field(text: &str, word: &str) -> u64 {
    let mut lines = text.lines().map(str::split_whitespace);
    let found = lines.find_map(|mut line| (line.next()?.trim_end_matches(':') == word).then(|| line.next()));
    found.flatten().and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn uptime_ns() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/uptime")?;
    let seconds: f64 = text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    Ok((seconds * 1e9) as u64)
}

/// The first line of /proc/stat: user nice system idle iowait irq softirq steal, in ticks.
fn core(stat: &str, handling: Vec<Handling>) -> CoreTime {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map(|word| word.parse().unwrap_or(0)).collect();
    let at = |index: usize| ticks.get(index).copied().unwrap_or(0) * NS_PER_TICK;
    let elapsed: u64 = (0..8).map(at).sum();
    let (idle, interrupt) = (at(3) + at(4), at(5) + at(6));
    let tenants: u64 = handling.iter().map(|span| span.cycles).sum();
    // Soft interrupts that ran on top of a tenant are in its group too: if both exceed the whole, the whole wins.
    let interrupt = interrupt.min(elapsed.saturating_sub(idle + tenants));
    let unattributed = elapsed.saturating_sub(idle + tenants + interrupt);
    let elapsed = idle + tenants + interrupt + unattributed;
    CoreTime {
        core: 0,
        elapsed_cycles: elapsed,
        interrupt_cycles: interrupt,
        idle_cycles: idle,
        unattributed_cycles: unattributed,
        handling,
        ..CoreTime::default()
    }
}

fn memory(text: &str) -> Memory {
    let bytes = |word| field(text, word) * 1024;
    Memory { total_bytes: bytes("MemTotal"), free_bytes: bytes("MemFree"), heap_bytes: bytes("Slab") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_all_cores_is_partitioned_without_gap() {
        let core = core("cpu  100 0 50 800 10 5 35 0 0 0\n", vec![Handling { activity: 1, cycles: 1_200_000_000 }]);
        assert_eq!((core.elapsed_cycles, core.idle_cycles), (10_000_000_000, 8_100_000_000));
        assert_eq!((core.interrupt_cycles, core.unattributed_cycles), (400_000_000, 300_000_000));
    }

    #[test]
    fn fields_are_found_by_their_first_word() {
        assert_eq!(field("usage_usec 12\nuser_usec 7\n", "user_usec"), 7);
        assert_eq!(field("MemTotal:     1024 kB\n", "MemTotal"), 1024);
        assert_eq!(field("", "x"), 0);
    }
}
