//! The tenants that came to a machine and that left it since it was started: `members.json` in the folder of its run.
//!
//! The file that the machine was started with and this list together say what runs, for `gyre apply` and the health checks.

use std::path::{Path, PathBuf};

use gyre_contract::{boot::Tenant, health::Check};
use gyre_machine_file::{Description, HostTenant};
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Context as _, Result},
    whole_file,
};

const FILE: &str = "members.json";

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    added: Vec<Comer>,
    removed: Vec<String>,
}

/// A tenant that came, and the machine file that described it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Comer {
    tenant: String,
    file: PathBuf,
    text: String,
}

impl Members {
    /// Forgets all: the machine starts, or its file says all of it.
    pub fn forget(folder: &Path) {
        let _ = std::fs::remove_file(folder.join(FILE));
    }

    /// Reads the list of a machine.
    pub fn read(folder: &Path) -> Self {
        let text = std::fs::read_to_string(folder.join(FILE)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Writes it.
    ///
    /// # Errors
    /// When the host's disk is full.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let text = serde_json::to_string(self).context(|| "cannot write JSON".into())?;
        whole_file::write(&path, &text)
    }

    /// Notes who came, with its file.
    pub fn add(&mut self, tenant: &str, file: &Path, text: &str) {
        self.added.retain(|comer| comer.tenant != tenant);
        self.added.push(Comer { tenant: tenant.into(), file: file.into(), text: text.into() });
    }

    /// Notes who left.
    pub fn remove(&mut self, tenant: &str) {
        self.added.retain(|comer| comer.tenant != tenant);
        self.removed.push(tenant.into());
    }

    /// Changes the description of what was started into one of what runs. A file that is none any more brings nobody.
    pub fn change(&self, description: &mut Description) {
        let has_left = |name: &str| self.removed.iter().any(|removed| removed == name);
        let places = description.machine.tenants.len().saturating_sub(description.machine.places.into());
        let spares = description.machine.tenants.split_off(places);
        description.machine.tenants.retain(|tenant| !has_left(&tenant.name));
        description.tenants.retain(|tenant| !has_left(&tenant.name));
        for comer in &self.added {
            let Ok(own) = gyre_machine_file::parse(&comer.file, &comer.text) else { continue };
            let Some((tenant, host)) = find(&own, &comer.tenant) else { continue };
            let image = own.images.get(&host.image).cloned().unwrap_or_default();
            description.images.entry(host.image.clone()).or_insert(image);
            description.machine.tenants.push(tenant);
            description.tenants.push(host);
        }
        description.machine.tenants.extend(spares);
    }
}

/// Finds a customer of a description by name.
pub fn find(description: &Description, name: &str) -> Option<(Tenant, HostTenant)> {
    let mut all = description.machine.tenants.iter().skip(1).zip(&description.tenants);
    all.find(|(tenant, _)| tenant.name == name).map(|(tenant, host)| (tenant.clone(), host.clone()))
}

/// Returns the health checks of all tenants.
pub fn checks(description: &Description) -> Vec<Check> {
    description.tenants.iter().filter_map(|tenant| tenant.health.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(names: &[&str]) -> String {
        let tenant = |name: &&str| format!("[[tenant]]\nname = \"{name}\"\nshare = 1\nimage = \"{name}\"\n");
        let image = |name: &&str| format!("[image.{name}]\n");
        names.iter().map(image).chain(names.iter().map(tenant)).collect()
    }

    #[test]
    fn what_runs_is_the_file_with_who_came_and_without_who_left() {
        let file = format!("spare = 2\n{}", text(&["gold", "iron"]));
        let mut all = gyre_machine_file::parse(Path::new("m.toml"), &file).unwrap();
        let mut members = Members::default();
        members.add("tin", Path::new("tin.toml"), &text(&["tin"]));
        members.remove("iron");
        members.change(&mut all);
        let names: Vec<&str> = all.machine.tenants.iter().map(|tenant| tenant.name.as_str()).collect();
        assert_eq!(names[..5], ["system", "gold", "tin", "spare-1", "spare-2"]);
        assert!(names[5..].iter().all(|name| name.starts_with("spare-")), "{names:?}");
        assert_eq!(all.tenants.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["gold", "tin"]);
        assert!(all.images.contains_key("tin") && find(&all, "tin").is_some() && find(&all, "iron").is_none());
        members.remove("tin");
        let folder = tempfile::tempdir().unwrap();
        members.write(folder.path()).unwrap();
        assert_eq!(Members::read(folder.path()), members);
    }
}
