//! The resources that seeds have reached: those that worked for tenants, and those whose work was made to fail.
//!
//! A worker tells its parent in lines that begin with [`WORD`], one for each seed and world; the parent adds them up. Over the seeds of the
//! gate each resource that works must have failed too, or a resource could hold what nobody gives back.

use std::collections::{BTreeMap, BTreeSet};

/// The first word of a line.
const WORD: &str = "reached";
/// Between the parts of a line, and between names.
const PART: char = ';';
const NAME: char = ',';

/// Resources by name.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reached {
    /// Those that worked for tenants.
    pub worked: BTreeSet<String>,
    /// Those of them whose work failed on purpose.
    pub failed: BTreeSet<String>,
}

impl Reached {
    /// Makes it from names.
    pub fn new<'a>(worked: impl Iterator<Item = &'a str>, failed: impl Iterator<Item = &'a str>) -> Reached {
        Reached { worked: worked.map(String::from).collect(), failed: failed.map(String::from).collect() }
    }

    /// Adds what another run reached.
    pub fn add(&mut self, other: &Reached) {
        self.worked.extend(other.worked.iter().cloned());
        self.failed.extend(other.failed.iter().cloned());
    }

    /// Returns the line for the parent.
    pub fn line(&self, world: &str) -> String {
        let names = |of: &BTreeSet<String>| of.iter().cloned().collect::<Vec<_>>().join(&NAME.to_string());
        [WORD, world, &names(&self.worked), &names(&self.failed)].join(&PART.to_string())
    }
}

/// Sums for each world.
#[derive(Default)]
pub struct Sums(BTreeMap<String, Reached>);

impl Sums {
    /// Adds a line of a worker; false if it is none of ours.
    pub fn read(&mut self, line: &str) -> bool {
        let mut parts = line.split(PART);
        let (Some(WORD), Some(world), Some(worked), Some(failed)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        fn names(part: &str) -> impl Iterator<Item = &str> {
            part.split(NAME).filter(|name| !name.is_empty())
        }
        self.0.entry(world.into()).or_default().add(&Reached::new(names(worked), names(failed)));
        true
    }

    /// Returns world and name of each resource that worked and never failed.
    pub fn missing(&self) -> Vec<String> {
        let of_world = |(world, reached): (&String, &Reached)| -> Vec<String> {
            reached.worked.difference(&reached.failed).map(|name| format!("{world}: {name}")).collect()
        };
        self.0.iter().flat_map(of_world).collect()
    }

    /// Says in how many resources work failed, of how many that worked.
    pub fn tell(&self) -> String {
        let of = |(world, reached): (&String, &Reached)| {
            format!("{world}: work failed in {} of {} resources", reached.failed.len(), reached.worked.len())
        };
        self.0.iter().map(of).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_worked_and_never_failed_is_missing() {
        let mut sums = Sums::default();
        let one = Reached::new(["stage 0", "device"].into_iter(), ["device"].into_iter());
        assert!(sums.read(&one.line("stages")) && !sums.read("seed 4  stages  trace 1"));
        assert_eq!(sums.missing(), ["stages: stage 0"]);
        let other = Reached::new(["stage 0"].into_iter(), ["stage 0"].into_iter());
        assert!(sums.read(&other.line("stages")) && sums.read(&other.line("whole")));
        assert!(sums.missing().is_empty());
        assert_eq!(sums.tell(), "stages: work failed in 2 of 2 resources, whole: work failed in 1 of 1 resources");
    }
}
