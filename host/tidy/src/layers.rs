//! The layers: the table of `ARCHITECTURE.md` is the only list of them, and every arrow of every manifest is held against it.
//!
//! * [`table`] reads the table, [`manifests`] the crates; this file judges.
//! * A crate without a row, a row without a crate and a table without the layers that rules name are faults, so that no arrow is left out.
//! * Arrows are dependencies for building ([`Purpose::Build`]) or for tests alone ([`Purpose::Test`]).
//! * Whether a crate may hold unsafe code is in the table, too; `sources` looks at the files.

mod manifests;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use manifests::{Manifest, Purpose};
pub use table::Table;

/// The document that holds the table.
const DOCUMENT: &str = "ARCHITECTURE.md";
/// The layer whose crates do not use each other.
const RESOURCES: &str = "resources";
/// The layer of crates that only tests and later layers use, and that use no crate of the tree.
const TESTS: &str = "tests";
/// The crate of the machine itself.
const MACHINE: &str = "platform/x86_64";
/// The crates that name it. Others use the first of them, so that the simulator can stand in its place.
const MACHINE_USERS: [&str; 3] = ["platform/machine", "platform/boot_test", "system/kernel"];

/// A crate with its place in the table.
struct Placed<'a> {
    manifest: &'a Manifest,
    row: usize,
    layer: &'a str,
}

/// Returns the table of a tree, or what is wrong with it.
pub fn table(root: &Path) -> Result<Table, String> {
    let text = fs::read_to_string(root.join(DOCUMENT)).unwrap_or_default();
    Table::parse(&text).map_err(|wrong| format!("{DOCUMENT}: {wrong}"))
}

/// Returns every arrow that the table does not allow, and everything that keeps arrows from being judged.
pub fn faults(root: &Path) -> Vec<String> {
    let table = match table(root) {
        Ok(table) => table,
        Err(wrong) => return vec![wrong],
    };
    match manifests::read(root) {
        Ok(crates) => judge(&table, &crates),
        Err(wrong) => vec![wrong],
    }
}

fn judge(table: &Table, crates: &[Manifest]) -> Vec<String> {
    let placed: BTreeMap<_, _> =
        crates.iter().filter_map(|manifest| Some((manifest.name.as_str(), place(table, manifest)?))).collect();
    let mut faults = homeless(table, crates);
    faults.extend(empty_rows(table, &placed));
    faults.extend(missing_layers(table));
    faults.extend(missing_crates(crates));
    for user in placed.values() {
        let arrows = user.manifest.uses.iter();
        let used = arrows.filter_map(|arrow| Some((placed.get(arrow.package.as_str())?, arrow.purpose)));
        faults.extend(used.filter_map(|(used, purpose)| arrow_fault(user, used, purpose)));
    }
    faults
}

fn place<'a>(table: &'a Table, manifest: &'a Manifest) -> Option<Placed<'a>> {
    let row = table.row_of(&manifest.folder)?;
    Some(Placed { manifest, row, layer: &table.rows[row].layer })
}

/// Returns a fault for each crate that no row names: none of its arrows could be judged.
fn homeless(table: &Table, crates: &[Manifest]) -> Vec<String> {
    let without = crates.iter().filter(|manifest| table.row_of(&manifest.folder).is_none());
    without.map(|manifest| format!("{}: stands in no layer of {DOCUMENT}", manifest.folder.display())).collect()
}

/// Returns a fault for each row that stands for no crate.
fn empty_rows(table: &Table, placed: &BTreeMap<&str, Placed<'_>>) -> Vec<String> {
    let is_empty = |row: usize| placed.values().all(|one| one.row != row);
    let empty = table.rows.iter().enumerate().filter(|(row, _)| is_empty(*row));
    empty.map(|(_, row)| format!("{DOCUMENT}: the row of `{}` stands for no crate", row.folder)).collect()
}

/// Returns a fault for each layer that a rule names and the table does not have: the rule would hold for nothing.
fn missing_layers(table: &Table) -> Vec<String> {
    let missing = [RESOURCES, TESTS].into_iter().filter(|name| table.rows.iter().all(|row| row.layer != *name));
    missing.map(|name| format!("{DOCUMENT}: the table has no layer `{name}`")).collect()
}

/// Returns a fault for each crate that the rule on the machine names and the tree does not have.
fn missing_crates(crates: &[Manifest]) -> Vec<String> {
    let is_missing = |folder: &str| crates.iter().all(|manifest| manifest.folder != Path::new(folder));
    let missing = MACHINE_USERS.into_iter().chain([MACHINE]).filter(|folder| is_missing(folder));
    missing.map(|folder| format!("{folder}: a rule names it, and there is no such crate")).collect()
}

fn arrow_fault(user: &Placed<'_>, used: &Placed<'_>, purpose: Purpose) -> Option<String> {
    let why = refusal(user, used, purpose)?;
    let who = match purpose {
        Purpose::Build => "uses",
        Purpose::Test => "its tests use",
    };
    Some(format!("{}: {who} {}, {why}", user.manifest.folder.display(), used.manifest.name))
}

/// Returns why an arrow is not allowed.
fn refusal(user: &Placed<'_>, used: &Placed<'_>, purpose: Purpose) -> Option<&'static str> {
    let are_resources = user.layer == RESOURCES && used.layer == RESOURCES;
    let is_at = |one: &Placed<'_>, folder: &str| one.manifest.folder == Path::new(folder);
    let names_machine = is_at(used, MACHINE) && !MACHINE_USERS.iter().any(|folder| is_at(user, folder));
    match purpose {
        _ if user.layer == TESTS => Some("but a crate for tests uses no crate of the tree"),
        _ if names_machine => Some("which stands behind platform/machine"),
        Purpose::Test if are_resources || used.layer == TESTS => None,
        _ if used.row > user.row => Some("which stands in a later row"),
        _ if are_resources => Some("which is another resource"),
        _ => None,
    }
}
