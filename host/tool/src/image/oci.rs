//! Images as they come: an OCI layout folder, an archive of one, or a file of `docker save`
//! (OCI image-spec 1.1: image-layout, manifest, config; the `manifest.json` of `docker save`).
//!
//! Nothing in an image is trusted:
//! * an archive is unpacked, and a layout read, by [`Root`]: no name and no link leads out of it;
//! * each blob is compared with its digest, and each layer, unpacked, with that of the config;
//! * documents, entries and bytes have bounds ([`layers`]); devices are left out.
//!
//! [`Settings`] are kept beside the image that is made: entry point, environment, user, folder, ports, stop signal.

mod layers;
mod settings;

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::DeserializeOwned};
use sha2::{Digest as _, Sha256};

use super::{root::Root, unpack_archive};
use crate::failure::{Context as _, Failure, Result};
pub use settings::Settings;

/// The longest document, bytes.
const DOCUMENT_BYTES_MAX: u64 = 4 << 20;
/// Indexes within indexes.
const INDEXES_MAX: usize = 4;

/// A reference to a blob.
#[derive(Clone, Debug, Deserialize)]
pub struct Descriptor {
    /// Its digest.
    pub digest: String,
    /// Its length, bytes.
    pub size: Option<u64>,
    /// The kind of machine that it is for.
    pub platform: Option<Platform>,
}

/// A kind of machine.
#[derive(Clone, Debug, Deserialize)]
pub struct Platform {
    architecture: String,
    os: String,
}

impl Platform {
    fn is_ours(&self) -> bool {
        self.os == "linux" && self.architecture == "amd64"
    }
}

/// An index, or a manifest: they differ in the fields that they have.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Manifests of an index.
    #[serde(default)]
    manifests: Vec<Descriptor>,
    /// The config of a manifest.
    pub config: Option<Descriptor>,
    /// Its layers.
    #[serde(default)]
    pub layers: Vec<Descriptor>,
}

/// Returns the part of an index that is for this kind of machine.
pub fn ours(index: &Document) -> Option<&Descriptor> {
    index.manifests.iter().find(|one| one.platform.as_ref().is_none_or(Platform::is_ours))
}

/// An entry of `manifest.json` of `docker save`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    layers: Vec<String>,
}

/// The files of an image, in whichever form it came.
struct Parts {
    config: String,
    layers: Vec<String>,
}

/// Puts an image into a tree and returns its settings. `scratch` is a folder for what is unpacked on the way.
///
/// # Errors
/// When it is no image, is damaged, is for another machine, or holds more than `bytes_max`.
pub fn fill(image: &Path, tree: &Root, scratch: &Path, bytes_max: u64) -> Result<Settings> {
    let layout = open(image, scratch)?;
    let parts = if layout.has("index.json") { of_layout(&layout)? } else { of_saved(&layout)? };
    let config: settings::Config = document(&layout, &parts.config)?;
    config.check(parts.layers.len())?;
    let mut budget = layers::Budget::new(bytes_max);
    for (layer, diff_id) in parts.layers.iter().zip(&config.rootfs.diff_ids) {
        layers::apply(&layout, layer, diff_id, tree, &mut budget)?;
    }
    config.settings(tree)
}

/// Opens a layout folder, or unpacks an archive of one.
fn open(image: &Path, scratch: &Path) -> Result<Root> {
    if image.is_dir() {
        return Root::open(image);
    }
    let layout = Root::make(&scratch.join("layout"))?;
    let file = File::open(image).context(|| format!("cannot read {}", image.display()))?;
    unpack_archive(layers::plain(file)?, &layout)
        .map_err(|failure| not_an_image(image, &failure.report.to_string()))?;
    match layout.has("index.json") || layout.has("manifest.json") {
        true => Ok(layout),
        false => Err(not_an_image(image, "it holds neither index.json nor manifest.json")),
    }
}

fn not_an_image(image: &Path, why: &str) -> Failure {
    let help = "expected an OCI layout folder, an archive of one, or a file of docker save";
    Failure::with_help(format!("{} is not an image: {why}", image.display()), help)
}

/// Finds the manifest for this kind of machine.
fn of_layout(layout: &Root) -> Result<Parts> {
    let mut index: Document = document(layout, "index.json")?;
    for _ in 0..INDEXES_MAX {
        if let Some(config) = &index.config {
            let layers = index.layers.iter().map(blob).collect::<Result<Vec<_>>>()?;
            let all = index.layers.iter().chain([config]);
            all.into_iter().try_for_each(|descriptor| check_digest(layout, descriptor))?;
            return Ok(Parts { config: blob(config)?, layers });
        }
        let Some(next) = ours(&index).cloned() else {
            return Err(Failure::new("the image has no part for linux/amd64"));
        };
        check_digest(layout, &next)?;
        index = document(layout, &blob(&next)?)?;
    }
    Err(Failure::new("the image's indexes lead to no manifest"))
}

/// Reads the list of `docker save`.
fn of_saved(layout: &Root) -> Result<Parts> {
    let saved: Vec<Saved> = document(layout, "manifest.json")?;
    match saved.len() {
        1 => {}
        count => return Err(Failure::with_help(format!("the file holds {count} images"), "save one image alone")),
    }
    let first = saved.into_iter().next().ok_or_else(|| Failure::new("the file holds no image"))?;
    Ok(Parts { config: first.config, layers: first.layers })
}

/// Returns the path of a blob in a layout.
///
/// # Errors
/// When its digest is none of sha256.
pub fn blob(descriptor: &Descriptor) -> Result<String> {
    let hex = descriptor.digest.strip_prefix("sha256:").filter(|hex| is_sha256(hex));
    let bad = || Failure::new(format!("`{}` is not a digest that can be checked (sha256)", descriptor.digest));
    Ok(format!("blobs/sha256/{}", hex.ok_or_else(bad)?))
}

fn is_sha256(hex: &str) -> bool {
    hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn check_digest(layout: &Root, descriptor: &Descriptor) -> Result<()> {
    let path = blob(descriptor)?;
    let mut hash = Sha256::new();
    std::io::copy(&mut layout.open_file(&path)?, &mut hash).context(|| format!("cannot read {path}"))?;
    let found = hex(&hash.finalize());
    match descriptor.digest.ends_with(&found) {
        true => Ok(()),
        false => {
            let help = "the image is damaged, or was tampered with: get it again";
            Err(Failure::with_help(format!("{path} has the digest sha256:{found}"), help))
        }
    }
}

/// Returns a digest in hexadecimal digits.
pub fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn document<T: DeserializeOwned>(layout: &Root, path: &str) -> Result<T> {
    let mut text = vec![];
    let cannot = || format!("cannot read {path} of the image");
    layout.open_file(path)?.take(DOCUMENT_BYTES_MAX).read_to_end(&mut text).context(cannot)?;
    serde_json::from_slice(&text).context(cannot)
}

/// Returns where the settings of an image that was made are kept.
pub fn settings_of(made: &Path) -> PathBuf {
    made.with_extension("json")
}

#[cfg(test)]
mod tests;
