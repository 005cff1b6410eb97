//! A zone that the machine was not started with is made: `gyre zone create NAME --file FILE`, and zones that are new in the file of `gyre zone apply`.
//!
//! In order:
//!
//! 1. It is refused if something does not fit ([`comer`]).
//! 2. Volumes are taken, images made, both copied into the place's disks, ports opened. The zone does not run, so nobody sees anything of it.
//! 3. The boot module is handed over, and the supervisor describes and makes the zone in one change. If it refuses, ports and disks are as
//!    before.
//! 4. The machine's list of instances is written: from here on other commands find the zone's tenants.
//!
//! A tool that is killed before the change leaves a place as it was for the supervisor; what it copied is copied again. One that is killed behind it
//! leaves a zone that runs and that `exec` does not find: `gyre zone destroy NAME`, then this again.

use std::process::ExitCode;

use gyre_contract::zones::{Command, State, Zones};
use gyre_machine_file::{Description, HostTenant, HostVolume};

use super::{
    comer::{self, Comer},
    files, list, make,
    peers::{self, Onto},
    wish,
};
use crate::{
    agent::Agent,
    apply, arrival, build,
    check::{self, print_json},
    cli::ZoneChange,
    failure::Result,
    held_file::HeldFile,
    instances::{Instance, Instances},
    machines::{
        self, Known,
        events::{self, Event},
        info::Info,
    },
    module,
    out::Form,
    places::{self, Filled},
    project::Project,
    registry::{self, Pull},
    run::{
        control::{self, Request},
        disks, programs, space,
    },
    stop::Stop,
    ui,
    volume::{self, Volume},
};

/// A machine to which zones come.
pub struct Target {
    project: Project,
    known: Known,
    instances: Instances,
    agent: Agent,
    started: Description,
    /// Holds back all other changes of who is there.
    _lock: HeldFile,
}

/// A volume of a zone that comes.
struct Wanted {
    /// The disk of the place that it becomes.
    disk: Filled,
    /// Nobody else has it as long as this lives.
    _taken: Vec<volume::Taken>,
}

/// Runs `gyre zone create NAME --file FILE`.
///
/// # Errors
/// When the zone cannot be made: nothing has changed.
pub fn create(machine: Option<&str>, wanted: &ZoneChange, form: Form) -> Result<ExitCode> {
    let command = wish::command(wanted)?;
    let ZoneChange::Create { name, file: Some(file), .. } = wanted else { return Ok(ExitCode::FAILURE) };
    let target = Target::find(machine)?;
    target.make(&check::read(file)?, name, command.clone())?;
    let after = target.agent.zones()?;
    match form {
        Form::Programs => print_json(&after)?,
        Form::People => list::done(&command, &after),
    }
    Ok(ExitCode::SUCCESS)
}

impl Target {
    /// Finds a running machine.
    ///
    /// # Errors
    /// When none runs, it was not started from a file, or another command changes it.
    pub fn find(machine: Option<&str>) -> Result<Self> {
        Stop::on_signals()?;
        let project = Project::find()?;
        let known = machines::find(&project, machine)?;
        let _lock = arrival::lock(&known.folder)?;
        let instances = Instances::find(&project, machine)?;
        let (agent, started) = (instances.supervisor(), apply::running(&known)?);
        Ok(Self { project, known, instances, agent, started, _lock })
    }

    /// Returns the machine as it was started.
    pub fn started(&self) -> &Description {
        &self.started
    }

    /// Checks whether zones of a file can come, as far as that is seen before anything is done.
    ///
    /// # Errors
    /// The first reason for which one cannot.
    pub fn check(&self, described: &Description, names: &[String], zones: &Zones) -> Result<()> {
        let vacant = zones.zones.iter().filter(|view| view.state == State::Vacant).count();
        for (number, name) in names.iter().enumerate() {
            let place = comer::place(&self.started, zones, name)?;
            let own = comer::only(described, name)?;
            comer::put(&own, &self.started, place, &self.peers(&own, place, zones)?)?;
            if number >= vacant {
                return Err(comer::too_few(names.len(), vacant));
            }
        }
        Ok(())
    }

