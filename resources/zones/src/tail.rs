//! The console of a zone: the last of it, across its instances, and whole lines for the supervisor's own log.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes that are kept of each zone.
pub(crate) const KEPT_BYTES: usize = 64 << 10;
/// Bytes of a line in the supervisor's log; longer ones are cut in two.
const LINE_BYTES_MAX: usize = 200;

/// The end of a stream of bytes.
#[derive(Default)]
pub(crate) struct Tail {
    kept: VecDeque<u8>,
    /// Bytes of the stream so far.
    end: u64,
    line: Vec<u8>,
}

impl Tail {
    /// Adds bytes; answers the lines that are complete now, without control characters.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for byte in bytes {
            if self.kept.len() >= KEPT_BYTES {
                self.kept.pop_front();
            }
            self.kept.push_back(*byte);
            self.end = self.end.wrapping_add(1);
            match byte {
                b'\n' => lines.push(plain(&core::mem::take(&mut self.line))),
                byte => self.line.push(*byte),
            }
            if self.line.len() >= LINE_BYTES_MAX {
                lines.push(plain(&core::mem::take(&mut self.line)));
            }
        }
        lines
    }

    /// Notes that bytes were lost before they could be added.
    pub(crate) fn skip(&mut self, bytes: u64) {
        if bytes > 0 {
            self.kept.clear();
            self.end = self.end.saturating_add(bytes);
        }
    }

    /// Bytes of the stream so far.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns bytes from a position on, and the position of the first.
    pub(crate) fn read(&self, position: u64, room: usize) -> (u64, Vec<u8>) {
        let start = position.clamp(self.end.saturating_sub(self.kept.len() as u64), self.end);
        let left = usize::try_from(self.end.saturating_sub(start)).unwrap_or(0);
        let skipped = self.kept.len().saturating_sub(left);
        (start, self.kept.iter().skip(skipped).take(room).copied().collect())
    }
}

/// Returns text that can be printed anywhere: a zone must not steer the terminal of whoever reads the log.
pub(crate) fn plain(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_and_cannot_steer_a_terminal() {
        let mut tail = Tail::default();
        assert!(tail.add(b"half").is_empty());
        assert_eq!(tail.add(b" a line\n\x1b[2Jtwo\n"), ["half a line", " [2Jtwo"]);
        assert_eq!(tail.add(&[b'x'; LINE_BYTES_MAX + 1]).len(), 1);
    }

    #[test]
    fn the_last_bytes_are_kept_and_a_reader_hears_what_is_gone() {
        let mut tail = Tail::default();
        tail.add(&[b'a'; KEPT_BYTES]);
        tail.add(b"bc");
        assert_eq!(tail.read(0, 3), (2, b"aaa".to_vec()));
        assert_eq!(tail.read(KEPT_BYTES as u64, 9), (KEPT_BYTES as u64, b"bc".to_vec()));
        assert_eq!(tail.read(u64::MAX, 9), (KEPT_BYTES as u64 + 2, Vec::new()));
        tail.skip(10);
        tail.add(b"d");
        assert_eq!(tail.read(0, 9), (KEPT_BYTES as u64 + 12, b"d".to_vec()));
    }
}
