//! Another image for tenants that stay: each goes away, its disk is made anew in the file that the machine has open, and it comes back.
//!
//! * Its name, address, ports, share, bill and volumes stay. A disk that is shared, or is smaller than the image, needs a new run.
//! * An image is another one if the file describes another one; with `--fresh` also if its contents are others. Those of an image of a
//!   registry are what was pulled, which is not asked for again.
//! * What a tenant wrote to its disk is discarded only if the owner says so (`--fresh`).
//! * The new disk is made before anybody goes. A tool that is killed behind that leaves the tenant away. The next `gyre apply` goes on, also
//!   without `--fresh` if the old disk is lost already; if it is whole, and the file is the old one, the tenant comes back with it. A machine
//!   that ends meanwhile has a new disk made by its next run.

use std::path::Path;

use gyre_contract::monitor::{Snapshot, State};
use gyre_machine_file::{Description, HostTenant};

use super::{GRACE, Item, customers};
use crate::{
    arrival::Target,
    cli,
    failure::Result,
    image, places,
    project::Project,
    registry::{self, Pull},
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
    /// The project.
    pub project: &'a Project,
    /// The machine's folder.
    pub folder: &'a Path,
    /// The description of what runs.
    pub before: &'a Description,
    /// The file.
    pub wanted: &'a Description,
    /// The file with what was pulled for it ([`provided`]).
    pub provided: &'a Description,
    /// The owner's word.
    pub wish: Wish,
}

/// Returns a file with its images of registries as they are made, if their contents are to be compared. Those that are not there are pulled.
///
/// # Errors
/// When they cannot be.
pub fn provided(project: &Project, wanted: &Description, wish: Wish) -> Result<Description> {
    let mut provided = wanted.clone();
    if wish == Wish::Fresh {
        registry::provide(project, &mut provided, Pull::Missing)?;
    }
    Ok(provided)
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
        let is_whole = Record::read(&places::disk_of(compared.folder, &host.name)).is_some();
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
    let Compared { project, folder, before, wanted, provided, wish } = compared;
    let (was, will) = (before.images.get(&old.image), wanted.images.get(&host.image)?);
    if old.image != host.image || was != Some(will) {
        return Some(Other::Described);
    }
    let made = Record::read(&places::disk_of(folder, &host.name)).map(|record| record.images());
    let now = image::identity(project, &host.image, provided.images.get(&host.image)?);
    let is_other = wish == Wish::Fresh && now.is_ok_and(|now| made.is_some_and(|made| made != [now]));
    is_other.then_some(Other::Contents)
}

fn refusal(compared: Compared, host: &HostTenant, is_other: Option<Other>) -> Option<String> {
    let Compared { folder, wanted, wish, .. } = compared;
    if wanted.disk.is_some() {
        return Some(format!("  tenant {}: another image, on a disk that it shares", host.name));
    }
    let disk = places::disk_of(folder, &host.name);
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

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRY: &str = "registry.example/my/web:1.0";

    fn file() -> Description {
        let text = format!(
            "[image.web]\nregistry = \"{REGISTRY}\"\n[[tenant]]\nname = \"gold\"\nshare = 1\nimage = \"web\"\n"
        );
        gyre_machine_file::parse(Path::new("m.toml"), &text).unwrap()
    }

    /// Puts a layout where one that was pulled is, with a manifest of that digest.
    fn pull(project: &Project, digest: &str) {
        let layout = registry::place(project, REGISTRY).unwrap();
        let _ = std::fs::remove_dir_all(&layout);
        std::fs::create_dir_all(&layout).unwrap();
        std::fs::write(layout.join("index.json"), format!("{{\"manifests\":[{{\"digest\":\"{digest}\"}}]}}")).unwrap();
    }

    #[test]
    fn an_image_of_a_registry_is_another_one_once_its_manifest_is() {
        let folder = tempfile::tempdir().unwrap();
        let project = Project::of_tree(folder.path());
        pull(&project, "sha256:1");
        let wanted = file();
        let made = provided(&project, &wanted, Wish::Fresh).unwrap();
        let identity = image::identity(&project, "web", &made.images["web"]).unwrap();
        let disk = places::disk_of(folder.path(), "gold");
        std::fs::write(&disk, "made").unwrap();
        Record::of_image(&disk, "gold", &identity);
        let listed = |wish| {
            let provided = provided(&project, &wanted, wish).unwrap();
            let (project, before, wanted) = (&project, &wanted, &wanted);
            let compared = Compared { project, folder: folder.path(), before, wanted, provided: &provided, wish };
            difference(compared, &Snapshot::default()).items.len()
        };
        // Pulled again, it is the same one: its layout is made anew, with other times.
        pull(&project, "sha256:1");
        assert_eq!((listed(Wish::Fresh), listed(Wish::Usual)), (0, 0));
        pull(&project, "sha256:2");
        assert_eq!((listed(Wish::Fresh), listed(Wish::Usual)), (1, 0));
    }
}
