//! What the runner is asked for.

/// How to ask.
pub const USAGE: &str = "usage: gyre-sim-runner [--from SEED] [--seeds COUNT] [--seed SEED] [--only stages|whole]";

/// Which of the two worlds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum World {
    /// The chain of invented stages.
    Stages,
    /// The whole machine.
    Whole,
}

/// What is to be run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arguments {
    /// The first seed.
    pub from: u64,
    /// How many.
    pub seeds: u64,
    /// One world only.
    pub world: Option<World>,
    /// Runs them itself, in this process.
    pub is_worker: bool,
}

impl Arguments {
    /// Reads a command line; `None` where it makes no sense.
    pub fn parse(words: impl Iterator<Item = String>) -> Option<Arguments> {
        let mut arguments = Arguments { from: 1, seeds: 100, world: None, is_worker: false };
        let mut words = words;
        while let Some(word) = words.next() {
            match word.as_str() {
                "--from" => arguments.from = words.next()?.parse().ok()?,
                "--seeds" => arguments.seeds = words.next()?.parse().ok()?,
                "--seed" => (arguments.from, arguments.seeds) = (words.next()?.parse().ok()?, 1),
                "--only" => arguments.world = Some(world(&words.next()?)?),
                "--worker" => arguments.is_worker = true,
                _ => return None,
            }
        }
        Some(arguments)
    }

    /// The same as a command line.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["--from".into(), self.from.to_string(), "--seeds".into(), self.seeds.to_string()];
        if let Some(world) = self.world {
            words.extend(["--only".into(), if world == World::Whole { "whole" } else { "stages" }.into()]);
        }
        words.extend(self.is_worker.then(|| "--worker".into()));
        words
    }
}

fn world(name: &str) -> Option<World> {
    match name {
        "stages" => Some(World::Stages),
        "whole" => Some(World::Whole),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_read_as_it_is_written() {
        let words = |line: &str| Arguments::parse(line.split_whitespace().map(String::from));
        let all = words("--from 7 --seeds 9 --only whole --worker").unwrap();
        assert_eq!(all, Arguments { from: 7, seeds: 9, world: Some(World::Whole), is_worker: true });
        assert_eq!(Arguments::parse(all.words().into_iter()), Some(all));
        assert_eq!(words("--seed 5").map(|one| (one.from, one.seeds)), Some((5, 1)));
        assert_eq!((words("--seed"), words("--only rings"), words("--what")), (None, None, None));
    }
}
