//! The memory of a process as a file, and texts about it ([`Secret`]).
//!
//! Of the memory itself (/proc/PID/mem) a position is an address. Once the program has gone, the file is empty. Writes go where the program itself may
//! not write, too, as those of a debugger do.
//!
//! Source: proc(5).

use super::buffer::UserBuffer;
use super::object::CHUNK_BYTES;
use super::open_file::OpenFile;
use super::proc::secret::{Secret, Told};
use crate::Errno;
use core::future::Future;
use gyre_machine::PAGE_BYTES;

/// Bytes that are moved at once.
const PIECE_BYTES: usize = 512;

/// The memory of a process, or a text about it.
pub struct MemoryFile(Secret);

impl MemoryFile {
    /// Makes the file of a secret.
    pub fn new(secret: Secret) -> MemoryFile {
        MemoryFile(secret)
    }

    /// Reads into a program's buffer, at `at` or the position.
    ///
    /// # Errors
    /// EIO if nothing can be reached there; those of [`Secret::part`].
    pub async fn read(&self, file: &OpenFile, buffer: &mut UserBuffer<'_>, at: Option<u64>) -> Result<usize, Errno> {
        match self.0.told() {
            Told::Bytes => self.read_memory(file, buffer, at).await,
            _ => self.read_text(file, buffer, at).await,
        }
    }

    async fn read_text(&self, file: &OpenFile, buffer: &mut UserBuffer<'_>, at: Option<u64>) -> Result<usize, Errno> {
        at_position(file, at, async |at| {
            let before = buffer.done();
            while buffer.left() > 0 {
                let place = at.saturating_add(buffer.done_since(before) as u64);
                let wanted = buffer.left().min(CHUNK_BYTES);
                let part = match self.0.part(buffer.thread(), place, wanted).await {
                    Err(error) if buffer.done() == before => return Err(error),
                    Err(_) => break,
                    Ok(part) => part,
                };
                match buffer.put(&part).await {
                    Err(error) if buffer.done() == before => return Err(error),
                    Ok(count) if count == wanted => buffer.thread().pause().await,
                    _ => break,
                }
            }
            Ok(buffer.done_since(before))
        })
        .await
    }

    async fn read_memory(&self, file: &OpenFile, buffer: &mut UserBuffer<'_>, at: Option<u64>) -> Result<usize, Errno> {
        let Some(space) = self.0.space() else { return Ok(0) };
        at_position(file, at, async |at| {
            let before = buffer.done();
            while buffer.left() > 0 {
                let mut piece = [0; PIECE_BYTES];
                let place = at.saturating_add(buffer.done_since(before) as u64);
                let piece = piece.get_mut(..room(place, buffer.left())).unwrap_or_default();
                match space.copy_in(place, piece).await {
                    Ok(()) => _ = buffer.put(piece).await?,
                    Err(_) if buffer.done() == before => return Err(Errno::EIO),
                    Err(_) => break,
                }
                buffer.thread().pause().await;
            }
            Ok(buffer.done_since(before))
        })
        .await
    }

    /// Writes from a program's buffer, at `at` or the position.
    ///
    /// # Errors
    /// EIO if nothing can be reached there; EINVAL for a text.
    pub async fn write(&self, file: &OpenFile, buffer: &mut UserBuffer<'_>, at: Option<u64>) -> Result<usize, Errno> {
        if self.0.told() != Told::Bytes {
            return Err(Errno::EINVAL);
        }
        let Some(space) = self.0.space() else { return Ok(0) };
        at_position(file, at, async |at| {
            let before = buffer.done();
            while buffer.left() > 0 {
                let mut piece = [0; PIECE_BYTES];
                let place = at.saturating_add(buffer.done_since(before) as u64);
                let piece = piece.get_mut(..room(place, buffer.left())).unwrap_or_default();
                let count = buffer.get(piece).await?;
                if space.poke(place, piece.get(..count).unwrap_or_default()).await.is_err() {
                    buffer.give_back(count);
                    break;
                }
                buffer.thread().pause().await;
            }
            match buffer.done_since(before) {
                0 if buffer.left() > 0 => Err(Errno::EIO),
                count => Ok(count),
            }
        })
        .await
    }
}

/// Returns how many of `bytes` bytes are moved at once from an address on: none beyond its page.
fn room(address: u64, bytes: usize) -> usize {
    let in_page = PAGE_BYTES.saturating_sub(gyre_machine::Va(address).page_offset());
    bytes.min(in_page).min(PIECE_BYTES)
}

/// Moves bytes at `at`, or at the file's position, which moves with them.
async fn at_position<F: Future<Output = Result<usize, Errno>>>(
    file: &OpenFile,
    at: Option<u64>,
    transfer: impl FnOnce(u64) -> F,
) -> Result<usize, Errno> {
    if let Some(at) = at {
        return transfer(at).await;
    }
    let position = file.position.hold().await;
    let count = transfer(position.get()).await?;
    position.set(position.get().saturating_add(count as u64));
    Ok(count)
}
