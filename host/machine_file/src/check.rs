//! From what was written to a machine that makes sense.
//!
//! Protocol of use: [`check`] takes the raw file, as it was parsed, and answers a [`Description`], or all problems at
//! once.
//!
//! * A [`Checker`] collects problems and warnings, each with the place in the file and advice. A problem does not end
//!   the check: the value is replaced by a default, or by the nearest good one, so that one mistake is not reported as
//!   two.
//! * A problem is noted once, also if the part of the file is read for each instance.
//! * The order: names, images, tenants, then the split into the machine and its zones, then addresses and places of
//!   devices that no two may share.
//!
//! The sibling modules check one table of the file each and use the helpers here (`unit`, `number`, `name`, `unique`,
//! `absolute`). Nothing here changes the host; it only looks whether files are there. Limits that the kernel has are
//! in `gyre_contract`.

use std::{collections::BTreeMap, ops::Range, path::Path};

use super::{
    Bus, Description, HostTenant, Image, Problem, Scripts, SharedDisk, ZonePart, neighbours,
    places::{Named, Places},
    prices, raw, spares, suggest, tenants, units, zones,
};
use gyre_contract::{
    address,
    boot::{Activity, Dispatch, Link, LogLevel, Machine, Way},
};

pub(super) const MEMORY_BYTES_MIN: u64 = 64 << 20;
const MEMORY_BYTES_MAX: u64 = 64 << 30;

/// Collects problems, so that one reading shows them all.
#[derive(Default)]
pub(super) struct Checker {
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
    /// The folder of the machine file.
    pub(super) base: std::path::PathBuf,
}

impl Checker {
    /// Returns the full path of something on the host; complains if it is not there.
    pub(super) fn host_path(&mut self, path: &raw::At<String>) -> std::path::PathBuf {
        let full = self.base.join(path.get_ref());
        if !full.exists() {
            let message = format!("{} does not exist", full.display());
            let problem = Problem::new(path.span(), message, "not found");
            self.wrong(problem.help("paths are relative to the folder of the machine file"));
        }
        full
    }

