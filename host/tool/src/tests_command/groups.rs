//! Suites have process groups of their own, so that one that hangs can be ended as a whole. A signal to this command reaches them all the same:
//! it is passed on.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::failure::{Context as _, Result};

static GROUPS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// A child that may have a group; dropped, it has ended.
pub struct Member(u32);

impl Member {
    /// Enters a child.
    pub fn enter(id: u32) -> Self {
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Self(id)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Passes Ctrl-C, hang-up and termination on to all groups, and ends this command.
///
/// # Errors
/// When the handlers cannot be set.
pub fn end_on_signals() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context(|| "cannot handle signals".into())?;
    std::thread::spawn(move || {
        if let Some(number) = signals.forever().next() {
            pass_on(number);
            std::process::exit(128 + number);
        }
    });
    Ok(())
}

fn pass_on(number: i32) {
    let Ok(signal) = Signal::try_from(number) else { return };
    let groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
    for id in groups.iter().filter_map(|id| i32::try_from(*id).ok()) {
        // A child without a group of its own gets the signal as this command did.
        let _ = killpg(Pid::from_raw(id), signal);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::{CommandExt as _, ExitStatusExt as _},
        process::Command,
    };

    use super::*;

    #[test]
    fn a_signal_reaches_each_group_that_is_entered() {
        // Only this one's group: other tests have children, too.
        let mut child = Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        let member = Member::enter(child.id());
        assert!(GROUPS.lock().unwrap().contains(&child.id()));
        killpg(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(SIGINT));
        drop(member);
        assert!(!GROUPS.lock().unwrap().contains(&child.id()));
    }
}
