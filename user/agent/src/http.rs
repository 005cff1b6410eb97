//! As much of HTTP/1.1 as the agent needs (RFC 9112), with bounds on everything that a client sends.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write},
    net::{Shutdown, TcpStream},
    time::{Duration, Instant},
};

const LINE_BYTES_MAX: u64 = 8 << 10;
const HEADERS_MAX: usize = 64;
const BODY_BYTES_MAX: usize = 256 << 10;

/// One request.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// "GET", "POST", ...
    pub method: String,
    /// The path without what follows a question mark.
    pub path: String,
    /// The part after the question mark.
    pub query: String,
    /// The body.
    pub body: Vec<u8>,
}

/// The parts of the headers that matter here.
#[derive(Default)]
struct Headers {
    /// Bytes of the body.
    length: usize,
    /// The key after `Authorization: Bearer` (RFC 6750 section 2.1).
    key: Option<String>,
}

/// Reads one request; `None` when the client has closed. The body is read only if the key that the headers show is admitted.
///
/// # Errors
/// `InvalidData` for what is not HTTP or exceeds the bounds, `PermissionDenied` if `admits` says so.
pub fn read(
    reader: &mut BufReader<TcpStream>,
    admits: impl FnOnce(Option<&str>) -> bool,
) -> io::Result<Option<Request>> {
    parse(reader, admits)
}

fn parse(reader: &mut impl io::BufRead, admits: impl FnOnce(Option<&str>) -> bool) -> io::Result<Option<Request>> {
    let Some(first) = line(reader)? else {
        return Ok(None);
    };
    let mut words = first.split_whitespace();
    let (method, target) = (words.next().ok_or_else(bad)?, words.next().ok_or_else(bad)?);
    if !words.next().is_some_and(|version| version.starts_with("HTTP/1.")) {
        return Err(bad());
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers = headers(reader)?;
    if !admits(headers.key.as_deref()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the key of this run is missing or wrong"));
    }
    let mut body = vec![0; headers.length];
    reader.read_exact(&mut body)?;
    Ok(Some(Request { method: method.into(), path: path.into(), query: query.into(), body }))
}

fn headers(reader: &mut impl io::BufRead) -> io::Result<Headers> {
    let mut headers = Headers::default();
    for _ in 0..HEADERS_MAX {
        let line = line(reader)?.ok_or_else(bad)?;
        if line.is_empty() {
            return Ok(headers);
        }
        let (name, value) = line.split_once(':').ok_or_else(bad)?;
        match name {
            name if name.eq_ignore_ascii_case("content-length") => {
                headers.length =
                    value.trim().parse().ok().filter(|length| *length <= BODY_BYTES_MAX).ok_or_else(bad)?;
            }
            name if name.eq_ignore_ascii_case("authorization") => headers.key = bearer(value),
            _ => {}
        }
    }
    Err(bad())
}

/// The key of `Bearer KEY`.
fn bearer(value: &str) -> Option<String> {
    let (scheme, key) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim().to_owned())
}

fn line(reader: &mut impl io::BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    let read = reader.take(LINE_BYTES_MAX).read_line(&mut line)?;
    match read {
        0 => Ok(None),
        _ if line.ends_with('\n') => Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned())),
        _ => Err(bad()),
    }
}

fn bad() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not an HTTP request that the agent takes")
}

/// Writes a whole response.
///
/// # Errors
/// When the client has gone.
pub fn respond(stream: &mut impl Write, status: &str, kind: &str, body: &[u8]) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat())
}

/// Writes a refusal: one line of text.
///
/// # Errors
/// When the client has gone.
pub fn refuse(stream: &mut impl Write, status: &str, why: &str) -> io::Result<()> {
    respond(stream, status, "text/plain; charset=utf-8", format!("{why}\n").as_bytes())
}

/// Writes the head of a response that goes on until the connection closes.
///
/// # Errors
/// When the client has gone.
pub fn start_stream(stream: &mut impl Write, kind: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n")
}

/// Writes the head that turns the connection into a stream of frames.
///
/// # Errors
/// When the client has gone.
pub fn upgrade(stream: &mut impl Write) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: gyre-exec\r\n\r\n")
}

/// How long a client may take to read the end.
const CLOSING_LIMIT: Duration = Duration::from_secs(60);

/// Closes a connection so that the client reads all that was sent: a socket that is closed while something unread has arrived for it
/// resets the connection, and what is under way to the client is lost (RFC 1122, section 4.2.2.13). The connection keeps its place meanwhile.
pub fn close(mut stream: &TcpStream) {
    let until = Instant::now() + CLOSING_LIMIT;
    if stream.shutdown(Shutdown::Write).is_err() || stream.set_read_timeout(Some(CLOSING_LIMIT)).is_err() {
        return;
    }
    let mut rest = [0; 4096];
    while Instant::now() < until && matches!(stream.read(&mut rest), Ok(1..)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> io::Result<Option<Request>> {
        parse(&mut text.as_bytes(), |_| true)
    }

    #[test]
    fn the_key_is_asked_for_before_the_body_is_read() {
        let text = "POST /end HTTP/1.1\r\nAuthorization: Bearer abc\r\nContent-Length: 1000\r\n\r\n";
        let refused = parse(&mut text.as_bytes(), |key| key == Some("abd")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        let cut = parse(&mut text.as_bytes(), |key| key == Some("abc")).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof, "admitted, and the body is missing");
        assert!(parse(&mut "GET / HTTP/1.1\r\n\r\n".as_bytes(), |key| key.is_some()).is_err());
    }

    #[test]
    fn a_request_is_read_with_query_and_body() {
        let request = parsed("POST /exec?x=1 HTTP/1.1\r\nHost: a\r\ncontent-LENGTH: 3\r\n\r\nabcdef").unwrap().unwrap();
        assert_eq!((request.path.as_str(), request.query.as_str()), ("/exec", "x=1"));
        assert_eq!(request.body, b"abc");
    }

    #[test]
    fn what_is_not_http_is_an_error_and_an_empty_connection_is_none() {
        assert_eq!(parsed("").unwrap(), None);
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(9000));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        let giant = "POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n";
        for text in [
            "\r\n",
            "GET /\r\n\r\n",
            "GET / SPDY\r\n\r\n",
            "GET / HTTP/1.1\r\nnonsense\r\n\r\n",
            "GET",
            &long,
            &many,
            giant,
        ] {
            assert!(parsed(text).is_err(), "{text:.40}");
        }
    }
}
