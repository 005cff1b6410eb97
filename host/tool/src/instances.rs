//! The kernel instances of a running machine: one, or a supervisor and zones; which tenants each has, and the way to its agent.
//!
//! * `gyre run` writes the list beside the agents' sockets ([`Instances::write`]), for the commands that come from other terminals; they read it
//!   with [`Instances::find`]. A machine without zones is one instance, and is asked for whatever a command names.
//! * A tenant is named `TENANT`, or `ZONE:TENANT` if several zones have one of that name.
//! * An agent answers for its instance alone. Before a zone's agent is asked, the supervisor says whether the zone runs: nobody waits for one
//!   that has ended. If the supervisor is silent, too, the agent is asked all the same.
//! * Tenants that come later are not in the list: there are such only without zones, and that agent knows them.

use std::path::{Path, PathBuf};

use gyre_contract::{
    boot::{Machine, Tenant},
    monitor::Snapshot,
    zones::{State, Zones},
};
use gyre_machine_file::{Description, closest};
use serde::{Deserialize, Serialize};

use crate::{
    agent::{self, Agent},
    failure::{Context as _, Failure, Result},
    lifeline::Life,
    module,
    places::Filled,
    project::Project,
    whole_file,
};

/// The name of the first instance of a machine with zones.
pub const SUPERVISOR: &str = "supervisor";
/// The list, in the folder of the run.
const FILE: &str = "instances.json";
/// Between a zone's name and a tenant's.
const SEPARATOR: char = ':';

/// One kernel instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// The zone; none for the supervisor, and for a machine without zones.
    pub zone: Option<String>,
    /// The place that the zone has, or that is vacant for one: its agent has the place's socket. None for those that the machine was started with.
    #[serde(default)]
    pub place: Option<String>,
    /// The disks that it has in its place.
    #[serde(default)]
    pub disks: Vec<Filled>,
    /// The instances to which its `links` name it linked, if it came with that key.
    #[serde(default)]
    pub links: Option<Vec<String>>,
    /// Its tenants with their shares, the system tenant first.
    pub tenants: Vec<(String, u32)>,
}

/// All instances of a machine.
#[derive(Clone, Debug)]
pub struct Instances {
    folder: PathBuf,
    /// The supervisor, or the only one, is the first.
    pub all: Vec<Instance>,
}

/// Returns a tenant's name with its zone's before it, if that is needed to tell it from others: each instance has a system tenant.
pub fn full_name(zone: Option<&str>, tenant: &str) -> String {
    match zone {
        Some(zone) if tenant == "system" => format!("{zone}{SEPARATOR}{tenant}"),
        _ => tenant.to_owned(),
    }
}

impl Instance {
    /// Describes a zone that came.
    pub fn of_comer(zone: &str, machine: &Machine, disks: Vec<Filled>, links: Option<Vec<String>>) -> Self {
        let tenants = tenants(machine).map(|tenant| (tenant.name.clone(), tenant.share)).collect();
        Self { zone: Some(zone.to_owned()), place: None, disks, links, tenants }
    }
}

/// Returns the tenants of an instance, without its spare places.
fn tenants(machine: &Machine) -> impl Iterator<Item = &Tenant> {
    machine.tenants.iter().take(machine.tenants.len().saturating_sub(machine.places.into()))
}

impl Instances {
    /// Lists the instances of a machine that is to run in `folder`.
    pub fn of(description: &Description, folder: &Path) -> Self {
        let place = |name: &str| description.machine.zones.iter().any(|zone| zone.is_place && zone.name == name);
        let all = description.instances().map(|instance| Instance {
            zone: instance.zone.map(str::to_owned),
            place: instance.zone.filter(|name| place(name)).map(str::to_owned),
            tenants: tenants(instance.machine).map(|tenant| (tenant.name.clone(), tenant.share)).collect(),
            ..Instance::default()
        });
        Self { folder: folder.to_owned(), all: all.collect() }
    }

    /// Finds those of the machine with this name, or of the only one that runs.
    ///
    /// # Errors
    /// When none runs, or several and no name is given.
    pub fn find(project: &Project, machine: Option<&str>) -> Result<Self> {
        Self::read(&agent::running(project, machine)?)
    }

