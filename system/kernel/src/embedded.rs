//! The files that came in the boot module, as a root file system in memory.

use crate::base::Base;
use crate::start_error::StartError;
use alloc::vec;
use alloc::vec::Vec;
use gyre_contract::boot::EmbeddedFile;
use gyre_interface::files::{FileError, NewNode, NodeId, NodeKind, files};
use gyre_object::Bytes;

/// Fills a memory file system with the files of the boot module; the modules of zones are the supervisor's and no program's.
///
/// # Errors
/// [`StartError`], of the first file that cannot be placed.
pub async fn fill(base: &Base, client: files::Client) -> Result<files::Client, StartError> {
    let root = client.root().await?;
    let is_of_zone = |file: &&EmbeddedFile| base.machine.zones.iter().any(|zone| zone.module == file.path);
    for file in base.machine.files.iter().filter(|file| !is_of_zone(file)) {
        let contents = base.module.contents(file).ok_or(StartError::NoDisk)?;
        place(client, root, file, contents).await?;
    }
    Ok(client)
}

async fn place(client: files::Client, root: NodeId, file: &EmbeddedFile, contents: &[u8]) -> Result<(), StartError> {
    let mut parts: Vec<&str> = file.path.split('/').filter(|part| !part.is_empty()).collect();
    let Some(name) = parts.pop() else { return Ok(()) };
    let mut directory = root;
    for part in parts {
        directory = match client.lookup(directory, part.as_bytes().to_vec()).await {
            Ok(found) => found.node,
            Err(FileError::NotFound) => {
                client.create(directory, part.as_bytes().to_vec(), new(NodeKind::Directory, 0o755)).await?.node
            }
            Err(error) => return Err(error.into()),
        };
    }
    let node = client.create(directory, name.as_bytes().to_vec(), new(NodeKind::File, file.mode)).await?.node;
    let mut offset = 0;
    for chunk in contents.chunks(32 * 1024) {
        let data = Bytes::copy_from(chunk).map_err(|_| StartError::OutOfMemory)?;
        client.write(node, offset, vec![data]).await?;
        offset = u64::saturating_add(offset, chunk.len() as u64);
    }
    Ok(())
}

fn new(kind: NodeKind, mode: u16) -> NewNode {
    NewNode { kind, mode, user: 0, group: 0, target: Vec::new(), device: 0 }
}
