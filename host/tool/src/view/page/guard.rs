//! Requests that are let in, and what a page may do.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

/// A page runs scripts of this server only, speaks with it only, and stands in no other page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns whether a request is meant for this page: a name that another server has pointed here (DNS rebinding), or a page of another origin, is not.
fn is_ours(headers: &HeaderMap, port: u16) -> bool {
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_host = |host: &str| hosts.iter().any(|own| own == host);
    let is_origin = |origin: &str| origin.strip_prefix("http://").is_some_and(is_host);
    let is_site = |site: &str| matches!(site, "same-origin" | "none");
    text("host").is_some_and(is_host)
        && text("origin").is_none_or(is_origin)
        && text("sec-fetch-site").is_none_or(is_site)
}

/// Lets those in who ask for this page, and says what it may do.
pub async fn guard(State(port): State<u16>, request: Request, next: Next) -> Response {
    if !is_ours(request.headers(), port) {
        return (StatusCode::FORBIDDEN, "this page is for http://127.0.0.1 on this host only\n").into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hosts_and_origins_are_refused() {
        let asked = |list: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            list.iter().for_each(|(name, value)| drop(headers.insert(*name, value.parse().unwrap())));
            is_ours(&headers, 8077)
        };
        let own = ("host", "127.0.0.1:8077");
        assert!(asked(&[own]) && asked(&[("host", "localhost:8077")]));
        assert!(asked(&[own, ("origin", "http://127.0.0.1:8077"), ("sec-fetch-site", "same-origin")]));
        for other in ["evil.example:8077", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8077.evil.example", ""] {
            assert!(!asked(&[("host", other)]), "{other}");
        }
        assert!(!asked(&[]) && !asked(&[own, ("origin", "http://evil.example")]) && !asked(&[own, ("origin", "null")]));
        assert!(!asked(&[own, ("sec-fetch-site", "cross-site")]));
    }
}
