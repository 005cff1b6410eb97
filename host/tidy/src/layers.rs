//! The layers: a crate depends only on crates of its own or an earlier layer, and a resource on no other resource.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders in order: a later one may use an earlier one.
const LAYERS: &[&str] = &[
    "platform/line",
    "platform/api",
    "platform/x86_64",
    "platform/sim",
    "platform/machine",
    "schedulers",
    "runtime/object",
    "runtime/account",
    "runtime/message",
    "runtime/engine",
    "contract",
    "user/cell_abi",
    "broker",
    "interface",
    "parts",
    "drivers",
    "resources",
    "personality",
    "system",
    "simulation",
    "user",
    "host",
];

struct Crate {
    name: String,
    folder: PathBuf,
    uses: Vec<String>,
}

/// Returns every arrow that points the wrong way.
pub fn faults(root: &Path) -> Vec<String> {
    let crates = read_crates(root);
    let folders: BTreeMap<_, _> = crates.iter().map(|c| (c.name.as_str(), c.folder.as_path())).collect();
    let mut faults = Vec::new();
    for user in &crates {
        for used in &user.uses {
            let Some(folder) = folders.get(used.as_str()) else {
                continue;
            };
            faults.extend(arrow_fault(user, used, folder));
        }
    }
    faults
}

fn arrow_fault(user: &Crate, used: &str, used_folder: &Path) -> Option<String> {
    let (from, to) = (layer(&user.folder)?, layer(used_folder)?);
    if to > from {
        return Some(format!("{}: uses {used}, which lies in a later layer", user.folder.display()));
    }
    let between_resources = user.folder.starts_with("resources") && used_folder.starts_with("resources");
    between_resources.then(|| format!("{}: a resource uses another one, {used}", user.folder.display()))
}

fn layer(folder: &Path) -> Option<usize> {
    LAYERS.iter().position(|layer| folder.starts_with(layer))
}

fn read_crates(root: &Path) -> Vec<Crate> {
    let groups =
        ["platform", "runtime", "parts", "drivers", "resources", "personality", "system", "simulation", "user", "host"];
    let mut folders: Vec<PathBuf> =
        ["schedulers", "contract", "broker", "interface"].iter().map(PathBuf::from).collect();
    for group in groups {
        let Ok(entries) = fs::read_dir(root.join(group)) else {
            continue;
        };
        folders.extend(entries.flatten().map(|entry| Path::new(group).join(entry.file_name())));
    }
    folders.sort();
    folders.into_iter().filter_map(|folder| read_crate(root, folder)).collect()
}

fn read_crate(root: &Path, folder: PathBuf) -> Option<Crate> {
    let text = fs::read_to_string(root.join(&folder).join("Cargo.toml")).ok()?;
    let manifest: toml::Table = text.parse().ok()?;
    let name = manifest.get("package")?.get("name")?.as_str()?.to_owned();
    let mut uses = dependencies(&manifest);
    if let Some(targets) = manifest.get("target").and_then(|t| t.as_table()) {
        uses.extend(targets.values().filter_map(|t| t.as_table()).flat_map(dependencies));
    }
    Some(Crate { name, folder, uses })
}

fn dependencies(table: &toml::Table) -> Vec<String> {
    let section = table.get("dependencies").and_then(|d| d.as_table());
    section.map(|d| d.keys().cloned().collect()).unwrap_or_default()
}
