//! Terminal settings: the kernel's `struct termios` of 36 bytes (termbits.h), and what its bits mean here.

use linux_raw_sys::general as raw;

/// Bytes of the structure that TCGETS and TCSETS move.
pub const BYTES: usize = 36;

/// Terminal settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Termios {
    input: u32,
    output: u32,
    control: u32,
    local: u32,
    line: u8,
    keys: [u8; 19],
}

/// Keys that edit a line.
pub struct Keys {
    /// Takes the last character back.
    pub erase: u8,
    /// Takes the line back.
    pub kill: u8,
    /// Ends the input.
    pub end_of_file: u8,
    /// A second end of line.
    pub end_of_line: u8,
}

impl Default for Termios {
    /// What Linux gives a new terminal: canonical, echoing, signals, NL mapping; 38400 baud, 8 bits.
    fn default() -> Termios {
        let mut keys = [0; 19];
        for (index, key) in [3, 28, 127, 21, 4, 0, 1, 0, 17, 19, 26, 0, 18, 15, 23, 22].into_iter().enumerate() {
            if let Some(place) = keys.get_mut(index) {
                *place = key;
            }
        }
        Termios {
            input: raw::ICRNL | raw::IXON,
            output: raw::OPOST | raw::ONLCR,
            control: raw::B38400 | raw::CS8 | raw::CREAD,
            local: raw::ISIG
                | raw::ICANON
                | raw::ECHO
                | raw::ECHOE
                | raw::ECHOK
                | raw::ECHOCTL
                | raw::ECHOKE
                | raw::IEXTEN,
            line: 0,
            keys,
        }
    }
}

impl Termios {
    /// In the kernel's layout.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let words = [self.input, self.output, self.control, self.local];
        let line = [self.line];
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).chain(line).chain(self.keys);
        out.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        out
    }

    /// From the kernel's layout.
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Termios {
        let word = |index: usize| super::transfer::half(bytes, index.saturating_mul(4));
        let mut keys = [0; 19];
        keys.iter_mut().zip(bytes.iter().skip(17)).for_each(|(key, byte)| *key = *byte);
        Termios {
            input: word(0),
            output: word(1),
            control: word(2),
            local: word(3),
            line: bytes.get(16).copied().unwrap_or(0),
            keys,
        }
    }

    fn key(&self, index: u32) -> u8 {
        self.keys.get(index as usize).copied().unwrap_or(0)
    }

    /// True where input comes in lines.
    pub fn is_canonical(&self) -> bool {
        self.local & raw::ICANON != 0
    }

    /// Bytes without which a read waits: a line's end in canonical mode, else VMIN. With VTIME too the first byte is enough, so that a read
    /// never waits longer than the pause between two bytes would let it (termios(3)).
    pub fn bytes_min(&self) -> usize {
        match (self.is_canonical(), self.key(raw::VTIME)) {
            (true, _) | (_, 1..) => 1,
            (false, 0) => usize::from(self.key(raw::VMIN)).max(1),
        }
    }

    /// How long a read waits at most, ns; none where it waits until there is something (VMIN and VTIME of termios(3)).
    pub fn patience_ns(&self) -> Option<u64> {
        let is_bounded = !self.is_canonical() && self.key(raw::VMIN) == 0;
        is_bounded.then(|| u64::from(self.key(raw::VTIME)) * 100_000_000)
    }

    /// True where input is shown.
    pub fn echoes(&self) -> bool {
        self.local & raw::ECHO != 0
    }

    /// True where this byte is shown.
    pub fn echoes_byte(&self, byte: u8) -> bool {
        self.echoes() || (byte == b'\n' && self.is_canonical() && self.local & raw::ECHONL != 0)
    }

    /// True where NL is written as CR NL.
    pub fn maps_newline(&self) -> bool {
        self.output & raw::OPOST != 0 && self.output & raw::ONLCR != 0
    }

    /// CR and NL as the settings map them; `None` for a byte that is ignored.
    pub fn map_input(&self, byte: u8) -> Option<u8> {
        match byte {
            b'\r' if self.input & raw::IGNCR != 0 => None,
            b'\r' if self.input & raw::ICRNL != 0 => Some(b'\n'),
            b'\n' if self.input & raw::INLCR != 0 => Some(b'\r'),
            _ => Some(byte),
        }
    }

    /// The signal that a typed byte means.
    pub fn signal_of(&self, byte: u8) -> Option<u32> {
        if self.local & raw::ISIG == 0 || byte == 0 {
            return None;
        }
        if byte == self.key(raw::VINTR) {
            Some(raw::SIGINT)
        } else if byte == self.key(raw::VQUIT) {
            Some(raw::SIGQUIT)
        } else if byte == self.key(raw::VSUSP) {
            Some(raw::SIGTSTP)
        } else {
            None
        }
    }

    /// Keys that edit a line.
    pub fn keys(&self) -> Keys {
        Keys {
            erase: self.key(raw::VERASE),
            kill: self.key(raw::VKILL),
            end_of_file: self.key(raw::VEOF),
            end_of_line: self.key(raw::VEOL),
        }
    }
}
