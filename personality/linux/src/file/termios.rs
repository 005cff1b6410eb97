//! Terminal settings: the kernel's `struct termios` of 36 bytes (termbits.h), and the bits that have an effect here.
//!
//! [`Termios`] is a value: a terminal holds one, and a change replaces it. Programs see it in one of three layouts ([`Layout`]); a layout that
//! lacks fields leaves them as they are.
//!
//! * Input: ICRNL, INLCR, IGNCR, IXON (told to a master that reads packets). Output: OPOST with ONLCR.
//! * Local: ISIG, ICANON, ECHO, ECHONL, TOSTOP, with their keys, VMIN and VTIME.
//! * All other bits, and the speed, are kept for the program and have no effect.

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
    /// Returns Linux's settings of a new terminal: canonical, echoing, signals, NL mapping; 38400 baud, 8 bits.
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

/// The structures in which programs see settings (termbits.h, termio.h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// `struct termios` of the kernel, 36 bytes.
    Termios,
    /// `struct termios2`: the same and two speeds, 44 bytes.
    Termios2,
    /// `struct termio` of System V: half words and eight keys, 18 bytes.
    Termio,
}

/// Bytes of the longest layout.
pub const LAYOUT_BYTES_MAX: usize = 44;
/// Speeds in baud by the codes of CBAUD without and with CBAUDEX (termbits.h).
const SPEEDS: [[u32; 16]; 2] = [
    [0, 50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19_200, 38_400],
    [
        38_400, 57_600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_152_000, 1_500_000,
        2_000_000, 2_500_000, 3_000_000, 3_500_000, 4_000_000,
    ],
];

impl Termios {
    /// Returns it in a layout, and how many bytes that has.
    pub fn to_layout(self, layout: Layout) -> ([u8; LAYOUT_BYTES_MAX], usize) {
        let mut out = [0; LAYOUT_BYTES_MAX];
        let mut count = 0usize;
        let mut put = |bytes: &[u8]| {
            if let Some(place) = out.get_mut(count..count.saturating_add(bytes.len())) {
                place.copy_from_slice(bytes);
            }
            count = count.saturating_add(bytes.len());
        };
        match layout {
            Layout::Termio => {
                let words = [self.input, self.output, self.control, self.local];
                words.iter().for_each(|word| put(&(*word as u16).to_le_bytes()));
                put(&[self.line]);
                put(self.keys.get(..8).unwrap_or(&[]));
                put(&[0]);
            }
            Layout::Termios => put(&self.to_bytes()),
            Layout::Termios2 => {
                put(&self.to_bytes());
                put(&self.speed_baud().to_le_bytes());
                put(&self.speed_baud().to_le_bytes());
            }
        }
        (out, count)
    }

    /// Returns it with the values of a layout; those that the layout does not have stay.
    pub fn with_layout(self, layout: Layout, bytes: &[u8; LAYOUT_BYTES_MAX]) -> Termios {
        if layout != Layout::Termio {
            return bytes.first_chunk().map_or(self, Termios::from_bytes);
        }
        let word = |index: usize, old: u32| {
            let at = index.saturating_mul(2);
            let low = [bytes.get(at), bytes.get(at.saturating_add(1))].map(|byte| byte.copied().unwrap_or(0));
            old & 0xffff_0000 | u32::from(u16::from_le_bytes(low))
        };
        let mut keys = self.keys;
        keys.iter_mut().zip(bytes.iter().skip(9).take(8)).for_each(|(key, byte)| *key = *byte);
        Termios {
            input: word(0, self.input),
            output: word(1, self.output),
            control: word(2, self.control),
            local: word(3, self.local),
            line: bytes.get(8).copied().unwrap_or(0),
            keys,
        }
    }

    /// Returns the speed that its settings name, in baud. It has no effect.
    fn speed_baud(self) -> u32 {
        let extended = usize::from(self.control & raw::CBAUDEX != 0);
        let code = (self.control & 0xf) as usize;
        SPEEDS.get(extended).and_then(|speeds| speeds.get(code)).copied().unwrap_or(0)
    }

    /// Returns whether Ctrl-S and Ctrl-Q are asked for.
    pub fn has_flow_control(&self) -> bool {
        self.input & raw::IXON != 0
    }

    /// Returns it in the kernel's layout.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let words = [self.input, self.output, self.control, self.local];
        let line = [self.line];
        let bytes = words.iter().flat_map(|word| word.to_le_bytes()).chain(line).chain(self.keys);
        out.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        out
    }

    /// Reads the kernel's layout.
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Termios {
        let word = |index: usize| super::buffer::half(bytes, index.saturating_mul(4));
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

    /// Returns whether input comes in lines.
    pub fn is_canonical(&self) -> bool {
        self.local & raw::ICANON != 0
    }

    /// Returns the bytes without which a read waits: a line's end in canonical mode, else VMIN. With VTIME too the first byte is enough, so that a read
    /// never waits longer than the pause between two bytes would let it (termios(3)).
    pub fn bytes_min(&self) -> usize {
        match (self.is_canonical(), self.key(raw::VTIME)) {
            (true, _) | (_, 1..) => 1,
            (false, 0) => usize::from(self.key(raw::VMIN)).max(1),
        }
    }

    /// Returns how long a read waits at most, ns; none if it waits until there is something (VMIN and VTIME of termios(3)).
    pub fn read_wait_ns(&self) -> Option<u64> {
        let is_bounded = !self.is_canonical() && self.key(raw::VMIN) == 0;
        is_bounded.then(|| u64::from(self.key(raw::VTIME)) * 100_000_000)
    }

    /// Returns whether output of a background group stops it.
    pub fn stops_output(&self) -> bool {
        self.local & raw::TOSTOP != 0
    }

    /// Returns whether input is shown.
    pub fn echoes(&self) -> bool {
        self.local & raw::ECHO != 0
    }

    /// Returns whether this byte is shown.
    pub fn echoes_byte(&self, byte: u8) -> bool {
        self.echoes() || (byte == b'\n' && self.is_canonical() && self.local & raw::ECHONL != 0)
    }

    /// Returns whether NL is written as CR NL.
    pub fn maps_newline(&self) -> bool {
        self.output & raw::OPOST != 0 && self.output & raw::ONLCR != 0
    }

    /// Maps CR and NL as the settings say; `None` for a byte that is ignored.
    pub fn map_input(&self, byte: u8) -> Option<u8> {
        match byte {
            b'\r' if self.input & raw::IGNCR != 0 => None,
            b'\r' if self.input & raw::ICRNL != 0 => Some(b'\n'),
            b'\n' if self.input & raw::INLCR != 0 => Some(b'\r'),
            _ => Some(byte),
        }
    }

    /// Returns the signal that a typed byte means.
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
