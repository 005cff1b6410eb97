//! The making of an instance in lots of the pool. Nothing of it runs before [`Instance::start`].
//!
//! Whoever calls has the parts from the leases; here it is checked once more that they are the pool's, whole, and nobody else's.

use super::calls::{self, CorePlace};
use super::instance::Instance;
use super::instance_plan::{InstancePlan, PlanError};
use super::layout::{self, Layout};
use super::lots;
use super::parking;
use super::pool::{LOT_BYTES, pool};
use super::start_info::{self, Told};
use super::told::zone_plan;
use super::wall::{self, Wall};
use super::window::{SharedPage, Window};
use super::{devices, image};
use crate::guest::Flat32;
use crate::instructions::rdtsc;
use crate::list::List;
use core::fmt;
use core::sync::atomic::Ordering;
use gyre_platform::zone_page::{ZONE_DEVICES_MAX, ZONE_NAME_BYTES};
use gyre_platform::{CORES_MAX, MemoryRegion, PAGE_BYTES, Pa, PciAddress, ZonePage};

/// Bytes of a command line, its NUL among them.
const COMMAND_LINE_MAX: usize = PAGE_BYTES;

/// Makes an instance and leaves it ready to start.
///
/// # Errors
/// [`PlanError`]: then nothing was taken. Lots may have been written.
pub fn prepare_instance(plan: &InstancePlan) -> Result<Instance, PlanError> {
    let begun = rdtsc();
    if parking::parking().is_none() {
        return Err(PlanError::NoSupervisor);
    }
    check_names(plan)?;
    check_cores(plan.cores)?;
    if wall::is_walled(plan.protection) && !wall::has_walls() {
        return Err(PlanError::NoWall);
    }
    let devices = check_devices(plan.devices)?;
    let lots = layout::join(plan.lots)?;
    if let Some(region) = lots.as_slice().iter().find(|region| !pool().has_memory(region)) {
        return Err(PlanError::NoLot(*region));
    }
    let image = image::pristine_image();
    let layout = layout::lay_out(&lots, image.bytes as u64, plan.module.len() as u64)?;
    lots::take(lots.as_slice(), plan.number)?;
    let filled = fill(plan, &layout, &image, &devices, begun).and_then(|page| {
        let wall = wall_of(plan, &layout, layout.image + image.entry as u64, &page)?;
        Ok((page, wall))
    });
    match filled {
        Ok((page, wall)) => Ok(Instance {
            number: plan.number,
            page,
            layout,
            entry: layout.image + image.entry as u64,
            cores: core::array::from_fn(|slot| plan.cores.get(slot).copied()),
            devices,
            wall,
        }),
        Err(error) => {
            lots::leave(lots.as_slice());
            Err(error)
        }
    }
}

fn wall_of(
    plan: &InstancePlan,
    layout: &Layout,
    entry: u64,
    page: &SharedPage,
) -> Result<Option<&'static Wall>, PlanError> {
    if !wall::is_walled(plan.protection) {
        return Ok(None);
    }
    let inner = wall::Inner {
        lots: layout.lots.as_slice(),
        devices: plan.devices,
        protection: plan.protection,
        first: Flat32 { rip: entry, rbx: layout.info },
    };
    Ok(Some(Wall::build(&inner, page.get())?))
}

fn check_names(plan: &InstancePlan) -> Result<(), PlanError> {
    if !(1..1 << 31).contains(&plan.number) {
        return Err(PlanError::Number(plan.number));
    }
    if plan.name.len() > ZONE_NAME_BYTES {
        return Err(PlanError::Name(plan.name.len()));
    }
    Ok(())
}

fn check_cores(cores: &[u32]) -> Result<(), PlanError> {
    if !(1..=CORES_MAX).contains(&cores.len()) {
        return Err(PlanError::CoreCount(cores.len()));
    }
    for (slot, id) in cores.iter().enumerate() {
        match calls::core_place(*id) {
            _ if cores[..slot].contains(id) => return Err(PlanError::NoCore(*id)),
            Some(CorePlace::Idle) => {}
            None | Some(CorePlace::Lost) => return Err(PlanError::NoCore(*id)),
            Some(_) => return Err(PlanError::BusyCore(*id)),
        }
    }
    Ok(())
}

fn check_devices(devices: &[PciAddress]) -> Result<List<PciAddress, ZONE_DEVICES_MAX>, PlanError> {
    let mut list = List::new(PciAddress { bus: 0, device: 0, function: 0 });
    for address in devices {
        let is_good = pool().devices().contains(address) && !list.as_slice().contains(address);
        list.push(*address).filter(|()| is_good).ok_or(PlanError::NoDevice(*address))?;
    }
    Ok(list)
}

/// Writes all that the instance finds, and stops its devices.
fn fill(
    plan: &InstancePlan,
    layout: &Layout,
    image: &image::PristineImage,
    functions: &List<PciAddress, ZONE_DEVICES_MAX>,
    begun: u64,
) -> Result<SharedPage, PlanError> {
    for address in functions.as_slice() {
        devices::settle(*address).map_err(|_| PlanError::StuckDevice(*address))?;
    }
    let line = command_line(plan.command_line, layout.page)?;
    let told = Told { command_line: layout.command_line, module: layout.module, memory: layout.lots.as_slice() };
    let info = start_info::write(layout.info, &told);
    let pages = (layout.page - layout.info) + (size_of::<ZonePage>() as u64).next_multiple_of(PAGE_BYTES as u64);
    let written = (layout.info + pages - layout.image).next_multiple_of(LOT_BYTES);
    let window = Window::open(MemoryRegion { start: Pa(layout.image), bytes: written })?;
    let parts = [
        (layout.image, image.constants),
        (layout.image + image.constants.len() as u64, image.data),
        (layout.module.start.0, plan.module),
    ];
    let hand_over = [(layout.info, &info[..]), (layout.command_line, line.as_bytes())];
    let write = |(place, bytes): (u64, &[u8])| if bytes.is_empty() { Some(()) } else { window.write(place, bytes) };
    let written = parts.into_iter().try_for_each(write);
    let cleared = written.and_then(|()| window.clear(layout.info, pages));
    let done = cleared.and_then(|()| hand_over.into_iter().try_for_each(write));
    drop(window);
    // The layout lies within the range, so nothing was refused.
    done.ok_or(PlanError::TooSmall(pages))?;
    let page = SharedPage::open(layout.page)?;
    page.write_plan(&zone_plan(plan, layout, begun));
    page.get().to_zone.0.reset();
    page.get().to_supervisor.0.reset();
    for (place, id) in page.get().cores.iter().zip(plan.cores) {
        place.hardware_id.store(*id, Ordering::Relaxed);
    }
    Ok(page)
}

/// A command line with its NUL, in a page.
struct Line {
    bytes: [u8; COMMAND_LINE_MAX],
    length: usize,
}

impl Line {
    /// The line with its NUL.
    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..=self.length).unwrap_or(&[0])
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).filter(|_| end < COMMAND_LINE_MAX).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

fn command_line(text: &str, page: u64) -> Result<Line, PlanError> {
    let mut line = Line { bytes: [0; COMMAND_LINE_MAX], length: 0 };
    let written = fmt::write(&mut line, format_args!("{text} zone={page:#x}"));
    if written.is_err() || text.contains('\0') { Err(PlanError::CommandLine(text.len())) } else { Ok(line) }
}
