//! Images of a registry (OCI distribution-spec 1.1; Docker's registry API V2): pulled once into an OCI layout below `.gyre/pulled`, which
//! [`crate::image`] then unpacks like any other.
//!
//! * A registry is not trusted: each manifest and each blob is compared with its digest while it comes, and is no longer than was said.
//! * A registry on loopback is spoken to by HTTP, any other by HTTPS.
//! * It may ask for a token, or for name and password: those of `~/.docker/config.json`, else none.
//! * An image that was pulled is not asked for again, unless the owner says so (`gyre run --pull`). If that fails, the old one stays.

mod client;
pub mod reference;

use std::path::{Path, PathBuf};

use gyre_machine_file::Description;

use crate::{
    failure::{Context as _, Failure, Result},
    image::oci::{self, Descriptor, Document},
    project::Project,
    ui::Step,
};
use client::Client;
use reference::Reference;

/// The longest manifest, bytes (distribution-spec: registries should take 4 MiB).
const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// The longest blob, bytes.
const BLOB_BYTES_MAX: u64 = 16 << 30;
/// Layers of an image.
const LAYERS_MAX: usize = 512;

/// The images for which a registry is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// For images that are not there.
    Missing,
    /// For all.
    Always,
}

/// Pulls the images of a machine that come from a registry; they are OCI layouts from then on.
///
/// # Errors
/// When a registry cannot be reached, refuses, has no such image, or sends something else.
pub fn provide(project: &Project, description: &mut Description, pull: Pull) -> Result<()> {
    for image in description.images.values_mut() {
        let Some(text) = &image.registry else { continue };
        image.oci = Some(layout(project, text, pull)?);
    }
    Ok(())
}

/// Returns where the layout of an image is, or would be.
///
/// # Errors
/// When the name is none of an image.
#[cfg(test)]
pub fn place(project: &Project, text: &str) -> Result<PathBuf> {
    Ok(project.cache("pulled")?.join(reference(text)?.file_name()))
}

fn reference(text: &str) -> Result<Reference> {
    Reference::parse(text)
        .map_err(|expected| Failure::with_help(format!("`{text}` is not the name of an image of a registry"), expected))
}

/// Returns the layout of an image, which is pulled if that is needed.
fn layout(project: &Project, text: &str, pull: Pull) -> Result<PathBuf> {
    let reference = reference(text)?;
    let folder = project.cache("pulled")?;
    let place = folder.join(reference.file_name());
    if place.exists() && pull == Pull::Missing {
        return Ok(place);
    }
    let step = Step::start(format!("pulling {reference}"));
    let workshop = tempfile::tempdir_in(&folder).context(|| format!("cannot write to {}", folder.display()))?;
    let new = workshop.path().join("layout");
    let bytes = fetch(&reference, &new, &step)?;
    let cannot = || format!("cannot write {}", place.display());
    if place.exists() {
        std::fs::rename(&place, workshop.path().join("old")).context(cannot)?;
    }
    std::fs::rename(&new, &place).context(cannot)?;
    step.done_with(&gyre_machine_file::units::show_bytes(bytes));
    Ok(place)
}

/// Pulls an image into a new folder; returns how much that was.
fn fetch(reference: &Reference, to: &Path, step: &Step) -> Result<u64> {
    let blobs = to.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).context(|| format!("cannot write {}", to.display()))?;
    let mut client = Client::new(reference.clone());
    let mut manifest = client.manifest(&reference.version(), MANIFEST_BYTES_MAX)?;
    let mut document: Document = parsed(&manifest.bytes)?;
    if document.config.is_none() {
        let next =
            oci::ours(&document).ok_or_else(|| Failure::new(format!("{reference} has no part for linux/amd64")))?;
        manifest = client.manifest(&next.digest, MANIFEST_BYTES_MAX)?;
        document = parsed(&manifest.bytes)?;
    }
    let config = document.config.as_ref().ok_or_else(|| Failure::new(format!("{reference} is not an image")))?;
    if document.layers.len() > LAYERS_MAX {
        return Err(Failure::new(format!(
            "{reference} has {} layers, at most {LAYERS_MAX} are read",
            document.layers.len()
        )));
    }
    let mut sum = manifest.bytes.len() as u64;
    for (at, blob) in [config].into_iter().chain(&document.layers).enumerate() {
        step.detail(&format!("{at} of {} blobs", document.layers.len() + 1));
        sum += client.blob(blob, &blob_place(to, blob)?, BLOB_BYTES_MAX)?;
    }
    let own = Descriptor { digest: manifest.digest.clone(), size: Some(manifest.bytes.len() as u64), platform: None };
    let cannot = || format!("cannot write {}", to.display());
    std::fs::write(blob_place(to, &own)?, &manifest.bytes).context(cannot)?;
    let index = format!("{{\"schemaVersion\":2,\"manifests\":[{{\"digest\":\"{}\",\"size\":{}}}]}}", own.digest, sum);
    std::fs::write(to.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}").context(cannot)?;
    std::fs::write(to.join("index.json"), index).context(cannot)?;
    Ok(sum)
}

fn blob_place(layout: &Path, blob: &Descriptor) -> Result<PathBuf> {
    Ok(layout.join(oci::blob(blob)?))
}

fn parsed(bytes: &[u8]) -> Result<Document> {
    serde_json::from_slice(bytes).context(|| "the registry's manifest cannot be read".into())
}

#[cfg(test)]
mod tests;
