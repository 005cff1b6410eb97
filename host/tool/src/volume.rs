//! Volumes: file systems that outlive machines, each in a file of its own below `.gyre/volumes`.
//!
//! ```text
//!   NAME.ext2        the file system; locked (flock) while a machine or a command has it
//!   NAME.ext2.json   its record: when it was made, of which folder, who used it last
//! ```
//! * [`take`] finds or makes what a machine needs, locks it, checks it after a power cut, and makes it larger if the file says so.
//! * [`command`] is `gyre volume`: list, save, load, remove.
//! * A volume is made under another name and then renamed: one that is there is whole.

pub mod command;

use std::{
    fs::File,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use gyre_machine_file::{HostVolume, units::show_bytes};
use serde::{Deserialize, Serialize};

use crate::{
    command as program,
    failure::{Context as _, Failure, Result},
    held_file::{self, HeldFile},
    image,
    machines::info::now_unix_ms,
    project::Project,
    run::kept,
    ui, whole_file,
};

/// The unit of `st_blocks` (stat(2)).
const BLOCK_BYTES: u64 = 512;
/// The blocks of an ext2 file system that is made here, bytes.
const EXT2_BLOCK_BYTES: u64 = 4096;

/// The record of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The time at which it was made, ms since 1970.
    pub made_unix_ms: i64,
    /// The folder or the file that it was made of.
    pub from: Option<PathBuf>,
    /// The machine that has it, or had it last.
    pub machine: Option<String>,
    /// The tenant.
    pub tenant: Option<String>,
}

/// A volume of this host.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
}

/// A volume that nobody else has meanwhile.
pub struct Taken {
    /// It.
    pub volume: Volume,
    /// Held as long as this lives.
    _held: HeldFile,
}

impl Volume {
    /// Returns the volume of a name, whether it is there or not.
    ///
    /// # Errors
    /// When the folder of all volumes cannot be made.
    pub fn named(project: &Project, name: &str) -> Result<Self> {
        Ok(Self { name: name.to_owned(), path: project.cache("volumes")?.join(format!("{name}.ext2")) })
    }

