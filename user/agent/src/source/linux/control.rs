//! Changes on Linux: the files of control groups (Documentation/admin-guide/cgroup-v2.rst). All files of a change are written, or those that
//! were written get back what they held.
//!
//! * A share, also one at `cpu`, is `cpu.weight` (1 to 10,000).
//! * A limit at `cpu` is `cpu.max` for a period of 100 ms, or for the period that is given; a budget and a period are `cpu.max` too.
//! * Memory is `memory.max`, with `memory.high` a sixteenth below it; processes are `pids.max`.
//!
//! Everything else is refused: Linux' groups promise no reservation of the processor, no deadline and no urgency.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use gyre_contract::{
    catalogue::Resource,
    native::Change,
    policy::{Budget, Rate},
    promise::{Promise, Wish},
};

/// The period of `cpu.max`, us, if none is given.
const PERIOD_US: u64 = 100_000;
/// The largest `cpu.weight`.
const WEIGHT_MAX: u32 = 10_000;
/// The least quota and period of `cpu.max`, us.
const QUOTA_US_MIN: u64 = 1_000;

/// One file and its new text.
#[derive(Debug, PartialEq, Eq)]
struct Write {
    path: PathBuf,
    text: String,
}

/// Makes all changes, or none. `tenants` are those that there are.
///
/// # Errors
/// A sentence that says what Linux cannot do, or the error of a file.
pub fn make(groups: &Path, tenants: &[String], changes: &[Change]) -> io::Result<()> {
    let mut writes = vec![];
    for change in changes {
        writes.extend(wanted(groups, tenants, change)?);
    }
    let before: Vec<String> = writes.iter().map(|write| fs::read_to_string(&write.path)).collect::<io::Result<_>>()?;
    for (at, write) in writes.iter().enumerate() {
        if let Err(error) = put(&write.path, &write.text) {
            for (write, before) in writes.iter().zip(&before).take(at).rev() {
                // It held before, so it can hold again.
                let _ = put(&write.path, before.trim_end());
            }
            return Err(error);
        }
    }
    Ok(())
}

/// A control file is never made: one that is not there belongs to a controller that is off.
fn put(path: &Path, text: &str) -> io::Result<()> {
    let written = fs::OpenOptions::new().write(true).truncate(true).open(path);
    written.and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
}

fn wanted(groups: &Path, tenants: &[String], change: &Change) -> io::Result<Vec<Write>> {
    match change {
        Change::Tenant { name, share, memory_bytes, process_memory_bytes, processes, .. } => {
            let group = group(groups, tenants, name)?;
            let file = |file: &str, text: String| Write { path: group.join(file), text };
            if process_memory_bytes.is_some() {
                return Err(cannot("a limit of each process' memory"));
            }
            let memory = memory_bytes.map(|bytes| {
                [file("memory.high", (bytes - bytes / 16).to_string()), file("memory.max", bytes.to_string())]
            });
            let share = share.map(weight).transpose()?.map(|text| file("cpu.weight", text));
            let processes = processes.map(|count| file("pids.max", count.to_string()));
            Ok(share.into_iter().chain(memory.into_iter().flatten()).chain(processes).collect())
        }
        Change::Promise(promise) => {
            let group = group(groups, tenants, &promise.tenant)?;
            promised(&group, promise)
        }
        Change::Goal { .. } => Err(cannot("goals")),
        Change::Overload { .. } => Err(cannot("overload controllers")),
        Change::Cell { .. } => Err(cannot("cells in time")),
        Change::Life { .. } => Err(cannot("the life of a tenant's program")),
        Change::Program { .. } => Err(cannot("another program")),
        Change::Group { .. } => Err(cannot("groups of tenants")),
        Change::Add { .. } | Change::Remove { .. } => Err(cannot("tenants that come and go")),
        Change::Resource { .. } => Err(cannot("another scheduler or other cores")),
    }
}

fn group(groups: &Path, tenants: &[String], name: &str) -> io::Result<PathBuf> {
    match tenants.iter().any(|tenant| tenant == name) {
        true => Ok(groups.join(name)),
        false => Err(super::super::no_tenant_of(name, &tenants.iter().map(String::as_str).collect::<Vec<_>>())),
    }
}

fn cannot(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("Linux' control groups have no such thing here: {what}"))
}

fn weight(share: u32) -> io::Result<String> {
    match share {
        1..=WEIGHT_MAX => Ok(share.to_string()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("a share on Linux is 1 to {WEIGHT_MAX}"))),
    }
}

fn promised(group: &Path, promise: &Promise) -> io::Result<Vec<Write>> {
    if promise.resource != Resource::Cpu {
        return Err(cannot(&format!("promises at {}", promise.resource.file_name())));
    }
    for (is_asked, what) in [
        (matches!(promise.reservation, Wish::Be(_)), "a reservation of the processor"),
        (matches!(promise.deadline_ns, Wish::Be(_)), "a deadline"),
        (matches!(promise.priority, Wish::Be(_)), "an urgency"),
    ] {
        if is_asked {
            return Err(cannot(what));
        }
    }
    let mut writes = vec![];
    if let Wish::Be(share) = promise.share {
        writes.push(Write { path: group.join("cpu.weight"), text: weight(share)? });
    }
    if promise.share == Wish::Clear {
        return Err(cannot("a share of its own beside that at the processor: give a number"));
    }
    writes.extend(cpu_max(promise)?.map(|text| Write { path: group.join("cpu.max"), text }));
    Ok(writes)
}

