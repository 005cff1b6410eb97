//! The command line as the loader left it: bytes up to a NUL (Xen's `hvm_start_info`, `cmdline_paddr`).

use crate::acpi::PhysicalView;
use core::fmt;

/// Bytes of a command line, its NUL among them.
pub(crate) const COMMAND_LINE_MAX: usize = 4096;

/// A copy of it, which is text.
pub(crate) struct CommandLine {
    bytes: [u8; COMMAND_LINE_MAX],
    length: usize,
}

/// Why a command line cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// It lies, as a whole or in part, where boot cannot look; this many bytes of it could be read.
    OutOfReach(usize),
    /// There is no NUL where the longest line would end.
    CutShort,
    /// The byte at this place is not UTF-8.
    NotText(usize, u8),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::OutOfReach(read) => {
                write!(f, "the command line is out of reach after {read} bytes: expected it below 4 GiB")
            }
            Damage::CutShort => {
                write!(f, "the command line is cut short: expected its end within {COMMAND_LINE_MAX} bytes")
            }
            Damage::NotText(place, byte) => {
                write!(f, "the command line is not text: expected UTF-8, byte {place} is {byte:#04x}")
            }
        }
    }
}

impl CommandLine {
    /// Copies the line at a physical address; an address of 0 means none, which is as good as an empty one.
    ///
    /// # Errors
    /// [`Damage`].
    pub(crate) fn read(view: &dyn PhysicalView, address: u64) -> Result<CommandLine, Damage> {
        let mut line = CommandLine { bytes: [0; COMMAND_LINE_MAX], length: 0 };
        if address == 0 {
            return Ok(line);
        }
        loop {
            let place = address.checked_add(line.length as u64);
            let byte = place.and_then(|place| view.bytes(place, 1)).and_then(|bytes| bytes.first());
            match *byte.ok_or(Damage::OutOfReach(line.length))? {
                0 => return line.checked(),
                _ if line.length == COMMAND_LINE_MAX - 1 => return Err(Damage::CutShort),
                byte => line.bytes[line.length] = byte,
            }
            line.length += 1;
        }
    }

    fn checked(self) -> Result<CommandLine, Damage> {
        match core::str::from_utf8(&self.bytes[..self.length]) {
            Ok(_) => Ok(self),
            Err(error) => Err(Damage::NotText(error.valid_up_to(), self.bytes[error.valid_up_to()])),
        }
    }

    /// The line.
    pub(crate) fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

/// The value of `name=` on a line; empty for the bare word.
pub(crate) fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    words(line).find(|(found, _)| *found == name).map(|(_, value)| value.unwrap_or_default())
}

/// The words of a line: name, and what follows the first `=`.
pub(crate) fn words(line: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    line.split_ascii_whitespace().map(|word| match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec::Vec;

    /// Memory from address 16 on.
    struct Memory(Vec<u8>);

    impl PhysicalView for Memory {
        fn bytes(&self, address: u64, length: usize) -> Option<&[u8]> {
            let start = usize::try_from(address).ok()?.checked_sub(16)?;
            self.0.get(start..start.checked_add(length)?)
        }
    }

    fn read(bytes: &[u8]) -> Result<CommandLine, Damage> {
        CommandLine::read(&Memory(Vec::from(bytes)), 16)
    }

    #[test]
    fn a_line_ends_at_its_nul() {
        let line = read(b"cores=2 quiet\0rest").ok().unwrap();
        assert_eq!(line.as_str(), "cores=2 quiet");
        assert_eq!((value(line.as_str(), "cores"), value(line.as_str(), "quiet")), (Some("2"), Some("")));
        assert_eq!(value(line.as_str(), "core"), None);
        assert_eq!(CommandLine::read(&Memory(Vec::new()), 0).ok().unwrap().as_str(), "");
    }

    #[test]
    fn the_longest_line_is_read_and_a_longer_one_is_not() {
        let mut bytes = std::vec![b'x'; COMMAND_LINE_MAX + 1];
        bytes[COMMAND_LINE_MAX - 1] = 0;
        assert_eq!(read(&bytes).ok().unwrap().as_str().len(), COMMAND_LINE_MAX - 1);
        bytes[COMMAND_LINE_MAX - 1] = b'x';
        assert_eq!(read(&bytes).err(), Some(Damage::CutShort));
    }

    #[test]
    fn damage_says_where() {
        assert_eq!(read(b"cores=2").err(), Some(Damage::OutOfReach(7)));
        assert_eq!(CommandLine::read(&Memory(Vec::new()), u64::MAX).err(), Some(Damage::OutOfReach(0)));
        assert_eq!(read(b"cor\xffs\0").err(), Some(Damage::NotText(3, 0xff)));
        assert!(Damage::NotText(3, 0xff).to_string().contains("byte 3 is 0xff"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_line_or_damage(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let end = bytes.iter().position(|byte| *byte == 0);
            let text = end.and_then(|end| std::str::from_utf8(&bytes[..end]).ok());
            prop_assert_eq!(read(&bytes).ok().map(|line| line.as_str().to_string()), text.map(ToString::to_string));
        }
    }

    extern crate std;
}
