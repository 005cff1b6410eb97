//! The command line of `gyre-cell`.
//!
//! Words before `--` are options, those behind it the program and its arguments, whatever they look like. Each policy is chosen by its name
//! ([`Pager`], [`Frames`], [`Fibers`], [`Io`], [`Ahead`]); a wrong name is answered with all that there are.
//!
//! * Sizes are whole lots of 2 MiB, with units.
//! * A wrong word is a sentence for the user, and nothing has begun.
//! * Options that only one ground has (`--disk-file`, `--unleased`) are ignored on the other one.

use std::{ffi::OsString, path::PathBuf};

use gyre_cell_abi::LOT_BYTES;

use crate::device::Name;

/// The manual.
pub const USAGE: &str = "\
gyre-cell: starts an unmodified program in a cell

    gyre-cell [OPTIONS] -- PROGRAM [ARGUMENTS]

  --cores N           cores for itself (1)
  --memory SIZE       memory for itself, for example 64M or '64 MiB' (64M)
  --pager NAME        demand, eager, keep or reuse (demand)
  --frames NAME       buddy or coloured (buddy)
  --fibers NAME       round-robin or newest (round-robin)
  --io NAME           wait or poll (poll; with --plain wait)
  --ahead NAME        doubling or nothing: what is read ahead of files (doubling)
  --disk PATH         the program finds the cell's disk there (/dev/cell0, for example)
  --device N          which of the devices of cells it is (0)
  --card PATH         the program finds the cell's network card there (/dev/net0, for example)
  --card-device N     which of the devices of cells it is (0)
  --plain             without a virtual machine: at ring 3
  --unleased          with --plain: an ordinary process, without cores and memory for itself; also on Linux
  --disk-file FILE    with --plain: the disk is this file
  --restart           starts it again if it crashes
";

/// A program and the cell that it wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Cores.
    pub cores: u32,
    /// Bytes, whole lots.
    pub memory_bytes: u64,
    /// When pages become present, and whether they go again.
    pub pager: Pager,
    /// The allocator.
    pub frames: Frames,
    /// The order of fibers.
    pub fibers: Fibers,
    /// The behaviour of a core that waits, if it is not the ground's usual one.
    pub io: Option<Io>,
    /// How much is read ahead of files.
    pub ahead: Ahead,
    /// The disk.
    pub disk: Option<Name>,
    /// The network card.
    pub card: Option<Name>,
    /// The parts of a plain cell.
    pub parts: Parts,
    /// The file that is the disk of a plain cell.
    pub disk_file: Option<PathBuf>,
    /// The ground.
    pub ground: Ground,
    /// After a crash.
    pub crash: Crash,
    /// The program and its arguments; not empty.
    pub program: Vec<OsString>,
}

macro_rules! choice {
    ($(#[$note:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$note])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$each])* $variant),+ }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("`{word}` is none of: {}", [$($word),+].join(", "))),
                }
            }
        }
    };
}

choice! {
    /// Pagers.
    Pager {
        /// [`crate::pager::Demand`].
        Demand = "demand",
        /// [`crate::pager::Eager`].
        Eager = "eager",
        /// [`crate::pager::Keep`].
        Keep = "keep",
        /// [`crate::pager::Reuse`].
        Reuse = "reuse",
    }
}

choice! {
    /// Allocators of frames.
    Frames {
        /// [`crate::frames::Buddy`].
        Buddy = "buddy",
        /// [`crate::frames::Coloured`].
        Coloured = "coloured",
    }
}

choice! {
    /// Schedulers of fibers.
    Fibers {
        /// [`crate::fiber::RoundRobin`].
        RoundRobin = "round-robin",
        /// [`crate::fiber::Newest`].
        Newest = "newest",
    }
}

choice! {
    /// Cores that wait.
    Io {
        /// [`crate::io::Wait`].
        Wait = "wait",
        /// [`crate::io::Poll`].
        Poll = "poll",
    }
}

choice! {
    /// Reading ahead.
    Ahead {
        /// [`crate::ahead::Doubling`].
        Doubling = "doubling",
        /// [`crate::ahead::Nothing`].
        Nothing = "nothing",
    }
}

/// The ground of the cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ground {
    /// Ring 0 of a machine of its own.
    Privileged,
    /// An ordinary process.
    Plain,
}

/// The parts that a plain cell uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parts {
    /// Cores and memory that the kernel leases to it.
    Leased,
    /// The process's own memory, and any core.
    Own,
}