    /// Returns all volumes, by name.
    ///
    /// # Errors
    /// When their folder cannot be read.
    pub fn all(project: &Project) -> Result<Vec<Self>> {
        let folder = project.cache("volumes")?;
        let entries = std::fs::read_dir(&folder).context(|| format!("cannot read {}", folder.display()))?;
        let named = |path: PathBuf| {
            let is_it = path.extension().is_some_and(|ending| ending == "ext2");
            let name = path.file_stem()?.to_str()?.to_owned();
            is_it.then_some(Self { name, path })
        };
        let mut all: Vec<Self> = entries.filter_map(|entry| named(entry.ok()?.path())).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Returns whether it is there.
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Returns its size, bytes.
    pub fn bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |data| data.len())
    }

    /// Returns what it takes of the host's disk, bytes.
    pub fn held_bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |data| data.blocks() * BLOCK_BYTES)
    }

    fn record_path(&self) -> PathBuf {
        self.path.with_extension("ext2.json")
    }

    /// Reads its record; an empty one if there is none.
    pub fn record(&self) -> Record {
        let text = std::fs::read_to_string(self.record_path()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn note(&self, record: &Record) -> Result<()> {
        let text = serde_json::to_string(record).context(|| "cannot write JSON".into())?;
        whole_file::write(&self.record_path(), text)
    }

    /// Returns whether a machine or a command has it.
    pub fn is_taken(&self) -> bool {
        held_file::is_held(&self.path)
    }

    /// Takes it for oneself.
    ///
    /// # Errors
    /// When it is not there, or somebody has it.
    pub fn take(&self, project: &Project) -> Result<Taken> {
        if !self.exists() {
            let names: Vec<String> = Self::all(project)?.into_iter().map(|volume| volume.name).collect();
            let help =
                if names.is_empty() { "there are none".into() } else { format!("there is: {}", names.join(", ")) };
            return Err(Failure::with_help(format!("there is no volume `{}`", self.name), help));
        }
        let file = File::open(&self.path).context(|| format!("cannot open {}", self.path.display()))?;
        match HeldFile::take(file) {
            Some(held) => Ok(Taken { volume: self.clone(), _held: held }),
            None => Err(self.in_use()),
        }
    }

    /// Returns whether it has the size that is wanted.
    pub fn fits(&self, wanted: &HostVolume) -> bool {
        let blocks = |bytes: u64| bytes / EXT2_BLOCK_BYTES;
        wanted.size_bytes.is_none_or(|wants| blocks(wants) == blocks(self.bytes()))
    }

    fn in_use(&self) -> Failure {
        let record = self.record();
        let (machine, tenant) = (record.machine.unwrap_or_default(), record.tenant.unwrap_or_default());
        let message = format!("the volume `{}` is in use", self.name);
        let help = match machine.is_empty() {
            true => "another command has it: try again when that is done".to_owned(),
            false => format!("tenant {tenant} of machine {machine} has it: gyre stop --machine {machine}"),
        };
        Failure::with_help(message, help)
    }

    /// Makes it of a folder, or empty.
    fn make(&self, wanted: &HostVolume) -> Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let workshop = tempfile::tempdir_in(folder).context(|| format!("cannot write to {}", folder.display()))?;
        let empty = workshop.path().join("empty");
        std::fs::create_dir(&empty).context(|| format!("cannot write to {}", folder.display()))?;
        let unfinished = workshop.path().join("volume");
        let from = wanted.from.as_deref().unwrap_or(&empty);
        image::file_system(
            &unfinished,
            from,
            &format!("volume {}", self.name),
            wanted.bytes_at_first(),
            image::Identity::New,
        )?;
        std::fs::rename(&unfinished, &self.path).context(|| format!("cannot write {}", self.path.display()))?;
        let size = show_bytes(wanted.bytes_at_first());
        let of = wanted.from.as_ref().map_or("empty".to_owned(), |from| format!("of {}", from.display()));
        ui::say(&format!("  makes the volume {} ({size}, {of})", self.name));
        self.note(&Record { made_unix_ms: now_unix_ms(), from: wanted.from.clone(), ..Record::default() })
    }

    /// Compares its size with the wanted one, and makes it larger if that is more.
    fn fit(&self, wanted: &HostVolume) -> Result<()> {
        let (has, Some(wants)) = (self.bytes(), wanted.size_bytes) else { return Ok(()) };
        let wants = wants / EXT2_BLOCK_BYTES * EXT2_BLOCK_BYTES;
        if wants == has {
            return Ok(());
        }
        if wants < has {
            let message = format!(
                "the volume `{}` has {}, and the machine file says {}: a volume does not become smaller",
                self.name,
                show_bytes(has),
                show_bytes(wants)
            );
            let help = format!(
                "write size = \"{}\", or leave `size` out; to begin anew: gyre volume remove {}",
                show_bytes(has),
                self.name
            );
            return Err(Failure::with_help(message, help));
        }
        self.grow(wants)?;
        ui::say(&format!("  the volume {} grows from {} to {}", self.name, show_bytes(has), show_bytes(wants)));
        Ok(())
    }

    /// Makes it larger: in a copy, so that a failure leaves it as it was.
    fn grow(&self, bytes: u64) -> Result<()> {
        let unfinished = self.path.with_extension("new");
        image::copy_for(&self.path, &unfinished)?;
        let resized = File::options()
            .write(true)
            .open(&unfinished)
            .and_then(|file| file.set_len(bytes))
            .context(|| format!("cannot write {}", unfinished.display()))
            // Without a check of its own: it has just been found whole.
            .and_then(|()| program::output(program::program("resize2fs")?.arg("-f").arg(&unfinished)));
        if let Err(failure) = resized {
            let _ = std::fs::remove_file(&unfinished);
            return Err(failure);
        }
        std::fs::rename(&unfinished, &self.path).context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Returns the volumes of a tenant for a machine: finds or makes each, and locks it. The order is that of the file.
///
/// # Errors
/// When one is in use, is larger than the file says, cannot be made, or is damaged beyond repair.
pub fn take(project: &Project, machine: &str, tenant: &str, wanted: &[HostVolume]) -> Result<Vec<Taken>> {
    let take_one = |one: &HostVolume| {
        let volume = Volume::named(project, &one.name)?;
        if volume.exists() {
            // Taken before and after: to make it larger is to put another file in its place.
            let taken = volume.take(project)?;
            kept::whole_alone(&volume.path)?;
            volume.fit(one)?;
            drop(taken);
        } else {
            volume.make(one)?;
        }
        let taken = volume.take(project)?;
        volume.note(&Record { machine: Some(machine.into()), tenant: Some(tenant.into()), ..volume.record() })?;
        Ok(taken)
    };
    wanted.iter().map(take_one).collect()
}

#[cfg(test)]
mod tests;
