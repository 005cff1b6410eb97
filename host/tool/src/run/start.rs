//! From a checked machine file to a machine that runs, with wire, ports and clients.
//!
//! [`start`] does it in this order, and each step may end it with an error that says what helps:
//!
//!   lock      the machine's folder, as long as it runs: two runs must not share disks
//!   provide   images, programs, the kernel and the boot module
//!   disks     copies of the images, volumes; enough room on the host
//!   wire      a namespace with the far end, forwarded ports, a router if a tenant may go out
//!   QEMU      with a socket for each card
//!   serve     the first page of each tenant that has clients, then the clients
//!
//! A [`Running`] holds all of it. Dropping it ends the machine: QEMU first, then wire, namespace and clients. Words of
//! the last run are deleted before QEMU starts, so that they are not taken for those of this one.

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use gyre_contract::{
    address,
    boot::{Root, Tenant, TenantKind},
    zones::{Zone, Zones},
};
use gyre_machine_file::{Bus, Description, HostTenant, Instance, Protocol};

use super::{
    boot,
    consoles::{self, Place},
    control, disks,
    kept::Wish,
    plain, programs, space, up,
};
use crate::{
    agent::Agent,
    apply, cell, cli,
    command::last_lines,
    failure::{Context as _, Failure, Result},
    forward,
    held_file::HeldFile,
    instances::{self, Instances},
    load::{self, Clients},
    machines::info::Info,
    members::Members,
    module,
    namespace::Namespace,
    outbound::Router,
    places,
    project::Project,
    qemu::{self, Qemu},
    registry::{self, Pull},
    stop::Stop,
    symbols::Symbols,
    ui::{self, Step},
    view::sampler::LastLines,
    volume,
    wire::{self, Counters, Wire},
};

const FIRST_PAGE_LIMIT: Duration = Duration::from_secs(60);

/// A running machine; dropped, everything of it ends.
pub struct Running {
    /// Its description.
    pub description: Description,
    /// Its QEMU. Before the others, so that it is the first to go.
    pub qemu: Qemu,
    /// Its wire.
    pub wire: Wire,
    /// The far end's namespace.
    pub namespace: Namespace,
    /// The way out, if a tenant has one.
    pub router: Option<Arc<Router>>,
    /// The log of its console.
    pub console: PathBuf,
    /// A client of its agent; the supervisor's, if it has zones.
    pub agent: Agent,
    /// Its kernel instances, each with an agent.
    pub instances: Instances,
    /// The last lines of its zones' consoles.
    pub lines: LastLines,
    /// Its console on standard output, if that is wanted.
    pub copying: Option<plain::Copying>,
    /// When QEMU was started.
    pub started: Instant,
    /// From QEMU's start to the first page served.
    pub first_page: Option<Duration>,
    clients: Vec<(String, Clients)>,
    /// Held as long as the machine runs.
    _lock: HeldFile,
    /// As is this.
    _volumes: Vec<volume::Taken>,
    /// Disks that wait for volumes.
    _places: Vec<HeldFile>,
}

/// Takes a machine's folder: two runs must not share disks.
fn lock(folder: &Path, name: &str) -> Result<HeldFile> {
    let path = folder.join("lock");
    // Not truncated: while it is taken it says who has it.
    let options = File::options().write(true).create(true).truncate(false).to_owned();
    let file = options.open(&path).context(|| format!("cannot write {}", path.display()))?;
    match HeldFile::take(file) {
        Some(held) => {
            // The process that `gyre stop` tells to end the machine.
            std::fs::write(&path, std::process::id().to_string())
                .context(|| format!("cannot write {}", path.display()))?;
            Ok(held)
        }
        None => {
            let help = "watch it with ./gyre top, end it with ./gyre stop, or give this machine another `name`";
            Err(Failure::with_help(format!("the machine `{name}` is running already"), help))
        }
    }
}

/// Builds what is missing and starts the machine.
///
/// # Errors
/// When something cannot be built or started.
pub fn start(project: &Project, description: Description, arguments: &cli::Run, stop: &Stop) -> Result<Running> {
    start_with_clock(project, description, arguments, stop, qemu::Clock::Host)
}