    /// Reports an error, once: what stands once in the file is read for each instance.
    pub(super) fn wrong(&mut self, problem: Problem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Warns, once.
    pub(super) fn odd(&mut self, problem: Problem) {
        if !self.warnings.contains(&problem) {
            self.warnings.push(problem);
        }
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

pub(super) fn check(path: &Path, mut file: raw::File) -> Result<Description, Vec<Problem>> {
    let base = path.parent().unwrap_or(Path::new("")).into();
    let mut checker = Checker { base, ..Checker::default() };
    let name = name(&mut checker, path, file.name.as_ref());
    zones::expand(&mut checker, &mut file);
    let images = images(&mut checker, &file.image);
    let named = file.image.values().flat_map(|image| &image.packages);
    let packages = named.map(|name| (name.span(), name.get_ref().clone())).collect();
    tenants::check_all(&mut checker, &file);
    let split = zones::split(&mut checker, &file);
    let mut parts = split.parts(&mut checker, &file, name).into_iter();
    let mut made: Vec<(Machine, Vec<HostTenant>)> =
        parts.by_ref().map(|part| part.machine(&mut checker, &images)).collect();
    tenants::addresses_differ(&mut checker, &file, &made);
    neighbours::set(&mut checker, &file, &mut made);
    let disk = file.disk.as_ref().map(|raw| disk(&mut checker, raw));
    let prices = file.prices.as_ref().map(|raw| prices::read(&mut checker, raw));
    let raws = || [None].into_iter().chain(file.zone.iter().map(Some));
    let owners: Vec<_> = raws().map(|zone| zones::owners(&mut checker, zone)).collect();
    let spare_disks = |machine: &Machine| {
        let first = machine.tenants.len().saturating_sub(machine.places.into());
        spares::disks(machine.tenants.get(first..).unwrap_or_default())
    };
    let mut places = Places::new();
    let mut instances = made.into_iter().zip(owners).zip(raws()).map(|(((mut machine, tenants), owners), zone)| {
        machine.link.way = owners.way();
        let spares =
            spare_disks(&machine).saturating_add(zone.map_or(0, |zone| zones::places_for_volumes(&file, zone)));
        let devices = places.of(&tenants, disk.as_ref(), spares, owners);
        ZonePart { machine, tenants, devices, links: zone.and_then(zones::named_links) }
    });
    // The first part is always there.
    let Some(mut first) = instances.next() else { return Err(checker.problems) };
    let mut zones: Vec<ZonePart> = instances.collect();
    places.suffice(&mut checker, &file);
    let mut named = Named::new(&places);
    let cells_devices = file.cells.as_ref().map_or(vec![], |cells| named.take(&mut checker, &cells.devices));
    let mut described = split.zones(&mut checker, &file, &mut named, &mut zones);
    if !checker.problems.is_empty() {
        return Err(checker.problems);
    }
    zones::number_served(&first.devices, &mut zones, &mut described);
    zones::Split::link(&file, &mut first.machine, &mut zones, &mut described);
    Ok(Description {
        path: path.into(),
        text: String::new(),
        machine: Machine { zones: described, cells_devices, ..first.machine },
        tenants: first.tenants,
        devices: first.devices,
        whole: split.whole,
        zones,
        images,
        packages,
        disk,
        prices,
        warnings: checker.warnings,
    })
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "machine".into(), |stem| stem.to_string_lossy().into_owned())
}

pub(super) fn memory(checker: &mut Checker, text: Option<&raw::At<String>>, default: u64) -> u64 {
    let memory = checker.unit(text, default, units::bytes);
    let Some(text) = text else { return memory };
    if !(MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&memory) {
        let message = format!("a machine cannot have {} of memory", units::show_bytes(memory));
        checker.wrong(Problem::new(text.span(), message, "expected 64 MiB to 64 GiB"));
    }
    memory
}

/// Longest name of a machine or an image.
const NAME_BYTES_MAX: usize = 64;
pub(super) const NAME_EXPECTED: &str = "expected 1 to 64 of letters, digits, - and _, or dots within";

/// Returns whether a name can be that of a file or folder: of machines and images there is one each on the host.
pub(super) fn is_file_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with(['.', '-']) && name.chars().all(good)
}

/// Returns the machine's name: its own, or that of its file.
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

pub(super) fn log_level(checker: &mut Checker, text: Option<&raw::At<String>>) -> LogLevel {
    let levels = [
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
    text.and_then(|text| checker.name(text, "log level", &levels)).unwrap_or_default()
}

pub(super) fn messages(checker: &mut Checker, text: Option<&raw::At<String>>) -> Dispatch {
    let ways = [("inline", Dispatch::Inline), ("turns", Dispatch::Turns), ("queued", Dispatch::Queued)];
    text.and_then(|text| checker.name(text, "way to hand on messages", &ways)).unwrap_or_default()
}

pub(super) fn time_slice(checker: &mut Checker, text: Option<&raw::At<String>>) -> u32 {
    let ns = checker.unit(text, 4_000_000, units::nanoseconds);
    if let Some(text) = text.filter(|_| !(100_000..=1_000_000_000).contains(&ns)) {
        let message = format!("a time slice cannot be {}", text.get_ref());
        checker.wrong(Problem::new(text.span(), message, "expected 100 us to 1 s"));
    }
    u32::try_from(ns / 1000).unwrap_or(4000)
}

pub(super) fn link(checker: &mut Checker, link: &raw::Link) -> Link {
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
        way: Way::Card,
    }
}

/// A shared disk's depth is small: what the device has taken, no scheduler orders any more.
const SHARED_DEPTH: i64 = 4;

pub(super) fn disk_depth(checker: &mut Checker, disk: Option<&raw::Disk>) -> u16 {
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

pub(super) fn activities(checker: &mut Checker, all: &[&raw::Activity]) -> Vec<Activity> {
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

fn images(checker: &mut Checker, all: &BTreeMap<raw::At<String>, raw::Image>) -> BTreeMap<String, Image> {
    for name in all.keys().filter(|name| !is_file_name(name.get_ref())) {
        let message = format!("an image cannot be named `{}`", name.get_ref());
        checker.wrong(Problem::new(name.span(), message, NAME_EXPECTED));
    }
    all.iter().map(|(name, image)| (name.get_ref().clone(), one_image(checker, image))).collect()
}

fn one_image(checker: &mut Checker, raw: &raw::Image) -> Image {
    raw.packages.iter().for_each(|name| package(checker, name));
    raw.files.keys().chain(raw.generate.keys()).for_each(|path| absolute(checker, path));
    if let (Some(one), Some(other)) = (&raw.oci, &raw.registry) {
        let problem = Problem::new(other.span(), "an image comes from one place", "the second");
        checker.wrong(problem.and(one.span(), "the first"));
    }
    ready_alone(checker, raw);
    let scripts = match &raw.scripts {
        Some(wish) if *wish.get_ref() && raw.packages.is_empty() => {
            let problem = Problem::new(wish.span(), "there are no packages whose scripts could run", "take this out");
            checker.wrong(problem.help("or write packages = [\"...\"]"));
            Scripts::Left
        }
        Some(wish) if *wish.get_ref() => Scripts::Run,
        _ => Scripts::Left,
    };
    let mut host = |path: &raw::At<String>| checker.host_path(path);
    let directory = raw.directory.as_ref().map(&mut host);
    let ready = raw.ready.as_ref().map(&mut host);
    let oci = raw.oci.as_ref().map(&mut host);
    let files = raw.files.iter().map(|(to, from)| (to.get_ref().clone(), host(from))).collect();
    let mut size = |text: &raw::At<String>| checker.unit(Some(text), 0, units::bytes);
    Image {
        packages: raw.packages.iter().map(|name| name.get_ref().clone()).collect(),
        exclude: raw.exclude.clone(),
        scripts,
        directory,
        ready,
        oci,
        registry: raw.registry.as_ref().map(|text| text.get_ref().clone()),
        files,
        generate: raw.generate.iter().map(|(to, text)| (to.get_ref().clone(), size(text))).collect(),
        size_bytes: raw.size.as_ref().map(&mut size),
    }
}

/// Refuses what would be ignored beside an image that exists: nothing is put into it.
fn ready_alone(checker: &mut Checker, raw: &raw::Image) {
    let Some(ready) = &raw.ready else { return };
    let hosts = [&raw.directory, &raw.oci, &raw.registry, &raw.size].into_iter().flatten().map(|text| text.span());
    let lists = raw.packages.iter().chain(raw.files.keys()).chain(raw.generate.keys()).map(|text| text.span());
    let scripts = raw.scripts.iter().map(|wish| wish.span());
    if let Some(other) = lists.chain(hosts).chain(scripts).min_by_key(|span| span.start) {
        let problem = Problem::new(other, "a `ready` image is taken as it is", "this would be ignored");
        checker.wrong(problem.and(ready.span(), "the image that exists").help("take out one of the two"));
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
