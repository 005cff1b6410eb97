//! `gyre prune`: what lies on the host's disk and can go. It says so; `--yes` does it.
//!
//! * Images of which no disk was made, and downloaded packages, can be made or had again.
//! * The disks of machines that do not run hold what tenants wrote: they go only with `--disks`.

use std::{
    collections::BTreeSet,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use gyre_machine_file::units::show_bytes;
use serde::Serialize;

use crate::{
    check::print_json,
    cli,
    failure::{Context as _, Result},
    project::Project,
    run::kept::Record,
    stop, ui,
};

/// The unit of `st_blocks` (stat(2)).
const BLOCK_BYTES: u64 = 512;

/// Something that can go.
#[derive(Serialize)]
struct Item {
    path: PathBuf,
    bytes: u64,
    /// Why it can go, or what it costs.
    note: String,
}

/// The answer of `--json`.
#[derive(Serialize)]
struct Answer {
    items: Vec<Item>,
    bytes: u64,
    removed: bool,
}

/// Runs `gyre prune`.
///
/// # Errors
/// When a folder cannot be read, or something not be removed.
pub fn prune(arguments: &cli::Prune) -> Result<ExitCode> {
    let project = Project::find()?;
    let mut items = images(&project)?;
    items.extend(packages(&project)?);
    items.extend(pulled(&project)?);
    if arguments.disks {
        items.extend(disks(&project)?);
    }
    let bytes = items.iter().map(|item| item.bytes).sum();
    if arguments.yes {
        items.iter().try_for_each(remove)?;
    }
    if arguments.json {
        print_json(&Answer { items, bytes, removed: arguments.yes })?;
        return Ok(ExitCode::SUCCESS);
    }
    show(&items);
    let (does, more) = if arguments.yes { ("freed", "") } else { ("would free", "; --yes removes them") };
    let disks = if arguments.disks { "" } else { "; --disks shows the disks of machines that do not run, too" };
    ui::say(&format!("{does} {} in {} files and folders{more}{disks}", show_bytes(bytes), items.len()));
    Ok(ExitCode::SUCCESS)
}

fn show(items: &[Item]) {
    let row = |item: &Item| vec![item.path.display().to_string(), show_bytes(item.bytes), item.note.clone()];
    let rows: Vec<Vec<String>> = items.iter().map(row).collect();
    if !rows.is_empty() {
        println!("{}", ui::table(&rows));
    }
}

/// Images that no disk was made of.
fn images(project: &Project) -> Result<Vec<Item>> {
    let folder = project.cache("images")?;
    let used: BTreeSet<String> = records(project)?.into_iter().flat_map(|record| record.images()).collect();
    let is_free = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        path.extension().is_some_and(|ending| ending == "ext2") && !used.contains(&name)
    };
    let note = "an image that no disk was made of";
    Ok(entries(&folder)?.into_iter().filter(is_free).map(|path| item(path, note)).collect())
}

/// Downloaded packages.
fn packages(project: &Project) -> Result<Vec<Item>> {
    let is_package = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "deb");
    let all = entries(&project.cache("packages")?)?;
    Ok(all.into_iter().filter(is_package).map(|path| item(path, "a package, which can be had again")).collect())
}

/// Images of registries.
fn pulled(project: &Project) -> Result<Vec<Item>> {
    let held = |path: &Path| crate::image::bytes_of_folder(path).unwrap_or(0);
    let note = "an image of a registry, which can be had again";
    let all = entries(&project.cache("pulled")?)?.into_iter().filter(|path| path.is_dir());
    Ok(all.map(|path| Item { bytes: held(&path), path, note: note.to_owned() }).collect())
}

/// Disks of machines that do not run.
fn disks(project: &Project) -> Result<Vec<Item>> {
    let mut items = vec![];
    for folder in entries(&project.cache("run")?)?.into_iter().filter(|folder| !stop::is_taken(folder)) {
        for path in entries(&folder)? {
            if let Some(record) = Record::read(&path) {
                items.push(item(path, &format!("what tenants wrote: {}", record.tenants())));
            }
        }
    }
    Ok(items)
}

fn records(project: &Project) -> Result<Vec<Record>> {
    let mut records = vec![];
    for folder in entries(&project.cache("run")?)? {
        records.extend(entries(&folder).unwrap_or_default().iter().filter_map(|path| Record::read(path)));
    }
    Ok(records)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(vec![]);
    }
    let read = std::fs::read_dir(folder).context(|| format!("cannot read {}", folder.display()))?;
    let mut all: Vec<PathBuf> = read.filter_map(|entry| Some(entry.ok()?.path())).collect();
    all.sort();
    Ok(all)
}

fn item(path: PathBuf, note: &str) -> Item {
    let bytes = std::fs::metadata(&path).map_or(0, |data| data.blocks() * BLOCK_BYTES);
    Item { path, bytes, note: note.to_owned() }
}

fn remove(item: &Item) -> Result<()> {
    // The record first: a disk without one is made anew.
    Record::remove(&item.path);
    let removed =
        if item.path.is_dir() { std::fs::remove_dir_all(&item.path) } else { std::fs::remove_file(&item.path) };
    removed.context(|| format!("cannot remove {}", item.path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_goes_if_no_disk_was_made_of_it() {
        let root = tempfile::tempdir().unwrap();
        let project = Project::of_tree(root.path());
        let images = project.cache("images").unwrap();
        for name in ["web-1.ext2", "web-2.ext2"] {
            std::fs::write(images.join(name), "image").unwrap();
        }
        let disk = project.run_folder("m").unwrap().join("gold.ext2");
        std::fs::write(&disk, "disk").unwrap();
        Record::of_image(&disk, "gold", "web-2.ext2");
        let free: Vec<PathBuf> = super::images(&project).unwrap().into_iter().map(|item| item.path).collect();
        assert_eq!(free, [images.join("web-1.ext2")]);
        let held = disks(&project).unwrap();
        assert!(held.len() == 1 && held[0].note.contains("gold"));
        remove(&held[0]).unwrap();
        assert!(!disk.exists() && Record::read(&disk).is_none());
    }
}
