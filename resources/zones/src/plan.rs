//! A list of commands becomes an aim for each zone, or a refusal. Pure.
//!
//! The commands are read one after the other over a picture of the zones; the aims are what the picture shows at the end. So a list is one
//! change: what one zone gives, another one may take, whatever the order.
//!
//! Protocol of use: [`read`] the commands, [`check`] that there is enough, then carry the [`Change`] out (`change.rs`). Neither looks at the
//! machine. A refusal names the zone, its state, or the part that lacks.
//!
//! Left out: which core, lot or device a zone gets; the pool chooses.

use crate::slot::Known;
use alloc::string::String;
use alloc::vec::Vec;
use gyre_contract::zones::{Command, DeviceAddress, LOT_BYTES, Part, Refusal, SHARES, State, Zone};
use gyre_machine::PciAddress;

/// Longest grace time or deadline, ms.
const PATIENCE_MS_MAX: u32 = 60_000;
/// Time that a new size may take if the command does not say.
const DEADLINE_MS: u32 = 1_000;

/// The way of a zone in a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Course {
    /// It runs on, or stays as it is.
    Stays,
    /// It is made.
    Begins,
    /// It ends.
    Ends,
    /// It ends and is made again.
    BeginsAgain,
}

/// The state that a zone shall come to.
#[derive(Clone, Debug)]
pub(crate) struct Aim {
    pub(crate) course: Course,
    pub(crate) cores: u32,
    pub(crate) lots: u32,
    pub(crate) devices: Vec<PciAddress>,
    pub(crate) parent: Option<usize>,
    pub(crate) share: u32,
    pub(crate) grace_ms: u32,
    pub(crate) deadline_ms: u32,
}

/// Parts that go from one zone to another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Loan {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) cores: u32,
    pub(crate) lots: u32,
}

/// A whole change.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) aims: Vec<Aim>,
    pub(crate) loans: Vec<Loan>,
}

/// A zone in the picture.
struct Figure<'a> {
    zone: &'a Zone,
    known: &'a Known,
    lives: bool,
    is_new: bool,
    aim: Aim,
}

/// Reads the commands.
///
/// # Errors
/// The first [`Refusal`] that follows from the commands and the zones alone.
pub(crate) fn read(zones: &[&Zone], known: &[Known], commands: &[Command]) -> Result<Change, Refusal> {
    let mut picture =
        Picture { figures: zones.iter().copied().zip(known).map(Figure::of).collect(), loans: Vec::new() };
    for command in commands {
        picture.apply(command)?;
    }
    let mut aims: Vec<Aim> = picture.figures.iter().map(Figure::aim).collect();
    leave_children(&mut aims);
    Ok(Change { aims, loans: picture.loans })
}

/// A zone that ends leaves the zones that it managed to whoever manages it.
fn leave_children(aims: &mut [Aim]) {
    let ends =
        |aims: &[Aim], place: usize| aims.get(place).filter(|aim| aim.course == Course::Ends).map(|aim| aim.parent);
    for place in 0..aims.len() {
        let mut parent = aims.get(place).and_then(|aim| aim.parent);
        // Parents are no ring.
        for _ in 0..aims.len() {
            let Some(above) = parent.and_then(|parent| ends(aims, parent)) else { break };
            parent = above;
        }
        aims.get_mut(place).into_iter().for_each(|aim| aim.parent = parent);
    }
}

