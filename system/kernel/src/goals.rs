//! Goals: a page of heartbeats for any program, and all goals with their measures for the system tenant.

use crate::beats::BeatPage;
use crate::cells_in_time;
use crate::kernel::Kernel;
use alloc::string::String;
use alloc::sync::Arc;
use gyre_account::{ActivityId, Column, ResourceId};
use gyre_address_space::{MapRequest, Options, PageIndex, Place, Provider, Rights, SharedMemory};
use gyre_assembly::grid::id;
use gyre_contract::boot::{Tenant, TenantKind};
use gyre_contract::catalogue::Resource;
use gyre_contract::goals::{Aim, BeatsPage, GOALS_VERSION, Goals, TenantGoal, VERSION};
use gyre_contract::native::{GOAL_NONE, GOAL_RATE, GOAL_RESPONSE};
use gyre_engine::{COMPUTE, snapshot::Row};
use gyre_linux::time::monotonic_ns;
use gyre_linux::{Arguments, Errno, Outcome, Thread};
use gyre_machine::PAGE_BYTES;
use gyre_object::Page;
use gyre_schedulers::multiplexer::CellPlan;
use zerocopy::{FromZeros, IntoBytes};

/// The gate of frames to the network card.
const LINK: Resource = Resource::NetworkWrite;
/// A process' work on its own memory.
const OWN: ResourceId = id(Resource::Process);
/// Longest name of a page, bytes.
const NAME_BYTES_MAX: usize = 24;
/// The largest number of a goal.
const NUMBER_MAX: u64 = 1_000_000_000_000_000;
/// The percentile of a program's own goal.
const THOUSANDTHS: u16 = 990;

/// Serves `goal`.
pub async fn map(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let aim = aim(arguments.word(2), arguments.word(3))?;
    if arguments.size(1) > NAME_BYTES_MAX {
        return Err(Errno::EINVAL);
    }
    let name = thread.read_vec(arguments.word(0), arguments.size(1)).await?;
    let tenant = thread.tenant().activity();
    kernel.beats.tidy();
    let _place = kernel.pages.take_place(tenant).ok_or(Errno::ENOMEM)?;
    let page = Page::zeroed().map_err(|_| Errno::ENOMEM)?;
    page.write(0, BeatsPage { version: VERSION, ..BeatsPage::new_zeroed() }.as_bytes());
    let rights = Rights::READ | Rights::WRITE;
    let request = MapRequest {
        place: Place::Anywhere(0),
        bytes: PAGE_BYTES as u64,
        rights,
        rights_max: rights,
        options: Options::SHARED | Options::NOT_INHERITED,
        provider: Provider::Memory(Arc::new(SharedMemory::of_page(page.clone()))),
        first_index: PageIndex::FIRST,
    };
    let process = thread.process().clone();
    let address = process.space().map(request).await?;
    let name = String::from_utf8_lossy(&name).into_owned();
    match kernel.beats.add(BeatPage { id: 0, tenant, name, aim, process, page, _place }) {
        true => Ok(address),
        false => Err(Errno::ENOMEM),
    }
}

/// Returns a program's own goal.
fn aim(kind: u64, number: u64) -> Result<Option<Aim>, Errno> {
    match kind {
        GOAL_NONE => Ok(None),
        GOAL_RATE | GOAL_RESPONSE if !(1..=NUMBER_MAX).contains(&number) => Err(Errno::EINVAL),
        GOAL_RATE => Ok(Some(Aim::Rate(number))),
        GOAL_RESPONSE => Ok(Some(Aim::Response { thousandths: THOUSANDTHS, target_ns: number })),
        _ => Err(Errno::EINVAL),
    }
}

/// Serves `goals`.
pub async fn read(kernel: &'static Kernel, thread: &Thread, arguments: Arguments) -> Outcome {
    let bytes = postcard::to_allocvec(&all(kernel)).map_err(|_| Errno::ENOMEM)?;
    if bytes.len() <= arguments.size(1) {
        thread.copy_out(arguments.word(0), &bytes).await?;
    }
    Ok(bytes.len() as u64)
}

fn all(kernel: &Kernel) -> Goals {
    let table = kernel.promises.table();
    let machine = kernel.base.machine;
    let activity = |index: usize| kernel.base.activities.get(index).copied();
    let cells = cells_in_time::present(kernel.base.engine);
    let cell_of = |activity: ActivityId| cells.iter().find(|cell| cell.id == activity.0);
    let tenants = kernel.base.roll.present().filter_map(|(index, tenant)| Some((index, tenant, activity(index)?)));
    let tenants = tenants.map(|(index, tenant, activity)| TenantGoal {
        name: tenant.name.clone(),
        is_system: tenant.kind == TenantKind::System,
        is_grouped: tenant.parent.is_some(),
        goal: kernel.promises.goal(index),
        share: kernel.base.engine.accounts().activities.params(activity).weight,
        at_cpu: table.at(index, Resource::Cpu).cloned(),
        pages: kernel.beats.of(activity),
        answers: kernel.network.and_then(|network| network.net.answers_of(activity)).unwrap_or_default(),
        stalled_ns: sum(kernel, activity, stalled_ns),
        cycles: sum(kernel, activity, |row| row.columns[Column::Cycles as usize]),
        link_share: link_share(tenant),
        at_link: table.at(index, LINK).cloned(),
        link_bytes: sum(kernel, activity, link_bytes),
        overload_delay_ns: kernel.network.and_then(|network| network.net.overload_delay_of(activity)),
        overload_refused: refused(kernel, activity),
        cell_thousandths: cell_of(activity).map(CellPlan::core_thousandths),
    });
    Goals {
        version: GOALS_VERSION,
        now_ns: monotonic_ns(),
        cores: kernel.base.engine.online().count() as u16,
        cycles_per_second: gyre_machine::cycles_per_ms().saturating_mul(1000),
        epoch: kernel.promises.epoch(),
        unkept: kernel.base.engine.refused_entitlements(),
        broker: machine.broker.clone(),
        tenants: tenants.collect(),
        link_bytes_per_s: machine
            .link
            .rate_bits_per_second
            .filter(|_| kernel.network.is_some())
            .map_or(0, |rate| rate / 8),
    }
}

/// Returns how many connections the overload controller of a tenant has refused.
fn refused(kernel: &Kernel, activity: ActivityId) -> u64 {
    let seen = kernel.network.and_then(|network| network.net.statistics_of(activity));
    seen.map_or(0, |seen| seen.refused())
}

/// Returns the weight at the link that the machine file gives a tenant.
fn link_share(tenant: &Tenant) -> u32 {
    let at_link = tenant.entitlements.iter().find(|one| one.resource == LINK);
    at_link.and_then(|one| one.share).unwrap_or(tenant.share)
}

/// Its packets and blocks wait too; that is not the time of its threads.
fn stalled_ns(row: &Row) -> u64 {
    if row.resource == COMPUTE || row.resource == OWN { row.columns[Column::QueueNs as usize] } else { 0 }
}

fn link_bytes(row: &Row) -> u64 {
    if row.resource == id(LINK) { row.columns[Column::Bytes as usize] } else { 0 }
}

/// Sums up what a tenant and its processes were charged so far.
fn sum(kernel: &Kernel, activity: ActivityId, part: fn(&Row) -> u64) -> u64 {
    let engine = kernel.base.engine;
    let of = |activity| engine.figures(activity).iter().fold(0u64, |sum, row| sum.wrapping_add(part(row)));
    let all = engine.accounts().activities.subtree(activity);
    all.into_iter().fold(0, |sum, one| sum.wrapping_add(of(one)))
}
