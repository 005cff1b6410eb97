//! From a checked machine file to a machine that runs, with wire, ports and clients.

use std::{
    collections::BTreeMap,
    fs::File,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use gyre_config::{
    address,
    boot::{Metric, Root, Tenant, TenantKind},
    file::{Bus, Description, HostTenant},
    policy::Rate,
};

use super::{plain, space};
use crate::{
    agent::Agent,
    build, cli,
    command::last_lines,
    failure::{Context as _, Failure, Result},
    forward, image, linux,
    load::{self, Clients},
    module,
    namespace::Namespace,
    partitions,
    project::Project,
    qemu::{self, Qemu},
    stop::Stop,
    symbols::Symbols,
    ui::{self, Step},
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
    /// The log of its console.
    pub console: PathBuf,
    /// A client of its agent.
    pub agent: Agent,
    /// Its console on standard output, where that is wanted.
    pub copying: Option<plain::Copying>,
    /// When QEMU was started.
    pub started: Instant,
    /// From QEMU's start to the first page served.
    pub first_page: Option<Duration>,
    clients: Vec<(String, Clients)>,
    /// Held as long as the machine runs.
    _lock: File,
}

/// Takes a machine's folder: two runs must not share disks.
fn lock(folder: &Path, name: &str) -> Result<File> {
    let path = folder.join("lock");
    // Not truncated: while it is taken it says who has it.
    let options = File::options().write(true).create(true).truncate(false).to_owned();
    let file = options.open(&path).context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {
            // Who to tell that the machine is to end: `gyre stop`.
            std::fs::write(&path, std::process::id().to_string())
                .context(|| format!("cannot write {}", path.display()))?;
            Ok(file)
        }
        Err(_) => {
            let help = "watch it with ./gyre top, end it with ./gyre stop, or give this machine another `name`";
            Err(Failure::with_help(format!("the machine `{name}` is running already"), help))
        }
    }
}

/// What is booted.
struct Boot {
    kernel: PathBuf,
    module: PathBuf,
    command_line: String,
}

/// Builds what is missing and starts the machine.
///
/// # Errors
/// When something cannot be built or started.
pub fn start(project: &Project, description: Description, arguments: &cli::Run, stop: &Stop) -> Result<Running> {
    start_with_clock(project, description, arguments, stop, qemu::Clock::Host)
}

