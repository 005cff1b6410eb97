//! The name of an image of a registry: `[HOST[:PORT]/]PATH[:TAG|@DIGEST]`, as docker and podman write it.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The registry of names without one.
const USUAL_HOST: &str = "registry-1.docker.io";
/// Its other names.
const USUAL_NAMES: &[&str] = &["docker.io", "index.docker.io"];
const EXPECTED: &str =
    "expected a name such as \"docker.io/library/nginx:1.27\", or \"localhost:5000/my/web@sha256:...\"";

/// An image of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Host and port.
    pub host: String,
    /// The path there.
    pub path: String,
    tag: Option<String>,
    digest: Option<String>,
}

impl Reference {
    /// Reads a name.
    ///
    /// # Errors
    /// The words that were expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
        let is_host = |word: &str| word.contains(['.', ':']) || word == "localhost";
        let (host, path) = match name.split_once('/') {
            Some((host, path)) if is_host(host) => (host, path),
            _ => ("docker.io", name),
        };
        let (path, tag) = path.rsplit_once(':').map_or((path, None), |(path, tag)| (path, Some(tag)));
        let is_usual = USUAL_NAMES.contains(&host);
        let path = if is_usual && !path.contains('/') { format!("library/{path}") } else { path.to_owned() };
        let host = if is_usual { USUAL_HOST } else { host };
        let reference =
            Self { host: host.into(), path, tag: tag.map(str::to_owned), digest: digest.map(str::to_owned) };
        if reference.is_good() { Ok(reference) } else { Err(EXPECTED.into()) }
    }

    /// Checks what becomes a part of an address (distribution-spec: `<name>` and `<reference>`).
    fn is_good(&self) -> bool {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
        let is_part = |part: &str| !part.is_empty() && part.chars().all(plain) && !part.starts_with(['.', '-', '_']);
        let in_tag = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_tag =
            |tag: &String| (1..=128).contains(&tag.len()) && tag.chars().all(in_tag) && !tag.starts_with(['.', '-']);
        let hex = |digest: &String| {
            digest
                .strip_prefix("sha256:")
                .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|one| one.is_ascii_hexdigit()))
        };
        let in_host = |c: char| c.is_ascii_alphanumeric() || ".:-[]".contains(c);
        self.path.split('/').all(is_part)
            && self.host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
            && self.host.chars().all(in_host)
            && self.tag.as_ref().is_none_or(is_tag)
            && self.digest.as_ref().is_none_or(hex)
    }

    /// Returns the digest or the tag, by which it is asked for.
    pub fn version(&self) -> String {
        self.digest.clone().or(self.tag.clone()).unwrap_or_else(|| "latest".into())
    }

    /// Returns whether the registry is on this host's loopback: no TLS there.
    pub fn is_local(&self) -> bool {
        is_loopback(&self.host)
    }

    /// Returns the last word of its path, for a machine's name.
    pub fn short_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns a name for its folder; different images have different ones.
    pub fn file_name(&self) -> String {
        let hash = Sha256::digest(self.to_string());
        let hash: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{hash}", self.short_name())
    }
}

/// Returns whether a host, with or without a port, is this one's loopback.
pub fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.digest.is_some() { '@' } else { ':' };
        write!(f, "{}/{}{mark}{}", self.host, self.path, self.version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        Reference::parse(text).map_or_else(|_| "refused".into(), |reference| reference.to_string())
    }

    #[test]
    fn names_are_read_as_docker_reads_them() {
        let digest = format!("sha256:{}", "a".repeat(64));
        assert_eq!(shown("nginx"), "registry-1.docker.io/library/nginx:latest");
        assert_eq!(shown("docker.io/me/web:1.2"), "registry-1.docker.io/me/web:1.2");
        assert_eq!(shown("localhost:5000/my/web"), "localhost:5000/my/web:latest");
        assert_eq!(shown(&format!("ghcr.io/a/b:1@{digest}")), format!("ghcr.io/a/b@{digest}"));
        for wrong in ["", "localhost:5000/", "a.b/UPPER", "a.b/../c", "a.b/c:", "a.b/c@sha256:1", "a b.c/d", "a.b/c?x"]
        {
            assert_eq!(shown(wrong), "refused", "{wrong}");
        }
        assert!(Reference::parse("127.0.0.1:5000/x").unwrap().is_local() && is_loopback("[::1]:5000"));
        assert!(!is_loopback("127.0.0.1.evil.example") && !Reference::parse("nginx").unwrap().is_local());
    }
}