    /// Reads those of the machine that runs in a folder, as they are now.
    ///
    /// # Errors
    /// When there is no list.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).context(|| format!("cannot read {}", path.display()))?;
        let all = serde_json::from_str(&text).context(|| format!("{} is not what gyre run wrote", path.display()))?;
        Ok(Self { folder: folder.to_owned(), all })
    }

    /// Returns the one that has a place.
    pub fn at_place(&self, place: &str) -> Option<&Instance> {
        self.all.iter().find(|instance| instance.place.as_deref() == Some(place))
    }

    /// Returns whether an instance that came wants a link to a zone; others have theirs from the start.
    pub fn wants(&self, name: &str, zone: &str) -> bool {
        let own = self.all.iter().find(|instance| instance.zone.as_deref() == Some(name));
        own.and_then(|own| own.links.as_ref()).is_none_or(|links| links.iter().any(|link| link == zone))
    }

    /// Notes which zone has a place now, and writes the list.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn take_place(&mut self, place: &str, comer: Instance) -> Result<()> {
        if let Some(own) = self.all.iter_mut().find(|instance| instance.place.as_deref() == Some(place)) {
            *own = Instance { place: Some(place.to_owned()), ..comer };
        }
        self.write()
    }

    /// Writes the list into the folder of the run.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn write(&self) -> Result<()> {
        let path = self.folder.join(FILE);
        let text = serde_json::to_string(&self.all).context(|| "cannot write JSON".into())?;
        whole_file::write(&path, text)
    }

    /// Returns the folder of the run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns whether the machine has zones.
    pub fn has_zones(&self) -> bool {
        self.all.len() > 1
    }

    /// Returns the agent of the supervisor, or of the only instance.
    pub fn supervisor(&self) -> Agent {
        Agent::at(&self.folder.join(module::SOCKET_FILE))
    }

    /// Returns the agent of an instance.
    pub fn agent(&self, instance: &Instance) -> Agent {
        let zone = |zone: &String| Agent::at(&self.folder.join(module::zone_socket(zone)));
        instance.place.as_ref().or(instance.zone.as_ref()).map_or_else(|| self.supervisor(), zone)
    }

    /// Reads all figures of each instance, in the list's order; none of a zone that does not run, or of one that is silent.
    pub fn snapshots(&self) -> Vec<Option<Snapshot>> {
        let zones = self.has_zones().then(|| self.supervisor().zones().ok()).flatten();
        let is_away = |instance: &Instance| {
            let state = instance.zone.as_deref().zip(zones.as_ref()).and_then(|(name, zones)| state(zones, name));
            state.is_some_and(|state| !lives(&state))
        };
        let of = |instance: &Instance| if is_away(instance) { None } else { self.agent(instance).snapshot().ok() };
        self.all.iter().map(of).collect()
    }

    /// Returns the agent of a zone, or that of the supervisor by its name.
    ///
    /// # Errors
    /// When there is no such zone, or it does not run.
    pub fn of_zone(&self, name: &str) -> Result<Agent> {
        if name == SUPERVISOR {
            return Ok(self.supervisor());
        }
        let names = || self.all.iter().filter_map(|instance| instance.zone.as_deref());
        let Some(found) = self.all.iter().find(|instance| instance.zone.as_deref() == Some(name)) else {
            return Err(unknown("zone", name, &names().collect::<Vec<_>>()));
        };
        self.runs(name, &format!("zone `{name}`"))?;
        Ok(self.agent(found))
    }

    /// Finds a tenant by its name, or by `ZONE:TENANT`: the agent that speaks for it, and its name there.
    ///
    /// # Errors
    /// When a machine with zones has no such tenant, or its zone does not run. A machine without zones is asked itself.
    pub fn of_tenant(&self, word: &str) -> Result<(Agent, String)> {
        if !self.has_zones() {
            return Ok((self.supervisor(), word.to_owned()));
        }
        let (found, tenant) = self.instance_of(word)?;
        if let Some(zone) = &found.zone {
            self.runs(zone, &format!("tenant `{tenant}` is in zone `{zone}`, which"))?;
        }
        Ok((self.agent(found), tenant.to_owned()))
    }

    /// Returns the life that a tenant's zone has now; none for a tenant in no zone.
    pub fn life_of(&self, word: &str) -> Option<Life> {
        let zone = self.instance_of(word).ok()?.0.zone.as_ref()?;
        Life::now(self.supervisor(), zone)
    }

    /// Finds the instance that a tenant is in, by its name or by `ZONE:TENANT`, and its name there.
    fn instance_of<'a>(&self, word: &'a str) -> Result<(&Instance, &'a str)> {
        let (zone, tenant) = match word.split_once(SEPARATOR) {
            Some((zone, tenant)) => (Some(zone), tenant),
            None => (None, word),
        };
        let is_in = |instance: &&Instance| {
            let own = instance.zone.as_deref().unwrap_or(SUPERVISOR);
            zone.is_none_or(|zone| zone == own) && instance.tenants.iter().any(|(name, _)| name == tenant)
        };
        let Some(found) = self.all.iter().find(is_in) else {
            let names = self.tenants();
            return Err(unknown("tenant", word, &names.iter().map(String::as_str).collect::<Vec<_>>()));
        };
        Ok((found, tenant))
    }

    /// Lists all tenants by the names that commands take.
    fn tenants(&self) -> Vec<String> {
        let of = |instance: &Instance| {
            let zone = instance.zone.clone();
            let names = instance.tenants.iter().map(|(name, _)| name.clone());
            names.map(move |name| full_name(zone.as_deref(), &name)).collect::<Vec<_>>()
        };
        self.all.iter().flat_map(of).collect()
    }

    /// Checks that a zone runs, if the supervisor says so or otherwise; silence is no answer.
    fn runs(&self, zone: &str, subject: &str) -> Result<()> {
        let Some(state) = self.supervisor().zones().ok().and_then(|zones| state(&zones, zone)) else { return Ok(()) };
        if lives(&state) {
            return Ok(());
        }
        let words = crate::zone::words::state(&state);
        let help = match state {
            State::Vacant => "it is a place: gyre zone create NAME --file FILE makes a zone there".to_owned(),
            _ => format!("make it again with: gyre zone create {zone}"),
        };
        Err(Failure::with_help(format!("{subject} does not run: it is {words}"), help))
    }
}

