//! The line discipline: editing, echo, signals, output processing.

use super::super::byte_queue::ByteQueue;
use super::{LINE_BYTES, Output, QUEUE_BYTES, State};
use crate::Errno;

impl State {
    pub(super) fn has_input(&self) -> bool {
        if self.termios.is_canonical() { !self.lines.is_empty() } else { !self.cooked.is_empty() }
    }

    pub(super) fn output_room(&self) -> usize {
        match &self.output {
            Output::Log { .. } => usize::MAX,
            Output::Master(queue) => QUEUE_BYTES.saturating_sub(queue.len()),
        }
    }

    pub(super) fn forget_input(&mut self) {
        self.line.clear();
        self.lines.clear();
        self.cooked = ByteQueue::default();
    }

    /// Gives the line under edit to readers.
    pub(super) fn release_line(&mut self) {
        let line = core::mem::take(&mut self.line);
        // Without memory the line is lost, as on a full buffer.
        if self.cooked.push_slice(&line).is_ok() {
            self.lines.push_back(line.len());
        }
    }

    /// One typed byte; answers the signal that it means.
    pub(super) fn type_byte(&mut self, byte: u8) -> Option<u32> {
        let byte = self.termios.map_input(byte)?;
        if let Some(signal) = self.termios.signal_of(byte) {
            self.forget_input();
            self.echo(byte);
            return Some(signal);
        }
        if self.termios.is_canonical() {
            self.edit(byte);
        } else {
            self.echo(byte);
            // As above: a byte for which there is no memory is lost.
            let _ = self.cooked.push_slice(&[byte]);
        }
        None
    }

    /// One byte in canonical mode.
    pub(super) fn edit(&mut self, byte: u8) {
        let keys = self.termios.keys();
        if byte == keys.erase {
            if self.line.pop().is_some() {
                self.echo_erase();
            }
        } else if byte == keys.kill {
            for _ in 0..core::mem::take(&mut self.line).len() {
                self.echo_erase();
            }
        } else if byte == keys.end_of_file {
            self.release_line();
        } else if byte == b'\n' || (byte != 0 && byte == keys.end_of_line) {
            self.echo(byte);
            self.line.push(byte);
            self.release_line();
        } else if self.line.len() + 1 < LINE_BYTES {
            self.echo(byte);
            self.line.push(byte);
        }
    }

    pub(super) fn echo_erase(&mut self) {
        if self.termios.echoes() {
            // Echo that finds no room or memory is not shown.
            let _ = self.emit(b"\x08 \x08");
        }
    }

    pub(super) fn echo(&mut self, byte: u8) {
        if !self.termios.echoes_byte(byte) {
            return;
        }
        let shown: &[u8] = match byte {
            b'\n' | b'\t' => &[byte],
            0..32 => &[b'^', byte + 64],
            127 => b"^?",
            _ => &[byte],
        };
        // Echo that finds no room or memory is not shown.
        let _ = self.emit(shown);
    }

    /// Output processing: NL becomes CR NL.
    pub(super) fn emit(&mut self, data: &[u8]) -> Result<(), Errno> {
        let maps = self.termios.maps_newline();
        match &mut self.output {
            Output::Log { ring, echo } => {
                ring.append(data);
                if *echo {
                    gyre_machine::console_write(data);
                }
            }
            Output::Master(queue) if maps => {
                for part in data.split_inclusive(|byte| *byte == b'\n') {
                    match part.split_last() {
                        Some((b'\n', text)) => {
                            queue.push_slice(text)?;
                            queue.push_slice(b"\r\n")?;
                        }
                        _ => queue.push_slice(part)?,
                    }
                }
            }
            Output::Master(queue) => queue.push_slice(data)?,
        }
        Ok(())
    }
}
