//! `gyre check` and `gyre image`.
//!
//! * [`read`] reads a machine file for all commands that take one, and says its warnings.
//! * [`check`] shows the machine: its size, its zones and places with their devices, its tenants, its schedulers. With
//!   `--json` it writes what the kernels are told.
//! * [`images`] makes the images of a file, or one of them.
//!
//! Nothing runs, and nothing but images is written.

use std::{collections::BTreeMap, net::Ipv4Addr, path::PathBuf, process::ExitCode};

use gyre_contract::{
    boot::{Machine, Tenant},
    policy::ResourcePolicy,
    zones::DeviceAddress,
};
use gyre_machine_file as file;
use gyre_machine_file::{Description, FileError, HostTenant, Image, units, words};

use crate::{
    cli, command, debian,
    failure::{Context as _, Result},
    image,
    instances::SUPERVISOR,
    load,
    project::Project,
    registry::{self, Pull},
    stop::Stop,
    ui::{self, Paint, paint},
    zone::words as zone_words,
};

/// Reads a machine file and says its warnings.
///
/// # Errors
/// When the file is wrong.
pub fn read(path: &std::path::Path) -> Result<Description> {
    let description = file::read(path)?;
    check_packages(&description, &description.text)?;
    for warning in &description.warnings {
        let warning = FileError::warning(path, &description.text, warning.clone());
        eprintln!("{:?}", miette::Report::new(warning));
    }
    Ok(description)
}

/// Looks the packages of images that are still to be made up in this host's lists: reading those takes a second.
fn check_packages(description: &Description, text: &str) -> Result<()> {
    let project = Project::find().ok();
    let is_made = |(name, of): (&String, &Image)| project.as_ref().is_some_and(|it| image::is_made(it, name, of));
    if description.images.iter().all(|(name, of)| of.packages.is_empty() || is_made((name, of))) {
        return Ok(());
    }
    Ok(debian::names().map_or(Ok(()), |known| description.check_packages(text, &known))?)
}

/// A machine as `--json` writes it: that of the supervisor if it has zones, and beside it theirs.
#[derive(serde::Serialize)]
struct Checked<'a> {
    #[serde(flatten)]
    machine: &'a Machine,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    zone_machines: Vec<&'a Machine>,
}

