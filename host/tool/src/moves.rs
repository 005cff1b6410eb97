//! Tenants that are about to come to a machine and to leave it: `moves.json` in the folder of its run.
//!
//! It is written before the kernel makes the change, and goes when the lists say what has happened: who is there ([`Members`]), what `gyre ls`
//! shows ([`Info`]), the events. A tool that is killed in between leaves it; the next command sees who is there, and ends it ([`settle`]).

use std::path::{Path, PathBuf};

use gyre_contract::monitor::{ActivityKind, Snapshot};
use gyre_machine_file::HostTenant;
use serde::{Deserialize, Serialize};

use crate::{
    failure::{Context as _, Result},
    machines::{
        events::{self, Event},
        info::Info,
    },
    members::{self, Members},
    whole_file,
};

const FILE: &str = "moves.json";

/// The moves of one change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moves {
    /// The machine file that describes those who come.
    pub file: PathBuf,
    /// Its contents.
    pub text: String,
    /// Names of tenants that come.
    pub comers: Vec<String>,
    /// Names of tenants that leave.
    pub leavers: Vec<String>,
}

/// Writes into the lists what has happened of moves that a killed tool left. Returns who is not there, if there were some: those whose ports
/// are to be closed.
///
/// # Errors
/// When the host's disk is full.
pub fn settle(folder: &Path, snapshot: &Snapshot) -> Result<Option<Vec<String>>> {
    let text = std::fs::read_to_string(folder.join(FILE)).unwrap_or_default();
    let Ok(moves) = serde_json::from_str::<Moves>(&text) else { return Ok(None) };
    let tenants = snapshot.activities.iter().filter(|one| one.kind == ActivityKind::Tenant);
    let is_here = |name: &str| tenants.clone().any(|one| one.name == name && !one.state.has_left());
    moves.note(folder, is_here)?;
    let all = moves.comers.iter().chain(&moves.leavers);
    Ok(Some(all.filter(|name| !is_here(name)).cloned().collect()))
}

impl Moves {
    /// Writes them down, before the change.
    ///
    /// # Errors
    /// When the host's disk is full.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string(self).context(|| "cannot write JSON".into())?;
        whole_file::write(&folder.join(FILE), &text)
    }

    /// Writes all of them into the lists: the change was made.
    ///
    /// # Errors
    /// When the host's disk is full.
    pub fn have_happened(&self, folder: &Path) -> Result<()> {
        self.note(folder, |name| self.comers.iter().any(|comer| comer == name))
    }

    fn note(&self, folder: &Path, is_here: impl Fn(&str) -> bool) -> Result<()> {
        let came: Vec<HostTenant> = self.described().into_iter().filter(|host| is_here(&host.name)).collect();
        let left: Vec<String> = self.leavers.iter().filter(|name| !is_here(name)).cloned().collect();
        let mut members = Members::read(folder);
        left.iter().for_each(|name| members.remove(name));
        came.iter().for_each(|host| members.add(&host.name, &self.file, &self.text));
        members.write(folder)?;
        Info::change(folder, &came, &left)?;
        for host in &came {
            events::add(folder, &Event::now(Some(&host.name), "the owner has added it"))?;
        }
        for name in &left {
            events::add(folder, &Event::now(Some(name), "the owner removes it"))?;
        }
        let _ = std::fs::remove_file(folder.join(FILE));
        Ok(())
    }

    /// Those who come, as their file describes them.
    fn described(&self) -> Vec<HostTenant> {
        let Ok(all) = gyre_machine_file::parse(&self.file, &self.text) else { return vec![] };
        self.comers.iter().filter_map(|name| members::find(&all, name)).map(|(_, host)| host).collect()
    }
}

#[cfg(test)]
mod tests {
    use gyre_contract::monitor::{Activity, State};

    use super::*;

    fn snapshot(names: &[(&str, State)]) -> Snapshot {
        let tenant = |(name, state): &(&str, State)| Activity {
            name: (*name).into(),
            kind: ActivityKind::Tenant,
            state: state.clone(),
            ..Activity::default()
        };
        Snapshot { activities: names.iter().map(tenant).collect(), ..Snapshot::default() }
    }

    fn moves() -> Moves {
        let tenant = |name| format!("[[tenant]]\nname = \"{name}\"\nshare = 1\nimage = \"a\"\n");
        let text = format!("[image.a]\n{}{}", tenant("tin"), tenant("zinc"));
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
        Moves { file: "m.toml".into(), text, comers: names(&["tin"]), leavers: names(&["iron", "lead"]) }
    }

    #[test]
    fn moves_that_a_killed_tool_left_are_written_as_far_as_they_have_happened() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(settle(folder.path(), &snapshot(&[])).unwrap(), None);
        moves().write(folder.path()).unwrap();
        let half = snapshot(&[("tin", State::Running), ("iron", State::Leaving), ("lead", State::Running)]);
        assert_eq!(settle(folder.path(), &half).unwrap(), Some(vec!["iron".into()]));
        let mut wanted = Members::default();
        wanted.remove("iron");
        wanted.add("tin", Path::new("m.toml"), &moves().text);
        assert_eq!(Members::read(folder.path()), wanted);
        assert_eq!(settle(folder.path(), &half).unwrap(), None, "once");
    }

    #[test]
    fn moves_that_have_not_happened_are_forgotten_and_made_ones_are_all_written() {
        let folder = tempfile::tempdir().unwrap();
        moves().write(folder.path()).unwrap();
        let before = snapshot(&[("iron", State::Running), ("lead", State::Running)]);
        assert_eq!(settle(folder.path(), &before).unwrap(), Some(vec!["tin".into()]), "its ports may be open");
        assert_eq!(Members::read(folder.path()), Members::default());
        moves().write(folder.path()).unwrap();
        moves().have_happened(folder.path()).unwrap();
        assert!(!folder.path().join(FILE).exists());
        let mut wanted = Members::default();
        ["iron", "lead"].iter().for_each(|name| wanted.remove(name));
        wanted.add("tin", Path::new("m.toml"), &moves().text);
        assert_eq!(Members::read(folder.path()), wanted);
    }
}