/// Checks that there is as much as the aims need: of whatever is free, and of what zones give.
///
/// # Errors
/// [`Refusal::Lacking`].
pub(crate) fn check(change: &Change, known: &[Known], free_cores: u64, free_lots: u64) -> Result<(), Refusal> {
    let sums = |now: fn(&Known) -> u64, then: fn(&Aim) -> u64| {
        let pairs = change.aims.iter().zip(known).map(|(aim, known)| (now(known), then(aim)));
        pairs.fold((0u64, 0u64), |(gained, needed), (now, then)| {
            (gained.saturating_add(now.saturating_sub(then)), needed.saturating_add(then.saturating_sub(now)))
        })
    };
    let (gained, wanted) = sums(|known| known.parts.cores.len() as u64, |aim| u64::from(aim.cores));
    let free = free_cores.saturating_add(gained);
    if wanted > free {
        return Err(Refusal::Lacking { part: Part::Core, wanted, free });
    }
    let (gained, wanted) = sums(|known| known.parts.lot_count(), |aim| u64::from(aim.lots));
    let free = free_lots.saturating_add(gained);
    if wanted > free {
        let bytes = |lots: u64| lots.saturating_mul(LOT_BYTES);
        return Err(Refusal::Lacking { part: Part::Memory, wanted: bytes(wanted), free: bytes(free) });
    }
    Ok(())
}

struct Picture<'a> {
    figures: Vec<Figure<'a>>,
    loans: Vec<Loan>,
}

impl<'a> Figure<'a> {
    fn of((zone, known): (&'a Zone, &'a Known)) -> Figure<'a> {
        let aim = Aim {
            course: Course::Stays,
            cores: known.parts.cores.len() as u32,
            lots: u32::try_from(known.parts.lot_count()).unwrap_or(u32::MAX),
            devices: known.parts.devices.clone(),
            parent: known.parent,
            share: known.share,
            grace_ms: 0,
            deadline_ms: DEADLINE_MS,
        };
        Figure { zone, known, lives: known.lives(), is_new: false, aim }
    }

    fn aim(&self) -> Aim {
        let course = match (self.known.lives(), self.lives, self.is_new) {
            (true, true, true) => Course::BeginsAgain,
            (false, true, _) => Course::Begins,
            (true, false, _) => Course::Ends,
            // One that waits to be made again, and shall not be.
            (false, false, true) => Course::Ends,
            _ => Course::Stays,
        };
        Aim { course, ..self.aim.clone() }
    }

    fn wrong_state(&self) -> Refusal {
        Refusal::State { zone: self.zone.name.clone(), state: self.known.state.clone() }
    }

    /// Returns an error unless its kernel can be asked for parts, or is made with what the change says.
    fn check_movable(&self) -> Result<(), Refusal> {
        match self.lives && (self.is_new || self.known.state == State::Running) {
            true => Ok(()),
            false => Err(self.wrong_state()),
        }
    }

    fn set_cores(&mut self, cores: u32) -> Result<(), Refusal> {
        if cores == 0 || cores > u32::from(self.zone.cores_max.max(self.zone.cores)) {
            let max = self.zone.cores_max.max(self.zone.cores);
            return Err(invalid(alloc::format!("zone {} may have 1 to {max} cores", self.zone.name)));
        }
        self.aim.cores = cores;
        Ok(())
    }

    fn set_memory(&mut self, bytes: u64) -> Result<(), Refusal> {
        let lots = bytes.checked_div(LOT_BYTES).unwrap_or(0);
        if lots == 0 || !bytes.is_multiple_of(LOT_BYTES) {
            return Err(invalid(alloc::format!("memory comes in lots of {LOT_BYTES} bytes, not {bytes}")));
        }
        self.aim.lots = u32::try_from(lots).map_err(|_| invalid("there is no machine of this size".into()))?;
        Ok(())
    }

    fn set_share(&mut self, share: Option<u32>) -> Result<(), Refusal> {
        if self.known.state == State::Vacant {
            return Err(self.wrong_state());
        }
        let share = share.unwrap_or(self.aim.share);
        if !SHARES.contains(&share) {
            let (least, most) = SHARES.into_inner();
            return Err(invalid(alloc::format!("zone {} may have a share of {least} to {most}", self.zone.name)));
        }
        self.aim.share = share;
        Ok(())
    }

    fn create(&mut self, cores: Option<u16>, memory_bytes: Option<u64>) -> Result<(), Refusal> {
        if self.lives || self.known.state == State::Vacant {
            return Err(self.wrong_state());
        }
        (self.lives, self.is_new) = (true, true);
        self.set_cores(u32::from(cores.unwrap_or(self.zone.cores)))?;
        self.set_memory(memory_bytes.unwrap_or(self.zone.memory_bytes))?;
        self.aim.devices = self.zone.devices.iter().copied().map(address).collect();
        Ok(())
    }

    /// Checks that a zone which is made can begin with what another one gives; the pool chooses its parts. A zone that is made again keeps its own.
    fn begins_with(&self, cores: u32, lots: u32) -> Result<(), Refusal> {
        if self.known.lives() || self.known.waits() {
            return Err(self.wrong_state());
        }
        match cores <= self.aim.cores && lots <= self.aim.lots {
            true => Ok(()),
            false => Err(invalid(alloc::format!("zone {} is made with less than that", self.zone.name))),
        }
    }

    fn destroy(&mut self, grace_ms: u32) -> Result<(), Refusal> {
        if !self.lives && !self.known.waits() {
            return Err(self.wrong_state());
        }
        // One that only waits to be made again has parts to give back.
        (self.lives, self.is_new) = (false, self.known.waits());
        (self.aim.cores, self.aim.lots) = (0, 0);
        self.aim.devices.clear();
        self.aim.grace_ms = grace_ms.min(PATIENCE_MS_MAX);
        Ok(())
    }

    fn restart(&mut self, grace_ms: u32) -> Result<(), Refusal> {
        if !self.lives && !self.known.waits() {
            return Err(self.wrong_state());
        }
        (self.lives, self.is_new) = (true, true);
        self.aim.grace_ms = grace_ms.min(PATIENCE_MS_MAX);
        Ok(())
    }
}

