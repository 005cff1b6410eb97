//! The output of tenants, line by line, each with the time at which the host received it: `logs/TENANT.log` in the folder of the run.
//!
//! A file that has become long is put aside, and the one that was aside before goes: of each tenant so many bytes are kept that twice as many
//! never are. Logs of earlier runs stay in the file.
//!
//! * A program that writes no end of line is seen once it does, or at the end of the run.
//! * A line is a time as RFC 3339 has it, a blank, and the text.
//! * [`Writer`] makes lines of the pieces that come; [`Reader`] gives whole lines only, and goes on where it was.

use std::{
    borrow::Cow,
    fs::File,
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use crate::failure::{Context as _, Result};

/// The length from which on a file is put aside, bytes.
const BYTES_MAX: u64 = 8 << 20;
/// The longest line; what is longer is cut in two.
const LINE_BYTES_MAX: usize = 64 << 10;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// When the host received it.
    pub time: Timestamp,
    /// The bytes that were written, without the end of line; they need be no text.
    pub bytes: Vec<u8>,
}

impl Line {
    fn parse(line: &[u8]) -> Option<Self> {
        let blank = line.iter().position(|byte| *byte == b' ')?;
        let (time, bytes) = (line.get(..blank)?, line.get(blank.checked_add(1)?..)?);
        Some(Self { time: std::str::from_utf8(time).ok()?.parse().ok()?, bytes: bytes.to_owned() })
    }

    /// Returns it as text; bytes that are none are marked.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// Returns the file of a tenant's log.
pub fn path(folder: &Path, tenant: &str) -> PathBuf {
    folder.join("logs").join(format!("{tenant}.log"))
}

fn aside(path: &Path) -> PathBuf {
    path.with_extension("1.log")
}

/// Writes the log of one tenant.
pub struct Writer {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// The beginning of the line that has not ended.
    partial: Vec<u8>,
}

impl Writer {
    /// Opens the log of a tenant.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(folder: &Path, tenant: &str) -> Result<Self> {
        let path = path(folder, tenant);
        let cannot = || format!("cannot write {}", path.display());
        std::fs::create_dir_all(path.parent().unwrap_or(folder)).context(cannot)?;
        let file = File::options().append(true).create(true).open(&path).context(cannot)?;
        let bytes = file.metadata().map_or(0, |data| data.len());
        Ok(Self { file, bytes, partial: vec![], path })
    }

    /// Takes a piece of output.
    ///
    /// # Errors
    /// When the host's disk is full.
    pub fn take(&mut self, piece: &[u8]) -> Result<()> {
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(piece);
        let mut rest = all.as_slice();
        while let Some((line, after)) = cut(rest) {
            rest = after;
            self.write(line)?;
        }
        self.partial = rest.to_owned();
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> Result<()> {
        let cannot = |path: &Path| format!("cannot write {}", path.display());
        if self.bytes > BYTES_MAX {
            let _ = std::fs::rename(&self.path, aside(&self.path));
            self.file = File::create(&self.path).context(|| cannot(&self.path))?;
            self.bytes = 0;
        }
        let text = [format!("{:.3} ", Timestamp::now()).as_bytes(), line, b"\n"].concat();
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        self.file.write_all(&text).context(|| cannot(&self.path))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let rest = std::mem::take(&mut self.partial);
        if !rest.is_empty() {
            // A full disk ends the log, not the run.
            let _ = self.write(&rest);
        }
    }
}

/// Splits the first line off, without its end; one that is too long is cut, between letters if it is a text.
fn cut(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let first = bytes.get(..=LINE_BYTES_MAX).unwrap_or(bytes);
    if let Some(end) = first.iter().position(|byte| *byte == b'\n') {
        let (line, rest) = bytes.split_at(end);
        return Some((without_return(line), rest.get(1..).unwrap_or_default()));
    }
    (bytes.len() > LINE_BYTES_MAX).then(|| bytes.split_at(letter_before(bytes, LINE_BYTES_MAX)))
}

fn without_return(line: &[u8]) -> &[u8] {
    let kept = line.iter().rposition(|byte| *byte != b'\r').map_or(0, |last| last.saturating_add(1));
    line.get(..kept).unwrap_or_default()
}

/// Returns where the letter of UTF-8 begins that lies over a place; the place itself if there is no letter.
fn letter_before(bytes: &[u8], place: usize) -> usize {
    let is_inside = |place: usize| bytes.get(place).is_some_and(|byte| byte & 0xc0 == 0x80);
    (place.saturating_sub(3)..=place).rev().find(|place| !is_inside(*place)).unwrap_or(place)
}

/// Reads the log of a tenant.
pub struct Reader {
    path: PathBuf,
    offset: u64,
}

impl Reader {
    /// Begins before the first line that is kept.
    pub fn new(folder: &Path, tenant: &str) -> Self {
        Self { path: path(folder, tenant), offset: 0 }
    }

