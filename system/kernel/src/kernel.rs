//! The kernel: its parts, once all of them stand.

use crate::base::Base;
use crate::beats::BeatPages;
use crate::cards::Cards;
use crate::dying::Dying;
use crate::memory::Budgets;
use crate::pages::Pages;
use crate::processes::Processes;
use crate::programs::Programs;
use crate::promises::Promises;
use crate::seats::Seats;
use crate::services::Services;
use crate::storage::Storage;
use crate::tables::Tables;
use crate::tenants::Tenants;
use crate::zones::Supervised;
use crate::zones::links::Links;
use core::sync::atomic::AtomicBool;
use gyre_assembly::file_systems::FileSystems;
use gyre_assembly::network::Network;
use gyre_channel::Channels;
use gyre_object::SetOnce;
use gyre_zone_agent::Agent;

/// All state of an instance beside that of its resources. The boot makes it from complete parts, so nothing in it is set later but the
/// agent of a zone and the services, which need the kernel.
pub struct Kernel {
    /// Description, engine, activities.
    pub base: &'static Base,
    /// Disks, volumes, the file cache.
    pub storage: &'static Storage,
    /// The network path, if there is a device.
    pub network: Option<Network>,
    /// The memory resource.
    pub memory: Budgets,
    /// The file systems on disks that are mounted.
    pub file_systems: &'static FileSystems,
    /// Activities of processes.
    pub processes: &'static Processes,
    /// Activities of file systems.
    pub tables: Tables,
    /// The tenants that run, and how their first programs are.
    pub tenants: &'static Tenants,
    /// Programs that were started from outside.
    pub programs: Programs,
    /// The promises to tenants, and the last changes.
    pub promises: Promises,
    /// Pages in which programs count heartbeats.
    pub beats: BeatPages,
    /// Figures that are kept up to date for processes.
    pub pages: Pages,
    /// Traces of processes.
    pub traces: crate::traces::Traces,
    /// Processes that end because of a failure of the kernel.
    pub dying: Dying,
    /// The listeners of channels.
    pub channels: &'static Channels,
    /// Accounts of services, with those on whose behalf they spent.
    pub behalf: crate::behalf::Accounts,
    /// Network links to other instances.
    pub links: &'static Links,
    /// The network cards.
    pub cards: Cards,
    /// The zones of a supervisor; `None` if it has none.
    pub supervised: Option<Supervised>,
    /// The agent of a zone; `None` if this instance is none, or does not stand yet.
    pub zone_agent: SetOnce<&'static Agent>,
    /// The seats of cells; `None` if no memory is kept for cells.
    pub seats: Option<&'static Seats>,
    /// The kernel as the personality sees it; set before the first tenant starts.
    pub services: SetOnce<&'static Services>,
    /// The machine ends.
    pub is_ending: AtomicBool,
}

/// The kernel, for the cores beside the first. The platform starts a core with a plain function, before there is a kernel that could be
/// given to it; so these cores wait until it stands here. Nothing else reads it.
pub static KERNEL: SetOnce<&'static Kernel> = SetOnce::new();
