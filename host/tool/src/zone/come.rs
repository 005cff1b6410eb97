//! A zone that the machine was not started with is made: `gyre zone create NAME --file FILE`, and zones that are new in the file of `gyre zone apply`.
//!
//! In order:
//!
//! 1. It is refused if something does not fit ([`comer`]).
//! 2. Images are made, disks copied into the place's, ports opened. The zone does not run, so nobody sees anything of it.
//! 3. The boot module is handed over, and the supervisor describes and makes the zone in one change. If it refuses, the ports are as before.
//! 4. The machine's list of instances is written: from here on other commands find the zone's tenants.
//!
//! A tool that is killed before the change leaves a place as it was for the supervisor; what it copied is copied again. One that is killed behind it
//! leaves a zone that runs and that `exec` does not find: `gyre zone destroy NAME`, then this again.

use std::process::ExitCode;

use gyre_contract::zones::{Command, State, Zones};
use gyre_machine_file::{Description, HostTenant};

use super::{
    comer::{self, Comer},
    list, make, wish,
};
use crate::{
    agent::Agent,
    apply, arrival, build,
    check::{self, print_json},
    cli::ZoneChange,
    failure::Result,
    held_file::HeldFile,
    instances::Instances,
    machines::{
        self, Known,
        events::{self, Event},
        info::Info,
    },
    module,
    out::Form,
    places,
    project::Project,
    registry::{self, Pull},
    run::{
        control::{self, Request},
        disks, programs, space,
    },
    stop::Stop,
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
            comer::put(&comer::only(described, name)?, &self.started, place)?;
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
        comer::put(&own, &self.started, place)?;
        registry::provide(&self.project, &mut own, Pull::Missing)?;
        programs::complete(&self.project, &mut own)?;
        let comer = comer::put(&own, &self.started, place)?;
        self.fill(&own, &own_name)?;
        let socket = self.known.folder.join(module::zone_socket(&own_name));
        let bytes = module::of_zone(&comer.machine, &tenants, &build::agent(&self.project)?, &socket)?;
        let opened = self.open_ports(&comer, &tenants)?;
        if let Err(failure) = self.order(place, &comer, &bytes, create, &zones) {
            self.close_ports(&opened);
            return Err(failure);
        }
        self.note(&own_name, &comer, &tenants)
    }

    /// Makes the disks of the zone, and fills those of the place with them.
    fn fill(&self, own: &Description, place: &str) -> Result<()> {
        let folder = &self.known.folder;
        let disks = disks::of_zone(&self.project, own, folder)?;
        space::check(&disks, false)?;
        places::fill_zone(folder, place, &disks)
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
    fn note(&self, place: &str, comer: &Comer, tenants: &[HostTenant]) -> Result<()> {
        let folder = &self.known.folder;
        let mut instances = self.instances.clone();
        let before = instances.all.iter().find(|instance| instance.place.as_deref() == Some(place));
        let before: Vec<String> =
            before.iter().flat_map(|instance| &instance.tenants).skip(1).map(|(name, _)| name.clone()).collect();
        instances.take_place(place, &comer.zone.name, &comer.machine)?;
        let is_there = |name: &String| tenants.iter().any(|host| host.name == *name);
        self.close_ports(&before.iter().filter(|name| !is_there(name)).cloned().collect::<Vec<_>>());
        Info::change(folder, tenants.iter(), &before)?;
        let words = format!("the owner has made its zone {}", comer.zone.name);
        tenants.iter().try_for_each(|host| events::add(folder, &Event::now(Some(&host.name), &words)))
    }
}