/// The same with a clock of one's choice.
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
        description.machine.cores = cores;
    }
    let folder = project.run_folder(&description.machine.name)?;
    let lock = lock(&folder, &description.machine.name)?;
    let boot = boot(project, &description, arguments, &folder)?;
    let disks = disks(project, &description, &folder)?;
    space::check(&disks, arguments.small_disk)?;
    let console = folder.join("console.log");
    // What the last run said must not be taken for this one's.
    let _ = std::fs::remove_file(&console);
    let (namespace, tap) = Namespace::create()?;
    forward_all(&namespace, &description, &folder)?;
    let (ours, qemus) = wire::sockets()?;
    let machine = &description.machine;
    let started = Instant::now();
    let qemu = Qemu::start(&qemu::Machine {
        cores: machine.cores,
        memory_bytes: machine.memory_bytes,
        kernel: &boot.kernel,
        module: &boot.module,
        command_line: &boot.command_line,
        disks: &disks,
        throttle: &throttle(&description),
        bus: match (arguments.on, &description.disk) {
            (cli::Kernel::Gyre, Some(disk)) => disk.bus,
            // To compare with: Linux's drivers for both are of one quality.
            _ => Bus::Virtio,
        },
        console: &console,
        wire: Some(qemus),
        clock,
        extra: &arguments.qemu,
    })?;
    let counters = Counters::new(machine.tenants.iter().map(|tenant| (tenant.name.as_str(), tenant.address)));
    let options =
        wire::Options { rate_bits_per_second: machine.link.rate_bits_per_second, pcap: arguments.pcap.as_deref() };
    let wire = Wire::start(ours, tap, Arc::new(counters), &options)?;
    let agent = Agent::at(&folder.join("agent.sock"));
    let mut running = Running {
        description,
        qemu,
        wire,
        namespace,
        console,
        agent,
        copying: None,
        started,
        first_page: None,
        clients: vec![],
        _lock: lock,
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

fn boot(project: &Project, description: &Description, arguments: &cli::Run, folder: &Path) -> Result<Boot> {
    let machine = &description.machine;
    if arguments.on == cli::Kernel::Linux {
        let linux = linux::prepare(project, machine, folder, Some(&build::agent(project)?))?;
        let command_line = format!("{} {} {}", linux::COMMAND_LINE, request_limits(description), arguments.append);
        return Ok(Boot { kernel: linux.kernel, module: linux.initrd, command_line });
    }
    let kernel = arguments.kernel.clone().map_or_else(|| build::kernel(project), Ok)?;
    let module = folder.join("module.bin");
    module::write(machine, &build::agent(project)?, &module)?;
    Ok(Boot { kernel, module, command_line: arguments.append.clone() })
}

/// What Linux is to let tenants have of a shared disk that grants so many requests: the same part of it that the machine file grants them of
/// its time. Words of the command line, which its first script turns into `io.max`.
fn request_limits(description: &Description) -> String {
    let Some(requests) = description.disk.and_then(|disk| disk.requests_per_second) else { return String::new() };
    let block = description.machine.resources.iter().find(|policy| policy.resource == "block");
    let limit = |tenant: &Tenant| {
        let entitlement = tenant.entitlements.iter().find(|one| one.resource == "block")?;
        match (block?.metric, entitlement.limit?) {
            (Metric::DeviceTime, Rate::PerSecond(ns)) => Some((requests * ns / 1_000_000_000).max(1)),
            (Metric::Messages, Rate::PerSecond(count)) => Some(count),
            _ => None,
        }
    };
    let words = description.machine.tenants.iter().filter_map(|tenant| Some((&tenant.name, limit(tenant)?)));
    words.map(|(name, count)| format!("{}{name}={count} ", linux::REQUESTS_WORD)).collect()
}

/// Makes each tenant's disk, in tenant order.
fn disks(project: &Project, description: &Description, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut images: BTreeMap<&str, PathBuf> = BTreeMap::new();
    let mut disks = vec![];
    for tenant in &description.tenants {
        let name = tenant.image.as_str();
        if !images.contains_key(name) {
            let image =
                description.images.get(name).ok_or_else(|| Failure::new(format!("there is no image `{name}`")))?;
            images.insert(name, image::build(project, name, image)?);
        }
        let disk = folder.join(format!("{}.ext2", tenant.name));
        if let Some(image) = images.get(name) {
            image::copy_for(image, &disk)?;
        }
        disks.push(disk);
    }
    match description.disk {
        None => Ok(disks),
        Some(_) => partitions::join(&disks, &folder.join("shared.disk")).map(|disk| vec![disk]),
    }
}

/// How QEMU is to slow the shared disk down, as options of a drive.
fn throttle(description: &Description) -> String {
    let Some(disk) = &description.disk else { return String::new() };
    let bytes = disk.rate_bytes_per_second.map(|rate| format!(",throttling.bps-total={rate}"));
    let requests = disk.requests_per_second.map(|count| format!(",throttling.iops-total={count}"));
    bytes.into_iter().chain(requests).collect()
}

fn forward_all(namespace: &Namespace, description: &Description, folder: &Path) -> Result<()> {
    for (tenant, host) in customers(description) {
        for port in &host.ports {
            forward::port(namespace, port.host, at(tenant, port.guest), &tenant.name)?;
        }
    }
    let agent = SocketAddr::from((Ipv4Addr::from(address::SYSTEM), address::AGENT_PORT));
    forward::unix(namespace, &folder.join("agent.sock"), agent)
}

/// The customers of a machine: what the kernel knows and what the host knows of each.
pub fn customers(description: &Description) -> impl Iterator<Item = (&Tenant, &HostTenant)> {
    let with_disk = description
        .machine
        .tenants
        .iter()
        .filter(|tenant| tenant.kind == TenantKind::Customer && tenant.root != Root::Embedded);
    with_disk.zip(&description.tenants)
}

fn at(tenant: &Tenant, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(tenant.address), port))
}

impl Running {
    /// Waits until every tenant that is to be loaded has served a page, then starts its clients.
    ///
    /// Somebody who watches the console wants to see a machine that does not serve, too: `lenient` makes that a warning.
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
        let targets: Vec<_> = customers(&self.description)
            .filter_map(|(tenant, host)| {
                let load = host.load.as_ref()?;
                Some((at(tenant, load.port), load.path.clone()))
            })
            .collect();
        for (to, path) in targets {
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
            waited.map_err(|failure| self.silent(&failure))?;
            self.first_page.get_or_insert_with(|| self.started.elapsed());
        }
        let note = self.first_page.map(|time| format!("first page after {:.2} s", time.as_secs_f64()));
        step.done_with(&note.unwrap_or_default());
        Ok(())
    }

    /// Why the machine may be silent, as the end of a sentence, as far as the host can tell.
    pub fn why_silent(&self) -> &'static str {
        match () {
            () if self.qemu.is_stopped() => ": its QEMU is stopped (SIGSTOP; kill -CONT lets it go on)",
            () if self.qemu.wants_to_run() => ": it computes, and its agent does not come to answer",
            () => ": its cores wait for something",
        }
    }

    /// What the console said last.
    pub fn last_words(&self) -> String {
        last_lines(&self.log(), 12)
    }

    fn log(&self) -> String {
        let bytes = std::fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn silent(&self, failure: &Failure) -> Failure {
        let tail = last_lines(&self.log(), 20);
        Failure::with_help(
            failure.report.to_string(),
            format!("The console's last lines ({}):\n{tail}", self.console.display()),
        )
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
                ui::say(&format!("  {} at http://127.0.0.1:{}/", tenant.name, port.host));
            }
        }
    }

    /// Ends the clients and returns what each tool said last, by tenant.
    pub fn stop_clients(&mut self) -> Vec<(String, String)> {
        self.clients.drain(..).map(|(tenant, clients)| (tenant, clients.stop())).collect()
    }
}
