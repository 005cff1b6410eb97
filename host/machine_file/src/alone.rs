//! Cores that a resource has alone (V22): `alone.network = [1]` gives it these cores and no other ones, and keeps everything else off them.
//!
//! The kernel needs nothing for it: this file turns the line into the cores of every resource, the processor of programs included. Resources that
//! name one core share it. Each other resource keeps a core, or the line is refused.

use gyre_contract::catalogue::{Resource, usual_cores};
use gyre_contract::policy::{Policy, ResourcePolicy};

use super::{
    Problem,
    check::Checker,
    policies,
    raw::{At, File},
};

/// Names for several resources at once, beside those of resources.
const GROUPS: [(&str, fn(Resource) -> bool); 3] = [
    ("network", Resource::is_network),
    ("kernel", |resource| !matches!(resource, Resource::Cpu)),
    ("programs", |resource| matches!(resource, Resource::Cpu)),
];
/// The queue depth and the place among a tenant's queues of a resource that the file does not name.
const USUAL: (u32, u8) = (1024, u8::MAX);

/// A line of the table: who has which cores, a bit each.
struct Line<'a> {
    name: &'a At<String>,
    has: Box<dyn Fn(Resource) -> bool>,
    cores: u64,
}

/// Sets the cores of all resources as `[alone]` says; changes nothing if it says nothing.
pub(super) fn apply(checker: &mut Checker, file: &File, all: Vec<ResourcePolicy>, cores: u16) -> Vec<ResourcePolicy> {
    let lines: Vec<Line<'_>> = file
        .alone
        .iter()
        .filter_map(|(name, list)| {
            Some(Line { name, has: members(checker, name)?, cores: policies::core_set(checker, list, cores) })
        })
        .collect();
    let Some(last) = lines.last() else { return all };
    let taken = lines.iter().fold(0, |taken, line| taken | line.cores);
    for (name, policy) in &file.policy {
        refuse_both(checker, &lines, name, policy.cores.as_ref());
    }
    let placed = Resource::all().filter_map(|resource| {
        let known = all.iter().find(|one| one.resource == resource);
        let own = lines.iter().filter(|line| (line.has)(resource)).fold(0, |own, line| own | line.cores);
        let cores = if own == 0 { left(known, resource, taken, cores) } else { own };
        if cores == 0 {
            let message = format!("no core is left for `{}`", resource.file_name());
            let problem = Problem::new(last.name.span(), message, "it has the last one alone");
            checker.wrong(problem.help("each resource needs a core: give it one here, too, or leave one free"));
            return None;
        }
        Some(ResourcePolicy { cores, ..known.cloned().unwrap_or_else(|| usual(resource)) })
    });
    placed.collect()
}

/// Returns whom a name stands for.
fn members(checker: &mut Checker, name: &At<String>) -> Option<Box<dyn Fn(Resource) -> bool>> {
    if let Some((_, group)) = GROUPS.iter().find(|(known, _)| *known == name.get_ref()) {
        return Some(Box::new(group));
    }
    let meant = policies::resource(checker, name)?;
    Some(Box::new(move |resource| resource == meant))
}

/// A policy with cores of its own is asked for something else than the table says, if either wants what the other has.
fn refuse_both(checker: &mut Checker, lines: &[Line<'_>], name: &At<String>, list: Option<&At<Vec<At<i64>>>>) {
    let (Some(resource), Some(list)) = (Resource::find(name.get_ref()), list) else { return };
    let wanted = list.get_ref().iter().filter_map(|core| u32::try_from(*core.get_ref()).ok());
    let wanted = wanted.fold(0, |set, core| set | 1u64.checked_shl(core).unwrap_or(0));
    let other = |line: &&Line<'_>| (line.has)(resource) || line.cores & wanted != 0;
    if let Some(line) = lines.iter().find(other) {
        let who = line.name.get_ref();
        let message = format!("`{}` cannot have these cores: [alone] gives cores to `{who}`", name.get_ref());
        checker.wrong(Problem::new(list.span(), message, "of the policy").help("name other cores, or leave them out"));
    }
}

/// Returns the cores of a resource that has none alone: its own without those that others have.
fn left(known: Option<&ResourcePolicy>, resource: Resource, taken: u64, cores: u16) -> u64 {
    let all = usual_cores(gyre_contract::policy::Metric::Cycles, cores);
    let before = known.map_or_else(|| usual_cores(resource.usual_metric(), cores), |known| known.cores);
    match before & !taken {
        // A scheduler that decides alone needs one core, whichever it is.
        0 => all & !taken & (all & !taken).wrapping_neg(),
        free => free,
    }
}

/// A resource as it is if the file does not name it.
fn usual(resource: Resource) -> ResourcePolicy {
    let (queue_depth, priority) = USUAL;
    ResourcePolicy {
        policy: Policy::default(),
        metric: resource.usual_metric(),
        batch: 1,
        cores: 1,
        priority,
        queue_depth,
        resource,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Description, FileError, parse};
    use std::path::Path;

    fn read(head: &str) -> Result<Description, FileError> {
        let rest = "[image.i]\npackages = [\"nginx\"]\n[[tenant]]\nname = \"t\"\nshare = 1\nimage = \"i\"\n";
        parse(Path::new("m.toml"), &format!("name = \"m\"\nmemory = \"512 MiB\"\n{head}{rest}"))
    }

    fn cores(head: &str, resource: Resource) -> u64 {
        let read = read(head).unwrap();
        read.machine.resources.iter().find(|one| one.resource == resource).map_or(u64::MAX, |one| one.cores)
    }

    #[test]
    fn one_line_keeps_everything_else_off_the_cores() {
        let head = "cores = 4\nalone.network = [2, 3]\n";
        let found = |resource| cores(head, resource);
        assert_eq!((found(Resource::Tcp), found(Resource::NetworkWrite)), (0b1100, 0b1100));
        assert_eq!((found(Resource::Cpu), found(Resource::Ext2), found(Resource::Block)), (0b11, 0b11, 1));
        assert_eq!(cores("cores = 4\n", Resource::Cpu), u64::MAX, "without the line nothing is said");
    }

    #[test]
    fn programs_and_kernel_have_disjoint_cores_and_a_gate_moves() {
        let head = "cores = 2\nalone.programs = [0]\n";
        assert_eq!((cores(head, Resource::Cpu), cores(head, Resource::Block), cores(head, Resource::Tcp)), (1, 2, 2));
        let head = "cores = 2\n[alone]\nkernel = [1]\n";
        assert_eq!((cores(head, Resource::Cpu), cores(head, Resource::Block)), (1, 2));
    }

    #[test]
    fn tables_that_cannot_be_are_refused() {
        let refused = |head: &str, wanted: &str| {
            let error = read(head).expect_err(head);
            let found: Vec<String> = error.problems().map(|problem| problem.message.clone()).collect();
            let found = found.join("; ");
            assert!(found.contains(wanted), "{found}");
        };
        refused("cores = 2\nalone.network = [0, 1]\n", "no core is left for `cpu`");
        refused("cores = 2\nalone.network = [2]\n", "a core of this machine");
        refused("cores = 2\nalone.network = []\n", "at least one core");
        refused("cores = 2\nalone.nettwork = [1]\n", "there is no resource `nettwork`");
        let both = "cores = 2\nalone.network = [1]\n[policy.ext2]\ncores = [0, 1]\n";
        refused(both, "`ext2` cannot have these cores: [alone] gives cores to `network`");
        refused("cores = 2\nalone.tcp = [1]\n[policy.tcp]\ncores = [0]\n", "`tcp` cannot have these cores");
    }
}
