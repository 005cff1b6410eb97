//! Which zone each kernel instance is, and its tenants' shares, as they are now: a zone that came while the machine ran has the place, and
//! the agent, of one that the machine was started with.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use crate::instances::{Instance, Instances};

/// The instances of a machine, in the order of its list.
pub struct Roster {
    folder: PathBuf,
    all: Mutex<Vec<Instance>>,
}

impl Roster {
    /// Makes it for a machine.
    pub fn of(instances: &Instances) -> Arc<Self> {
        Arc::new(Self { folder: instances.folder().to_owned(), all: Mutex::new(instances.all.clone()) })
    }

    /// Looks which zones have come. A machine without places is not looked at.
    pub fn look(&self) {
        let Ok(mut all) = self.all.lock() else { return };
        if all.iter().all(|one| one.place.is_none()) {
            return;
        }
        // A list that cannot be read is looked at again; instances neither come nor go, only their names.
        if let Ok(now) = Instances::read(&self.folder)
            && now.all.len() == all.len()
        {
            *all = now.all;
        }
    }

    /// Returns the instances as they were at the last look.
    pub fn now(&self) -> Vec<Instance> {
        self.all.lock().map_or_else(|_| vec![], |all| all.clone())
    }

    /// Returns the zone of an instance; none for the supervisor, or the only instance.
    pub fn zone(&self, index: usize) -> Option<String> {
        self.all.lock().ok().and_then(|all| all.get(index)?.zone.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(zone: Option<&str>, place: Option<&str>) -> Instance {
        Instance { zone: zone.map(str::to_owned), place: place.map(str::to_owned), ..Instance::default() }
    }

    #[test]
    fn a_zone_that_comes_has_its_name_after_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let all = [instance(None, None), instance(Some("spare-1"), Some("spare-1"))];
        let list = |all: &[Instance]| {
            std::fs::write(folder.path().join("instances.json"), serde_json::to_string(all).unwrap()).unwrap()
        };
        list(&all);
        let roster = Roster::of(&Instances::read(folder.path()).unwrap());
        assert_eq!((roster.zone(0), roster.zone(1)), (None, Some("spare-1".into())));
        let mut later = all.clone();
        later[1].zone = Some("late".into());
        list(&later);
        roster.look();
        assert_eq!(roster.zone(1), Some("late".into()));
        list(&all[..1]);
        roster.look();
        assert_eq!(roster.now().len(), 2);
    }
}
