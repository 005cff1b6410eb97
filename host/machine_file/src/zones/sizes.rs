//! How much of the machine each instance has, and whether that fits together.

use super::{
    super::{
        Problem, Whole,
        check::{self, Checker},
        raw::{self, At},
        units,
    },
    links, names, served,
};
use gyre_contract::{bounds::CORES_MAX, zones::LOT_BYTES};

/// Memory that the firmware and the boot module keep, of a machine with zones.
const BESIDE_BYTES: u64 = 16 << 20;
/// Memory of a supervisor that does not say how much it wants.
const SUPERVISOR_BYTES: u64 = 128 << 20;
/// How much of the machine each instance has.
pub(crate) struct Split {
    /// The supervisor, or the whole machine if it has no zones.
    pub(super) first: Size,
    /// The zones in the order of the file.
    pub(super) zones: Vec<Size>,
    /// The whole machine, if it is split.
    pub(crate) whole: Option<Whole>,
}

/// The size of one instance.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// Cores that it begins with.
    pub(super) cores: u16,
    /// Cores that it may grow to.
    pub(super) cores_max: u16,
    /// Its memory.
    pub(super) memory_bytes: u64,
}

/// Reads the sizes of all instances and reports those that do not fit together.
pub(crate) fn split(checker: &mut Checker, file: &raw::File) -> Split {
    let what = "the number of cores";
    let cores = |checker: &mut Checker, default| {
        checker.number(file.cores.as_ref(), what, 1, CORES_MAX.into(), i64::from(default)) as u16
    };
    if file.zone.is_empty() {
        no_supervisor(checker, file);
        let cores = cores(checker, 1);
        let memory_bytes = check::memory(checker, file.memory.as_ref(), 512 << 20);
        return Split { first: Size { cores, cores_max: cores, memory_bytes }, zones: vec![], whole: None };
    }
    names(checker, file);
    let first = supervisor(checker, file);
    let zones: Vec<Size> = file.zone.iter().map(|zone| size(checker, zone)).collect();
    let starting = || file.zone.iter().zip(&zones).filter(|(zone, _)| zone.starts).map(|(_, size)| size);
    let wanted = starting().fold(first.cores, |sum, size| sum.saturating_add(size.cores));
    let memory = starting().fold(first.memory_bytes, |sum, size| sum.saturating_add(size.memory_bytes));
    let whole = Whole {
        cores: cores(checker, wanted),
        memory_bytes: check::memory(
            checker,
            file.memory.as_ref(),
            memory.saturating_add(BESIDE_BYTES).saturating_add(shared_bytes(file)),
        ),
    };
    let mut split = Split { first, zones, whole: Some(whole) };
    split.cores_fit(checker, file, whole);
    split.memory_fits(checker, file, whole);
    split
}

/// Without zones there is nothing to supervise.
fn no_supervisor(checker: &mut Checker, file: &raw::File) {
    if let Some(own) = &file.supervisor {
        let problem = Problem::new(own.span(), "there is nothing to supervise", "the machine has no [[zone]]");
        checker.wrong(problem.help("`cores` and `memory` of the machine stand at the top; or add a [[zone]]"));
    }
    for name in file.tenant.iter().filter_map(|tenant| tenant.zone.as_ref()) {
        let message = format!("there is no zone `{}`", name.get_ref());
        checker.wrong(Problem::new(name.span(), message, "unknown zone").help("declare it with [[zone]]"));
    }
}

fn supervisor(checker: &mut Checker, file: &raw::File) -> Size {
    let own = file.supervisor.as_ref().map(At::get_ref);
    let cores = own.and_then(|own| own.cores.as_ref());
    let cores = checker.number(cores, "the supervisor's number of cores", 1, CORES_MAX.into(), 1) as u16;
    let text = own.and_then(|own| own.memory.as_ref());
    Size { cores, cores_max: cores, memory_bytes: lots(checker, text, SUPERVISOR_BYTES, "the supervisor") }
}

fn size(checker: &mut Checker, zone: &raw::Zone) -> Size {
    let what = "the number of cores of a zone";
    let cores = checker.number(zone.cores.as_ref(), what, 1, CORES_MAX.into(), 1) as u16;
    let what = "the most cores of this zone";
    let cores_max = checker.number(zone.cores_max.as_ref(), what, cores.into(), CORES_MAX.into(), 0) as u16;
    Size { cores, cores_max, memory_bytes: lots(checker, Some(&zone.memory), SUPERVISOR_BYTES, "a zone") }
}

