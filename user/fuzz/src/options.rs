//! The command line.

use std::time::Duration;

use pico_args::{Arguments, Error};

/// The text of `--help`.
pub const HELP: &str = "\
gyre-fuzz: makes system calls at random, from one seed

  --seed N        the first round's seed (1)
  --rounds N      rounds, each with the next seed (without end)
  --seconds N     for so long (60)
  --calls N       calls of each thread in a round (2000)
  --workers N     processes that share descriptors (2)
  --threads N     threads of each (2)
  --only A,B,...  these calls and no others
  --without A,B   not these
  --replay        one round with exactly this seed, without a limit of time but --seconds
  --window A-B    of each thread only the calls from A to B are made: to find those that matter
  --user root     always as root; `nobody`: never; else in turn
  --folder PATH   where its files are (/tmp/fuzz)
  --rest          stays at the end, without a file and without what is kept of files
  --quiet         no table at the end
  --list          the calls that there are
  --read FILE     the last calls of each thread in a picture of the machine's memory
  --help          this
";

/// As whom a round runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// Root.
    Root,
    /// The user `nobody`.
    Nobody,
    /// In turn.
    Both,
}

/// The wishes of the command line.
pub struct Options {
    /// The first round's seed.
    pub seed: u64,
    /// How many rounds.
    pub rounds: u64,
    /// For how long.
    pub length: Duration,
    /// Calls of a thread.
    pub calls: u64,
    /// Processes of a round.
    pub workers: u64,
    /// Threads of each.
    pub threads: u64,
    /// Names of calls, if not all are wanted.
    pub only: Vec<String>,
    /// Names of calls that are left out.
    pub without: Vec<String>,
    /// Which of a thread's calls are made.
    pub window: (u64, u64),
    /// As whom.
    pub user: User,
    /// The folder in which files are made.
    pub folder: String,
    /// How long a round may take.
    pub round: Duration,
    /// Stays at the end.
    pub rest: bool,
    /// No table at the end.
    pub quiet: bool,
}

impl Options {
    /// Reads the command line.
    ///
    /// # Errors
    /// If an option or its value is wrong.
    pub fn read(mut words: Arguments) -> Result<Self, Error> {
        let is_replay = words.contains("--replay");
        let seconds: u64 = words.opt_value_from_str("--seconds")?.unwrap_or(60);
        let options = Self {
            seed: words.opt_value_from_str("--seed")?.unwrap_or(1),
            rounds: words.opt_value_from_str("--rounds")?.unwrap_or(if is_replay { 1 } else { u64::MAX }),
            length: Duration::from_secs(seconds),
            calls: words.opt_value_from_str("--calls")?.unwrap_or(2000),
            workers: words.opt_value_from_str("--workers")?.unwrap_or(2).clamp(1, 16),
            threads: words.opt_value_from_str("--threads")?.unwrap_or(2).clamp(1, 16),
            only: list(&mut words, "--only")?,
            without: list(&mut words, "--without")?,
            window: words.opt_value_from_fn("--window", window)?.unwrap_or((0, u64::MAX)),
            user: words.opt_value_from_fn("--user", user)?.unwrap_or(User::Both),
            folder: words.opt_value_from_str("--folder")?.unwrap_or_else(|| "/tmp/fuzz".into()),
            round: Duration::from_secs(if is_replay { seconds } else { 4 }),
            rest: words.contains("--rest"),
            quiet: words.contains("--quiet"),
        };
        match words.finish().first() {
            None => Ok(options),
            Some(word) => Err(wrong(&format!("what is {}?", word.to_string_lossy()))),
        }
    }
}

fn wrong(text: &str) -> Error {
    Error::ArgumentParsingFailed { cause: text.into() }
}

fn list(words: &mut Arguments, name: &'static str) -> Result<Vec<String>, Error> {
    let text: Option<String> = words.opt_value_from_str(name)?;
    let names: Vec<String> = text.iter().flat_map(|text| text.split(',')).map(str::to_owned).collect();
    match names.iter().find(|name| !crate::calls::all().any(|call| call.name == name.as_str())) {
        Some(unknown) => Err(wrong(&format!("there is no call {unknown}; --list names them"))),
        None => Ok(names),
    }
}

fn window(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once('-').ok_or("a window is two numbers with a dash")?;
    let number = |text: &str| text.parse().map_err(|_| format!("{text} is no number"));
    Ok((number(from)?, number(to)?))
}

fn user(text: &str) -> Result<User, String> {
    match text {
        "root" => Ok(User::Root),
        "nobody" => Ok(User::Nobody),
        "both" => Ok(User::Both),
        _ => Err("root, nobody or both".into()),
    }
}
