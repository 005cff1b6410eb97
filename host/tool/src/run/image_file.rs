//! `gyre run IMAGE -p 8080:80`: a machine of one tenant, without a machine file.

use std::path::Path;

use gyre_machine_file::Description;

use crate::{
    check, cli,
    failure::{Failure, Result},
    registry::reference::Reference,
};

/// Memory of such a machine beyond its tenant's.
const MEMORY_MIB: u64 = 256;
/// Memory of its tenant.
const TENANT_MIB: u64 = 256;

/// Reads the machine file, or describes a machine for an image.
///
/// # Errors
/// When the file is wrong, or is neither.
pub(super) fn describe(arguments: &cli::Run) -> Result<Description> {
    let file = &arguments.file;
    if let Some(reference) = of_registry(file) {
        let source = format!("registry = {}", quoted(&file.to_string_lossy()));
        let name = machine_name(reference.short_name());
        return Ok(gyre_machine_file::parse(&place(Path::new(&name))?, &text(&name, &source, &arguments.ports))?);
    }
    let is_image = file.is_dir() || file.extension().is_some_and(|ending| ending != "toml");
    match (is_image, arguments.ports.first()) {
        (true, _) if !file.exists() => Err(Failure::with_help(
            format!("{} does not exist", file.display()),
            "expected a machine file (NAME.toml), an OCI layout folder, an archive of an image, or REGISTRY/IMAGE",
        )),
        (true, _) => {
            let source = format!("oci = {}", quoted(&file.file_name().unwrap_or_default().to_string_lossy()));
            Ok(gyre_machine_file::parse(&place(file)?, &text(&name(file), &source, &arguments.ports))?)
        }
        (false, Some(_)) => {
            let help = "write `ports` into the machine file";
            Err(Failure::with_help("-p is for images, not for machine files", help))
        }
        (false, None) => check::read(file),
    }
}

/// Returns the image of a registry that is meant: there is no such file, and the name says a host or no ending.
fn of_registry(file: &Path) -> Option<Reference> {
    let text = file.to_str().filter(|_| !file.exists())?;
    let (first, last) = (text.split('/').next()?, text.rsplit('/').next()?);
    let has_host = first != text && (first.contains(['.', ':']) || first == "localhost");
    let has_ending = last.split([':', '@']).next()?.contains('.');
    if last.ends_with(".toml") || has_ending && !has_host { None } else { Reference::parse(text).ok() }
}

/// Returns where the machine file would be: beside the image.
fn place(image: &Path) -> Result<std::path::PathBuf> {
    let absolute = std::path::absolute(image).map_err(|error| Failure::new(format!("{}: {error}", image.display())))?;
    Ok(absolute.with_file_name(format!("{}.toml", name(image))))
}

/// Returns a name for machine, image and tenant: that of the file, as far as it may be one.
fn name(image: &Path) -> String {
    let stem = image.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    machine_name(stem.split('.').next().unwrap_or_default())
}

/// Returns a name as machines, images and tenants may have it.
fn machine_name(stem: &str) -> String {
    let plain: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(32).collect();
    let plain = plain.trim_matches('-');
    if plain.is_empty() { "image".into() } else { plain.to_owned() }
}

/// Quotes a text: TOML's and JSON's basic strings are alike for what paths and ports hold.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Returns the machine file for an image of this name, which comes from `source`.
fn text(name: &str, source: &str, ports: &[String]) -> String {
    let ports = ports.iter().map(|port| quoted(port)).collect::<Vec<_>>().join(", ");
    format!(
        "memory = \"{} MiB\"\n[image.{name}]\n{source}\n[[tenant]]\nname = \"{name}\"\nshare = 1\nimage = \"{name}\"\n\
         memory = \"{TENANT_MIB} MiB\"\nports = [{ports}]\n",
        MEMORY_MIB + TENANT_MIB,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_a_registry_is_told_from_a_file() {
        let is_one = |text: &str| of_registry(Path::new(text)).is_some();
        assert!(is_one("nginx") && is_one("docker.io/library/nginx:1.27") && is_one("localhost:5000/my/web"));
        assert!(!is_one("shop.toml") && !is_one("images/web.tar") && !is_one("./web.tar") && !is_one("/srv/web"));
    }

    #[test]
    fn an_image_is_a_machine_of_one_tenant() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("My_Web.tar");
        std::fs::write(&image, "").unwrap();
        let written = text(&name(&image), "oci = \"My_Web.tar\"", &["8080:80".into()]);
        let made = gyre_machine_file::parse(&place(&image).unwrap(), &written).unwrap();
        assert_eq!((made.machine.name.as_str(), made.tenants[0].name.as_str()), ("my-web", "my-web"));
        assert_eq!((made.tenants[0].ports[0].host, made.tenants[0].ports[0].guest), (8080, 80));
        assert_eq!(made.images["my-web"].oci.as_deref(), Some(image.as_path()));
        let wrong = text("my-web", "oci = \"My_Web.tar\"", &["8080".into()]);
        assert!(gyre_machine_file::parse(&image, &wrong).is_err());
    }
}
