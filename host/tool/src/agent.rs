//! The agent of a running machine, over the Unix socket that `gyre run` keeps.
//!
//! * [`Agent`] is a client of one kernel instance. A machine with zones has several: [`crate::instances`] finds them.
//! * Each request shows the key of the run, which lies beside the socket under the same name.
//! * A request has a connection of its own: the machine may end at any time, and nothing is to be kept open for it.
//! * [`Agent::get`] waits some seconds that QEMU had or left unused ([`Patient`]), [`Agent::post`] and [`Agent::control`] as long as the machine works on it.
//!
//! The paths are listed in `user/agent/src/lib.rs`.

mod patient;

use std::{
    io::{BufRead, BufReader, Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use gyre_contract::{
    cells,
    goals::{BrokerWish, Shown},
    monitor::Snapshot,
    promise::{Record as Change, Together},
    seats::{self, Offer, Revoke, Seats},
    zones::{self, Answer, Orderer, Record, Zones},
};

use crate::{
    failure::{Context as _, Failure, Result},
    lifeline::{Life, Lifeline},
    module,
    project::Project,
    qemu::Span,
};
use patient::Patient;

/// How long an answer is waited for, in time that QEMU had or left unused.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The agent refuses a change with the reason as JSON.
const STATUS_CONFLICT: u16 = 409;

/// Bytes of a boot module that are handed over at once: the agent takes a little more.
const PIECE_BYTES: usize = 192 << 10;

/// A client of one machine's agent.
#[derive(Clone, Debug)]
pub struct Agent {
    socket: PathBuf,
}

impl Agent {
    /// Returns the name of its socket.
    #[cfg(test)]
    pub fn name(&self) -> String {
        self.socket.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Makes a client for a socket.
    pub fn at(socket: &Path) -> Self {
        Self { socket: socket.to_owned() }
    }

    /// Reads all figures.
    ///
    /// # Errors
    /// When the machine does not answer.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.snapshot_within(PATIENCE)
    }

    /// Reads all figures, with a patience of one's choice.
    ///
    /// # Errors
    /// When the machine does not answer within it.
    pub fn snapshot_within(&self, patience: Duration) -> Result<Snapshot> {
        read_json(&self.get_within("/snapshot", patience)?)
    }

    /// Reads the zones; a supervisor's agent knows them.
    ///
    /// # Errors
    /// When the machine does not answer, or has no zones.
    pub fn zones(&self) -> Result<Zones> {
        read_json(&self.get("/zones")?)
    }

    /// Reads the log of the zones' changes from a number on; an empty list if there is none yet.
    ///
    /// # Errors
    /// As [`Agent::zones`].
    pub fn zone_log(&self, from: u64) -> Result<Vec<Record>> {
        read_json(&self.get(&format!("/zones/log?from={from}"))?)
    }

    /// Asks for changes of the zones by the owner's order, all of them or none, and waits until they are done.
    ///
    /// # Errors
    /// When the machine does not answer, or does not understand; a refusal is an answer.
    pub fn control(&self, commands: &[zones::Command]) -> Result<Answer> {
        self.control_by(Orderer::Owner, commands)
    }

    /// Like [`Agent::control`], by somebody's order.
    ///
    /// # Errors
    /// As [`Agent::control`].
    pub fn control_by(&self, by: Orderer, commands: &[zones::Command]) -> Result<Answer> {
        let body = serde_json::to_string(commands).context(|| "cannot write JSON".into())?;
        let (reader, head) = self.ask(&format!("/zones?by={}", by.name()), &body)?;
        if head.status != STATUS_CONFLICT {
            return refused(reader, head).map(|_| Ok(()));
        }
        let mut text = String::new();
        reader.take(head.length.unwrap_or(0)).read_to_string(&mut text).context(|| silent("/zones"))?;
        Ok(Err(read_json(&text)?))
    }

    /// Has a zone's agent hand parts of its zone to another one, and waits until that is done.
    ///
    /// # Errors
    /// When the machine does not answer, or does not understand; a refusal is an answer.
    pub fn wish(&self, wish: &zones::Wish) -> Result<zones::WishAnswer> {
        let answer: std::result::Result<serde_json::Value, String> = self.ask_or_refused("/zones/wish", wish)?;
        Ok(answer.map(|_| ()))
    }

    /// Changes the cells of tenants, all of the request or nothing, and reads how all cells are; an empty request only reads.
    ///
    /// # Errors
    /// When the machine does not answer, or does not understand; a refusal is an answer.
    pub fn cells(&self, request: &cells::Request) -> Result<cells::Answer> {
        self.ask_or_refused("/cells", request)
    }

    /// Reads the cells that own cores and memory.
    ///
    /// # Errors
    /// When the machine does not answer, or keeps no memory for cells.
    pub fn seats(&self) -> Result<Seats> {
        read_json(&self.get("/seats")?)
    }

    /// Reads records of their log, from a number on.
    ///
    /// # Errors
    /// As [`Agent::seats`].
    pub fn seat_log(&self, from: u64) -> Result<Vec<seats::Record>> {
        read_json(&self.get(&format!("/seats/log?from={from}"))?)
    }

    /// Keeps so many bytes for cells; returns how many are kept now.
    ///
    /// # Errors
    /// As [`Agent::seats`], and for bytes that are no whole lots.
    pub fn pool(&self, bytes: u64) -> Result<u64> {
        self.ask_or_refused::<u64, String>("/seats/pool", &bytes)?.map_err(Failure::new)
    }

    /// Has one give parts back; waits until it has, or is ended.
    ///
    /// # Errors
    /// As [`Agent::seats`]; a refusal is an answer.
    pub fn revoke(&self, order: &Revoke) -> Result<seats::Answer> {
        self.ask_or_refused("/seats", order)
    }

    /// Offers cores to one; waits until it has taken them or the time is over.
    ///
    /// # Errors
    /// As [`Agent::seats`]; a refusal is an answer.
    pub fn offer(&self, order: &Offer) -> Result<seats::OfferAnswer> {
        self.ask_or_refused("/seats/offer", order)
    }

    /// Asks for something that may be refused, with the reason as JSON.
    fn ask_or_refused<T, E>(&self, path: &str, request: &impl serde::Serialize) -> Result<std::result::Result<T, E>>
    where
        T: serde::de::DeserializeOwned,
        E: serde::de::DeserializeOwned,
    {
        let body = serde_json::to_string(request).context(|| "cannot write JSON".into())?;
        let (reader, head) = self.ask(path, &body)?;
        let is_refusal = head.status == STATUS_CONFLICT;
        let (reader, length) = if is_refusal { (reader, head.length) } else { refused(reader, head)? };
        let mut text = String::new();
        reader.take(length.unwrap_or(0)).read_to_string(&mut text).context(|| silent(path))?;
        Ok(if is_refusal { Err(read_json(&text)?) } else { Ok(read_json(&text)?) })
    }

    /// Asks for changes as one; returns the number of the change.
    ///
    /// # Errors
    /// When the machine does not answer, or refuses, with its reason: nothing was changed then.
    pub fn change(&self, wish: &Together) -> Result<u64> {
        let body = serde_json::to_string(wish).context(|| "cannot write JSON".into())?;
        read_json(&self.post("/change", &body)?)
    }

    /// Reads the changes that were made, from a number on.
    ///
    /// # Errors
    /// When the machine does not answer, or keeps no record.
    pub fn changes(&self, from: u64) -> Result<Vec<Change>> {
        read_json(&self.get(&format!("/changes?from={from}"))?)
    }

    /// Reads goals, measures and the broker's last window.
    ///
    /// # Errors
    /// When the machine does not answer, or measures no goals.
    pub fn goals(&self) -> Result<Shown> {
        read_json(&self.get("/goals")?)
    }

    /// Tells the broker what is wanted of it.
    ///
    /// # Errors
    /// As [`Agent::goals`].
    pub fn broker(&self, wish: &BrokerWish) -> Result<()> {
        let body = serde_json::to_string(wish).context(|| "cannot write JSON".into())?;
        self.post("/broker", &body).map(drop)
    }

    /// Gets a whole text. Bytes that are no text, as a program may write them to its log, are replaced.
    ///
    /// # Errors
    /// When the machine does not answer, or refuses.
    pub fn get(&self, path: &str) -> Result<String> {
        self.get_within(path, PATIENCE)
    }

    fn get_within(&self, path: &str, patience: Duration) -> Result<String> {
        let (mut reader, length) = self.open(path, patience)?;
        let mut bytes = vec![];
        match length {
            Some(length) => reader.take(length).read_to_end(&mut bytes),
            None => reader.read_to_end(&mut bytes),
        }
        .context(|| silent(path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Asks for something to be done and gets the whole answer; waits as long as it takes.
    ///
    /// # Errors
    /// When the machine does not answer, or refuses.
    pub fn post(&self, path: &str, body: &str) -> Result<String> {
        let (reader, length) = {
            let (reader, head) = self.ask(path, body)?;
            refused(reader, head)?
        };
        let mut text = String::new();
        reader.take(length.unwrap_or(0)).read_to_string(&mut text).context(|| silent(path))?;
        Ok(text)
    }

    /// Tells the machine to end in order; its programs have `grace`. The answer comes before the end.
    ///
    /// # Errors
    /// When the machine does not answer in time, or refuses.
    pub fn end(&self, grace: Duration) -> Result<()> {
        let body = grace.as_millis().to_string();
        let mut reader = self.patient(self.send("POST", "/end", &body)?, PATIENCE);
        let head = read_head(&mut reader).context(|| silent("/end"))?;
        refused_soon(reader.into_inner(), head).map(drop)
    }

    /// Opens a stream of text that goes on.
    ///
    /// # Errors
    /// When the machine does not answer, or refuses.
    pub fn stream(&self, path: &str) -> Result<BufReader<UnixStream>> {
        Ok(self.open(path, PATIENCE)?.0.into_inner())
    }

    fn open(&self, path: &str, patience: Duration) -> Result<(Patient, Option<u64>)> {
        let mut reader = self.patient(self.send("GET", path, "")?, patience);
        let head = read_head(&mut reader).context(|| silent(path))?;
        let (reader, length) = refused_soon(reader.into_inner(), head)?;
        Ok((self.patient_of(reader, patience), length))
    }

    fn patient(&self, stream: UnixStream, patience: Duration) -> Patient {
        self.patient_of(BufReader::new(stream), patience)
    }

    /// Waits with the machine in whose folder the socket is.
    fn patient_of(&self, reader: BufReader<UnixStream>, patience: Duration) -> Patient {
        let folder = self.socket.parent().unwrap_or(Path::new(""));
        Patient::new(reader, Span::of_machine(folder), patience)
    }

    /// Sends a request that turns the connection into a stream of frames. If a life is given, it ends with that, also before the answer.
    ///
    /// # Errors
    /// When the machine does not answer, or refuses.
    pub fn upgrade(&self, path: &str, body: &str, life: Option<Life>) -> Result<(BufReader<UnixStream>, Lifeline)> {
        let stream = self.send("POST", path, body)?;
        let line = Lifeline::new(life, &stream)?;
        let mut reader = BufReader::new(stream);
        let head = match read_head(&mut reader) {
            Ok(head) => head,
            Err(error) => return Err(line.why().unwrap_or_else(|| Failure::new(format!("{}: {error}", silent(path))))),
        };
        let reader = if head.status == 101 { reader } else { refused(reader, head)?.0 };
        Ok((reader, line))
    }

    /// Hands over the boot module of a zone that is to come; returns the number under which the supervisor has it.
    ///
    /// # Errors
    /// When the machine does not answer, has no memory for it, or another command hands over another one meanwhile.
    pub fn stage(&self, module: &[u8]) -> Result<u64> {
        let number = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), module.len());
        let mut offset = 0;
        for piece in module.chunks(PIECE_BYTES) {
            let path = format!("/zones/module?number={number}&whole={}&offset={offset}", module.len());
            let (reader, head) = self.ask(&path, piece)?;
            refused(reader, head)?;
            offset += piece.len();
        }
        Ok(number)
    }

    fn ask(&self, path: &str, body: impl AsRef<[u8]>) -> Result<(BufReader<UnixStream>, Head)> {
        let mut reader = BufReader::new(self.send("POST", path, body)?);
        let head = read_head(&mut reader).context(|| silent(path))?;
        Ok((reader, head))
    }

    /// Sends a request that shows the key of the run.
    fn send(&self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Result<UnixStream> {
        // A name that a user typed must not become a second word, or line, of the request.
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Failure::new(format!(
                "`{}` is not a name in a machine",
                path.rsplit('/').next().unwrap_or(path)
            )));
        }
        let key = std::fs::read_to_string(self.socket.with_extension(module::KEY_ENDING)).unwrap_or_default();
        let body = body.as_ref();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: machine\r\nAuthorization: Bearer {key}\r\nContent-Length: {length}\r\n\r\n"
        );
        let mut stream =
            UnixStream::connect(&self.socket).context(|| "the machine's agent cannot be reached".into())?;
        stream.write_all(&[request.as_bytes(), body].concat()).context(|| "the machine's agent has closed".into())?;
        Ok(stream)
    }
}

/// Finds the folder of the machine with this name, or of the only one that runs.
///
/// # Errors
/// When none runs, or several and no name is given.
pub fn running(project: &Project, name: Option<&str>) -> Result<PathBuf> {
    let folder = project.cache("run")?;
    let running: Vec<(String, PathBuf)> = std::fs::read_dir(&folder)
        .context(|| format!("cannot read {}", folder.display()))?
        .filter_map(|entry| entry.ok())
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        .filter(|(_, folder)| UnixStream::connect(folder.join(module::SOCKET_FILE)).is_ok())
        .collect();
    let names = || running.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let wanted: Vec<_> = running.iter().filter(|(other, _)| name.is_none_or(|name| name == other)).collect();
    match (&wanted[..], name) {
        ([(_, folder)], _) => Ok(folder.clone()),
        ([], None) => {
            Err(Failure::with_help("no machine is running", "start one with ./gyre run FILE, in another terminal"))
        }
        ([], Some(name)) => {
            Err(Failure::with_help(format!("no machine `{name}` is running"), format!("running: {}", names())))
        }
        _ => Err(Failure::with_help("several machines are running", format!("choose one with --machine: {}", names()))),
    }
}

fn read_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .context(|| "the agent's figures cannot be read (tool and kernel from one source?)".into())
}

