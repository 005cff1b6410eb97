//! The service: clients upload filters, send events and follow what filters emit. `gyre-filters serve ADDRESS`.
//!
//! A client speaks in lines over TCP, and each line has one answer, which begins with `ok` or `error`:
//! ```text
//! add NAME LANGUAGE SHARE BYTES      the program follows, so many bytes
//! remove NAME
//! event STREAM KEY VALUE             to every filter
//! list                               a line for each filter, then ok
//! follow                             from now on: said NAME STREAM KEY VALUE
//! ```
//! Three kinds of threads: one takes connections, one for each connection reads lines, and the service itself, which alone knows the filters.
//! Each connection has a writer behind a bounded queue, so a client that does not read loses words (counted in its next `list`) and keeps
//! nobody. A client that is silent or gone keeps nothing but its thread until TCP ends it.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream, ToSocketAddrs},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread,
    time::Duration,
};

use crate::{
    event::Event,
    host::{Figures, Host, Options, Upload},
    language::{Language, SOURCE_BYTES_MAX},
};

/// Connections at a time.
const CLIENTS_MAX: usize = 64;
/// Words for a client that wait.
const WORDS_MAX: usize = 256;
/// Requests of all clients that wait.
const REQUESTS_MAX: usize = 256;
/// Bytes of a line.
const LINE_BYTES_MAX: u64 = 256;
/// Requests served between two turns.
const REQUESTS_A_TURN: usize = 8;
const IDLE: Duration = Duration::from_millis(100);

/// A line of a client.
#[derive(Debug, PartialEq)]
enum Command {
    Add(Upload),
    Remove(String),
    Event(Event),
    List,
    Follow,
    Wrong(String),
}

/// The way back to a client.
#[derive(Clone)]
struct Client {
    number: usize,
    words: SyncSender<String>,
    lost: Arc<AtomicUsize>,
}

