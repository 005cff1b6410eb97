//! `POST /exec`: a program in a tenant, its streams over the connection (frames: `gyre_config::session`).

use std::{
    io::{self, BufReader, PipeReader, PipeWriter, Read, Write},
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use gyre_config::session::{self, ExecRequest};

use crate::{
    http::{self, Request},
    source::{Program, Source, Streams},
};

/// Where frames go; whole frames only, from several threads.
type Out = Arc<Mutex<TcpStream>>;

/// Runs the program; says whether the connection can take another request (only when nothing was started).
///
/// # Errors
/// When the client has gone.
pub fn run(
    request: &Request,
    reader: &mut BufReader<TcpStream>,
    stream: &TcpStream,
    source: &Arc<dyn Source>,
) -> io::Result<bool> {
    let mut out = stream;
    let Ok(wanted) = serde_json::from_slice::<ExecRequest>(&request.body) else {
        let why = "the body must be {\"tenant\": \"...\", \"argv\": [\"...\"], \"env\": [\"NAME=value\"]}";
        return http::refuse(&mut out, "400 Bad Request", why).map(|()| true);
    };
    http::upgrade(&mut out)?;
    stream.set_read_timeout(None)?;
    let out: Out = Arc::new(Mutex::new(stream.try_clone()?));
    let last = match converse(&wanted, reader, &out, source) {
        Ok(code) => (session::EXIT, code.to_be_bytes().to_vec()),
        Err(error) => (session::FAILED, error.to_string().into_bytes()),
    };
    let sent = send(&out, last.0, &last.1);
    sent.map(|()| false)
}

fn converse(
    wanted: &ExecRequest,
    reader: &mut BufReader<TcpStream>,
    out: &Out,
    source: &Arc<dyn Source>,
) -> io::Result<i32> {
    let (stdin, input) = io::pipe()?;
    let (output, stdout) = io::pipe()?;
    let (errors, stderr) = io::pipe()?;
    // The program's ends go with `Streams`: ours see their end when the program, not we, closes.
    let program: Arc<dyn Program> = source.spawn(wanted, Streams { stdin, stdout, stderr })?.into();
    let pumps = [pump(output, session::STDOUT, out)?, pump(errors, session::STDERR, out)?];
    let frames = BufReader::with_capacity(session::FRAME_BYTES_MAX, reader.get_ref().try_clone()?);
    let early = reader.buffer().to_vec();
    let target = program.clone();
    let ended = Arc::new(AtomicBool::new(false));
    let is_over = ended.clone();
    std::thread::spawn(move || feed(io::Cursor::new(early).chain(frames), input, &*target, &is_over));
    let code = program.wait()?;
    ended.store(true, Ordering::Release);
    for pump in pumps {
        let _ = pump.join();
    }
    Ok(code)
}

/// Sends everything that comes out of a pipe.
fn pump(mut from: PipeReader, kind: u8, out: &Out) -> io::Result<std::thread::JoinHandle<()>> {
    let out = out.clone();
    std::thread::Builder::new().spawn(move || {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            if send(&out, kind, buffer.get(..bytes).unwrap_or_default()).is_err() {
                return;
            }
        }
    })
}

fn send(out: &Out, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let mut out = out.lock().map_err(|_| io::Error::other("a sender died"))?;
    out.write_all(&session::header(kind, bytes.len()))?;
    out.write_all(bytes)
}

/// Feeds the program what the client sends; a client that goes away takes its program with it.
fn feed(mut frames: impl Read, input: PipeWriter, program: &dyn Program, is_over: &AtomicBool) {
    const SIGHUP: i32 = 1;
    let mut input = Some(input);
    while let Ok((kind, bytes)) = frame(&mut frames) {
        match (kind, bytes.first()) {
            (session::STDIN, None) => input = None,
            // A program that has closed its input gets no more; it may still write.
            (session::STDIN, _) => input = input.take().filter(|mut input| input.write_all(&bytes).is_ok()),
            (session::SIGNAL, Some(signal)) => drop(program.signal(i32::from(*signal))),
            _ => {}
        }
    }
    if !is_over.load(Ordering::Acquire) {
        let _ = program.signal(SIGHUP);
    }
}

fn frame(from: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; session::HEADER_BYTES];
    from.read_exact(&mut header)?;
    let (kind, length) = session::parse(header).ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    Ok((kind, bytes))
}
