//! The one reader of the kernel's command line.
//!
//! Words are separated by white space, as in the Linux boot protocol (Documentation/arch/x86/boot.rst, "The Kernel Command Line"); each is
//! NAME or NAME=VALUE. A known word whose value cannot be used ends the machine. Loaders add words of their own (`root=`, `console=`): unknown
//! ones are told and passed over.

use super::command_line::words;
use super::parts::{self, Devices, Ranges};
use super::spelling::nearest;
use crate::copy_way::CopyWay;
use crate::rate;
use core::fmt;
use gyre_platform::CORES_MAX;

/// The words of the platform; a kernel declares more of its own by [`crate::entry!`].
pub(crate) const WORDS: [&str; 7] = ["copies", "cores", "devices", "memory", "supervisor", "tsc_khz", "zone"];

/// The wishes of the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Options {
    /// The way in which long copies are made; measured at boot if it is not said.
    pub(crate) copies: Option<CopyWay>,
    /// At most so many cores, 1 to [`CORES_MAX`].
    pub(crate) cores_max: Option<usize>,
    /// No memory but this.
    pub(crate) memory: Option<Ranges>,
    /// No PCI function but these.
    pub(crate) devices: Option<Devices>,
    /// The rate of the time stamp counter in kHz.
    pub(crate) tsc_khz: Option<u64>,
    /// The physical address of the page that a zone shares with its supervisor.
    pub(crate) zone: Option<u64>,
    /// The instance has the parts of the machine that it does not keep for others.
    pub(crate) is_supervisor: bool,
}

/// A word that cannot be obeyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault<'a> {
    /// The word's name, its value, what was expected.
    Value(&'a str, Option<&'a str>, &'static str),
    /// This word is there more than once.
    Twice(&'a str),
    /// This word stands beside `zone=`, whose page says all that it could say.
    BesideZone(&'a str),
}

impl fmt::Display for Fault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Value(name, Some(value), expected) => {
                write!(f, "the command line says {name}={}: expected {expected}", Shown(value))
            }
            Fault::Value(name, None, expected) => {
                write!(f, "the command line says {name} without a value: expected {name}= and {expected}")
            }
            Fault::Twice(name) => write!(f, "the command line says {name}= twice: expected it once"),
            Fault::BesideZone(name) => {
                write!(
                    f,
                    "the command line says {name}= beside zone=: expected one of them, as a zone's page has its parts"
                )
            }
        }
    }
}

/// A word of somebody else on the console: not all of a long one, and nothing that steers a terminal.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: usize = 48;
        self.0.chars().take(LETTERS).try_for_each(|letter| write!(f, "{}", letter.escape_debug()))?;
        if self.0.chars().nth(LETTERS).is_some() { f.write_str("...") } else { Ok(()) }
    }
}

impl Options {
    /// Reads a line. Words that are not known here are left to [`unknown`].
    ///
    /// # Errors
    /// The first [`Fault`].
    pub(crate) fn read(line: &str) -> Result<Options, Fault<'_>> {
        let mut options = Options::default();
        for (name, value) in words(line) {
            match name {
                "copies" => set(&mut options.copies, name, value, CopyWay::read, CopyWay::NAMES)?,
                "cores" => set(&mut options.cores_max, name, value, cores, "a number of cores, 1 to 8")?,
                "devices" => set(&mut options.devices, name, value, parts::devices, parts::DEVICES)?,
                "memory" => set(&mut options.memory, name, value, parts::ranges, parts::RANGES)?,
                "supervisor" if value.is_some() => return Err(Fault::Value(name, value, "the word alone")),
                "supervisor" if options.is_supervisor => return Err(Fault::Twice(name)),
                "supervisor" => options.is_supervisor = true,
                "tsc_khz" => set(&mut options.tsc_khz, name, value, khz, rate::EXPECTED)?,
                "zone" => set(&mut options.zone, name, value, parts::page, parts::PAGE_ADDRESS)?,
                _ => {}
            }
        }
        if options.zone.is_some() {
            check_alone(line)?;
        }
        Ok(options)
    }
}

/// Checks that a zone's command line has no other word of the platform.
fn check_alone(line: &str) -> Result<(), Fault<'_>> {
    let mut others = words(line).filter(|(name, _)| *name != "zone" && WORDS.contains(name));
    others.next().map_or(Ok(()), |(name, _)| Err(Fault::BesideZone(name)))
}

/// Reads a word's value into its place, which must be empty.
fn set<'a, T>(
    place: &mut Option<T>,
    name: &'a str,
    value: Option<&'a str>,
    read: impl Fn(&str) -> Option<T>,
    expected: &'static str,
) -> Result<(), Fault<'a>> {
    if place.is_some() {
        return Err(Fault::Twice(name));
    }
    *place = Some(value.and_then(read).ok_or(Fault::Value(name, value, expected))?);
    Ok(())
}

const _: () = assert!(CORES_MAX == 8, "the message says 8");

fn cores(value: &str) -> Option<usize> {
    value.parse().ok().filter(|cores| (1..=CORES_MAX).contains(cores))
}

fn khz(value: &str) -> Option<u64> {
    value.parse().ok().and_then(rate::plausible)
}

/// The words of a line that neither the platform nor the kernel (`more`) knows, each with the known one that was probably meant.
pub(crate) fn unknown<'a>(
    line: &'a str,
    more: &'static [&'static str],
) -> impl Iterator<Item = (&'a str, Option<&'static str>)> {
    let known = move || WORDS.into_iter().chain(more.iter().copied());
    let strange = words(line).filter(move |(name, _)| known().all(|word| word != *name));
    strange.map(move |(name, _)| (name, nearest(name, known())))
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
