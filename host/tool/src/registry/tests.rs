use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
};

use sha2::{Digest as _, Sha256};

use super::*;
use crate::image::oci::hex;

/// A registry on loopback: paths and what they answer.
struct Registry {
    port: u16,
    pages: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    _folder: tempfile::TempDir,
    project: Project,
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

impl Registry {
    /// Starts one; with `token` it wants that token, and gives it at /token.
    fn start(token: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let pages: Arc<Mutex<BTreeMap<String, Vec<u8>>>> = Arc::default();
        let served = pages.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let path = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
                let headers: Vec<String> =
                    lines.take_while(|line| !line.is_empty()).map(|line| line.to_lowercase()).collect();
                let is_admitted = token.is_none_or(|token| headers.contains(&format!("authorization: bearer {token}")));
                let page = served.lock().unwrap().get(&path).cloned();
                let (status, more, body) = match (page, path.strip_prefix("/token?")) {
                    (_, Some(_)) => {
                        ("200 OK", String::new(), format!("{{\"token\":\"{}\"}}", token.unwrap()).into_bytes())
                    }
                    _ if !is_admitted => {
                        let challenge = format!(
                            "WWW-Authenticate: Bearer realm=\"http://127.0.0.1:{port}/token\",service=\"s\"\r\n"
                        );
                        ("401 Unauthorized", challenge, vec![])
                    }
                    (Some(page), _) => ("200 OK", String::new(), page),
                    _ => ("404 Not Found", String::new(), vec![]),
                };
                let head =
                    format!("HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = (&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(&body));
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let project = Project::of_tree(folder.path());
        Self { port, pages, _folder: folder, project }
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        self.pages.lock().unwrap().insert(format!("/v2/my/web/{path}"), bytes.to_vec());
    }

    fn blob(&self, bytes: &[u8]) -> String {
        self.put(&format!("blobs/{}", digest(bytes)), bytes);
        format!("{{\"digest\":\"{}\",\"size\":{}}}", digest(bytes), bytes.len())
    }

    /// Holds an image with a list of manifests, as builders push it; returns the digest of its layer.
    fn fill(&self) -> String {
        let layer = b"a layer";
        let manifest = format!("{{\"config\":{},\"layers\":[{}]}}", self.blob(b"{}"), self.blob(layer));
        self.put(&format!("manifests/{}", digest(manifest.as_bytes())), manifest.as_bytes());
        let part = |architecture: &str, digest: &str| {
            format!(
                "{{\"digest\":\"{digest}\",\"size\":1,\"platform\":{{\"os\":\"linux\",\"architecture\":\"{architecture}\"}}}}"
            )
        };
        let (other, own) = (part("arm64", &digest(b"other")), part("amd64", &digest(manifest.as_bytes())));
        self.put("manifests/1.0", format!("{{\"manifests\":[{other},{own}]}}").as_bytes());
        digest(layer)
    }

    fn pull(&self, pull: Pull) -> Result<PathBuf> {
        layout(&self.project, &format!("127.0.0.1:{}/my/web:1.0", self.port), pull)
    }

    fn refused(&self) -> String {
        format!("{:?}", self.pull(Pull::Always).unwrap_err().report).replace("\n  │ ", " ")
    }
}

#[test]
fn an_image_is_pulled_once_with_a_token_and_stays_if_the_registry_goes() {
    let registry = Registry::start(Some("secret"));
    let layer = registry.fill();
    let place = registry.pull(Pull::Missing).unwrap();
    let blob = place.join("blobs/sha256").join(layer.trim_start_matches("sha256:"));
    assert_eq!(std::fs::read(&blob).unwrap(), b"a layer");
    registry.pages.lock().unwrap().clear();
    assert_eq!(registry.pull(Pull::Missing).unwrap(), place, "it is there");
    assert!(registry.refused().contains("has no"), "{}", registry.refused());
    assert!(blob.exists(), "a pull that fails leaves the old one");
}

#[test]
fn a_registry_that_lies_is_not_believed() {
    let registry = Registry::start(None);
    let layer = registry.fill();
    registry.put(&format!("blobs/{layer}"), b"another");
    assert!(registry.refused().contains("sends sha256:"), "{}", registry.refused());
    registry.put(&format!("blobs/{layer}"), &vec![b'x'; 1 << 20]);
    assert!(registry.refused().contains("more than the 7 bytes"), "{}", registry.refused());
    registry.put("manifests/1.0", b"{\"manifests\":[{\"digest\":\"sha256:../../etc\",\"size\":1}]}");
    assert!(registry.pull(Pull::Always).is_err());
    registry.put("manifests/1.0", &vec![b' '; (MANIFEST_BYTES_MAX + 1) as usize]);
    assert!(registry.refused().contains("longer than"), "{}", registry.refused());
    let config = format!("{{\"config\":{{\"digest\":\"sha256:{}\"}},\"layers\":[]}}", "/".repeat(64));
    registry.put("manifests/1.0", config.as_bytes());
    assert!(registry.pull(Pull::Always).is_err());
    let pulled = std::fs::read_dir(registry.project.cache("pulled").unwrap()).unwrap();
    assert_eq!(pulled.count(), 0, "nothing is left of what was refused");
}

#[test]
fn a_registry_that_is_not_there_is_named() {
    let registry = Registry::start(None);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let failure = layout(&registry.project, &format!("127.0.0.1:{closed}/my/web"), Pull::Missing).unwrap_err();
    assert!(format!("{:?}", failure.report).contains("cannot be asked"), "{:?}", failure.report);
    assert_eq!(failure.kind, crate::failure::Kind::Environment);
}