/// Runs `gyre check FILE`.
///
/// # Errors
/// When the file is wrong.
pub fn check(arguments: &cli::Check) -> Result<ExitCode> {
    let description = read(&arguments.file)?;
    if arguments.json {
        let zones = description.zones.iter().map(|part| &part.machine).collect();
        print_json(&Checked { machine: &description.machine, zone_machines: zones })?;
    } else {
        show(&description);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `gyre image FILE [NAME]`.
///
/// # Errors
/// When the file is wrong or an image cannot be made.
pub fn images(arguments: &cli::Image) -> Result<ExitCode> {
    Stop::on_signals()?;
    let project = Project::find()?;
    let mut description = read(&arguments.file)?;
    registry::provide(&project, &mut description, Pull::Missing)?;
    let wanted = |name: &String| arguments.name.as_ref().is_none_or(|only| only == name);
    let mut made: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (name, image) in description.images.iter().filter(|(name, _)| wanted(name)) {
        made.insert(name.clone(), image::build(&project, name, image)?);
    }
    if let Some(name) = arguments.name.as_ref().filter(|_| made.is_empty()) {
        let names = description.images.keys().map(String::as_str);
        let help = file::closest(name, names)
            .map_or_else(|| "gyre check shows what is there".into(), |near| format!("did you mean `{near}`?"));
        return Err(crate::failure::Failure::with_help(
            format!("there is no image `{name}` in {}", arguments.file.display()),
            help,
        ));
    }
    if arguments.json {
        print_json(&made)?;
    } else {
        made.iter().for_each(|(name, path)| println!("{name}  {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a value as JSON to standard output.
///
/// # Errors
/// When standard output is closed.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).context(|| "cannot write JSON".into())?;
    println!("{text}");
    Ok(())
}

fn show(description: &Description) {
    let machine = &description.machine;
    let rate = machine
        .link
        .rate_bits_per_second
        .map_or("unlimited".to_owned(), |rate| units::show_bits_per_second(rate as f64));
    let cores = zone_words::cores(description.all_cores().into());
    let (name, memory) = (paint(Paint::Bold, &machine.name), units::show_bytes(description.all_memory_bytes()));
    println!("{name}: {cores}, {memory}, link {rate} in each direction");
    if !description.zones.is_empty() {
        print!("{}", zone_table(description));
    }
    print!("{}", tenant_table(description));
    if !machine.cells_devices.is_empty() {
        let all: Vec<_> = machine.cells_devices.iter().map(ToString::to_string).collect();
        println!("devices of cells: {}", all.join(" "));
    }
    for policy in &machine.resources {
        println!("{}", policy_line(policy));
    }
    let tenants = description.instances().flat_map(|instance| instance.tenants);
    for (tenant, load) in tenants.filter_map(|tenant| Some((tenant, tenant.load.as_ref()?))) {
        println!("load on {}: {}", tenant.name, load::describe(load));
    }
}

fn tenant_table(description: &Description) -> String {
    let has_zones = !description.zones.is_empty();
    let head = ["tenant", "share", "memory", "address", "ports", "command"].map(str::to_owned).to_vec();
    let mut rows = vec![if has_zones { [vec!["zone".to_owned()], head].concat() } else { head }];
    for instance in description.instances() {
        let customers = || instance.machine.tenants.iter().skip(1);
        let sum: u32 = customers().map(|tenant| tenant.share).sum();
        let zone = has_zones.then(|| instance.zone.unwrap_or(SUPERVISOR).to_owned());
        let cells = customers().zip(instance.tenants).map(|(tenant, host)| row(tenant, host, sum));
        rows.extend(cells.map(|cells| zone.clone().into_iter().chain(cells).collect()));
    }
    ui::table(&rows)
}

/// Shows each instance with its part of the machine.
fn zone_table(description: &Description) -> String {
    let head = ["zone", "cores", "at most", "memory", "protection", "restart", "starts", "devices"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let devices =
        |all: &mut dyn Iterator<Item = DeviceAddress>| all.map(|one| one.to_string()).collect::<Vec<_>>().join(" ");
    let machine = &description.machine;
    let cores = machine.cores.to_string();
    let own = [SUPERVISOR, &cores, &cores, &units::show_bytes(machine.memory_bytes), "", "", "yes"].map(str::to_owned);
    rows.push([own.to_vec(), vec![devices(&mut description.devices.all().chain(description.served()))]].concat());
    rows.extend(machine.zones.iter().map(|zone| {
        vec![
            zone.name.clone(),
            zone.cores.to_string(),
            zone.cores_max.to_string(),
            units::show_bytes(zone.memory_bytes),
            zone_words::protection(zone.protection).to_owned(),
            zone_words::restart(zone.restart).to_owned(),
            if zone.is_place {
                "a place"
            } else if zone.starts {
                "yes"
            } else {
                "no"
            }
            .to_owned(),
            devices(&mut zone.devices.iter().copied()),
        ]
    }));
    ui::table(&rows)
}

/// Returns a resource's scheduler in the words of the machine file.
fn policy_line(of: &ResourcePolicy) -> String {
    let (resource, policy) = (of.resource.file_name(), words::policy(&of.policy));
    format!("{resource}: {policy} by {}, batch {}", words::metric(of.metric), of.batch)
}

fn row(tenant: &Tenant, host: &HostTenant, sum: u32) -> Vec<String> {
    let ports: Vec<String> = host.ports.iter().map(ToString::to_string).collect();
    let command = tenant.program.as_ref().map_or(String::new(), |program| program.argv.join(" "));
    vec![
        tenant.name.clone(),
        format!("{:.1} %", f64::from(tenant.share) * 100.0 / f64::from(sum.max(1))),
        units::show_bytes(tenant.limits.memory_bytes),
        Ipv4Addr::from(tenant.address).to_string(),
        ports.join(" "),
        command::last_lines(&command, 1),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_policy_is_shown_in_the_words_of_the_machine_file() {
        let text = "[policy.network-write]\npolicy = \"Worst_case_fair\"\nmetric = \"bytes\"\n\
            [image.a]\n[[tenant]]\nname = \"gold\"\nshare = 1\nimage = \"a\"\n";
        let description = file::parse(Path::new("m.toml"), text).unwrap();
        assert_eq!(policy_line(&description.machine.resources[0]), "network-write: worst-case-fair by bytes, batch 1");
    }

    #[test]
    fn each_instance_is_shown_with_its_part_and_each_tenant_with_its_zone() {
        let text = "cores = 2\nmemory = \"256 MiB\"\n[supervisor]\nmemory = \"64 MiB\"\n\
            [[zone]]\nname = \"search\"\nmemory = \"128 MiB\"\n[image.a]\n\
            [[tenant]]\nname = \"gold\"\nzone = \"search\"\nshare = 1\nimage = \"a\"\n";
        let description = file::parse(Path::new("m.toml"), text).unwrap();
        let zones = zone_table(&description);
        let search = zones.lines().last().unwrap();
        let cells: Vec<&str> = search.split_whitespace().collect();
        assert_eq!(cells, ["search", "1", "1", "128", "MiB", "pages", "never", "yes", "00:04.0", "00:05.0"], "{zones}");
        assert!(tenant_table(&description).contains("search    gold  100.0 %"), "{}", tenant_table(&description));
    }
}