    /// Makes a zone of a file; `create` says with which sizes.
    ///
    /// # Errors
    /// When it cannot be done: nothing has changed.
    pub fn make(&self, described: &Description, name: &str, create: Command) -> Result<()> {
        let zones = self.agent.zones()?;
        let place = comer::place(&self.started, &zones, name)?;
        let own_name = self.started.machine.zones.get(place).map(|zone| zone.name.clone()).unwrap_or_default();
        let mut own = comer::only(described, name)?;
        let tenants = own.zones.first().map(|zone| zone.tenants.clone()).unwrap_or_default();
        comer::names_differ(&self.instances, &own_name, &tenants)?;
        let peers = self.peers(&own, place, &zones)?;
        comer::put(&own, &self.started, place, &peers)?;
        registry::provide(&self.project, &mut own, Pull::Missing)?;
        programs::complete(&self.project, &mut own)?;
        let comer = comer::put(&own, &self.started, place, &peers)?;
        let disks = self.fill(&own, &own_name, &comer, &tenants).and_then(|disks| {
            let socket = self.known.folder.join(module::zone_socket(&own_name));
            let bytes = module::of_zone(&comer.machine, &tenants, &build::agent(&self.project)?, &socket)?;
            let opened = self.open_ports(&comer, &tenants)?;
            let made = self.order(place, &comer, &bytes, create, &zones);
            made.inspect_err(|_| self.close_ports(&opened)).map(|()| disks)
        });
        let disks = disks.inspect_err(|_| self.refill(&own_name))?;
        let links = own.zones.first().and_then(|zone| zone.links.clone());
        self.note(&own_name, &comer, &tenants, Instance::of_comer(&comer.zone.name, &comer.machine, disks, links))
    }

    /// Makes the disks and volumes of the zone, and fills those of the place with them.
    fn fill(&self, own: &Description, place: &str, comer: &Comer, tenants: &[HostTenant]) -> Result<Vec<Filled>> {
        let volumes = self.volumes(place, comer, tenants)?;
        let disks = self.disks(own, comer, &volumes)?;
        places::fill_zone(&self.known.folder, &self.project.cache("volumes")?, place, &disks)?;
        Ok(disks)
    }

    fn peers(&self, own: &Description, place: usize, zones: &Zones) -> Result<Vec<u16>> {
        let onto = Onto { started: &self.started, instances: &self.instances, place };
        peers::peers(own, &onto, zones)
    }

    /// Finds or makes the volumes of a zone, in the order of its disks; nobody else has them. Those that the place has as they are wanted stay there;
    /// all others that it has get files of their own before.
    fn volumes(&self, place: &str, comer: &Comer, tenants: &[HostTenant]) -> Result<Vec<Wanted>> {
        let all: Vec<_> = tenants.iter().flat_map(|host| host.volumes.iter().map(move |one| (host, one))).collect();
        let numbers = comer.disks.iter().skip(comer.disks.len().saturating_sub(all.len()));
        let (mut disks, mut staying) = (vec![], vec![]);
        for (number, (_, wanted)) in numbers.zip(&all) {
            let volume = Volume::named(&self.project, &wanted.name)?;
            let disk = Filled { number: *number, path: volume.path.clone() };
            if places::has(&self.known.folder, place, &disk) && volume.fits(wanted) {
                staying.push(disk.clone());
            }
            disks.push(disk);
        }
        places::fill_zone(&self.known.folder, &self.project.cache("volumes")?, place, &staying)?;
        let take = |(disk, (host, wanted)): (Filled, &(&HostTenant, &HostVolume))| {
            let wanted = if staying.contains(&disk) { &[] } else { std::slice::from_ref(*wanted) };
            let _taken = volume::take(&self.project, &self.known.info.name, &host.name, wanted)?;
            Ok(Wanted { disk, _taken })
        };
        disks.into_iter().zip(&all).map(take).collect()
    }