impl<'a> Picture<'a> {
    fn find(&self, name: &str) -> Result<usize, Refusal> {
        let place = self.figures.iter().position(|figure| figure.zone.name == name);
        place.ok_or_else(|| Refusal::Unknown { zone: name.into() })
    }

    fn figure(&mut self, name: &str) -> Result<&mut Figure<'a>, Refusal> {
        let place = self.find(name)?;
        self.figures.get_mut(place).ok_or_else(|| Refusal::Unknown { zone: name.into() })
    }

    fn movable(&mut self, name: &str) -> Result<&mut Figure<'a>, Refusal> {
        let figure = self.figure(name)?;
        figure.check_movable()?;
        Ok(figure)
    }

    fn apply(&mut self, command: &Command) -> Result<(), Refusal> {
        match command {
            // The description is in the picture already.
            Command::Describe { .. } => Ok(()),
            Command::Create { zone, cores, memory_bytes } => self.figure(zone)?.create(*cores, *memory_bytes),
            Command::Destroy { zone, grace_ms } => self.figure(zone)?.destroy(*grace_ms),
            Command::Restart { zone, grace_ms } => self.figure(zone)?.restart(*grace_ms),
            Command::Set { zone, share, cores: None, memory_bytes: None, .. } => self.figure(zone)?.set_share(*share),
            Command::Set { zone, share, cores, memory_bytes, deadline_ms } => {
                let figure = self.movable(zone)?;
                figure.set_share(*share)?;
                cores.map_or(Ok(()), |cores| figure.set_cores(u32::from(cores)))?;
                memory_bytes.map_or(Ok(()), |bytes| figure.set_memory(bytes))?;
                figure.aim.deadline_ms = (*deadline_ms).min(PATIENCE_MS_MAX);
                Ok(())
            }
            Command::Attach { zone, device } => self.attach(zone, address(*device)),
            Command::Detach { zone, device, deadline_ms } => {
                self.movable(zone)?.aim.deadline_ms = (*deadline_ms).min(PATIENCE_MS_MAX);
                self.detach(zone, address(*device))
            }
            Command::Lend { from, to, cores, memory_bytes, deadline_ms } => {
                self.movable(from)?.aim.deadline_ms = (*deadline_ms).min(PATIENCE_MS_MAX);
                self.lend(from, to, u32::from(*cores), *memory_bytes)
            }
            Command::Adopt { child, parent } => self.adopt(child, parent.as_deref()),
        }
    }

    fn attach(&mut self, zone: &str, device: PciAddress) -> Result<(), Refusal> {
        let holder = self.figures.iter().find(|figure| figure.aim.devices.contains(&device));
        if let Some(holder) = holder {
            let (holder, why) = (holder.zone.name.clone(), alloc::format!("device {device} is its own"));
            return Err(Refusal::Busy { part: Part::Device, holder, why });
        }
        self.movable(zone)?.aim.devices.push(device);
        Ok(())
    }

    fn detach(&mut self, zone: &str, device: PciAddress) -> Result<(), Refusal> {
        let figure = self.movable(zone)?;
        let place = figure.aim.devices.iter().position(|one| *one == device);
        let place = place.ok_or_else(|| invalid(alloc::format!("zone {zone} does not hold device {device}")))?;
        figure.aim.devices.remove(place);
        Ok(())
    }

    fn lend(&mut self, from: &str, to: &str, cores: u32, memory_bytes: u64) -> Result<(), Refusal> {
        if from == to {
            return Err(invalid("a zone lends nothing to itself".into()));
        }
        let lots = u32::try_from(memory_bytes.checked_div(LOT_BYTES).unwrap_or(0)).unwrap_or(u32::MAX);
        let after = |has: u64, more: u64| has.saturating_add(more);
        let lender = self.movable(from)?;
        if lender.is_new {
            return Err(lender.wrong_state());
        }
        let (has_cores, has_lots) = (lender.aim.cores, lender.aim.lots);
        if has_cores <= cores || has_lots <= lots {
            return Err(invalid(alloc::format!("zone {from} keeps at least one core and one lot")));
        }
        lender.set_cores(has_cores.saturating_sub(cores))?;
        lender.aim.lots = has_lots.saturating_sub(lots);
        let borrower = self.movable(to)?;
        if borrower.is_new {
            return borrower.begins_with(cores, lots);
        }
        let bytes = u64::from(borrower.aim.lots).saturating_mul(LOT_BYTES);
        borrower.set_cores(borrower.aim.cores.saturating_add(cores))?;
        borrower.set_memory(after(bytes, memory_bytes))?;
        let (from, to) = (self.find(from)?, self.find(to)?);
        self.loans.push(Loan { from, to, cores, lots });
        Ok(())
    }

    fn adopt(&mut self, child: &str, parent: Option<&str>) -> Result<(), Refusal> {
        let place = self.find(child)?;
        let vacant = |figure: &&Figure<'_>| figure.known.state == State::Vacant;
        if let Some(figure) = self.figures.get(place).filter(vacant) {
            return Err(figure.wrong_state());
        }
        let parent = parent.map(|name| self.find(name)).transpose()?;
        let mut above = parent;
        for _ in 0..=self.figures.len() {
            let Some(one) = above else { break };
            if one == place {
                return Err(invalid(alloc::format!("zone {child} would manage itself")));
            }
            above = self.figures.get(one).and_then(|figure| figure.aim.parent);
        }
        self.figure(child)?.aim.parent = parent;
        Ok(())
    }
}

fn invalid(why: String) -> Refusal {
    Refusal::Invalid { why }
}

/// Returns the platform's word for a device.
pub(crate) fn address(device: DeviceAddress) -> PciAddress {
    PciAddress { bus: device.bus, device: device.device, function: device.function }
}

/// Returns the contract's word for a device.
pub(crate) fn contract(device: PciAddress) -> DeviceAddress {
    DeviceAddress { bus: device.bus, device: device.device, function: device.function }
}

#[cfg(test)]
#[path = "tests/plan.rs"]
mod tests;
