//! The image of a runtime: the file that holds the instruction by which a process becomes a cell, and its hash.
//!
//! A file that runs as a program is not written meanwhile (ETXTBSY). Libraries may be: their hash is that of the bytes at the launch.
//! Hashes are kept by file and the time of its last change, so a program that is started again is not read again.
//!
//! Left out: memory that a process has made executable itself. The hash says which runtime was started, not what that does later.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_address_space::{AddressSpace, MappedFile, Provider};
use gyre_linux::{Errno, Thread};
use gyre_object::SpinLock;
use sha2::{Digest, Sha256};

/// Bytes that are hashed in one turn.
const SLICE_BYTES: usize = 64 << 10;
/// Hashes that are kept.
const KNOWN_MAX: usize = 16;
/// The largest image.
const IMAGE_BYTES_MAX: u64 = 64 << 20;

/// A SHA-256 of an image.
pub type Hash = [u8; 32];

/// A file as it was at some time.
#[derive(Clone, PartialEq, Eq)]
struct Name {
    tenant: ActivityId,
    path: Vec<u8>,
    node: u64,
    size_bytes: u64,
    changed_ns: u64,
}

/// Hashes of images.
#[derive(Default)]
pub struct Images {
    known: SpinLock<Vec<(Name, Hash)>>,
    /// Those that may become cells; all if it is empty.
    allowed: Vec<Hash>,
}

impl Images {
    /// Lets these runtimes become cells; all if there are none.
    pub fn new(allowed: Vec<Hash>) -> Images {
        Images { known: SpinLock::default(), allowed }
    }

    /// Returns true if a runtime may become a cell.
    pub fn allows(&self, hash: Option<&Hash>) -> bool {
        self.allowed.is_empty() || hash.is_some_and(|hash| self.allowed.contains(hash))
    }

    /// Returns the hash of the image that holds an instruction; `None` if it lies in no file.
    ///
    /// # Errors
    /// Those of reading it; EFBIG if it is larger than 64 MiB.
    pub async fn hash(&self, thread: &Thread, space: &AddressSpace, rip: u64) -> Result<Option<Hash>, Errno> {
        let Some(file) = file_at(space, rip) else { return Ok(None) };
        let attributes = file.client().attributes(file.node()).await?;
        let name = Name {
            tenant: thread.tenant().activity(),
            path: file.path().into(),
            node: file.node().0,
            size_bytes: attributes.size_bytes,
            changed_ns: attributes.changed_ns,
        };
        let known = self.known.lock().iter().find(|(known, _)| *known == name).map(|(_, hash)| *hash);
        if known.is_some() {
            return Ok(known);
        }
        let hash = read(thread, &file, attributes.size_bytes).await?;
        let mut known = self.known.lock();
        let oldest = (known.len() >= KNOWN_MAX).then(|| known.remove(0));
        known.push((name, hash));
        drop(known);
        drop(oldest);
        Ok(Some(hash))
    }
}

fn file_at(space: &AddressSpace, rip: u64) -> Option<Arc<MappedFile>> {
    let regions = space.regions();
    let (_, region) = regions.into_iter().find(|(start, region)| (*start..region.end).contains(&rip))?;
    match region.provider {
        Provider::File(file) => Some(file),
        _ => None,
    }
}

async fn read(thread: &Thread, file: &MappedFile, bytes: u64) -> Result<Hash, Errno> {
    if bytes > IMAGE_BYTES_MAX {
        return Err(Errno::EFBIG);
    }
    let mut hasher = Sha256::new();
    let mut at = 0;
    while at < bytes {
        let pieces = file.client().read(file.node(), at, SLICE_BYTES).await?;
        let got = pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        if got == 0 {
            break;
        }
        pieces.iter().for_each(|piece| hasher.update(piece.as_slice()));
        at = at.saturating_add(got);
        thread.breathe().await.map_err(|_| Errno::EINTR)?;
    }
    Ok(hasher.finalize().into())
}

/// Writes a hash as lists and machine files do.
pub fn shown(hash: Option<&Hash>) -> String {
    let digits = |hash: &Hash| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    hash.map_or_else(String::new, |hash| format!("sha256:{}", digits(hash)))
}
