//! The line discipline: editing, echo, signals, output processing.

use super::{LINE_BYTES, Output, Packets, QUEUE_BYTES, State};
use alloc::vec::Vec;
use gyre_machine::OutOfMemory;
use gyre_object::ByteQueue;

impl State {
    pub(super) fn has_input(&self) -> bool {
        match self.termios.is_canonical() {
            true => !self.lines.is_empty(),
            false => self.cooked.len() >= self.termios.bytes_min(),
        }
    }

    pub(super) fn output_room(&self) -> usize {
        match &self.output {
            Output::Log { .. } => usize::MAX,
            Output::Master(queue) => QUEUE_BYTES.saturating_sub(queue.len()),
        }
    }

    /// Notes news for a master that reads packets.
    pub(super) fn tell(&mut self, news: u32) {
        if self.packets == Packets::Marked {
            self.news |= news as u8;
        }
    }

    pub(super) fn forget_input(&mut self) {
        self.line.clear();
        self.lines.clear();
        self.cooked = ByteQueue::default();
    }

    /// Gives the line under edit to readers.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then it is still under edit.
    pub(super) fn release_line(&mut self) -> Result<(), OutOfMemory> {
        self.cooked.push_slice(&self.line)?;
        self.lines.push_back(self.line.len());
        self.line.clear();
        Ok(())
    }

    /// Releases the bytes under edit outside canonical mode, which has no borders of lines.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then it is still under edit, and goes before the next byte typed.
    pub(super) fn release_bytes(&mut self) -> Result<(), OutOfMemory> {
        if !self.line.is_empty() {
            self.cooked.push_slice(&self.line)?;
            self.line.clear();
        }
        Ok(())
    }

    /// Takes one typed byte and returns the signal that it means.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn type_byte(&mut self, byte: u8) -> Result<Option<u32>, OutOfMemory> {
        let Some(byte) = self.termios.map_input(byte) else { return Ok(None) };
        if let Some(signal) = self.termios.signal_of(byte) {
            self.forget_input();
            self.echo(byte);
            return Ok(Some(signal));
        }
        if self.termios.is_canonical() {
            self.edit(byte)?;
        } else {
            self.release_bytes()?;
            self.cooked.push_slice(&[byte])?;
            self.echo(byte);
        }
        Ok(None)
    }

    /// Takes one byte in canonical mode.
    fn edit(&mut self, byte: u8) -> Result<(), OutOfMemory> {
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
            self.release_line()?;
        } else if byte == b'\n' || (byte != 0 && byte == keys.end_of_line) {
            self.line.push(byte);
            self.release_line().inspect_err(|_| {
                self.line.pop();
            })?;
            self.echo(byte);
        } else if self.line.len() < LINE_BYTES - 1 {
            self.echo(byte);
            self.line.push(byte);
        }
        Ok(())
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
            0..32 => &[b'^', byte | 64],
            127 => b"^?",
            _ => &[byte],
        };
        // Echo that finds no room or memory is not shown.
        let _ = self.emit(shown);
    }

    /// Writes output; NL becomes CR NL.
    ///
    /// # Errors
    /// [`OutOfMemory`]; then nothing was put out.
    pub(super) fn emit(&mut self, data: &[u8]) -> Result<(), OutOfMemory> {
        let maps = self.termios.maps_newline();
        match &mut self.output {
            Output::Log { ring, echo } => {
                ring.append(data);
                if *echo {
                    gyre_machine::console_write(data);
                }
            }
            Output::Master(queue) if maps && data.contains(&b'\n') => {
                let mut shown = Vec::with_capacity(data.len().saturating_mul(2));
                for byte in data {
                    shown.extend((*byte == b'\n').then_some(b'\r'));
                    shown.push(*byte);
                }
                queue.push_slice(&shown)?;
            }
            Output::Master(queue) => queue.push_slice(data)?,
        }
        Ok(())
    }
}
