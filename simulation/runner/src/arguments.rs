//! The runner's command line.

/// How to ask.
pub const USAGE: &str = "usage: gyre-simulation [--from SEED] [--seeds COUNT] [--seed SEED] [--only stages|whole|cells] [--instances 1|2|linked] [--cores still|moving] [--rate]";

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
    /// Two in each seed.
    Two,
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
    /// Reads a command line; `None` if it makes no sense.
    pub fn parse(words: impl Iterator<Item = String>) -> Option<Arguments> {
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
            match word.as_str() {
                "--from" => arguments.from = words.next()?.parse().ok()?,
                "--seeds" => arguments.seeds = words.next()?.parse().ok()?,
                "--seed" => (arguments.from, arguments.seeds) = (words.next()?.parse().ok()?, 1),
                "--only" => arguments.world = Some(world(&words.next()?)?),
                "--instances" => arguments.instances = instances(&words.next()?)?,
                "--cores" => arguments.cores = cores(&words.next()?)?,
                "--rate" => arguments.is_rate = true,
                "--worker" => arguments.is_worker = true,
                _ => return None,
            }
        }
        Some(arguments)
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
            Instances::Two => Some("2"),
            Instances::Linked => Some("linked"),
        };
        words.extend(instances.into_iter().flat_map(|count| ["--instances".into(), count.into()]));
        if self.cores == Cores::Moving {
            words.extend(["--cores".into(), "moving".into()]);
        }
        words.extend(self.is_worker.then(|| "--worker".into()));
        words
    }
}

fn instances(count: &str) -> Option<Instances> {
    match count {
        "1" => Some(Instances::One),
        "2" => Some(Instances::Two),
        "linked" => Some(Instances::Linked),
        _ => None,
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
        let all = words("--from 7 --seeds 9 --only whole --instances 2 --cores moving --worker").unwrap();
        assert_eq!(
            all,
            Arguments {
                from: 7,
                seeds: 9,
                world: Some(World::Whole),
                instances: Instances::Two,
                cores: Cores::Moving,
                is_rate: false,
                is_worker: true
            }
        );
        assert_eq!(Arguments::parse(all.words().into_iter()), Some(all));
        let linked = words("--instances linked --worker").unwrap();
        assert_eq!((linked.instances, Arguments::parse(linked.words().into_iter())), (Instances::Linked, Some(linked)));
        assert_eq!(words("--seed 5").map(|one| (one.from, one.seeds)), Some((5, 1)));
        assert_eq!((words("--instances 3"), words("--instances")), (None, None));
        assert_eq!((words("--seed"), words("--only rings"), words("--what")), (None, None, None));
    }
}
