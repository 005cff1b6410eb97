//! Layers: archives, compressed or not, each over the ones below (OCI image-spec 1.1, layer.md).
//!
//! A layer is read twice: first its whiteouts take away what lower layers brought, then its files come. So an opaque folder loses nothing of
//! its own layer.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read, Seek as _},
    path::{Path, PathBuf},
};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};
use sha2::{Digest as _, Sha256};

use super::{super::packages, Root, hex};
use crate::{
    failure::{Context as _, Failure, Result},
    stop,
};

/// Entries of all layers.
const ENTRIES_MAX: u64 = 2_000_000;
/// The name that makes its folder opaque.
const OPAQUE: &str = ".wh..wh..opq";
/// The beginning of a name that takes another one away.
const WHITEOUT: &str = ".wh.";

/// Bounds of what an image may hold.
pub(super) struct Budget {
    bytes: u64,
    bytes_max: u64,
    entries: u64,
}

impl Budget {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes: 0, bytes_max, entries: 0 }
    }

    /// Takes an entry into account before it is unpacked.
    fn take(&mut self, bytes: u64) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries = self.entries.saturating_add(1);
        if self.bytes > self.bytes_max || self.entries > ENTRIES_MAX {
            let most = gyre_machine_file::units::show_bytes(self.bytes_max);
            let help = "raise `size` of the image if it is meant to be that large";
            return Err(Failure::with_help(format!("the image holds more than {most}"), help));
        }
        Ok(())
    }
}

/// Puts a layer over what is in the tree.
pub(super) fn apply(layout: &Root, path: &str, diff_id: &str, tree: &Root, budget: &mut Budget) -> Result<()> {
    each(layout, path, budget.bytes_max, &mut |entry| whiteout(entry, tree))?;
    let found = each(layout, path, budget.bytes_max, &mut |entry| put(entry, tree, budget))?;
    match diff_id == found {
        true => Ok(()),
        false => {
            let help = "the image is damaged, or was tampered with: get it again";
            Err(Failure::with_help(format!("the layer {path} is {found}, and the image says {diff_id}"), help))
        }
    }
}

/// Visits all entries of a layer and returns its digest, uncompressed.
fn each(
    layout: &Root,
    path: &str,
    bytes_max: u64,
    visit: &mut dyn FnMut(&mut tar::Entry<&mut Hashing<Box<dyn Read>>>) -> Result<()>,
) -> Result<String> {
    let damaged = || format!("the layer {path} is damaged");
    // Headers and padding come on top of what files hold.
    let most = bytes_max.saturating_mul(2).saturating_add(1 << 20);
    let mut reader = Hashing { inner: plain(layout.open_file(path)?)?, hash: Sha256::new(), left: most };
    let mut archive = tar::Archive::new(&mut reader);
    for entry in archive.entries().context(damaged)? {
        stop::check()?;
        visit(&mut entry.context(damaged)?)?;
    }
    drop(archive);
    io::copy(&mut reader, &mut io::sink()).context(damaged)?;
    Ok(format!("sha256:{}", hex(&reader.hash.finalize())))
}

/// Removes what a whiteout names.
fn whiteout(entry: &mut tar::Entry<impl Read>, tree: &Root) -> Result<()> {
    let path = entry.path().context(|| "a layer is damaged".into())?.into_owned();
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let folder = path.parent().unwrap_or(Path::new(""));
    match name {
        OPAQUE => tree.remove_below(folder),
        name => match name.strip_prefix(WHITEOUT) {
            Some(hidden) => tree.remove(&folder.join(hidden)),
            None => Ok(()),
        },
    }
}

fn put(entry: &mut tar::Entry<impl Read>, tree: &Root, budget: &mut Budget) -> Result<()> {
    budget.take(entry.size())?;
    let path: PathBuf = entry.path().context(|| "a layer is damaged".into())?.into_owned();
    let is_whiteout = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(WHITEOUT));
    if is_whiteout {
        return Ok(());
    }
    if !entry.header().entry_type().is_dir() && tree.is_plain_folder(&path) {
        tree.remove(&path)?;
    }
    packages::put(entry, tree)
}

/// Returns the contents of a file that may be compressed.
pub(super) fn plain(mut file: File) -> Result<Box<dyn Read>> {
    let cannot = || "cannot read the image".to_owned();
    let mut magic = [0; 4];
    let count = file.read(&mut magic).context(cannot)?;
    file.rewind().context(cannot)?;
    match magic.get(..count).unwrap_or_default() {
        [0x1f, 0x8b, ..] => Ok(Box::new(MultiGzDecoder::new(BufReader::new(file)))),
        [0x28, 0xb5, 0x2f, 0xfd] => Ok(Box::new(Zstd::new(BufReader::new(file)))),
        _ => Ok(Box::new(BufReader::new(file))),
    }
}

/// Reads zstd (RFC 8878): frame after frame, as builders write them.
struct Zstd {
    file: BufReader<File>,
    /// The frame that is read; none between two.
    frame: Option<FrameDecoder>,
}

impl Zstd {
    fn new(file: BufReader<File>) -> Self {
        Self { file, frame: None }
    }

    /// Begins the next frame; none at the end of the file.
    fn begin(&mut self) -> io::Result<Option<FrameDecoder>> {
        while !self.file.fill_buf()?.is_empty() {
            let mut decoder = FrameDecoder::new();
            match decoder.init(&mut self.file) {
                Ok(()) => return Ok(Some(decoder)),
                // Tables of contents of some builders: to be skipped.
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut (&mut self.file).take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(None)
    }
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let frame = match self.frame.take() {
                Some(frame) => Some(frame),
                None => self.begin()?,
            };
            let Some(mut frame) = frame else { return Ok(0) };
            while frame.can_collect() == 0 && !frame.is_finished() {
                frame.decode_blocks(&mut self.file, BlockDecodingStrategy::UptoBlocks(1)).map_err(io::Error::other)?;
            }
            let count = frame.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                self.frame = Some(frame);
                return Ok(count);
            }
        }
    }
}

/// Hashes what is read, and ends with an error if that is too much.
pub(super) struct Hashing<R> {
    inner: R,
    hash: Sha256,
    left: u64,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other("it unpacks to more than the image may hold"))?;
        self.hash.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}