    /// Makes the disks of the zone's tenants; those of its volumes are behind them.
    fn disks(&self, own: &Description, comer: &Comer, volumes: &[Wanted]) -> Result<Vec<Filled>> {
        let paths = disks::of_zone(&self.project, own, &self.known.folder)?;
        space::check(&paths, false)?;
        let roots = comer.disks.iter().zip(paths).map(|(number, path)| Filled { number: *number, path });
        Ok(roots.chain(volumes.iter().map(|wanted| wanted.disk.clone())).collect())
    }

    /// Gives the place the disks again that it had before a change which was refused: a zone that is described there can be made again.
    fn refill(&self, place: &str) {
        let before = self.instances.at_place(place).map_or(&[][..], |instance| &instance.disks);
        let volumes = self.project.cache("volumes");
        let done = volumes.and_then(|volumes| places::fill_zone(&self.known.folder, &volumes, place, before));
        if let Err(failure) = done {
            ui::warn(&format!("the disks of place {place} are not as before: {}", failure.report));
        }
    }

    fn order(&self, place: usize, comer: &Comer, module: &[u8], create: Command, zones: &Zones) -> Result<()> {
        let module = self.agent.stage(module)?;
        let place = u16::try_from(place).unwrap_or(u16::MAX);
        make(&self.agent, &[Command::Describe { place, zone: comer.zone.clone(), module }, create], zones)
    }

    /// Opens the ports of all tenants, or changes them; returns those that were not there.
    fn open_ports(&self, comer: &Comer, tenants: &[HostTenant]) -> Result<Vec<String>> {
        let mut opened = vec![];
        for (tenant, host) in comer.machine.tenants.iter().skip(1).zip(tenants) {
            let ports: Vec<String> = host.ports.iter().map(ToString::to_string).collect();
            let publish = Request::Publish { tenant: host.name.clone(), ports: ports.clone() };
            let open = Request::Open { tenant: host.name.clone(), address: tenant.address, ports };
            let is_new = !self.had(&host.name);
            if let Err(failure) = control::ask(&self.known.folder, if is_new { &open } else { &publish }) {
                self.close_ports(&opened);
                return Err(failure);
            }
            opened.extend(is_new.then(|| host.name.clone()));
        }
        Ok(opened)
    }

    /// Returns whether the zone had this tenant in its life before.
    fn had(&self, tenant: &str) -> bool {
        self.instances.all.iter().any(|instance| instance.tenants.iter().any(|(name, _)| name == tenant))
    }

    fn close_ports(&self, tenants: &[String]) {
        for tenant in tenants {
            // A gyre run that has ended has closed them.
            let _ = control::ask(&self.known.folder, &Request::Close { tenant: tenant.clone() });
        }
    }

    /// Writes down who is there now; tenants that the zone has no more lose their ports.
    fn note(&self, place: &str, comer: &Comer, tenants: &[HostTenant], instance: Instance) -> Result<()> {
        let folder = &self.known.folder;
        let mut instances = self.instances.clone();
        let before = instances.at_place(place);
        let before: Vec<String> =
            before.iter().flat_map(|instance| &instance.tenants).skip(1).map(|(name, _)| name.clone()).collect();
        instances.take_place(place, instance)?;
        files::name(folder, place, &comer.zone.name)?;
        let is_there = |name: &String| tenants.iter().any(|host| host.name == *name);
        self.close_ports(&before.iter().filter(|name| !is_there(name)).cloned().collect::<Vec<_>>());
        Info::change(folder, tenants, &before)?;
        let words = format!("the owner has made its zone {}", comer.zone.name);
        tenants.iter().try_for_each(|host| events::add(folder, &Event::now(Some(&host.name), &words)))
    }
}
