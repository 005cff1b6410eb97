//! Requests to one registry.
//!
//! * A request that is answered with 401 is made once more, with what the answer asks for: a token, or name and password.
//! * A token is asked for by HTTPS, or on loopback. It is not sent on if an answer leads to another host.
//! * Whatever comes is read up to the length that was said before, and compared with its digest.
//! * A registry that says nothing for half a minute is given up; Ctrl-C ends a pull at once.
//! * Each failure says which registry and which image, and what one can do.
//! * Names and passwords are read from docker's file; nothing is written there.

use std::{
    fs::File,
    io::{Read, Write as _},
    path::Path,
    time::Duration,
};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use ureq::{
    Agent, Body,
    http::{Response, StatusCode, header},
};

use super::reference::{Reference, is_loopback};
use crate::{
    failure::{Context as _, Failure, Kind, Result},
    image::oci::{Descriptor, hex},
    stop,
};

/// Kinds of manifests and of lists of them.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// A registry that says nothing for so long is given up.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
const PART_BYTES: usize = 1 << 16;
/// The longest answer of who gives tokens, bytes.
const TOKEN_BYTES_MAX: u64 = 1 << 20;

/// A registry, with what it has been shown.
pub(super) struct Client {
    agent: Agent,
    reference: Reference,
    /// The header that admits us, once it is known.
    authorization: Option<String>,
}

/// A manifest as it came.
pub(super) struct Manifest {
    pub(super) digest: String,
    pub(super) bytes: Vec<u8>,
}

/// The answer of who gives tokens.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// The part of `~/.docker/config.json` that is read.
#[derive(Default, Deserialize)]
struct Config {
    #[serde(default)]
    auths: std::collections::BTreeMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    auth: Option<String>,
}

impl Client {
    pub(super) fn new(reference: Reference) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_LIMIT))
            .timeout_recv_response(Some(SILENCE_LIMIT))
            .timeout_per_read(Some(SILENCE_LIMIT))
            .user_agent("gyre");
        Self { agent: config.build().into(), reference, authorization: None }
    }

    /// Gets a manifest by tag or digest, and compares it with the digest.
    pub(super) fn manifest(&mut self, version: &str, bytes_max: u64) -> Result<Manifest> {
        let mut answer = self.get(&format!("manifests/{version}"), Some(MANIFESTS))?;
        let mut bytes = vec![];
        let cannot = || format!("cannot read the manifest of {}", self.reference);
        answer.body_mut().as_reader().take(bytes_max + 1).read_to_end(&mut bytes).context(cannot)?;
        if bytes.len() as u64 > bytes_max {
            return Err(Failure::new(format!("the manifest of {} is longer than {bytes_max} bytes", self.reference)));
        }
        let digest = format!("sha256:{}", hex(&Sha256::digest(&bytes)));
        if version.starts_with("sha256:") && version != digest {
            return Err(self.lies(&format!("the manifest {version}"), &digest));
        }
        Ok(Manifest { digest, bytes })
    }

    /// Gets a blob into a file, and compares it with its digest; returns its length.
    pub(super) fn blob(&mut self, blob: &Descriptor, to: &Path, bytes_max: u64) -> Result<u64> {
        let most = blob.size.unwrap_or(bytes_max).min(bytes_max);
        let answer = self.get(&format!("blobs/{}", blob.digest), None)?;
        let mut body = answer.into_body().into_reader();
        let writing = || format!("cannot write {}", to.display());
        let mut file = File::create(to).context(writing)?;
        let (mut hash, mut sum) = (Sha256::new(), 0u64);
        let mut part = vec![0; PART_BYTES];
        loop {
            stop::check()?;
            let reading = || format!("cannot get the blob {} of {}", blob.digest, self.reference);
            let count = body.read(&mut part).context(reading)?;
            let read = part.get(..count).unwrap_or_default();
            if read.is_empty() {
                break;
            }
            sum += count as u64;
            if sum > most {
                let message = format!("the registry sends more than the {most} bytes of the blob {}", blob.digest);
                return Err(Failure::new(message));
            }
            hash.update(read);
            file.write_all(read).context(writing)?;
        }
        let found = format!("sha256:{}", hex(&hash.finalize()));
        if found == blob.digest { Ok(sum) } else { Err(self.lies(&format!("the blob {}", blob.digest), &found)) }
    }

    fn lies(&self, what: &str, found: &str) -> Failure {
        let help = "it is damaged, or was tampered with; nothing of it is kept. Ask who runs the registry";
        Failure::with_help(format!("{} sends {found} for {what}", self.reference.host), help)
    }

    fn get(&mut self, path: &str, accept: Option<&str>) -> Result<Response<Body>> {
        let scheme = if self.reference.is_local() { "http" } else { "https" };
        let address = format!("{scheme}://{}/v2/{}/{path}", self.reference.host, self.reference.path);
        let first = self.ask(&address, accept)?;
        let answer = match (first.status(), challenge(&first)) {
            (StatusCode::UNAUTHORIZED, Some(challenge)) if self.authorization.is_none() => {
                self.authorization = Some(self.admission(&challenge)?);
                self.ask(&address, accept)?
            }
            _ => first,
        };
        match answer.status() {
            StatusCode::OK => Ok(answer),
            StatusCode::NOT_FOUND => {
                Err(Failure::new(format!("the registry {} has no {} ({path})", self.reference.host, self.reference)))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let help = "it may want a login (docker login, podman login --compat-auth-file), or have no such image";
                Err(Failure::with_help(
                    format!("the registry {} refuses {}", self.reference.host, self.reference),
                    help,
                ))
            }
            StatusCode::TOO_MANY_REQUESTS => {
                Err(Failure::new(format!("the registry {} wants a pause: try again later", self.reference.host)))
            }
            other => Err(Failure::new(format!("the registry {} answers {other} to {path}", self.reference.host))),
        }
    }

    fn ask(&self, address: &str, accept: Option<&str>) -> Result<Response<Body>> {
        let mut request = self.agent.get(address);
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        request.call().map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        let help = match self.reference.is_local() {
            true => "does a registry listen there? One on loopback is spoken to by HTTP",
            false => {
                "is the host right, and does this machine reach it? An image can also come from a file (docker save)"
            }
        };
        let message = format!("the registry {} cannot be asked: {error}", self.reference.host);
        Failure::with_help(message, help).kind(Kind::Environment)
    }

    /// Returns the header for a registry that asks for one.
    fn admission(&self, challenge: &str) -> Result<String> {
        let login = login(&self.reference.host);
        let (scheme, rest) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            let missing = || {
                let message = format!("the registry {} wants a login", self.reference.host);
                Failure::with_help(message, "docker login writes one to ~/.docker/config.json, which is read")
            };
            return login.map(|login| format!("Basic {login}")).ok_or_else(missing);
        }
        let odd = || Failure::new(format!("the registry {} asks for `{challenge}`", self.reference.host));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(odd());
        }
        let realm = parameter(rest, "realm").ok_or_else(odd)?;
        if !is_safe(&realm) {
            return Err(Failure::new(format!("the registry sends us for a token to {realm}, which is not HTTPS")));
        }
        let scope = parameter(rest, "scope").unwrap_or_else(|| format!("repository:{}:pull", self.reference.path));
        let mut request = self.agent.get(&realm).query("scope", &scope);
        if let Some(service) = parameter(rest, "service") {
            request = request.query("service", &service);
        }
        if let Some(login) = login {
            request = request.header(header::AUTHORIZATION, format!("Basic {login}"));
        }
        let mut answer = request.call().map_err(|error| self.unreachable(&error))?;
        let refused = || format!("{realm} gives no token for {}", self.reference);
        if answer.status() != StatusCode::OK {
            return Err(Failure::new(format!("{} ({})", refused(), answer.status())));
        }
        let read = answer.body_mut().as_reader().take(TOKEN_BYTES_MAX);
        let token: Token = serde_json::from_reader(read).context(refused)?;
        let token =
            token.token.or(token.access_token).filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
        token.map(|token| format!("Bearer {token}")).ok_or_else(|| Failure::new(refused()))
    }
}