/// Reads an instance's memory: whole lots, enough for a kernel.
fn lots(checker: &mut Checker, text: Option<&At<String>>, default: u64, whose: &str) -> u64 {
    let bytes = checker.unit(text, default, units::bytes);
    let Some(text) = text else { return bytes };
    let show = units::show_bytes;
    if bytes < check::MEMORY_BYTES_MIN {
        let message = format!("{whose} cannot do with {}", show(bytes));
        let label = format!("expected {} or more", show(check::MEMORY_BYTES_MIN));
        let help = "a kernel's image, its boot module, its tables and its agent are in it, beside the tenants";
        checker.wrong(Problem::new(text.span(), message, label).help(help));
    } else if !bytes.is_multiple_of(LOT_BYTES) {
        let message = format!("memory changes hands in lots of {}", show(LOT_BYTES));
        let below = bytes / LOT_BYTES * LOT_BYTES / (1 << 20);
        let label = format!("expected \"{below} MiB\" or \"{} MiB\"", below + LOT_BYTES / (1 << 20));
        checker.wrong(Problem::new(text.span(), message, label));
    }
    bytes
}

impl Split {
    /// Cores that zones begin with must be there beside the supervisor's; a zone may grow to all of them.
    fn cores_fit(&mut self, checker: &mut Checker, file: &raw::File, whole: Whole) {
        let room = whole.cores.saturating_sub(self.first.cores);
        let mut left = room;
        for (raw, size) in file.zone.iter().zip(&mut self.zones) {
            let place = raw.cores.as_ref().map_or(raw.name.span(), At::span);
            let has = if raw.starts { left } else { room };
            if size.cores > has && !raw.is_place {
                let zone = raw.name.get_ref();
                let message = format!("there are not enough cores for zone `{zone}`: it wants {}", size.cores);
                let problem = Problem::new(place, message, format!("{has} of the machine's {} are left", whole.cores));
                checker.wrong(problem.help("raise `cores` at the top of the file, or give others fewer"));
            }
            left = left.saturating_sub(if raw.starts { size.cores } else { 0 });
            if let Some(most) = raw.cores_max.as_ref().filter(|_| size.cores_max > room.max(size.cores)) {
                let message = format!("zone `{}` cannot grow to {} cores", raw.name.get_ref(), size.cores_max);
                let label = format!("at most {room}: the machine's {} less the supervisor's", whole.cores);
                checker.wrong(Problem::new(most.span(), message, label));
            }
            if raw.cores_max.is_none() {
                size.cores_max = room.max(size.cores);
            }
        }
    }

    /// Memory of the supervisor and of zones that start must be there together, beside firmware and module.
    fn memory_fits(&self, checker: &mut Checker, file: &raw::File, whole: Whole) {
        let room = whole.memory_bytes.saturating_sub(BESIDE_BYTES);
        let show = units::show_bytes;
        let mut left = room.saturating_sub(self.first.memory_bytes);
        let own = file.supervisor.as_ref().and_then(|own| own.get_ref().memory.as_ref());
        if let Some(text) = own.filter(|_| self.first.memory_bytes > room) {
            let message = format!("the supervisor cannot have {}", show(self.first.memory_bytes));
            checker.wrong(Problem::new(text.span(), message, format!("at most {}", show(room))).help(beside()));
        }
        let all = left;
        for (raw, size) in file.zone.iter().zip(&self.zones).filter(|(raw, _)| !raw.is_place) {
            let has = if raw.starts { left } else { all };
            if size.memory_bytes > has {
                let zone = raw.name.get_ref();
                let message =
                    format!("there is not enough memory for zone `{zone}`: it wants {}", show(size.memory_bytes));
                let label = format!("{} of the machine's {} are left", show(has), show(whole.memory_bytes));
                checker.wrong(Problem::new(raw.memory.span(), message, label).help(beside()));
            }
            left = left.saturating_sub(if raw.starts { size.memory_bytes } else { 0 });
        }
        self.links_fit(checker, file, left);
    }

    /// Links get what nobody holds; without it instances speak over their cards. A zone with served disks does not start without memory for
    /// that.
    fn links_fit(&self, checker: &mut Checker, file: &raw::File, left: u64) {
        let show = units::show_bytes;
        let disks = served::bytes(file);
        if let Some(text) = file.memory.as_ref().filter(|_| left < disks) {
            let message = format!("disks that the supervisor serves want {} of shared memory", show(disks));
            let problem = Problem::new(text.span(), message, format!("{} are left for them", show(left)));
            checker.wrong(problem.help("raise `memory`: it is 2 MiB for each zone with `disks = \"supervisor\"`"));
        }
        let (left, wanted) = (left.saturating_sub(disks), links::bytes(file));
        if let Some(text) = file.memory.as_ref().filter(|_| left < wanted) {
            let message = format!("links between instances want {}", show(wanted));
            let problem = Problem::new(text.span(), message, format!("{} are left for them", show(left)));
            let help = "raise `memory`, or give zones `links = [...]`: without memory for a link its ends speak over their cards";
            checker.odd(problem.help(help));
        }
    }
}

/// Memory that two instances share, of links and of disks.
fn shared_bytes(file: &raw::File) -> u64 {
    links::bytes(file).saturating_add(served::bytes(file))
}

fn beside() -> String {
    let beside = units::show_bytes(BESIDE_BYTES);
    format!("raise `memory` at the top of the file, or give others less; {beside} are the firmware's and the module's")
}