/// Starts a machine like [`start`], with a clock of one's choice.
///
/// # Errors
/// As [`start`].
pub fn start_with_clock(
    project: &Project,
    mut description: Description,
    arguments: &cli::Run,
    stop: &Stop,
    clock: qemu::Clock,
) -> Result<Running> {
    if let Some(cores) = arguments.cores {
        match description.whole {
            None => description.machine.cores = cores,
            Some(_) => {
                let help = "change `cores` in the file, or while it runs: gyre zone set NAME cores N";
                return Err(Failure::with_help("--cores is for machines without zones", help));
            }
        }
    }
    cell::provide(project, &mut description)?;
    let folder = project.run_folder(&description.machine.name)?;
    let lock = lock(&folder, &description.machine.name)?;
    // A command that changed the last run may still write to its disks.
    let change = crate::arrival::lock(&folder)?;
    crate::zone::files::forget(&folder);
    let pull = if arguments.pull { Pull::Always } else { Pull::Missing };
    registry::provide(project, &mut description, pull)?;
    programs::complete(project, &mut description)?;
    let boot = boot::boot(project, &description, arguments, &folder)?;
    let disks::Disks { disks, volumes, held } = disks::disks(project, &description, &folder, Wish::of(arguments))?;
    let owned = disks.iter().filter(|disk| !places::is_disk(&disk.path));
    space::check(&owned.map(|disk| disk.path.clone()).collect::<Vec<_>>(), arguments.small_disk)?;
    drop(change);
    up::forget(&folder);
    Instances::of(&description, &folder).write()?;
    Info::of(&description).write(&folder)?;
    apply::keep(&folder, &description)?;
    places::write(&folder, &description)?;
    Members::forget(&folder);
    let console = folder.join("console.log");
    // Words of the last run must not be taken for those of this one.
    let _ = std::fs::remove_file(&console);
    let (namespace, tap) = Namespace::create()?;
    let ports = Arc::new(forward_all(&namespace, &description, &folder)?);
    let router = Router::start(&description, &namespace)?;
    let (plugs, cards) = plugs(&description)?;
    let started = Instant::now();
    let qemu = Qemu::start(&qemu::Machine {
        cores: description.all_cores(),
        memory_bytes: description.all_memory_bytes(),
        kernel: &boot.kernel,
        module: &boot.module,
        command_line: &boot.command_line,
        disks: &disks,
        throttle: &disks::throttle(&description),
        bus: match (arguments.on, &description.disk) {
            (cli::Kernel::Gyre, Some(disk)) => disk.bus,
            // To compare with: Linux's drivers for both are of one quality.
            _ => Bus::Virtio,
        },
        console: &console,
        cards,
        clock,
        extra: &arguments.qemu,
    })?;
    let options = wire::Options {
        rate_bits_per_second: description.machine.link.rate_bits_per_second,
        pcap: arguments.pcap.as_deref(),
        router: router.clone(),
    };
    let wire = Wire::start(plugs, tap, Arc::new(counters(&description)), &options)?;
    control::serve(&folder, namespace.clone(), ports, wire.counters.clone())?;
    let instances = Instances::of(&description, &folder);
    let lines = consoles::follow(&description, &instances.supervisor(), &folder, Place::from(arguments.console))?;
    let mut running = Running {
        description,
        qemu,
        wire,
        namespace,
        router,
        console,
        agent: instances.supervisor(),
        instances,
        lines,
        copying: None,
        started,
        first_page: None,
        clients: vec![],
        _lock: lock,
        _volumes: volumes,
        _places: held,
    };
    if arguments.console {
        running.copying = Some(plain::console(&running.console, Symbols::of(&boot.kernel))?);
    }
    if !arguments.no_load {
        running.serve_and_load(arguments.console, stop)?;
    }
    running.say_ports();
    Ok(running)
}

