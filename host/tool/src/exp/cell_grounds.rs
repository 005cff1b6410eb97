//! One program on the grounds of an experiment about cells: on Linux, as an ordinary process here, and as a cell.
//!
//! The program prints "NAME: GROUND-WHAT COUNT". It runs by a shell, so one machine has several grounds after another.

use std::{collections::BTreeMap, time::Duration};

use super::{
    counted::{Counted, Source},
    report::Figure,
    rig::Rig,
};
use crate::{
    cli::Kernel,
    failure::{Failure, Result},
    qemu::Clock,
};

/// The counts of one ground, by what they are of.
pub type Counts = BTreeMap<String, u64>;

/// A program of `experiments/NAME/NAME.c` on the machine `experiments/NAME.toml`.
pub struct Grounds<'a> {
    /// The name.
    pub name: &'a str,
    /// The commands of the shell on Linux.
    pub linux: &'a str,
    /// The commands of the shell here.
    pub gyre: &'a str,
    /// The unit of the counts.
    pub clock: Clock,
    /// No run takes that long, Linux's boot included.
    pub limit: Duration,
}

/// The counts of all grounds, by the ground's name; on Linux its name begins with `linux-`.
pub struct Found(BTreeMap<String, Counts>);

impl Grounds<'_> {
    /// Runs both machines.
    ///
    /// # Errors
    /// When the program cannot be compiled or does not come to its end.
    pub fn count(&self, rig: &Rig, grounds: &[&str]) -> Result<Found> {
        let mut found = BTreeMap::new();
        for (on, commands, before) in [(Kernel::Linux, self.linux, "linux-"), (Kernel::Gyre, self.gyre, "")] {
            let commands = format!("{commands}\necho '{}: done 0'", self.name);
            let words = ["/bin/busybox", "sh", "-c", &commands];
            let (name, clock, limit) = (self.name, self.clock, self.limit);
            let counted = Counted { source: Source::C, name, words: &words, clock, limit, has_marks: false };
            sort(counted.count(rig, on)?, grounds, before, &mut found);
        }
        Ok(Found(found))
    }
}

/// The failure of a ground that has said too little.
pub fn failed_as(ground: &str) -> Failure {
    Failure::new(format!("the program said too little as `{ground}`"))
}

fn sort(lines: Vec<(String, u64)>, grounds: &[&str], before: &str, found: &mut BTreeMap<String, Counts>) {
    for (name, count) in lines {
        let of = |ground: &&&str| name.strip_prefix(**ground).is_some_and(|rest| rest.starts_with('-'));
        if let Some(ground) = grounds.iter().filter(of).max_by_key(|ground| ground.len()) {
            let what = name[ground.len() + 1..].to_owned();
            found.entry(format!("{before}{ground}")).or_default().insert(what, count);
        }
    }
}

impl Found {
    /// Makes it from lines of programs, for tests.
    #[cfg(test)]
    pub fn of<const COUNT: usize>(lines: [(&str, Vec<(String, u64)>); COUNT], grounds: &[&str]) -> Self {
        let mut found = BTreeMap::new();
        lines.into_iter().for_each(|(before, lines)| sort(lines, grounds, before, &mut found));
        Self(found)
    }

    /// A figure with that of a process on Linux beside it, if Linux has one.
    pub fn beside_linux(&self, figure: Figure, what: &str) -> Figure {
        match self.get("linux-process", what) {
            Some(count) => figure.linux(count as f64),
            None => figure,
        }
    }

    /// The count of a ground; none if the ground has not said it.
    pub fn get(&self, ground: &str, what: &str) -> Option<u64> {
        self.0.get(ground)?.get(what).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_sorted_by_ground() {
        let mut found = BTreeMap::new();
        let lines = [("cell-keep-mmap-4", 1), ("cell-mmap-4", 2), ("other-mmap", 3)];
        let lines = lines.map(|(name, count)| (name.to_owned(), count)).to_vec();
        sort(lines, &["cell", "cell-keep"], "", &mut found);
        let found = Found(found);
        assert_eq!([found.get("cell", "mmap-4"), found.get("cell-keep", "mmap-4")], [Some(2), Some(1)]);
        assert_eq!([found.get("other", "mmap"), found.get("cell", "mmap")], [None, None]);
    }
}
