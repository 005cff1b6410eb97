//! Another image for tenants that stay: each goes away, its disk is made anew in the file that the machine has open, and it comes back.
//!
//! * Its name, address, ports, share, bill and volumes stay. A disk that is shared, or is smaller than the image, needs a new run.
//! * An image is another one if the file describes another one; with `--fresh` also if its contents are others.
//! * What a tenant wrote to its disk is discarded only if the owner says so (`--fresh`).
//! * The new disk is made before anybody goes. A tool that is killed behind that leaves the tenant away. The next `gyre apply` goes on, also
//!   without `--fresh` if the old disk is lost already; if it is whole, and the file is the old one, the tenant comes back with it. A machine
//!   that ends meanwhile has a new disk made by its next run.

use gyre_contract::monitor::{Snapshot, State};
use gyre_machine_file::{Description, HostTenant};

use super::{GRACE, Item, customers};
use crate::{
    arrival::Target,
    cli,
    failure::Result,
    image, places,
    run::{kept, kept::Record, renewed::Renewed},
    ui,
};

/// The owner's word on disks whose image is another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// They stay.
    Usual,
    /// They are made anew.
    Fresh,
}

impl Wish {
    /// Reads the command line.
    pub fn of(arguments: &cli::Apply) -> Self {
        if arguments.fresh { Self::Fresh } else { Self::Usual }
    }
}

/// Tenants whose image is another one.
#[derive(Default)]
pub struct Difference {
    pub(super) items: Vec<Item>,
    /// The reasons for a new run, or for asking the owner.
    pub refusals: Vec<String>,
    tenants: Vec<(HostTenant, Deed)>,
}

/// The deed for a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Deed {
    /// It goes away, unless its disk is one of this image.
    Renew,
    /// It is away: it gets a disk of this image, unless it has one, and comes back.
    Finish,
    /// It is away, and comes back with its old disk.
    Return,
}

/// A tenant that goes away for another image.
pub struct Renewal {
    name: String,
    /// Nothing if it is away, and has its disk already.
    disk: Option<Renewed>,
}

/// A machine that runs, and its file.
#[derive(Clone, Copy)]
pub struct Compared<'a> {
    /// The machine.
    pub target: &'a Target,
    /// The description of what runs.
    pub before: &'a Description,
    /// The file.
    pub wanted: &'a Description,
    /// The owner's word.
    pub wish: Wish,
}

/// Compares the images of those who stay.
pub fn difference(compared: Compared, snapshot: &Snapshot) -> Difference {
    let Compared { before, wanted, .. } = compared;
    let mut found = Difference::default();
    for (tenant, host) in customers(wanted) {
        let Some((_, old)) = customers(before).find(|(old, _)| old.name == tenant.name) else { continue };
        let now = snapshot.activities.iter().find(|one| one.name == tenant.name);
        let state = now.map_or(State::Running, |now| now.state.clone());
        let is_other = other(compared, old, host);
        if state != State::Away && is_other.is_none() {
            continue;
        }
        found.refusals.extend(refusal(compared, host, is_other));
        let wanted = if old.image == host.image { format!("{}, made anew", host.image) } else { host.image.clone() };
        found.items.push(Item { tenant: tenant.name.clone(), key: "image", now: old.image.clone(), wanted });
        let is_whole = Record::read(&places::disk_of(compared.target.folder(), &host.name)).is_some();
        let deed = match (state, is_other) {
            (State::Away, None) if is_whole => Deed::Return,
            (State::Away, _) => Deed::Finish,
            _ => Deed::Renew,
        };
        found.tenants.push((host.clone(), deed));
    }
    found
}

/// The reason why an image is another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Other {
    /// The file says so.
    Described,
    /// Its contents are others.
    Contents,
}

fn other(compared: Compared, old: &HostTenant, host: &HostTenant) -> Option<Other> {
    let Compared { target, before, wanted, wish } = compared;
    let (was, will) = (before.images.get(&old.image), wanted.images.get(&host.image)?);
    if old.image != host.image || was != Some(will) {
        return Some(Other::Described);
    }
    let made = Record::read(&places::disk_of(target.folder(), &host.name)).map(|record| record.images());
    let is_other = wish == Wish::Fresh
        && image::identity(target.project(), &host.image, will).is_ok_and(|now| made.is_some_and(|made| made != [now]));
    is_other.then_some(Other::Contents)
}

fn refusal(compared: Compared, host: &HostTenant, is_other: Option<Other>) -> Option<String> {
    let Compared { target, wanted, wish, .. } = compared;
    if wanted.disk.is_some() {
        return Some(format!("  tenant {}: another image, on a disk that it shares", host.name));
    }
    let disk = places::disk_of(target.folder(), &host.name);
    let is_held = is_other.is_some() && wish == Wish::Usual && Record::read(&disk).is_some();
    is_held.then(|| format!("  tenant {}: another image; or, with --fresh, {}", host.name, kept::discards(&disk)))
}

impl Difference {
    /// Returns true if the images are as they were.
    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Makes the disks, beside those that there are. Those who have theirs already do not go away.
    ///
    /// # Errors
    /// When an image cannot be made, or is larger than the disk: nothing was changed.
    pub fn make(&self, target: &Target, complete: &Description) -> Result<Vec<Renewal>> {
        let mut made = vec![];
        for (host, deed) in &self.tenants {
            let disk = match deed {
                Deed::Return => None,
                Deed::Renew | Deed::Finish => Renewed::make(target.project(), complete, target.folder(), host)?,
            };
            if disk.is_some() || *deed != Deed::Renew {
                made.push(Renewal { name: host.name.clone(), disk });
            }
        }
        Ok(made)
    }
}

impl Renewal {
    /// Returns the tenant.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the tenant is away, puts its disk in place, and has it come back.
    fn finish(self, target: &Target) -> Result<()> {
        let disk = places::disk_of(target.folder(), &self.name);
        if self.disk.is_some() && Record::read(&disk).is_some() {
            ui::say(&format!("  --fresh: {}", kept::discards(&disk)));
        }
        target.renew(&self.name, GRACE, self.disk)
    }
}

/// Finishes all renewals, then waits until all have begun. One that fails keeps no other one away.
///
/// # Errors
/// The first: the next `gyre apply` goes on.
pub fn finish(renewals: Vec<Renewal>, target: &Target) -> Result<()> {
    let names: Vec<String> = renewals.iter().map(|one| one.name.clone()).collect();
    let done: Vec<Result<()>> = renewals.into_iter().map(|one| one.finish(target)).collect();
    done.into_iter().collect::<Result<()>>()?;
    names.iter().try_for_each(|name| target.wait_well_begun(name))
}