/// Returns whether somebody may answer in a zone.
fn lives(state: &State) -> bool {
    match state {
        State::Booting | State::Running | State::Ending => true,
        State::Absent | State::Ended { .. } | State::Crashed { .. } | State::Vacant => false,
    }
}

fn state(zones: &Zones, name: &str) -> Option<State> {
    zones.zones.iter().find(|zone| zone.name == name).map(|zone| zone.state.clone())
}

/// Says that there is no such thing, and which was probably meant.
pub fn unknown(what: &str, name: &str, names: &[&str]) -> Failure {
    let help = match closest(name, names.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if names.is_empty() => format!("this machine has no {what}s"),
        None => format!("there is: {}", names.join(", ")),
    };
    Failure::with_help(format!("there is no {what} `{name}`"), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_zones() -> Instances {
        let of = |zone: Option<&str>, tenants: &[&str]| Instance {
            zone: zone.map(str::to_owned),
            tenants: tenants.iter().map(|name| ((*name).to_owned(), 1)).collect(),
            ..Instance::default()
        };
        let all = vec![of(None, &["system"]), of(Some("a"), &["system", "gold"]), of(Some("b"), &["system", "silver"])];
        Instances { folder: PathBuf::from("/nowhere"), all }
    }

    fn help(failure: &Failure) -> String {
        format!("{:?}", failure.report)
    }

    #[test]
    fn a_tenant_is_found_in_whichever_zone_it_is() {
        let found = |word: &str| two_zones().of_tenant(word).map(|(agent, name)| (agent.name(), name));
        assert_eq!(found("gold").unwrap(), ("zone-a.sock".to_owned(), "gold".to_owned()));
        assert_eq!(found("b:silver").unwrap(), ("zone-b.sock".to_owned(), "silver".to_owned()));
        assert_eq!(found("system").unwrap().0, "agent.sock");
        assert_eq!(found("a:system").unwrap().0, "zone-a.sock");
        assert_eq!(found("supervisor:system").unwrap().0, "agent.sock");
    }

    #[test]
    fn a_tenant_that_there_is_not_is_named_with_the_nearest_one() {
        assert!(help(&two_zones().of_tenant("glod").unwrap_err()).contains("did you mean `gold`?"));
        assert!(help(&two_zones().of_tenant("b:gold").unwrap_err()).contains("there is no tenant `b:gold`"));
        assert!(help(&two_zones().of_zone("c").unwrap_err()).contains("there is no zone `c`"));
    }

    #[test]
    fn a_zone_that_came_is_found_by_its_name_and_asked_at_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let text = "memory = \"512 MiB\"\ncores = 2\n[supervisor]\nspare-zones = 1\n[image.a]\n\
            [[tenant]]\nname = \"gold\"\nshare = 1\nimage = \"a\"\n";
        let started = gyre_machine_file::parse(Path::new("m.toml"), text).unwrap();
        let mut all = Instances::of(&started, folder.path());
        all.write().unwrap();
        let late = Path::new("late.toml");
        let text = "cores = 2\n[image.a]\n[[zone]]\nname = \"late\"\nmemory = \"64 MiB\"\n\
            [[tenant]]\nname = \"tin\"\nzone = \"late\"\nshare = 3\nimage = \"a\"\n";
        let described = gyre_machine_file::parse(late, text).unwrap();
        let comer = Instance::of_comer("late", &described.zones[0].machine, vec![], None);
        all.take_place("spare-1", comer).unwrap();
        let read = Instances::read(folder.path()).unwrap();
        assert_eq!(read.of_tenant("tin").unwrap().0.name(), "zone-spare-1.sock");
        assert_eq!(read.of_zone("late").unwrap().name(), "zone-spare-1.sock");
        assert_eq!(read.all[1].tenants[1], ("tin".to_owned(), 3));
    }

    #[test]
    fn a_machine_without_zones_is_asked_itself() {
        let mut one = two_zones();
        one.all.truncate(1);
        assert_eq!(one.of_tenant("whoever").unwrap().1, "whoever");
        assert!(help(&one.of_zone("a").unwrap_err()).contains("this machine has no zones"));
    }
}
