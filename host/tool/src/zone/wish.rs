//! From the words of a command line to a change of the zones.

use std::time::Duration;

use gyre_contract::{
    bounds::CORES_MAX,
    zones::{Command, LOT_BYTES, SHARES, Wish, WishDeed},
};
use gyre_machine_file::{closest, units};

use crate::{
    cli::ZoneChange,
    failure::{Failure, Result},
    instances::SUPERVISOR,
    size::size,
};

const KEYS: [&str; 2] = ["cores", "memory"];
/// A key of a change that takes and gives no parts.
const SHARE: &str = "share";

/// Parts that keys and values name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sizes {
    cores: Option<u16>,
    memory_bytes: Option<u64>,
}

/// Returns the change that a command line asks for.
///
/// # Errors
/// When a value makes no sense.
pub fn command(wish: &ZoneChange) -> Result<Command> {
    Ok(match wish {
        ZoneChange::Create { name, pairs, .. } => {
            let Sizes { cores, memory_bytes } = sizes(pairs)?;
            Command::Create { zone: name.clone(), cores, memory_bytes }
        }
        ZoneChange::Destroy { name, grace, .. } => Command::Destroy { zone: name.clone(), grace_ms: ms(*grace) },
        ZoneChange::Restart { name, grace, .. } => Command::Restart { zone: name.clone(), grace_ms: ms(*grace) },
        ZoneChange::Set { name, pairs, changing } => {
            let (shares, others): (Vec<_>, Vec<_>) =
                pairs.chunks(2).partition(|pair| pair.first().is_some_and(|key| key == SHARE));
            let share = shares.last().map(|pair| share(pair)).transpose()?;
            let Sizes { cores, memory_bytes } = sizes(&others.concat())?;
            Command::Set { zone: name.clone(), share, cores, memory_bytes, deadline_ms: ms(changing.deadline) }
        }
        ZoneChange::Attach { name, device } => Command::Attach { zone: name.clone(), device: *device },
        ZoneChange::Detach { name, device, changing } => {
            Command::Detach { zone: name.clone(), device: *device, deadline_ms: ms(changing.deadline) }
        }
        ZoneChange::Lend { from, to, pairs, changing } => {
            let sizes = sizes(pairs)?;
            let (cores, memory_bytes) = (sizes.cores.unwrap_or(0), sizes.memory_bytes.unwrap_or(0));
            let (from, to) = (from.clone(), to.clone());
            Command::Lend { from, to, cores, memory_bytes, deadline_ms: ms(changing.deadline) }
        }
        ZoneChange::Adopt { child, parent, .. } => {
            let parent = parent.clone().filter(|parent| parent != SUPERVISOR);
            Command::Adopt { child: child.clone(), parent }
        }
    })
}

/// Returns the wish of a zone for a deed with parts.
///
/// # Errors
/// When a value makes no sense.
pub fn wish(deed: WishDeed, to: &str, pairs: &[String]) -> Result<Wish> {
    let Sizes { cores, memory_bytes } = sizes(pairs)?;
    Ok(Wish { to: to.to_owned(), cores: cores.unwrap_or(0), memory_bytes: memory_bytes.unwrap_or(0), deed })
}

/// Returns the zone that gives an order, and its wish; `None` if the order is the owner's.
pub fn by_zone(change: &ZoneChange) -> Option<(&str, Wish)> {
    let (by, deed, to) = match change {
        ZoneChange::Destroy { name, by: Some(by), .. } => (by, WishDeed::Destroy, name),
        ZoneChange::Restart { name, by: Some(by), .. } => (by, WishDeed::Restart, name),
        ZoneChange::Adopt { child, by: Some(by), .. } => (by, WishDeed::Release, child),
        _ => return None,
    };
    Some((by, Wish { to: to.clone(), deed, ..Wish::default() }))
}

/// Returns a time in milliseconds, as long as can be said at most.
pub fn ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn sizes(words: &[String]) -> Result<Sizes> {
    let mut sizes = Sizes::default();
    for pair in words.chunks(2) {
        match pair {
            [key, value] if key == "cores" => sizes.cores = Some(cores(value)?),
            [key, value] if key == "memory" => sizes.memory_bytes = Some(memory(value)?),
            [key] if KEYS.contains(&key.as_str()) => {
                return Err(Failure::with_help(
                    format!("`{key}` has no value"),
                    "give keys and values in turn: cores 2",
                ));
            }
            _ => return Err(unknown(pair.first().map_or("", String::as_str))),
        }
    }
    Ok(sizes)
}

