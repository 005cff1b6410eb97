//! The two machines: zones whose cores the supervisor moves, and one Linux whose programs are bound to cores of their own.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use gyre_broker_program::cores::Move;
use gyre_contract::zones::{Command, State, Zones};
use gyre_machine_file as file;

use crate::{
    cli::Kernel,
    exp::{program, rig::Rig},
    failure::{Failure, Result},
    load,
    namespace::Namespace,
    run::{self, Running},
};

/// Until a program answers.
const START_LIMIT: Duration = Duration::from_secs(120);
const PORT: u16 = 80;
/// Zones and tenants of the machine files.
const SEARCH: &str = "search";
const BATCH: &str = "batch";
const SERVICE_TENANT: &str = "service";
const BATCH_TENANT: &str = "work";
/// A core is waited for that long, ms.
const DEADLINE_MS: u32 = 3000;
/// Cores of both at the start.
const CORES: [usize; 2] = [1, 2];

/// Work of the batch program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batch {
    /// It computes: the host is as busy as beside [`Batch::Mix`], and the kernel has nothing to do.
    Spin,
    /// Faults, names of files, and computing.
    Mix,
}

/// A machine with a service and batch work.
pub struct Ground {
    running: Running,
    on: Kernel,
    service: SocketAddr,
    batch: SocketAddr,
    cores: [usize; 2],
}

impl Ground {
    /// Boots the machine of a kernel and waits until both programs answer.
    ///
    /// # Errors
    /// When it does not run.
    pub fn start(rig: &Rig, on: Kernel) -> Result<Ground> {
        let name = if on == Kernel::Linux { "zone-tail-linux.toml" } else { "zone-tail.toml" };
        let path = rig.project.root.join("experiments").join(name);
        let mut description = file::read(&path)?;
        let program = program::compile(&rig.project, "zone_tail/tail.c")?;
        if let Some(image) = description.images.get_mut("tail") {
            image.files.insert("/tail".into(), program);
        }
        let mut arguments = rig.arguments(path, on);
        arguments.no_load = true;
        let running = run::start(&rig.project, description, &arguments, &rig.stop)?;
        let (service, batch) = (address_of(&running, SERVICE_TENANT)?, address_of(&running, BATCH_TENANT)?);
        for to in [service, batch] {
            load::first_page(&running.namespace, to, "/ready", START_LIMIT, || rig.stop.is_set())?;
        }
        let ground = Ground { running, on, service, batch, cores: CORES };
        ground.bind()?;
        Ok(ground)
    }

    /// The service's address.
    pub fn service(&self) -> SocketAddr {
        self.service
    }

    /// The network in which the service lies.
    pub fn namespace(&self) -> Namespace {
        self.running.namespace.clone()
    }

    /// Cores of the service and of the batch program.
    pub fn cores(&self) -> [usize; 2] {
        self.cores
    }

    /// Gives the batch program its work.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn order(&self, batch: Batch) -> Result<()> {
        let path = match batch {
            Batch::Spin => "/spin",
            Batch::Mix => "/mix",
        };
        load::one_page(&self.running.namespace, self.batch, path).map(drop)
    }

    /// Returns the operations of the batch program since the last time.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn take(&self) -> Result<f64> {
        let text = load::text(&self.running.namespace, self.batch, "/take")?;
        text.trim().parse().map_err(|_| Failure::new(format!("the batch program said: {text}")))
    }

    /// Moves a core; answers why it was refused.
    ///
    /// # Errors
    /// When the machine does not answer.
    pub fn give(&mut self, to: Move) -> Result<Option<String>> {
        let [service, batch] = self.cores;
        let next = match to {
            Move::ToService => [service + 1, batch - 1],
            Move::ToBatch => [service - 1, batch + 1],
        };
        if self.on == Kernel::Gyre {
            let (from, to) = if to == Move::ToService { (BATCH, SEARCH) } else { (SEARCH, BATCH) };
            let lend =
                Command::Lend { from: from.into(), to: to.into(), cores: 1, memory_bytes: 0, deadline_ms: DEADLINE_MS };
            if let Err(refusal) = self.running.agent.control(&[lend])? {
                return Ok(Some(format!("{refusal:?}")));
            }
            self.cores = cores_of(&self.running.agent.zones()?)?;
        } else {
            self.cores = next;
            self.bind()?;
        }
        Ok(None)
    }

    /// Binds the programs under Linux: core 0 is nobody's, then come the service's and those of batch work.
    fn bind(&self) -> Result<()> {
        if self.on == Kernel::Gyre {
            return Ok(());
        }
        let [service, batch] = self.cores;
        for (to, first, count) in [(self.service, 1, service), (self.batch, 1 + service, batch)] {
            let mask: u64 = (first..first + count).map(|core| 1 << core).sum();
            load::one_page(&self.running.namespace, to, &format!("/cores/{mask:x}"))?;
        }
        Ok(())
    }

    /// Checks that the machine still runs.
    ///
    /// # Errors
    /// When it does not, or the user ends it.
    pub fn check(&mut self, rig: &Rig) -> Result<()> {
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        match self.running.qemu.ended()? {
            Some(status) => Err(self.running.qemu.unexpected_end(status)),
            None => Ok(()),
        }
    }
}

fn address_of(running: &Running, name: &str) -> Result<SocketAddr> {
    let zones = running.description.zones.iter().map(|zone| &zone.machine);
    let mut tenants = std::iter::once(&running.description.machine).chain(zones).flat_map(|machine| &machine.tenants);
    let tenant = tenants.find(|tenant| tenant.name == name);
    let tenant = tenant.ok_or_else(|| Failure::new(format!("the machine has no tenant `{name}`")))?;
    Ok(SocketAddr::from((Ipv4Addr::from(tenant.address), PORT)))
}

fn cores_of(zones: &Zones) -> Result<[usize; 2]> {
    let of = |name: &str| {
        let view = zones.zones.iter().find(|zone| zone.name == name && zone.state == State::Running);
        view.map(|view| view.holds.cores.len()).ok_or_else(|| Failure::new(format!("zone `{name}` does not run")))
    };
    Ok([of(SEARCH)?, of(BATCH)?])
}