    /// Returns what is kept; an empty list if there is no log.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn all(&mut self) -> Result<Vec<Line>> {
        let mut lines = whole_lines(&aside(&self.path), 0)?.0;
        lines.extend(self.more()?);
        Ok(lines)
    }

    /// Returns the lines that came since the last call.
    ///
    /// # Errors
    /// As [`Reader::all`].
    pub fn more(&mut self) -> Result<Vec<Line>> {
        if std::fs::metadata(&self.path).is_ok_and(|data| data.len() < self.offset) {
            self.offset = 0;
        }
        let (lines, offset) = whole_lines(&self.path, self.offset)?;
        self.offset = offset;
        Ok(lines)
    }
}

/// The most that an [`Excerpt`] holds, bytes and lines.
const EXCERPT_BYTES_MAX: u64 = 256 << 10;
const EXCERPT_LINES_MAX: usize = 1000;

/// The end of a log, or what came since an earlier one: never more than fits into an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The lines.
    pub lines: Vec<Line>,
    /// The place to go on from.
    pub next: u64,
    /// True if lines before these are left out.
    pub is_cut: bool,
}

impl Excerpt {
    /// Reads what came since a place, or else the log's end.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn read(folder: &Path, tenant: &str, from: Option<u64>) -> Result<Self> {
        let path = path(folder, tenant);
        let length = std::fs::metadata(&path).map_or(0, |data| data.len());
        // A file that has become shorter was put aside meanwhile: the new one begins at its beginning.
        let wanted = from.map(|from| if from > length { 0 } else { from });
        let first = length.saturating_sub(EXCERPT_BYTES_MAX);
        let begin = wanted.unwrap_or(first).max(first);
        let (mut lines, next) = lines_after(&path, begin)?;
        if from.is_none() && begin == 0 {
            let aside = aside(&path);
            let room = EXCERPT_BYTES_MAX.saturating_sub(length);
            let begin = std::fs::metadata(&aside).map_or(0, |data| data.len()).saturating_sub(room);
            lines.splice(..0, lines_after(&aside, begin)?.0);
        }
        let too_many = lines.len().saturating_sub(EXCERPT_LINES_MAX);
        lines.drain(..too_many);
        Ok(Self { lines, next, is_cut: too_many > 0 || begin > wanted.unwrap_or(0) })
    }
}

/// Reads the whole lines behind an offset that may be in the middle of one.
fn lines_after(path: &Path, offset: u64) -> Result<(Vec<Line>, u64)> {
    whole_lines(path, if offset == 0 { 0 } else { first_line_after(path, offset)? })
}

fn first_line_after(path: &Path, offset: u64) -> Result<u64> {
    let cannot = || format!("cannot read {}", path.display());
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(offset),
        Err(error) => return Err(error).context(cannot),
    };
    let before = offset.saturating_sub(1);
    file.seek(SeekFrom::Start(before)).context(cannot)?;
    let mut bytes = vec![];
    let most = (LINE_BYTES_MAX as u64).saturating_mul(2);
    let count = BufReader::new(file.take(most)).read_until(b'\n', &mut bytes).context(cannot)?;
    Ok(before.saturating_add(count as u64))
}