fn share(pair: &[String]) -> Result<u32> {
    let value = pair.get(1).and_then(|value| value.parse().ok()).filter(|share| SHARES.contains(share));
    value.ok_or_else(|| Failure::with_help("`share` has no value that makes sense", "give a number from 1 to 1000000"))
}

fn unknown(key: &str) -> Failure {
    let help = match closest(key, KEYS) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "there is: cores N, memory SIZE; and share N for set".into(),
    };
    Failure::with_help(format!("a zone has no `{key}`"), help)
}

fn cores(value: &str) -> Result<u16> {
    let cores = value.parse().ok().filter(|cores| (1..=CORES_MAX).contains(cores));
    let wrong = || {
        let help = format!("expected a number of 1 to {CORES_MAX}; gyre zone destroy NAME takes all of them");
        Failure::with_help(format!("`{value}` makes no sense as cores"), help)
    };
    cores.ok_or_else(wrong)
}

fn memory(value: &str) -> Result<u64> {
    let wrong = |help: String| Failure::with_help(format!("`{value}` makes no sense as memory"), help);
    let bytes = size("memory", value)?;
    match bytes.is_multiple_of(LOT_BYTES) && bytes > 0 {
        true => Ok(bytes),
        false => Err(wrong(format!("memory changes hands in lots of {}", units::show_bytes(LOT_BYTES)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|word| (*word).to_owned()).collect()
    }

    fn told(text: &[&str]) -> String {
        format!("{:?}", sizes(&words(text)).unwrap_err().report)
    }

    #[test]
    fn sizes_are_read_in_any_order() {
        let both = Sizes { cores: Some(2), memory_bytes: Some(512 << 20) };
        assert_eq!(sizes(&words(&["memory", "512 MiB", "cores", "2"])).unwrap(), both);
        assert_eq!(sizes(&[]).unwrap(), Sizes::default());
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused_with_advice() {
        assert!(told(&["core", "2"]).contains("did you mean `cores`?"));
        assert!(told(&["cores"]).contains("has no value"));
        assert!(told(&["cores", "0"]).contains("gyre zone destroy NAME"));
        assert!(told(&["memory", "3 MiB"]).contains("lots of 2.00 MiB"));
        assert!(told(&["memory", "lots"]).contains("expected a size"));
        assert!(told(&["memory", "0 MiB"]).contains("lots of"));
        assert!(told(&["memory", "512"]).contains("has no unit"));
    }

    #[test]
    fn a_share_is_set_beside_sizes_or_alone_and_nowhere_else() {
        let changing = cli::Changing { deadline: Duration::from_secs(1) };
        let set = |text: &[&str]| command(&ZoneChange::Set { name: "a".into(), pairs: words(text), changing });
        let read = |text: &[&str]| match set(text).unwrap() {
            Command::Set { share, cores, .. } => (share, cores),
            other => panic!("{other:?}"),
        };
        assert_eq!((read(&["share", "3"]), read(&["cores", "2", "share", "9"])), ((Some(3), None), (Some(9), Some(2))));
        for wrong in [&["share"][..], &["share", "0"], &["share", "1000001"], &["share", "much"]] {
            assert!(set(wrong).is_err(), "{wrong:?}");
        }
        assert!(told(&["share", "3"]).contains("has no `share`"), "a loan has none");
    }

    #[test]
    fn an_order_of_a_zone_is_its_wish() {
        let adopt = |by| ZoneChange::Adopt { child: "a".into(), parent: None, by };
        let wish = Wish { to: "a".into(), deed: WishDeed::Release, ..Wish::default() };
        assert_eq!(by_zone(&adopt(Some("b".into()))), Some(("b", wish)));
        assert_eq!(by_zone(&adopt(None)), None);
    }

    #[test]
    fn a_parent_that_is_the_supervisor_is_none() {
        let adopt = |parent: &str| ZoneChange::Adopt { child: "a".into(), parent: Some(parent.into()), by: None };
        let parent = |wish| match command(&wish).unwrap() {
            Command::Adopt { parent, .. } => parent,
            other => panic!("{other:?}"),
        };
        assert_eq!((parent(adopt(SUPERVISOR)), parent(adopt("b"))), (None, Some("b".into())));
    }
}
