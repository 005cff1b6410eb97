//! From what was written to a machine that makes sense.

use std::{collections::BTreeMap, ops::Range, path::Path};

use super::{Bus, Description, Image, Problem, SharedDisk, policies, promises, raw, suggest, tenants, units};
use crate::{
    address,
    boot::{Activity, Dispatch, Link, LogLevel, Machine},
};

/// Cores that an x86-64 machine of ours may have.
pub const CORES_MAX: u16 = 8;
const MEMORY_BYTES_MIN: u64 = 64 << 20;
const MEMORY_BYTES_MAX: u64 = 64 << 30;

/// Collects problems, so that one reading shows them all.
#[derive(Default)]
pub(super) struct Checker {
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

impl Checker {
    pub(super) fn wrong(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Reads a text with a unit, or takes the default.
    pub(super) fn unit<T>(
        &mut self,
        text: Option<&raw::At<String>>,
        default: T,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        let Some(text) = text else { return default };
        match read(text.get_ref()) {
            Ok(value) => value,
            Err(expected) => {
                let message = format!("`{}` cannot be read", text.get_ref());
                self.wrong(Problem::new(text.span(), message, expected));
                default
            }
        }
    }

    /// Reads a whole number within a range, or takes the default.
    pub(super) fn number(
        &mut self,
        number: Option<&raw::At<i64>>,
        what: &str,
        low: i64,
        high: i64,
        default: i64,
    ) -> i64 {
        let Some(number) = number else { return default };
        let value = *number.get_ref();
        if (low..=high).contains(&value) {
            return value;
        }
        let message = format!("{what} cannot be {value}");
        self.wrong(Problem::new(number.span(), message, format!("expected {low} to {high}")));
        // the nearest good value, so that one mistake is not reported as two
        value.clamp(low, high)
    }

    /// Finds one of several names, with `-` and `_` alike.
    pub(super) fn name<T: Copy>(&mut self, text: &raw::At<String>, what: &str, known: &[(&str, T)]) -> Option<T> {
        let name = text.get_ref().to_lowercase().replace('_', "-");
        let found = known.iter().find(|(candidate, _)| *candidate == name).map(|(_, value)| *value);
        if found.is_none() {
            let message = format!("there is no {what} `{}`", text.get_ref());
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let help = suggest::help(&name, names.iter().copied());
            self.wrong(Problem::new(text.span(), message, format!("unknown {what}")).help(help));
        }
        found
    }
}

pub(super) fn check(path: &Path, file: raw::File) -> Result<Description, Vec<Problem>> {
    let mut checker = Checker::default();
    let base = path.parent().unwrap_or(Path::new(""));
    let name = name(&mut checker, path, file.name.as_ref());
    let images = images(&mut checker, base, &file.image);
    let named = file.image.values().flat_map(|image| &image.packages);
    let packages = named.map(|name| (name.span(), name.get_ref().clone())).collect();
    let activities = activities(&mut checker, &file.activity);
    let cores = checker.number(file.cores.as_ref(), "the number of cores", 1, CORES_MAX.into(), 1) as u16;
    let (all, host) = tenants::check(&mut checker, &file, &images, &activities);
    let machine = Machine {
        name,
        cores,
        memory_bytes: memory(&mut checker, file.memory.as_ref()),
        log_level: log_level(&mut checker, file.log.as_ref()),
        time_slice_us: time_slice(&mut checker, file.time_slice.as_ref()),
        messages: messages(&mut checker, file.messages.as_ref()),
        started_unix_s: 0,
        has_percent_shares: tenants::have_percent_shares(&file.tenant),
        seed: [0; 32],
        link: link(&mut checker, &file.link),
        disk_depth: disk_depth(&mut checker, file.disk.as_ref()),
        resources: policies::check(&mut checker, &file.policy, cores),
        activities,
        tenants: all,
        files: vec![],
    };
    memory_suffices(&mut checker, &machine, &file);
    let disk = file.disk.as_ref().map(|raw| disk(&mut checker, raw));
    promises::check(&mut checker, &machine, &file);
    if checker.problems.is_empty() {
        let warnings = checker.warnings;
        Ok(Description { path: path.into(), machine, tenants: host, images, packages, disk, warnings })
    } else {
        Err(checker.problems)
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "machine".into(), |stem| stem.to_string_lossy().into_owned())
}

fn memory(checker: &mut Checker, text: Option<&raw::At<String>>) -> u64 {
    let memory = checker.unit(text, 512 << 20, units::bytes);
    let Some(text) = text else { return memory };
    if !(MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&memory) {
        let message = format!("a machine cannot have {} of memory", units::show_bytes(memory));
        checker.wrong(Problem::new(text.span(), message, "expected 64 MiB to 64 GiB"));
    }
    memory
}

/// What is reserved below a group fits into its limit; of a limit of 0 nothing does.
fn groups_fit(checker: &mut Checker, machine: &Machine, file: &raw::File) {
    for (index, raw) in file.activity.iter().enumerate() {
        let Some(text) = &raw.memory else { continue };
        let limit = machine.activities.get(index).and_then(|group| group.memory_bytes).unwrap_or(0);
        let below = machine.tenants.iter().filter(|tenant| is_below(machine, tenant.parent, index));
        let reserved = below.map(|tenant| tenant.limits.memory_reservation_bytes).fold(0, u64::saturating_add);
        if limit == 0 || reserved > limit {
            let message = format!("`{}` cannot do with {}", raw.name.get_ref(), units::show_bytes(limit));
            let label = format!("at least {}, what its tenants reserve", units::show_bytes(reserved.max(1)));
            checker.wrong(Problem::new(text.span(), message, label).help("raise it, or reserve less below it"));
        }
    }
}

/// True where the way up from `from` passes a group.
fn is_below(machine: &Machine, from: Option<u16>, group: usize) -> bool {
    // Parents are declared before their children, so that the way ends.
    core::iter::successors(from, |at| machine.activities.get(usize::from(*at)).and_then(|one| one.parent))
        .any(|at| usize::from(at) == group)
}

/// What all tenants may hold together by their limits and those of their groups, bytes.
fn held_at_most(machine: &Machine) -> u64 {
    let mut below = vec![0u64; machine.activities.len()];
    let mut sum = 0;
    let mut add = |below: &mut [u64], parent: Option<u16>, bytes| {
        let at = parent.and_then(|index| below.get_mut(usize::from(index))).unwrap_or(&mut sum);
        *at = at.saturating_add(bytes);
    };
    machine.tenants.iter().for_each(|tenant| add(&mut below, tenant.parent, tenant.limits.memory_bytes));
    // Parents are declared before their children: from the last on, what is below a group is known when its turn comes.
    for (index, group) in machine.activities.iter().enumerate().rev() {
        let held = below[index].min(group.memory_bytes.unwrap_or(u64::MAX));
        add(&mut below, group.parent, held);
    }
    sum
}

fn memory_suffices(checker: &mut Checker, machine: &Machine, file: &raw::File) {
    let sum = held_at_most(machine);
    reservations_fit(checker, machine, file);
    groups_fit(checker, machine, file);
    if sum > machine.memory_bytes {
        let message = format!(
            "the tenants may hold {} together, the machine has {}",
            units::show_bytes(sum),
            units::show_bytes(machine.memory_bytes)
        );
        let span = file.memory.as_ref().map_or(0..0, raw::At::span);
        let help = "a tenant beyond its part then loses cached pages to others, or is refused; \
            `memory-reservation` keeps some for it";
        checker.warnings.push(Problem::new(span, message, "less than the sum of the limits").help(help));
    }
}

/// Parts of the machine's memory that can be reserved, in percent: the kernel and its tables need the rest.
const RESERVED_PERCENT_MAX: u64 = 80;

fn reservations_fit(checker: &mut Checker, machine: &Machine, file: &raw::File) {
    let room = machine.memory_bytes / 100 * RESERVED_PERCENT_MAX;
    let mut sum: u64 = 0;
    let customers = machine.tenants.iter().skip(1).zip(&file.tenant);
    for (tenant, raw) in customers {
        sum = sum.saturating_add(tenant.limits.memory_reservation_bytes);
        if let Some(text) = raw.memory_reservation.as_ref().filter(|_| sum > room) {
            let message = format!("the tenants' reservations come to {} here", units::show_bytes(sum));
            let label = format!("at most {} of {}", units::show_bytes(room), units::show_bytes(machine.memory_bytes));
            let problem = Problem::new(text.span(), message, label);
            checker.wrong(problem.help("the kernel needs the rest; reserve less, or give the machine more `memory`"));
            return;
        }
    }
}

/// Longest name of a machine or an image.
const NAME_BYTES_MAX: usize = 64;
const NAME_EXPECTED: &str = "expected 1 to 64 of letters, digits, - and _, or dots within";

/// Whether a name can be that of a file or folder: of machines and images there is one each on the host.
fn is_file_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with(['.', '-']) && name.chars().all(good)
}

/// The machine's name: its own, or that of its file.
fn name(checker: &mut Checker, path: &Path, own: Option<&raw::At<String>>) -> String {
    let name = own.map_or_else(|| stem(path), |own| own.get_ref().clone());
    if !is_file_name(&name) {
        let problem =
            Problem::new(own.map_or(0..0, raw::At::span), format!("a machine cannot be named `{name}`"), NAME_EXPECTED);
        checker.wrong(match own {
            Some(_) => problem,
            None => problem.help("it is named after its file: rename that, or give it a `name`"),
        });
    }
    name
}

fn log_level(checker: &mut Checker, text: Option<&raw::At<String>>) -> LogLevel {
    let levels = [
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
    text.and_then(|text| checker.name(text, "log level", &levels)).unwrap_or_default()
}

fn messages(checker: &mut Checker, text: Option<&raw::At<String>>) -> Dispatch {
    let ways = [("inline", Dispatch::Inline), ("turns", Dispatch::Turns), ("queued", Dispatch::Queued)];
    text.and_then(|text| checker.name(text, "way to hand on messages", &ways)).unwrap_or_default()
}

fn time_slice(checker: &mut Checker, text: Option<&raw::At<String>>) -> u32 {
    let ns = checker.unit(text, 4_000_000, units::nanoseconds);
    if let Some(text) = text.filter(|_| !(100_000..=1_000_000_000).contains(&ns)) {
        let message = format!("a time slice cannot be {}", text.get_ref());
        checker.wrong(Problem::new(text.span(), message, "expected 100 us to 1 s"));
    }
    u32::try_from(ns / 1000).unwrap_or(4000)
}

fn link(checker: &mut Checker, link: &raw::Link) -> Link {
    let rate = link.rate.as_ref().map(|text| checker.unit(Some(text), 0, units::bits_per_second));
    if let (Some(text), Some(rate)) = (&link.rate, rate)
        && (1..10_000).contains(&rate)
    {
        checker.wrong(Problem::new(
            text.span(),
            "the link is too slow for one frame a second",
            "expected 10 kbit/s or more",
        ));
    }
    Link {
        mac: address::MACHINE_MAC,
        gateway: address::GATEWAY,
        prefix_bits: address::PREFIX_BITS,
        rate_bits_per_second: rate.filter(|rate| *rate > 0),
    }
}

/// A shared disk's depth is small: what the device has taken, no scheduler orders any more.
const SHARED_DEPTH: i64 = 4;

fn disk_depth(checker: &mut Checker, disk: Option<&raw::Disk>) -> u16 {
    let Some(disk) = disk else { return 0 };
    checker.number(disk.depth.as_ref(), "the depth of a disk", 1, 64, SHARED_DEPTH) as u16
}

fn disk(checker: &mut Checker, raw: &raw::Disk) -> SharedDisk {
    let rate = raw.rate.as_ref().map(|text| (text.span(), checker.unit(Some(text), 0, units::bits_per_second) / 8));
    if let Some((span, _)) = rate.as_ref().filter(|(_, rate)| (1..100_000).contains(rate)) {
        checker.wrong(Problem::new(span.clone(), "the disk is too slow for its requests", "expected 100 kB/s or more"));
    }
    let requests = raw.requests.as_ref().map(|text| checker.unit(Some(text), 0, units::per_second));
    let bus = raw.bus.as_ref().map_or(Bus::Virtio, |text| match text.get_ref().as_str() {
        "virtio" => Bus::Virtio,
        "scsi" => Bus::Scsi,
        other => {
            let problem = Problem::new(text.span(), format!("there is no bus `{other}`"), "not one of them");
            checker.wrong(problem.help("there is: virtio, scsi"));
            Bus::Virtio
        }
    });
    SharedDisk {
        bus,
        rate_bytes_per_second: rate.map(|(_, rate)| rate).filter(|rate| *rate > 0),
        requests_per_second: requests.filter(|count| *count > 0),
    }
}

fn activities(checker: &mut Checker, all: &[raw::Activity]) -> Vec<Activity> {
    let mut known: Vec<Activity> = vec![];
    for one in all {
        let parent = one.parent.as_ref().and_then(|name| parent(checker, name, &known));
        let share = tenants::plain_share(checker, &one.share);
        unique(checker, "activity", &one.name, &all.iter().map(|one| &one.name).collect::<Vec<_>>());
        let memory = one.memory.as_ref().map(|text| checker.unit(Some(text), 0, units::bytes));
        let memory_bytes = memory.filter(|bytes| *bytes > 0);
        known.push(Activity { name: one.name.get_ref().clone(), parent, share, memory_bytes });
    }
    known
}

/// Finds an activity that was declared before, by name.
pub(super) fn parent(checker: &mut Checker, name: &raw::At<String>, known: &[Activity]) -> Option<u16> {
    let found = known.iter().position(|one| one.name == *name.get_ref());
    if found.is_none() {
        let message = format!("there is no activity `{}`", name.get_ref());
        let names: Vec<&str> = known.iter().map(|one| one.name.as_str()).collect();
        let help = match names.is_empty() {
            true => "declare it above with [[activity]]".to_owned(),
            false => suggest::help(name.get_ref(), names.iter().copied()),
        };
        checker.wrong(Problem::new(name.span(), message, "not declared above this line").help(help));
    }
    found.and_then(|at| u16::try_from(at).ok())
}

/// Complains when an earlier element has the same name.
pub(super) fn unique(checker: &mut Checker, what: &str, name: &raw::At<String>, all: &[&raw::At<String>]) {
    let first = all.iter().find(|other| other.get_ref() == name.get_ref());
    if let Some(first) = first.filter(|first| first.span().start < name.span().start) {
        let message = format!("the {what} `{}` is declared twice", name.get_ref());
        checker.wrong(Problem::new(name.span(), message, "the second").and(first.span(), "the first"));
    }
}

fn images(checker: &mut Checker, base: &Path, all: &BTreeMap<raw::At<String>, raw::Image>) -> BTreeMap<String, Image> {
    for name in all.keys().filter(|name| !is_file_name(name.get_ref())) {
        let message = format!("an image cannot be named `{}`", name.get_ref());
        checker.wrong(Problem::new(name.span(), message, NAME_EXPECTED));
    }
    all.iter().map(|(name, image)| (name.get_ref().clone(), one_image(checker, base, image))).collect()
}

fn one_image(checker: &mut Checker, base: &Path, raw: &raw::Image) -> Image {
    raw.packages.iter().for_each(|name| package(checker, name));
    raw.files.keys().chain(raw.generate.keys()).for_each(|path| absolute(checker, path));
    let mut host = |path: &raw::At<String>| exists(checker, base, path);
    let directory = raw.directory.as_ref().map(&mut host);
    let ready = raw.ready.as_ref().map(&mut host);
    let files = raw.files.iter().map(|(to, from)| (to.get_ref().clone(), host(from))).collect();
    let mut size = |text: &raw::At<String>| checker.unit(Some(text), 0, units::bytes);
    Image {
        packages: raw.packages.iter().map(|name| name.get_ref().clone()).collect(),
        exclude: raw.exclude.clone(),
        directory,
        ready,
        files,
        generate: raw.generate.iter().map(|(to, text)| (to.get_ref().clone(), size(text))).collect(),
        size_bytes: raw.size.as_ref().map(&mut size),
    }
}

/// Debian policy 5.6.1: lower case letters, digits, plus, minus, period, at least two.
fn package(checker: &mut Checker, name: &raw::At<String>) {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    let text = name.get_ref();
    if text.len() < 2 || text.starts_with(['+', '-', '.']) || !text.chars().all(good) {
        let message = format!("`{text}` cannot be the name of a Debian package");
        checker.wrong(Problem::new(name.span(), message, "expected a name such as \"nginx\""));
    }
}

fn exists(checker: &mut Checker, base: &Path, path: &raw::At<String>) -> std::path::PathBuf {
    let full = base.join(path.get_ref());
    if !full.exists() {
        let message = format!("{} does not exist", full.display());
        let problem = Problem::new(path.span(), message, "not found");
        checker.wrong(problem.help("paths are relative to the folder of the machine file"));
    }
    full
}

/// Complains about a path in the machine that is not absolute or climbs.
pub(super) fn absolute(checker: &mut Checker, path: &raw::At<String>) {
    absolute_text(checker, path.get_ref(), path.span());
}

pub(super) fn absolute_text(checker: &mut Checker, path: &str, span: Range<usize>) {
    if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
        let message = format!("`{path}` is not an absolute path");
        checker.wrong(Problem::new(span, message, "expected a path such as \"/srv/www/index.html\""));
    }
}
