//! The parts that a machine boots from: kernel, module, command line.

use std::path::{Path, PathBuf};

use gyre_contract::{
    boot::{Metric, Tenant},
    catalogue::Resource,
    policy::Rate,
};
use gyre_machine_file::Description;

use crate::{
    build, cli,
    failure::{Failure, Result},
    linux, module,
    project::Project,
};

/// The parts that are booted.
pub(super) struct Boot {
    /// The kernel.
    pub(super) kernel: PathBuf,
    /// Its module.
    pub(super) module: PathBuf,
    /// Its command line.
    pub(super) command_line: String,
}

/// Builds what is missing and writes the module.
///
/// # Errors
/// When something cannot be built, or Linux is to run zones.
pub(super) fn boot(project: &Project, description: &Description, arguments: &cli::Run, folder: &Path) -> Result<Boot> {
    let machine = &description.machine;
    if arguments.on == cli::Kernel::Linux {
        no_zones(description)?;
        no_volumes(description)?;
        let linux = linux::prepare(project, machine, folder, Some(&build::agent(project)?))?;
        let command_line = format!("{} {} {}", linux::COMMAND_LINE, request_limits(description), arguments.append);
        return Ok(Boot { kernel: linux.kernel, module: linux.initrd, command_line });
    }
    let kernel = arguments.kernel.clone().map_or_else(|| build::kernel(project), Ok)?;
    let module = folder.join("module.bin");
    module::write_split(description, &build::agent(project)?, &module)?;
    Ok(Boot { kernel, module, command_line: supervisor_words(description) + &arguments.append })
}

fn no_zones(description: &Description) -> Result<()> {
    match description.zones.is_empty() {
        true => Ok(()),
        false => {
            let help = "zones are kernel instances of Gyre; take the [[zone]] tables out to compare";
            Err(Failure::with_help("a machine with zones does not run on Linux", help))
        }
    }
}

fn no_volumes(description: &Description) -> Result<()> {
    match description.tenants.iter().any(|tenant| !tenant.volumes.is_empty()) {
        true => Err(Failure::with_help("--on linux mounts no volumes", "take [[tenant.volume]] out to compare")),
        false => Ok(()),
    }
}

/// Memory at which the image begins: what lies below it belongs to the firmware.
const IMAGE_START_MIB: u64 = 2;
/// The page below 640 KiB from which cores start.
const LOW_PAGE: &str = "0x8000+4K";

/// Returns the words that make the first instance the supervisor of its zones, and bound it to its own part of the machine; nothing without zones.
fn supervisor_words(description: &Description) -> String {
    if description.zones.is_empty() {
        return String::new();
    }
    let machine = &description.machine;
    let devices: Vec<String> =
        description.devices.all().chain(description.served()).map(|device| device.to_string()).collect();
    let memory_mib = (machine.memory_bytes >> 20).saturating_sub(IMAGE_START_MIB);
    let memory = format!("{LOW_PAGE},{IMAGE_START_MIB}M+{memory_mib}M");
    format!("supervisor cores={} memory={memory} devices={} ", machine.cores, devices.join(","))
}

/// Limits for Linux's tenants on a shared disk that grants so many requests. Their part of it is the part that the machine file grants them of
/// its time. Words of the command line, which its first script turns into `io.max`.
fn request_limits(description: &Description) -> String {
    let Some(requests) = description.disk.and_then(|disk| disk.requests_per_second) else { return String::new() };
    let block = description.machine.resources.iter().find(|policy| policy.resource == Resource::Block);
    let limit = |tenant: &Tenant| {
        let entitlement = tenant.entitlements.iter().find(|one| one.resource == Resource::Block)?;
        match (block?.metric, entitlement.limit?) {
            (Metric::DeviceTime, Rate::PerSecond(ns)) => Some((requests * ns / 1_000_000_000).max(1)),
            (Metric::Messages, Rate::PerSecond(count)) => Some(count),
            _ => None,
        }
    };
    let words = description.machine.tenants.iter().filter_map(|tenant| Some((&tenant.name, limit(tenant)?)));
    words.map(|(name, count)| format!("{}{name}={count} ", linux::REQUESTS_WORD)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(zones: &str) -> Description {
        let text = format!(
            "cores = 3\nmemory = \"512 MiB\"\n{zones}\n[image.a]\n[[tenant]]\nname = \"a\"\nshare = 1\nimage = \"a\"\n"
        );
        gyre_machine_file::parse(Path::new("m.toml"), &text).unwrap()
    }

    #[test]
    fn only_a_supervisor_is_told_its_part_of_the_machine() {
        assert_eq!(supervisor_words(&description("")), "");
        let zone = "[supervisor]\nmemory = \"128 MiB\"\n[[zone]]\nname = \"z\"\nmemory = \"64 MiB\"";
        assert_eq!(
            supervisor_words(&description(zone)),
            "supervisor cores=1 memory=0x8000+4K,2M+126M devices=00:03.0,00:04.0 "
        );
        assert!(no_zones(&description(zone)).is_err() && no_zones(&description("")).is_ok());
    }
}
