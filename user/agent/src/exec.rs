//! `POST /exec`: a program in a tenant, its streams over the connection (frames: `gyre_contract::session`).
//!
//! * A thread for each output sends what comes out; one feeds the program what the client sends.
//! * With a terminal there is one output, and frames change its size. A process that a program on a terminal leaves in the background does
//!   not hold up the end.
//! * Without one the end comes when all who hold the output have closed it, as in a shell's pipeline; once the client has sent a signal,
//!   when the program has ended. A program that was killed has some seconds in which others may close it.
//! * A client that goes away takes its program with it (SIGHUP).

use std::{
    fs::File,
    io::{self, BufReader, Read, Write},
    net::TcpStream,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use gyre_contract::session::{self, ExecRequest};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    termios::Winsize,
};

use crate::{
    http::{self, Request},
    source::{Program, Source, Streams},
};

/// The exit code of a program that was killed, as a shell has it.
const KILLED: i32 = 137;
/// The time in which the output of a killed program is waited for, and the pause between two looks.
const REST_PATIENCE: Duration = Duration::from_secs(3);
const REST_PAUSE: Duration = Duration::from_millis(50);

/// The receiver of frames; whole frames only, from several threads.
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
    if let Some(size) = wanted.terminal {
        return on_terminal(wanted, size, reader, out, source);
    }
    let (stdin, input) = io::pipe()?;
    let (output, stdout) = io::pipe()?;
    let (errors, stderr) = io::pipe()?;
    // The program's ends go with `Streams`: ours see their end when the program, not we, closes.
    let program: Arc<dyn Program> = source.spawn(wanted, Streams { stdin, stdout, stderr })?.into();
    let end = End::default();
    let output = File::from(OwnedFd::from(output));
    let errors = File::from(OwnedFd::from(errors));
    let pumps = [pump(output, session::STDOUT, out, &end)?, pump(errors, session::STDERR, out, &end)?];
    let input = File::from(OwnedFd::from(input));
    let input = Input { file: Some(input), kind: Kind::Pipe };
    serve(reader, program, (input, &end), pumps.into())
}

/// Runs a program on a terminal of its tenant.
fn on_terminal(
    wanted: &ExecRequest,
    size: [u16; 2],
    reader: &mut BufReader<TcpStream>,
    out: &Out,
    source: &Arc<dyn Source>,
) -> io::Result<i32> {
    let (program, master) = source.spawn_on_terminal(wanted, size)?;
    let end = End::default();
    // A program on a terminal ends alone: what it leaves in the background does not hold up the session.
    end.is_told.store(true, Ordering::Release);
    let pumps = vec![pump(master.try_clone()?, session::STDOUT, out, &end)?];
    serve(reader, program.into(), (Input { file: Some(master), kind: Kind::Terminal }, &end), pumps)
}

/// Feeds a program until its end, and returns its exit code once its output has been sent.
fn serve(
    reader: &mut BufReader<TcpStream>,
    program: Arc<dyn Program>,
    (input, end): (Input, &End),
    pumps: Vec<JoinHandle<()>>,
) -> io::Result<i32> {
    let frames = BufReader::with_capacity(session::FRAME_BYTES_MAX, reader.get_ref().try_clone()?);
    let early = reader.buffer().to_vec();
    let (target, end_of_feed) = (program.clone(), end.clone());
    std::thread::spawn(move || feed(io::Cursor::new(early).chain(frames), input, &*target, &end_of_feed));
    let code = program.wait()?;
    end.is_over.store(true, Ordering::Release);
    if code == KILLED {
        wait_for_rest(&pumps);
        end.is_told.store(true, Ordering::Release);
    }
    for pump in pumps {
        let _ = pump.join();
    }
    Ok(code)
}

/// Waits until all output has come, for a while: a program that a failure of the kernel ended may leave a pipe that nobody closes.
fn wait_for_rest(pumps: &[JoinHandle<()>]) {
    let end = Instant::now() + REST_PATIENCE;
    while Instant::now() < end && !pumps.iter().all(JoinHandle::is_finished) {
        std::thread::sleep(REST_PAUSE);
    }
}

/// How far the end of a program is.
#[derive(Clone, Default)]
struct End {
    /// It has ended.
    is_over: Arc<AtomicBool>,
    /// It was told to end: what others may still write to its output is not waited for.
    is_told: Arc<AtomicBool>,
}

impl End {
    fn is_final(&self) -> bool {
        self.is_over.load(Ordering::Acquire) && self.is_told.load(Ordering::Acquire)
    }
}

/// How often a pump looks whether its program has ended.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Sends everything that comes out of a pipe or a terminal.
fn pump(mut from: File, kind: u8, out: &Out, end: &End) -> io::Result<JoinHandle<()>> {
    let (out, end) = (out.clone(), end.clone());
    std::thread::Builder::new().spawn(move || {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let was_final = end.is_final();
            match has_something(&from) {
                Ok(false) if was_final => return,
                Ok(false) => continue,
                Ok(true) => {}
                Err(_) => return,
            }
            // The master of a terminal whose program has gone answers EIO: its end.
            let Ok(bytes @ 1..) = from.read(&mut buffer) else { return };
            if send(&out, kind, buffer.get(..bytes).unwrap_or_default()).is_err() {
                return;
            }
        }
    })
}

/// Waits a little for something to read, or for the end.
fn has_something(file: &File) -> io::Result<bool> {
    let mut wanted = [PollFd::new(file, PollFlags::IN)];
    match rustix::event::poll(&mut wanted, Some(&LOOK_AGAIN)) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn send(out: &Out, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let mut out = out.lock().map_err(|_| io::Error::other("a sender died"))?;
    out.write_all(&session::header(kind, bytes.len()))?;
    out.write_all(bytes)
}

/// The input of a program.
struct Input {
    file: Option<File>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pipe,
    /// The other end of its terminal.
    Terminal,
}

impl Input {
    /// Passes bytes on; a program that has closed its input gets no more, and may still write.
    fn give(&mut self, bytes: &[u8]) {
        if self.file.as_mut().is_some_and(|file| file.write_all(bytes).is_err()) {
            self.file = None;
        }
    }

    /// There is no more input: a pipe ends; on a terminal the typist presses Ctrl-D.
    fn end(&mut self) {
        match self.kind {
            Kind::Pipe => self.file = None,
            Kind::Terminal => self.give(&[END_OF_FILE]),
        }
    }

    fn resize(&self, [rows, columns]: [u16; 2]) {
        if let (Kind::Terminal, Some(file)) = (self.kind, &self.file) {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            // A terminal that has gone has no size.
            let _ = rustix::termios::tcsetwinsize(file, size);
        }
    }
}

/// The usual VEOF character (termios(3)).
const END_OF_FILE: u8 = 4;
/// Signals by number (signal(7)).
const SIGHUP: i32 = 1;

/// Feeds the program what the client sends; a client that goes away takes its program with it.
fn feed(mut frames: impl Read, mut input: Input, program: &dyn Program, end: &End) {
    while let Ok((kind, bytes)) = frame(&mut frames) {
        match (kind, bytes.first()) {
            (session::STDIN, None) => input.end(),
            (session::STDIN, _) => input.give(&bytes),
            (session::SIGNAL, Some(signal)) => {
                end.is_told.store(true, Ordering::Release);
                let _ = program.signal(i32::from(*signal));
            }
            (session::WINDOW, _) => session::parse_window(&bytes).into_iter().for_each(|size| input.resize(size)),
            _ => {}
        }
    }
    if !end.is_over.load(Ordering::Acquire) {
        end.is_told.store(true, Ordering::Release);
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