/// Makes a pair of sockets for each instance's card: our ends, and QEMU's.
fn plugs(description: &Description) -> Result<(Vec<wire::Plug>, Vec<qemu::Card>)> {
    let (mut plugs, mut cards) = (vec![], vec![]);
    let guests = || description.instances().filter(|one| one.devices.card.is_none()).map(|one| one.machine.link.mac);
    for instance in description.instances() {
        let Some(address) = instance.devices.card else { continue };
        let (ours, theirs) = wire::sockets()?;
        let mac = instance.machine.link.mac;
        // the supervisor's card carries the frames of those without
        let behind: Vec<[u8; 6]> = if instance.zone.is_none() { guests().collect() } else { vec![] };
        plugs.push(wire::Plug { socket: ours, macs: [vec![mac], behind].concat() });
        cards.push(qemu::Card { socket: theirs, mac, address });
    }
    Ok((plugs, cards))
}

/// Makes counters for each tenant, and for each card if there are several.
fn counters(description: &Description) -> Counters {
    let tenants = description.instances().flat_map(|instance| {
        let name = move |tenant: &Tenant| instances::full_name(instance.zone, &tenant.name);
        instance.machine.tenants.iter().map(move |tenant| (name(tenant), tenant.address))
    });
    let tenants: Vec<(String, address::Address)> = tenants.collect();
    let counters = Counters::new(tenants.iter().map(|(name, address)| (name.as_str(), *address)));
    match description.zones.is_empty() {
        true => counters,
        false => {
            let cards = description.instances().filter(|one| one.devices.card.is_some());
            counters.with_cards(cards.map(|one| one.zone.unwrap_or(instances::SUPERVISOR)))
        }
    }
}

fn forward_all(namespace: &Namespace, description: &Description, folder: &Path) -> Result<control::Ports> {
    let ports = control::Ports::default();
    for (tenant, host) in customers(description) {
        ports.open(namespace, &tenant.name, tenant.address, &host.ports)?;
    }
    for instance in description.instances() {
        let name = instance.zone.map_or_else(|| module::SOCKET_FILE.into(), module::zone_socket);
        let system = instance.machine.tenants.first().map_or(address::SYSTEM, |tenant| tenant.address);
        let agent = SocketAddr::from((Ipv4Addr::from(system), address::AGENT_PORT));
        forward::unix(namespace, &folder.join(name), agent)?;
    }
    Ok(ports)
}

/// Returns the customers of a machine, in whichever instance: what the kernel knows and what the host knows of each.
pub fn customers(description: &Description) -> impl Iterator<Item = (&Tenant, &HostTenant)> {
    description.instances().flat_map(customers_of)
}

fn customers_of(instance: Instance<'_>) -> impl Iterator<Item = (&Tenant, &HostTenant)> {
    let is_customer = |tenant: &&Tenant| tenant.kind == TenantKind::Customer && tenant.root != Root::Embedded;
    instance.machine.tenants.iter().filter(is_customer).zip(instance.tenants)
}

/// Returns the text of a console's file, whatever bytes are in it.
fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

fn at(tenant: &Tenant, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(tenant.address), port))
}

impl Running {
    /// Waits until every tenant that is to be loaded has served a page, then starts its clients.
    ///
    /// The watcher of a console wants to see a machine that does not serve, too: `lenient` makes that a warning.
    fn serve_and_load(&mut self, lenient: bool, stop: &Stop) -> Result<()> {
        match self.wait_for_pages(stop) {
            Err(failure) if lenient && !stop.is_set() => ui::warn(&failure.report.to_string()),
            Err(failure) => return Err(failure),
            Ok(()) => self.start_clients()?,
        }
        Ok(())
    }

