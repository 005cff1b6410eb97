//! Bounds of the quantities of `gyre set`. The kernel checks them once more, because the figures may change before the change.

use gyre_contract::{
    bounds::{Floor, MEMORY_BYTES_MIN, PROCESSES_MAX},
    monitor::{Activity, ActivityKind, Snapshot},
};
use gyre_machine_file::units::show_bytes;

use super::wrong;
use crate::{
    failure::{Failure, Result},
    size::size,
};

/// The limit of the owner's wish, against the figures of the machine.
pub(super) struct Bounds<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) floor: Floor,
}

impl Bounds<'_> {
    /// Reads a limit of memory of a tenant or a group.
    ///
    /// # Errors
    /// When it has no unit, is less than is held, or more than the machine has.
    pub(super) fn memory(&self, whose: &Activity, value: &str) -> Result<u64> {
        let bytes = size("memory", value)?;
        let machine = self.snapshot.memory.total_bytes;
        within("memory", value, bytes, (machine, "the machine's memory"))?;
        self.holds(&whose.name, value, bytes, whose.memory_bytes)?;
        Ok(bytes)
    }

    /// Reads a limit of the memory of each process of a tenant that may hold `tenant_bytes`.
    ///
    /// # Errors
    /// When it has no unit, is less than the largest process holds, or more than the tenant may have.
    pub(super) fn process_memory(&self, tenant: &Activity, tenant_bytes: u64, value: &str) -> Result<u64> {
        let bytes = size("process-memory", value)?;
        within("process-memory", value, bytes, (tenant_bytes, "the tenant's limit"))?;
        let is_process = |one: &&Activity| one.kind == ActivityKind::Part && one.parent == tenant.id;
        let largest = self.snapshot.activities.iter().filter(is_process).max_by_key(|process| process.memory_bytes);
        if let Some(process) = largest {
            let whose = format!("process {} ({}) of {}", process.process_id, process.name, tenant.name);
            self.holds(&whose, value, bytes, process.memory_bytes)?;
        }
        Ok(bytes)
    }

    /// Reads a limit of processes and threads.
    ///
    /// # Errors
    /// When it is none, or fewer than there are.
    pub(super) fn processes(&self, tenant: &Activity, value: &str) -> Result<u32> {
        let count = super::number("processes", value, PROCESSES_MAX.into())? as u32;
        if self.floor == Floor::Held && count < tenant.processes {
            let message =
                format!("{} has {} processes and threads now, more than {value}", tenant.name, tenant.processes);
            return Err(Failure::with_help(
                message,
                "more, or --force: those that are there stay, new ones are refused",
            ));
        }
        Ok(count)
    }

    fn holds(&self, whose: &str, value: &str, bytes: u64, held: u64) -> Result<()> {
        if self.floor == Floor::Least || bytes >= held {
            return Ok(());
        }
        let message = format!("{whose} holds {} now, more than {value}", show_bytes(held));
        let help = format!(
            "at least {} (gyre evict drops what is cached of files), or --force: programs that want more are ended then",
            show_bytes(held)
        );
        Err(Failure::with_help(message, help))
    }
}

fn within(key: &str, value: &str, bytes: u64, (most, what): (u64, &str)) -> Result<()> {
    // A machine that does not say what it has bounds nothing here; the kernel does.
    let most = if most == 0 { u64::MAX } else { most };
    if (MEMORY_BYTES_MIN..=most).contains(&bytes) {
        return Ok(());
    }
    let expected = format!("expected {} to {}, {what}", show_bytes(MEMORY_BYTES_MIN), show_bytes(most));
    Err(wrong(key, value, &expected))
}

#[cfg(test)]
mod tests {
    use gyre_contract::monitor::Memory;

    use super::*;

    fn machine() -> Snapshot {
        let gold = Activity {
            id: 1,
            name: "gold".into(),
            kind: ActivityKind::Tenant,
            memory_bytes: 40 << 20,
            processes: 3,
            ..Activity::default()
        };
        let nginx = Activity {
            id: 2,
            parent: 1,
            name: "nginx".into(),
            kind: ActivityKind::Part,
            memory_bytes: 9 << 20,
            ..Activity::default()
        };
        let memory = Memory { total_bytes: 512 << 20, ..Memory::default() };
        Snapshot { activities: vec![gold, nginx], memory, ..Snapshot::default() }
    }

    fn told<T: std::fmt::Debug>(result: Result<T>) -> String {
        format!("{:?}", result.unwrap_err().report).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_limit_has_a_unit_and_is_at_least_what_is_held_and_at_most_the_machine() {
        let machine = machine();
        let (gold, floor) = (&machine.activities[0], Floor::Held);
        let bounds = Bounds { snapshot: &machine, floor };
        assert!(told(bounds.memory(gold, "1")).contains("`1` has no unit"));
        assert!(told(bounds.memory(gold, "1 B")).contains("1.00 MiB to 512 MiB, the machine's memory"));
        assert!(told(bounds.memory(gold, "900 GiB")).contains("512 MiB, the machine's memory"));
        assert!(told(bounds.memory(gold, "39 MiB")).contains("gold holds 40.0 MiB now, more than 39 MiB"));
        assert_eq!(bounds.memory(gold, "40 MiB").unwrap(), 40 << 20);
        assert!(told(bounds.process_memory(gold, 64 << 20, "65 MiB")).contains("the tenant's limit"));
        assert!(told(bounds.process_memory(gold, 64 << 20, "8 MiB")).contains("(nginx) of gold holds 9.00 MiB"));
        assert!(told(bounds.processes(gold, "2")).contains("3 processes and threads now"));
        let forced = Bounds { snapshot: &machine, floor: Floor::Least };
        assert_eq!(forced.memory(gold, "2 MiB").unwrap(), 2 << 20);
        assert_eq!(forced.processes(gold, "1").unwrap(), 1);
        assert!(forced.memory(gold, "1 B").is_err() && forced.memory(gold, "1 TB").is_err());
    }
}