/// The consequence of a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The end.
    End,
    /// A new start.
    Restart,
}

/// A size with its unit: bytes, K, M, G, or KiB, MiB, GiB.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size (for example 64M, '64 MiB')");
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let shift = match unit.trim() {
        "" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
    if bytes == 0 || !bytes.is_multiple_of(LOT_BYTES) {
        return Err(format!("`{text}` is not a multiple of 2 MiB"));
    }
    Ok(bytes)
}

/// The largest number of cores that the request has room for.
fn cores(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|cores| *cores > 0).ok_or_else(|| format!("`{text}` is no number of cores"))
}

/// Reads which device it has, and where: the options for its path and its number.
fn device(
    words: &mut pico_args::Arguments,
    [path, number]: [&'static str; 2],
) -> Result<Option<Name>, pico_args::Error> {
    let device = words.opt_value_from_str(number)?.unwrap_or(0);
    let path: Option<String> = words.opt_value_from_str(path)?;
    Ok(path.map(|path| Name { path, device }))
}

impl Options {
    /// Reads the words behind the program's name.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn read(words: Vec<OsString>) -> Result<Self, String> {
        let mut own = words;
        let at = own.iter().position(|word| word == "--").ok_or("no program: gyre-cell [OPTIONS] -- PROGRAM")?;
        let program = own.split_off(at).split_off(1);
        if program.is_empty() {
            return Err("no program behind `--`".into());
        }
        let mut words = pico_args::Arguments::from_vec(own);
        let options = Self::of_words(&mut words, program).map_err(|error| error.to_string())?;
        match words.finish().first() {
            Some(word) => Err(format!("`{}` is not known; gyre-cell --help", word.display())),
            None => Ok(options),
        }
    }

    fn of_words(words: &mut pico_args::Arguments, program: Vec<OsString>) -> Result<Self, pico_args::Error> {
        Ok(Self {
            cores: words.opt_value_from_fn("--cores", cores)?.unwrap_or(1),
            memory_bytes: words.opt_value_from_fn("--memory", size)?.unwrap_or(64 << 20),
            pager: words.opt_value_from_str("--pager")?.unwrap_or(Pager::Demand),
            frames: words.opt_value_from_str("--frames")?.unwrap_or(Frames::Buddy),
            fibers: words.opt_value_from_str("--fibers")?.unwrap_or(Fibers::RoundRobin),
            io: words.opt_value_from_str("--io")?,
            ahead: words.opt_value_from_str("--ahead")?.unwrap_or(Ahead::Doubling),
            disk: device(words, ["--disk", "--device"])?,
            card: device(words, ["--card", "--card-device"])?,
            disk_file: words.opt_value_from_os_str("--disk-file", |path| Ok::<_, String>(PathBuf::from(path)))?,
            ground: if words.contains("--plain") { Ground::Plain } else { Ground::Privileged },
            parts: if words.contains("--unleased") { Parts::Own } else { Parts::Leased },
            crash: if words.contains("--restart") { Crash::Restart } else { Crash::End },
            program,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options, String> {
        Options::read(text.split_whitespace().map(Into::into).collect())
    }

    #[test]
    fn options_end_where_the_program_begins() {
        assert_eq!(read("--plain --unleased -- x").unwrap().parts, Parts::Own);
        let options = read("--plain --pager keep --memory 128M -- sort --pager x").unwrap();
        assert_eq!(options.parts, Parts::Leased);
        assert_eq!((options.ground, options.pager, options.memory_bytes), (Ground::Plain, Pager::Keep, 128 << 20));
        assert_eq!(options.program, ["sort", "--pager", "x"]);
        assert_eq!(size("64 MiB"), Ok(64 << 20));
        let named = |path: &str, device| Some(Name { path: path.into(), device });
        let options = read("--disk /dev/d --card /dev/net0 --card-device 1 -- x").unwrap();
        assert_eq!((options.disk, options.card), (named("/dev/d", 0), named("/dev/net0", 1)));
    }

    #[test]
    fn wrong_words_get_a_sentence() {
        for (text, part) in [
            ("sort", "no program"),
            ("--plain --", "no program behind"),
            ("--pager lazy -- x", "`lazy` is none of: demand, eager, keep, reuse"),
            ("--memory 3K -- x", "2 MiB"),
            ("--memory 99999999999G -- x", "no size"),
            ("--cores 0 -- x", "no number of cores"),
            ("--fast -- x", "`--fast` is not known"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
