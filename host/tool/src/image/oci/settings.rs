//! The program of an image, as the image describes it (OCI image-spec 1.1, config.md), in the words of the kernel.

use std::{collections::BTreeMap, str::FromStr as _};

use gyre_contract::boot::{Program, User};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::Root;
use crate::failure::{Failure, Result};

/// Folders in which a program without a slash is looked for, if the image has no PATH.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The first real-time signal for programs, and the last one (signal(7); two below are the C library's).
const REAL_TIME: (u8, u8) = (34, 64);

/// The config of an image.
#[derive(Debug, Deserialize)]
pub(super) struct Config {
    architecture: String,
    os: String,
    #[serde(default)]
    config: Option<Raw>,
    pub(super) rootfs: RootFs,
}

#[derive(Debug, Deserialize)]
pub(super) struct RootFs {
    pub(super) diff_ids: Vec<String>,
}

/// The part about the program; `docker save` writes null for what is empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Raw {
    user: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    exposed_ports: Option<BTreeMap<String, serde_json::Value>>,
    stop_signal: Option<String>,
}

/// The settings of an image, as they are kept beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Its program; the arguments are empty if it has none.
    pub program: Program,
    /// TCP ports that its program listens on.
    pub ports: Vec<u16>,
    /// UDP ports; those of images that were made before they were told are not known.
    #[serde(default)]
    pub udp_ports: Vec<u16>,
}

impl Config {
    /// Checks that it can run here, and belongs to so many layers.
    pub(super) fn check(&self, layers: usize) -> Result<()> {
        if (self.os.as_str(), self.architecture.as_str()) != ("linux", "amd64") {
            return Err(Failure::new(format!("the image is for {}/{}, not linux/amd64", self.os, self.architecture)));
        }
        match self.rootfs.diff_ids.len() == layers {
            true => Ok(()),
            false => Err(Failure::new("the image's config and its manifest differ in their layers")),
        }
    }

    /// Returns the settings, with names resolved in the tree.
    pub(super) fn settings(&self, tree: &Root) -> Result<Settings> {
        let raw = self.config.clone().unwrap_or_default();
        let mut argv: Vec<String> = raw.entrypoint.into_iter().flatten().chain(raw.cmd.into_iter().flatten()).collect();
        let environment = raw.env.unwrap_or_default();
        if let Some(first) = argv.first_mut() {
            *first = resolved(tree, first, &environment)?;
        }
        let directory = raw.working_dir.filter(|path| path.starts_with('/')).unwrap_or_else(|| "/".into());
        let user = user(tree, raw.user.as_deref().unwrap_or_default())?;
        let stop_signal = raw.stop_signal.as_deref().filter(|text| !text.is_empty()).map(signal).transpose()?;
        let exposed = || raw.exposed_ports.iter().flat_map(BTreeMap::keys);
        let tcp = |port: &String| port.strip_suffix("/tcp").unwrap_or(port).parse().ok();
        let udp = |port: &String| port.strip_suffix("/udp")?.parse().ok();
        let (ports, udp_ports) = (exposed().filter_map(tcp).collect(), exposed().filter_map(udp).collect());
        Ok(Settings { program: Program { argv, environment, directory, user, stop_signal }, ports, udp_ports })
    }
}

/// Returns the absolute path of a program of the image.
fn resolved(tree: &Root, name: &str, environment: &[String]) -> Result<String> {
    if name.starts_with('/') {
        return Ok(name.to_owned());
    }
    let path = environment.iter().find_map(|entry| entry.strip_prefix("PATH=")).unwrap_or(PATH);
    let mut all = path.split(':').map(|folder| format!("{}/{name}", folder.trim_end_matches('/')));
    let missing = || Failure::with_help(format!("the image has no program `{name}`"), "set `command` of the tenant");
    all.find(|path| tree.has(path)).ok_or_else(missing)
}

/// Reads USER, USER:GROUP, or numbers in place of either.
fn user(tree: &Root, text: &str) -> Result<User> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    if user.is_empty() {
        return Ok(User::default());
    }
    let passwd = table(tree, "etc/passwd");
    let groups = table(tree, "etc/group");
    let number = |line: &[String], at: usize| line.get(at).and_then(|text| text.parse::<u32>().ok());
    let is_it =
        |line: &&Vec<String>| line.first().is_some_and(|name| name == user) || line.get(2).is_some_and(|id| id == user);
    let entry = passwd.iter().find(is_it);
    let known = entry.and_then(|line| number(line, 2)).or_else(|| user.parse().ok());
    let id = known.ok_or_else(|| Failure::new(format!("the image's user `{user}` is not in its /etc/passwd")))?;
    let name = entry.and_then(|line| line.first().cloned()).unwrap_or_default();
    let Some(group) = group else {
        let member = |line: &&Vec<String>| {
            line.get(3).is_some_and(|all| !name.is_empty() && all.split(',').any(|one| one == name))
        };
        let more = groups.iter().filter(member).filter_map(|line| number(line, 2)).collect();
        return Ok(User { user: id, group: entry.and_then(|line| number(line, 3)).unwrap_or(0), groups: more });
    };
    let found = groups.iter().find(|line| line.first().is_some_and(|name| name == group));
    let group_id = found.and_then(|line| number(line, 2)).or_else(|| group.parse().ok());
    let group =
        group_id.ok_or_else(|| Failure::new(format!("the image's group `{group}` is not in its /etc/group")))?;
    Ok(User { user: id, group, groups: vec![] })
}

/// Reads a table of /etc; none if the image has none.
fn table(tree: &Root, path: &str) -> Vec<Vec<String>> {
    let text = tree.read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    text.lines().map(|line| line.split(':').map(str::to_owned).collect()).collect()
}

/// Reads a signal by name or number.
fn signal(text: &str) -> Result<u8> {
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let usual = || Signal::from_str(&format!("SIG{name}")).ok().and_then(|signal| u8::try_from(signal as i32).ok());
    let number = name.parse().ok().or_else(usual).or_else(|| real_time(name));
    let number = number.filter(|number| (1..=REAL_TIME.1).contains(number));
    number.ok_or_else(|| Failure::new(format!("the image's stop signal `{text}` is not known")))
}

/// Reads `RTMIN`, `RTMIN+3`, `RTMAX`, `RTMAX-2`.
fn real_time(name: &str) -> Option<u8> {
    let (first, last) = REAL_TIME;
    let beside = |rest: &str, sign| match rest {
        "" => Some(0),
        _ => rest.strip_prefix(sign)?.parse().ok(),
    };
    let number = match (name.strip_prefix("RTMIN"), name.strip_prefix("RTMAX")) {
        (Some(rest), _) => first.checked_add(beside(rest, '+')?),
        (_, Some(rest)) => last.checked_sub(beside(rest, '-')?),
        _ => None,
    };
    number.filter(|number| (first..=last).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_signals_have_names_and_numbers() {
        let known = [
            ("SIGTERM", 15),
            ("TERM", 15),
            ("SIGRTMIN+3", 37),
            ("RTMIN", 34),
            ("SIGRTMAX-1", 63),
            ("SIGCONT", 18),
            ("SIGALRM", 14),
            ("SIGPWR", 30),
            ("28", 28),
            ("64", 64),
        ];
        for (text, number) in known {
            assert_eq!(signal(text).ok(), Some(number), "{text}");
        }
        for text in ["", "SIG", "0", "65", "SIGRTMIN+31", "SIGRTMAX-31", "RTMIN-1", "RTMIN+", "SIGNONE", "-3", "256"] {
            assert!(signal(text).is_err(), "{text}");
        }
    }
}
