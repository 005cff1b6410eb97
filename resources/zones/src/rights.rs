//! The orders that a zone may give by itself (R8): a change of its own is checked here before anything is done. Pure.
//!
//! | command | the zone may give it |
//! |---|---|
//! | `Create` | if its description says `may-create` |
//! | `Lend` of its own parts | so too; or as many as it has borrowed there |
//! | `Lend` of another's parts to it | if that one's description lends to it, or it manages that one |
//! | `Destroy`, `Restart`, `Adopt` | of zones that it manages, and `Adopt` of one that the change makes |
//! | `Describe`, `Set`, `Attach`, `Detach` | never |

use crate::slot::Known;
use alloc::string::String;
use gyre_contract::zones::{Command, Refusal, Zone};

/// The zones as rights look at them, and the one that orders.
struct Rights<'a> {
    zones: &'a [&'a Zone],
    known: &'a [Known],
    by: usize,
    commands: &'a [Command],
}

/// Checks that a zone may order a change.
///
/// # Errors
/// [`Refusal::Invalid`] says which right it lacks.
pub(crate) fn check(zones: &[&Zone], known: &[Known], by: usize, commands: &[Command]) -> Result<(), Refusal> {
    let rights = Rights { zones, known, by, commands };
    commands.iter().try_for_each(|command| rights.check(command)).map_err(|why| Refusal::Invalid { why })
}

impl Rights<'_> {
    fn check(&self, command: &Command) -> Result<(), String> {
        match command {
            Command::Create { .. } => self.creates(),
            Command::Lend { from, to, cores, memory_bytes, .. } if self.is_own(from) => {
                if self.owes(to, u32::from(*cores), *memory_bytes) { Ok(()) } else { self.creates() }
            }
            Command::Lend { from, to, .. } if self.is_own(to) => match self.is_lent_by(from) || self.manages(from) {
                true => Ok(()),
                false => Err(alloc::format!("zone {from} lends it nothing")),
            },
            Command::Adopt { child, .. } if self.makes(child) => self.creates(),
            Command::Destroy { zone, .. } | Command::Restart { zone, .. } | Command::Adopt { child: zone, .. } => {
                if self.manages(zone) {
                    Ok(())
                } else {
                    Err(alloc::format!("it does not manage zone {zone}"))
                }
            }
            Command::Describe { .. }
            | Command::Lend { .. }
            | Command::Set { .. }
            | Command::Attach { .. }
            | Command::Detach { .. } => Err("a zone cannot order that".into()),
        }
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.zones.iter().position(|zone| zone.name == name)
    }

    fn is_own(&self, name: &str) -> bool {
        self.place(name) == Some(self.by)
    }

    fn creates(&self) -> Result<(), String> {
        match self.zones.get(self.by).is_some_and(|zone| zone.may_create) {
            true => Ok(()),
            false => Err("its description lacks may-create".into()),
        }
    }

    fn makes(&self, name: &str) -> bool {
        self.commands.iter().any(|command| matches!(command, Command::Create { zone, .. } if zone == name))
    }

    fn manages(&self, name: &str) -> bool {
        let known = self.place(name).and_then(|place| self.known.get(place));
        known.is_some_and(|known| known.parent == Some(self.by))
    }

    fn is_lent_by(&self, name: &str) -> bool {
        let lender = self.place(name).and_then(|place| self.zones.get(place));
        lender.is_some_and(|zone| zone.lends_to.iter().any(|place| usize::from(*place) == self.by))
    }

    fn owes(&self, name: &str, cores: u32, memory_bytes: u64) -> bool {
        let (own, lender) = (self.known.get(self.by), self.place(name));
        own.zip(lender).is_some_and(|(own, lender)| own.owes(lender, cores, memory_bytes))
    }
}

#[cfg(test)]
#[path = "tests/rights.rs"]
mod tests;