impl Client {
    /// Says a line, or counts it. False once the client is gone.
    fn say(&self, line: String) -> bool {
        match self.words.try_send(line) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

struct Request {
    from: Client,
    command: Command,
}

/// Serves for ever.
///
/// # Errors
/// The address cannot be had; or the options are wrong, in words.
pub fn serve(address: impl ToSocketAddrs, options: Options) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let host = Host::new(options).map_err(io::Error::other)?;
    let (requests, taken) = mpsc::sync_channel(REQUESTS_MAX);
    thread::Builder::new().spawn(move || accept(&listener, &requests))?;
    Service { host, requests: taken, followers: Vec::new() }.run();
    Ok(())
}

/// Takes connections.
fn accept(listener: &TcpListener, requests: &SyncSender<Request>) {
    let here = Arc::new(AtomicUsize::new(0));
    for (number, stream) in listener.incoming().enumerate() {
        let Ok(stream) = stream else { continue };
        if here.load(Ordering::Relaxed) >= CLIENTS_MAX {
            // It may be gone already.
            let _ = writeln!(&stream, "error: {CLIENTS_MAX} clients are here");
            continue;
        }
        here.fetch_add(1, Ordering::Relaxed);
        let (requests, leaving) = (requests.clone(), here.clone());
        let started = thread::Builder::new().stack_size(128 << 10).spawn(move || {
            // A client that goes away is no fault.
            let _ = attend(number, stream, &requests);
            leaving.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            here.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Reads the lines of a client.
fn attend(number: usize, stream: TcpStream, requests: &SyncSender<Request>) -> io::Result<()> {
    let (words, said) = mpsc::sync_channel::<String>(WORDS_MAX);
    let mut writer = stream.try_clone()?;
    writer.set_write_timeout(Some(Duration::from_secs(10)))?;
    thread::Builder::new().stack_size(64 << 10).spawn(move || {
        while let Ok(line) = said.recv() {
            if writeln!(writer, "{line}").is_err() {
                break;
            }
        }
    })?;
    let client = Client { number, words, lost: Arc::default() };
    let mut reader = BufReader::new(stream);
    while let Some(command) = read(&mut reader)? {
        if requests.send(Request { from: client.clone(), command }).is_err() {
            break;
        }
    }
    Ok(())
}

/// Reads a command; none at the end. Bytes that are no line end the connection.
fn read(reader: &mut impl io::BufRead) -> io::Result<Option<Command>> {
    let mut line = String::new();
    if reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
        return Ok(None);
    }
    if !line.ends_with('\n') {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    Ok(Some(match *words.as_slice() {
        ["add", name, language, share, bytes] => add(reader, [name, language, share, bytes])?,
        ["remove", name] => Command::Remove(name.to_owned()),
        ["event", stream, key, value] => event([stream, key, value]),
        ["list"] => Command::List,
        ["follow"] => Command::Follow,
        _ => Command::Wrong(
            "add NAME LANGUAGE SHARE BYTES, remove NAME, event STREAM KEY VALUE, list, follow".to_owned(),
        ),
    }))
}

/// Reads the program of an `add`. One that is too long ends the connection: its bytes would be taken for lines.
fn add(reader: &mut impl io::BufRead, words: [&str; 4]) -> io::Result<Command> {
    let [name, language, share, bytes] = words;
    let length = bytes.parse::<usize>().ok().filter(|&bytes| bytes <= SOURCE_BYTES_MAX);
    let mut source = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
    reader.read_exact(&mut source)?;
    let Some(language) = Language::find(language) else {
        return Ok(Command::Wrong(format!(
            "{language} is no language: {}",
            Language::ALL.map(Language::name).join(", ")
        )));
    };
    let Ok(share) = share.parse() else { return Ok(Command::Wrong(format!("{share} is no share"))) };
    Ok(Command::Add(Upload { name: name.to_owned(), language, share, source }))
}

fn event(words: [&str; 3]) -> Command {
    let [stream, key, value] = words;
    match (stream.parse(), key.parse(), value.parse::<f64>()) {
        (Ok(stream), Ok(key), Ok(value)) if value.is_finite() => Command::Event(Event { stream, key, value }),
        _ => Command::Wrong("an event is two numbers from 0 to 4294967295 and a finite number".to_owned()),
    }
}

struct Service {
    host: Host,
    requests: Receiver<Request>,
    followers: Vec<Client>,
}

impl Service {
    /// Serves until nobody can ask any more.
    fn run(mut self) {
        loop {
            let worked = self.host.turn();
            if worked {
                self.pass_on();
            }
            let mut left = REQUESTS_A_TURN;
            while let Ok(request) = self.requests.try_recv() {
                self.answer(request);
                left -= 1;
                if left == 0 {
                    break;
                }
            }
            if worked || left < REQUESTS_A_TURN {
                continue;
            }
            match self.requests.recv_timeout(IDLE) {
                Ok(request) => self.answer(request),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Passes on what filters have emitted.
    fn pass_on(&mut self) {
        for (name, Event { stream, key, value }) in self.host.said() {
            self.followers.retain(|client| client.say(format!("said {name} {stream} {key} {value}")));
        }
    }

    fn answer(&mut self, Request { from, command }: Request) {
        let done = match command {
            Command::Add(upload) => self.host.add(upload),
            Command::Remove(name) => self.host.remove(&name),
            Command::Event(event) => {
                self.host.offer(event);
                Ok(())
            }
            Command::List => {
                // Lines for which a client has no room are counted.
                self.host.figures().iter().for_each(|figures| _ = from.say(line(figures)));
                Ok(())
            }
            Command::Follow => {
                self.followers.retain(|known| known.number != from.number);
                self.followers.push(from.clone());
                Ok(())
            }
            Command::Wrong(why) => Err(why),
        };
        let lost = from.lost.swap(0, Ordering::Relaxed);
        let answer = match done {
            Ok(()) if lost > 0 => format!("ok, {lost} lines before this one were lost"),
            Ok(()) => "ok".to_owned(),
            Err(why) => format!("error: {why}"),
        };
        from.say(answer);
    }
}

/// A filter's line in a list.
fn line(figures: &Figures) -> String {
    let Figures { name, language, share, used_ns, turns, held_bytes, taken, lost, emitted, ended } = figures;
    let state = ended.as_ref().map_or_else(|| "lives".to_owned(), |why| format!("ended: {why}"));
    let used_us = used_ns / 1000;
    format!(
        "{name} {language} share {share} used-us {used_us} turns {turns} bytes {held_bytes} taken {taken} lost {lost} emitted {emitted} {state}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(text: &[u8]) -> Vec<Command> {
        let mut reader = BufReader::new(text);
        std::iter::from_fn(|| read(&mut reader).ok().flatten()).collect()
    }

    #[test]
    fn lines_are_commands_or_wrong_in_words() {
        let all = commands(b"add a lua 3 5\nx = 1remove a\nevent 1 2 -3.5\nlist\nfollow\n");
        let source = b"x = 1".to_vec();
        let upload = Upload { name: "a".to_owned(), language: Language::Lua, share: 3, source };
        assert!(matches!(&all[0], Command::Add(found) if found.name == upload.name && found.source == upload.source));
        assert_eq!(
            all[1..],
            [
                Command::Remove("a".to_owned()),
                Command::Event(Event { stream: 1, key: 2, value: -3.5 }),
                Command::List,
                Command::Follow,
            ]
        );
        for wrong in ["event 1 2 NaN", "event -1 2 3", "event 1 2", "hello", "", "add a perl 1 0", "add a lua many 0"] {
            let all = commands(format!("{wrong}\nlist\n").as_bytes());
            assert!(matches!(all[..], [Command::Wrong(_), Command::List]), "{wrong}: {all:?}");
        }
        // Bytes that cannot be told from lines end a connection.
        for end in ["add a lua 1 99999999\n", "add a lua 1 -1\n", &"x".repeat(300), "list"] {
            assert!(commands(end.as_bytes()).is_empty(), "{end}");
        }
    }

    #[test]
    fn a_client_that_does_not_read_loses_words_and_is_told() {
        let (words, said) = mpsc::sync_channel(2);
        let client = Client { number: 1, words, lost: Arc::default() };
        assert!((0..5).all(|at| client.say(at.to_string())));
        assert_eq!(client.lost.load(Ordering::Relaxed), 3);
        drop(said);
        assert!(!client.say(String::new()));
    }
}
