//! The runner's command line.

use crate::whole::INSTANCES_MAX;
use std::fmt;

/// How to ask.
pub const USAGE: &str = "usage: gyre-simulation [--from SEED] [--seeds COUNT] [--seed SEED] [--only stages|whole|cells] [--instances 1..8|linked] [--cores still|moving] [--rate]";

/// Which of the worlds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum World {
    /// The chain of invented stages.
    Stages,
    /// The whole machine.
    Whole,
    /// Cells.
    Cells,
}

/// How many machines there are in a whole world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instances {
    /// One; and two in some seeds, beside that.
    One,
    /// So many in each seed, two or more.
    Many(usize),
    /// Two in each seed, which are linked.
    Linked,
}

/// The cores of a world while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cores {
    /// All stay.
    Still,
    /// All but the first leave and come back at random moments.
    Moving,
}

/// The reason for which a command line is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It makes no sense.
    Words,
    /// A world cannot have so many instances.
    Instances(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Refusal::Instances(word) = self {
            writeln!(f, "--instances {word}: a world has 1 to {INSTANCES_MAX} instances, or two that are `linked`")?;
        }
        f.write_str(USAGE)
    }
}

/// The worlds and seeds that are to be run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arguments {
    /// The first seed.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// One world only.
    pub world: Option<World>,
    /// Machines in a whole world.
    pub instances: Instances,
    /// Its cores stay, or move.
    pub cores: Cores,
    /// Measures a stream over a link instead.
    pub is_rate: bool,
    /// Runs them itself, in this process.
    pub is_worker: bool,
}

impl Arguments {
    /// Reads a command line.
    ///
    /// # Errors
    /// [`Refusal`], which says what is wrong.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Arguments, Refusal> {
        let mut arguments = Arguments {
            from: 1,
            seeds: 100,
            world: None,
            instances: Instances::One,
            cores: Cores::Still,
            is_rate: false,
            is_worker: false,
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut next = || words.next().ok_or(Refusal::Words);
            match word.as_str() {
                "--from" => arguments.from = number(&next()?)?,
                "--seeds" => arguments.seeds = number(&next()?)?,
                "--seed" => (arguments.from, arguments.seeds) = (number(&next()?)?, 1),
                "--only" => arguments.world = Some(world(&next()?).ok_or(Refusal::Words)?),
                "--instances" => arguments.instances = instances(next()?)?,
                "--cores" => arguments.cores = cores(&next()?).ok_or(Refusal::Words)?,
                "--rate" => arguments.is_rate = true,
                "--worker" => arguments.is_worker = true,
                _ => return Err(Refusal::Words),
            }
        }
        Ok(arguments)
    }

    /// Returns true if a world is to be run.
    pub fn has(&self, world: World) -> bool {
        self.world.is_none_or(|only| only == world)
    }

    /// Writes them as a command line.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["--from".into(), self.from.to_string(), "--seeds".into(), self.seeds.to_string()];
        if let Some(world) = self.world {
            let name = match world {
                World::Stages => "stages",
                World::Whole => "whole",
                World::Cells => "cells",
            };
            words.extend(["--only".into(), name.into()]);
        }
        let instances = match self.instances {
            Instances::One => None,
            Instances::Many(count) => Some(count.to_string()),
            Instances::Linked => Some("linked".into()),
        };
        words.extend(instances.into_iter().flat_map(|count| ["--instances".into(), count]));
        if self.cores == Cores::Moving {
            words.extend(["--cores".into(), "moving".into()]);
        }
        words.extend(self.is_worker.then(|| "--worker".into()));
        words
    }
}

fn number(word: &str) -> Result<u64, Refusal> {
    word.parse().map_err(|_| Refusal::Words)
}

fn instances(word: String) -> Result<Instances, Refusal> {
    match word.parse() {
        _ if word == "linked" => Ok(Instances::Linked),
        Ok(1) => Ok(Instances::One),
        Ok(count) if (2..=INSTANCES_MAX).contains(&count) => Ok(Instances::Many(count)),
        _ => Err(Refusal::Instances(word)),
    }
}

fn cores(how: &str) -> Option<Cores> {
    match how {
        "still" => Some(Cores::Still),
        "moving" => Some(Cores::Moving),
        _ => None,
    }
}

fn world(name: &str) -> Option<World> {
    match name {
        "stages" => Some(World::Stages),
        "whole" => Some(World::Whole),
        "cells" => Some(World::Cells),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_read_as_it_is_written() {
        let words = |line: &str| Arguments::parse(line.split_whitespace().map(String::from));
        let all = words("--from 7 --seeds 9 --only whole --instances 8 --cores moving --worker").unwrap();
        assert_eq!(
            all,
            Arguments {
                from: 7,
                seeds: 9,
                world: Some(World::Whole),
                instances: Instances::Many(8),
                cores: Cores::Moving,
                is_rate: false,
                is_worker: true
            }
        );
        assert_eq!(Arguments::parse(all.words().into_iter()), Ok(all));
        let linked = words("--instances linked --worker").unwrap();
        assert_eq!((linked.instances, Arguments::parse(linked.words().into_iter())), (Instances::Linked, Ok(linked)));
        assert_eq!(words("--seed 5").map(|one| (one.from, one.seeds)), Ok((5, 1)));
        for none in ["--seed", "--only rings", "--what", "--instances"] {
            assert_eq!(words(none), Err(Refusal::Words), "{none}");
        }
    }

    #[test]
    fn a_world_has_one_to_eight_instances() {
        let read = |count: &str| Arguments::parse(["--instances", count].map(String::from).into_iter());
        assert_eq!(read("1").map(|one| one.instances), Ok(Instances::One));
        for count in 2..=8 {
            assert_eq!(read(&count.to_string()).map(|one| one.instances), Ok(Instances::Many(count)));
        }
        for count in ["0", "9", "-1", "two", "18446744073709551617"] {
            assert_eq!(read(count), Err(Refusal::Instances(count.into())));
        }
    }
}