struct Head {
    status: u16,
    length: Option<u64>,
}

fn read_head(reader: &mut impl BufRead) -> std::io::Result<Head> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(std::io::ErrorKind::ConnectionReset.into());
    }
    let status = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let mut length = None;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        match line.trim().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse().ok(),
            Some(_) => {}
            None => return Ok(Head { status, length }),
        }
    }
}

/// Does as [`refused`], and waits a bounded time for the reason.
fn refused_soon(reader: BufReader<UnixStream>, head: Head) -> Result<(BufReader<UnixStream>, Option<u64>)> {
    if head.status != 200 {
        // A reason that is cut off by the host's pause is no loss: the refusal stands.
        let _ = reader.get_ref().set_read_timeout(Some(PATIENCE));
    }
    refused(reader, head)
}

fn refused(mut reader: BufReader<UnixStream>, head: Head) -> Result<(BufReader<UnixStream>, Option<u64>)> {
    if head.status == 200 {
        return Ok((reader, head.length));
    }
    let mut why = String::new();
    let _ = reader.get_ref().shutdown(Shutdown::Write);
    let _ = std::io::Read::by_ref(&mut reader).take(head.length.unwrap_or(1000)).read_to_string(&mut why);
    Err(Failure::new(why.trim().to_owned()))
}

fn silent(path: &str) -> String {
    format!("the machine's agent does not answer {path}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// An agent that answers one request with these bytes.
    fn answered(folder: &Path, body: &'static [u8]) -> Agent {
        let socket = folder.join("agent.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = BufReader::new(stream.try_clone().unwrap()).lines();
            while request.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes()).unwrap();
            stream.write_all(body).unwrap();
        });
        Agent::at(&socket)
    }

    #[test]
    fn a_log_with_bytes_that_are_no_text_is_an_answer() {
        let folder = tempfile::tempdir().unwrap();
        let agent = answered(folder.path(), b"round 7\n\xff\x00\xc3(\nfuzz rests\n");
        let text = agent.get("/logs/attacker").unwrap();
        assert!(text.starts_with("round 7\n") && text.ends_with("(\nfuzz rests\n"), "{text:?}");
    }
}