/// Returns whether a token, and a login for it, may be asked for at an address.
fn is_safe(realm: &str) -> bool {
    let local = |rest: &str| is_loopback(rest.split('/').next().unwrap_or_default());
    realm.starts_with("https://") || realm.strip_prefix("http://").is_some_and(local)
}

fn challenge(answer: &Response<Body>) -> Option<String> {
    answer.headers().get(header::WWW_AUTHENTICATE)?.to_str().ok().map(str::to_owned)
}

/// Returns a parameter of a challenge: `name="value"`, separated by commas (RFC 9110, 11.2).
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.trim_start_matches([',', ' ']).trim();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = next;
    }
    None
}

/// Returns name and password for a registry, in the form of the header, from docker's file.
fn login(host: &str) -> Option<String> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(std::path::PathBuf::from);
    let folder = folder.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".docker")))?;
    let config: Config = serde_json::from_slice(&std::fs::read(folder.join("config.json")).ok()?).ok()?;
    let names =
        [host.to_owned(), format!("https://{host}"), format!("https://{host}/v1/"), format!("https://{host}/v2/")];
    let usual = (host == "registry-1.docker.io").then(|| "https://index.docker.io/v1/".to_owned());
    names.iter().chain(&usual).find_map(|name| config.auths.get(name)?.auth.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_and_tokens_asked_for_where_it_is_safe() {
        let text = "realm=\"https://auth.example/token\",service=\"registry, of ours\",scope=\"repository:a/b:pull\"";
        assert_eq!(parameter(text, "realm").unwrap(), "https://auth.example/token");
        assert_eq!(parameter(text, "service").unwrap(), "registry, of ours");
        assert_eq!(parameter(text, "scope").unwrap(), "repository:a/b:pull");
        assert_eq!((parameter(text, "error"), parameter("realm=\"open", "realm")), (None, None));
        assert!(is_safe("https://a/b") && is_safe("http://127.0.0.1:5000/token"));
        assert!(!is_safe("http://auth.example/token") && !is_safe("file:///etc/passwd"));
    }
}