/// Returns the text of `cpu.max` that is wished for, if any.
fn cpu_max(promise: &Promise) -> io::Result<Option<String>> {
    let period_us = if let Wish::Be(ns) = promise.period_ns { ns / 1000 } else { PERIOD_US };
    let quota_us = match (promise.budget, promise.limit) {
        (Wish::Be(Budget::Time(ns)), _) => ns / 1000,
        (Wish::Be(Budget::Amount(_)), _) | (_, Wish::Be(Rate::PerSecond(_))) => {
            return Err(cannot("a number of cycles: give time, or a percentage of a core"));
        }
        (_, Wish::Be(Rate::CoreThousandths(parts))) => parts.saturating_mul(period_us) / 1000,
        (Wish::Clear, _) | (_, Wish::Clear) => return Ok(Some(format!("max {PERIOD_US}"))),
        (Wish::Keep, Wish::Keep) if promise.period_ns == Wish::Keep => return Ok(None),
        (Wish::Keep, Wish::Keep) => return Err(cannot("a period without a budget or a limit")),
    };
    if quota_us < QUOTA_US_MIN || period_us < QUOTA_US_MIN {
        let why = format!("Linux limits to {QUOTA_US_MIN} us in a period at least");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(Some(format!("{quota_us} {period_us}")))
}

#[cfg(test)]
mod tests {
    use gyre_contract::bounds::Floor;

    use super::*;

    /// A folder as `/sys/fs/cgroup` would have it, with two tenants.
    struct Groups(PathBuf);

    impl Groups {
        fn new(name: &str) -> Groups {
            let folder = std::env::temp_dir().join(format!("gyre-control-{name}-{}", std::process::id()));
            for tenant in ["gold", "bronze"] {
                let group = folder.join(tenant);
                fs::create_dir_all(&group).unwrap();
                let files =
                    [("cpu.weight", "100"), ("cpu.max", "max 100000"), ("memory.max", "max"), ("memory.high", "max")];
                files.iter().for_each(|(file, text)| fs::write(group.join(file), format!("{text}\n")).unwrap());
            }
            Groups(folder)
        }

        fn make(&self, changes: &[Change]) -> Result<(), String> {
            make(&self.0, &["bronze".into(), "gold".into()], changes).map_err(|error| error.to_string())
        }

        fn text(&self, file: &str) -> String {
            fs::read_to_string(self.0.join(file)).unwrap().trim_end().to_owned()
        }
    }

    impl Drop for Groups {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn tenant(name: &str, share: Option<u32>, memory_bytes: Option<u64>, processes: Option<u32>) -> Change {
        let name = name.into();
        Change::Tenant { name, share, memory_bytes, process_memory_bytes: None, processes, floor: Floor::Held }
    }

    fn at_cpu(wish: impl Fn(&mut Promise)) -> Change {
        let mut promise = Promise::none("gold", Resource::Cpu);
        wish(&mut promise);
        Change::Promise(promise)
    }

    #[test]
    fn shares_limits_and_memory_are_files_of_the_group() {
        let groups = Groups::new("files");
        let limit = at_cpu(|wish| (wish.share, wish.limit) = (Wish::Be(300), Wish::Be(Rate::CoreThousandths(500))));
        groups.make(&[limit, tenant("bronze", Some(50), Some(64 << 20), None)]).unwrap();
        assert_eq!(
            (groups.text("gold/cpu.weight"), groups.text("gold/cpu.max")),
            ("300".into(), "50000 100000".into())
        );
        assert_eq!(
            (groups.text("bronze/cpu.weight"), groups.text("bronze/memory.max")),
            ("50".into(), (64 << 20).to_string())
        );
        assert_eq!(groups.text("bronze/memory.high"), (60 << 20).to_string());
        groups.make(&[at_cpu(|wish| wish.limit = Wish::Clear)]).unwrap();
        assert_eq!(groups.text("gold/cpu.max"), "max 100000");
        let budget = at_cpu(|wish| {
            (wish.period_ns, wish.budget) = (Wish::Be(20_000_000), Wish::Be(Budget::Time(5_000_000)));
        });
        groups.make(&[budget]).unwrap();
        assert_eq!(groups.text("gold/cpu.max"), "5000 20000");
    }

    #[test]
    fn a_change_that_cannot_be_made_leaves_every_file() {
        let groups = Groups::new("whole");
        // There is no pids.max: its controller is off.
        assert!(groups.make(&[tenant("gold", Some(7), None, None), tenant("bronze", None, None, Some(9))]).is_err());
        assert_eq!(groups.text("gold/cpu.weight"), "100");
        assert!(!groups.0.join("bronze/pids.max").exists());
        let reserved = at_cpu(|wish| wish.reservation = Wish::Be(Rate::CoreThousandths(1)));
        let text = groups.make(&[tenant("gold", Some(7), None, None), reserved]).unwrap_err();
        assert!(text.contains("a reservation of the processor"), "{text}");
        assert_eq!(groups.text("gold/cpu.weight"), "100");
        assert!(
            groups.make(&[tenant("gould", Some(7), None, None)]).unwrap_err().contains("there is no tenant `gould`")
        );
        assert!(groups.make(&[tenant("gold", Some(20_000), None, None)]).unwrap_err().contains("1 to 10000"));
    }

    #[test]
    fn a_file_that_refuses_gives_the_others_back() {
        let groups = Groups::new("back");
        // A folder in place of a file can be read by nobody, so the check before the first write fails already; a file without the right
        // to write fails at its turn.
        let path = groups.0.join("bronze/memory.max");
        let mut rights = fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o444);
        fs::set_permissions(&path, rights).unwrap();
        let is_bound = fs::OpenOptions::new().write(true).open(&path).is_err();
        let made = groups.make(&[tenant("gold", Some(7), None, None), tenant("bronze", None, Some(1 << 20), None)]);
        // Root writes it all the same.
        assert_eq!(made.is_err(), is_bound);
        assert_eq!(groups.text("gold/cpu.weight"), if is_bound { "100" } else { "7" });
    }
}