    fn wait_for_pages(&mut self, stop: &Stop) -> Result<()> {
        let step = Step::start("booting");
        for (zone, to, path) in self.first_pages() {
            let waited = load::first_page(&self.namespace, to, &path, FIRST_PAGE_LIMIT, || {
                step.detail(last_lines(&self.log(), 1).trim());
                stop.is_set() || self.wire.is_closed()
            });
            // QEMU closes the wire a moment before it has ended.
            std::thread::sleep(Duration::from_millis(if self.wire.is_closed() { 200 } else { 0 }));
            if let Some(status) = self.qemu.ended()? {
                return Err(self.qemu.unexpected_end(status));
            }
            if stop.is_set() {
                return Err(Failure::new("ended by the user while the machine was booting"));
            }
            waited.map_err(|failure| self.silent(&failure, zone.as_deref()))?;
            self.first_page.get_or_insert_with(|| self.started.elapsed());
        }
        let note = self.first_page.map(|time| format!("first page after {:.2} s", time.as_secs_f64()));
        step.done_with(&note.unwrap_or_default());
        Ok(())
    }

    /// Returns the pages that are waited for, with the zone that serves each: those of loaded tenants in instances that start with the machine.
    fn first_pages(&self) -> Vec<(Option<String>, SocketAddr, String)> {
        let starts = |instance: &Instance| {
            let is_it = |zone: &&Zone| Some(zone.name.as_str()) == instance.zone;
            self.description.machine.zones.iter().find(is_it).is_none_or(|zone| zone.starts)
        };
        let mut pages = vec![];
        for instance in self.description.instances().filter(starts) {
            for (tenant, host) in customers_of(instance) {
                let page = host.load.as_ref().map(|load| (at(tenant, load.port), load.path.clone()));
                pages.extend(page.map(|(to, path)| (instance.zone.map(str::to_owned), to, path)));
            }
        }
        pages
    }

    /// Returns the zones as they are now; none if the machine has none, or its supervisor does not answer.
    pub fn zones(&self) -> Option<Zones> {
        self.instances.has_zones().then(|| self.agent.zones().ok()).flatten()
    }

    /// Why the machine may be silent, as the end of a sentence, as far as the host can tell.
    pub fn why_silent(&self) -> &'static str {
        match () {
            () if self.qemu.is_stopped() => ": its QEMU is stopped (SIGSTOP; kill -CONT lets it go on)",
            () if self.qemu.wants_to_run() => ": it computes, and its agent does not come to answer",
            () => ": its cores wait for something",
        }
    }

    /// Returns the last words of the console.
    pub fn last_words(&self) -> String {
        last_lines(&self.log(), 12)
    }

    fn log(&self) -> String {
        text(&self.console)
    }

    /// Says what the kernel that should have served has printed.
    fn silent(&self, failure: &Failure, zone: Option<&str>) -> Failure {
        let of_zone = zone.map(|zone| consoles::file(self.console.parent().unwrap_or(Path::new("")), zone));
        let path = of_zone.unwrap_or_else(|| self.console.clone());
        let tail = last_lines(&text(&path), 20);
        let whose = zone.map_or_else(|| "The console's".to_owned(), |zone| format!("The console of zone {zone}, its"));
        Failure::with_help(failure.report.to_string(), format!("{whose} last lines ({}):\n{tail}", path.display()))
            .kind(crate::failure::Kind::Machine)
    }

    fn start_clients(&mut self) -> Result<()> {
        for (tenant, host) in customers(&self.description) {
            if let Some(load) = &host.load {
                let clients = Clients::start(&self.namespace, Ipv4Addr::from(tenant.address), load)?;
                self.clients.push((tenant.name.clone(), clients));
            }
        }
        Ok(())
    }

    fn say_ports(&self) {
        for (tenant, host) in customers(&self.description) {
            for port in &host.ports {
                match port.protocol {
                    Protocol::Tcp => ui::say(&format!("  {} at http://{}/", tenant.name, port.from())),
                    Protocol::Udp => ui::say(&format!("  {} at {} (UDP)", tenant.name, port.from())),
                }
            }
        }
    }

    /// Ends the clients and returns what each tool said last, by tenant.
    pub fn stop_clients(&mut self) -> Vec<(String, String)> {
        self.clients.drain(..).map(|(tenant, clients)| (tenant, clients.stop())).collect()
    }
}