/// Reads whole lines from an offset on, and returns where the next one begins.
fn whole_lines(path: &Path, offset: u64) -> Result<(Vec<Line>, u64)> {
    let cannot = || format!("cannot read {}", path.display());
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((vec![], offset)),
        Err(error) => return Err(error).context(cannot),
    };
    file.seek(SeekFrom::Start(offset)).context(cannot)?;
    let mut reader = BufReader::new(file.take(4 * BYTES_MAX));
    let (mut lines, mut at, mut bytes) = (vec![], offset, vec![]);
    loop {
        bytes.clear();
        let count = reader.read_until(b'\n', &mut bytes).context(cannot)?;
        if !bytes.ends_with(b"\n") {
            return Ok((lines, at));
        }
        at = at.saturating_add(count as u64);
        lines.extend(Line::parse(bytes.strip_suffix(b"\n").unwrap_or(&bytes)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[Line]) -> Vec<Cow<'_, str>> {
        lines.iter().map(Line::text).collect()
    }

    #[test]
    fn lines_come_whole_whatever_the_pieces_are() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = Reader::new(folder.path(), "gold");
        assert!(reader.all().unwrap().is_empty(), "no log yet");
        let mut writer = Writer::open(folder.path(), "gold").unwrap();
        writer.take(b"one\r\ntw").unwrap();
        assert_eq!(texts(&reader.more().unwrap()), ["one"]);
        writer.take(b"o\n\nthr").unwrap();
        assert_eq!(texts(&reader.more().unwrap()), ["two", ""]);
        drop(writer);
        assert_eq!(texts(&reader.more().unwrap()), ["thr"], "the last one, though it did not end");
        assert_eq!(texts(&Reader::new(folder.path(), "gold").all().unwrap()), ["one", "two", "", "thr"]);
    }

    #[test]
    fn an_excerpt_is_bounded_whole_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let read = |from| Excerpt::read(folder.path(), "gold", from).unwrap();
        assert_eq!(read(None), Excerpt::default(), "no log yet");
        let mut writer = Writer::open(folder.path(), "gold").unwrap();
        // A text that looks like a line of the log is none.
        for number in 0..20_000 {
            writer.take(format!("{number} 2026-01-01T00:00:00Z forged\n").as_bytes()).unwrap();
        }
        let end = read(None);
        assert!(end.is_cut && end.lines.len() == EXCERPT_LINES_MAX);
        assert!(end.lines.iter().all(|line| line.text().ends_with(" 2026-01-01T00:00:00Z forged")));
        writer.take(b"more\n").unwrap();
        let more = read(Some(end.next));
        assert_eq!((texts(&more.lines), more.is_cut), (vec![Cow::from("more")], false));
        assert!(read(Some(more.next)).lines.is_empty());
        let mut flood = "x".repeat(3 << 20);
        flood.push('\n');
        writer.take(flood.as_bytes()).unwrap();
        let flooded = read(Some(more.next));
        assert!(flooded.is_cut && flooded.lines.len() <= 4, "{}", flooded.lines.len());
        assert_eq!(texts(&read(Some(u64::MAX)).lines).len(), flooded.lines.len(), "a file that was put aside");
    }

    #[test]
    fn a_log_is_bounded_and_keeps_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(folder.path(), "gold").unwrap();
        let long = "x".repeat(LINE_BYTES_MAX + 10);
        writer.take(long.as_bytes()).unwrap();
        assert_eq!(texts(&Reader::new(folder.path(), "gold").all().unwrap())[0].len(), LINE_BYTES_MAX);
        for number in 0..400 {
            writer.take(format!("{number} {}\n", &long[..LINE_BYTES_MAX - 10]).as_bytes()).unwrap();
        }
        let lines = Reader::new(folder.path(), "gold").all().unwrap();
        assert!(lines.len() < 300 && lines.last().unwrap().text().starts_with("399 "), "{}", lines.len());
    }
}
