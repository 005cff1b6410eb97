//! The agent of a running machine, over the Unix socket that `gyre run` keeps.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use gyre_config::monitor::Snapshot;

use crate::{
    failure::{Context as _, Failure, Result},
    module,
    project::Project,
};

const PATIENCE: Duration = Duration::from_secs(5);

/// A client of one machine's agent.
#[derive(Clone)]
pub struct Agent {
    socket: PathBuf,
}

impl Agent {
    /// Finds the agent of the machine with this name, or of the only one that runs.
    ///
    /// # Errors
    /// When none runs, or several and no name is given.
    pub fn find(project: &Project, name: Option<&str>) -> Result<Self> {
        let folder = project.cache("run")?;
        let running: Vec<(String, PathBuf)> = std::fs::read_dir(&folder)
            .context(|| format!("cannot read {}", folder.display()))?
            .filter_map(|entry| entry.ok())
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path().join("agent.sock")))
            .filter(|(_, socket)| UnixStream::connect(socket).is_ok())
            .collect();
        let names = || running.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        let wanted: Vec<_> = running.iter().filter(|(other, _)| name.is_none_or(|name| name == other)).collect();
        match (&wanted[..], name) {
            ([(_, socket)], _) => Ok(Self::at(socket)),
            ([], None) => {
                Err(Failure::with_help("no machine is running", "start one with ./gyre run FILE, in another terminal"))
            }
            ([], Some(name)) => {
                Err(Failure::with_help(format!("no machine `{name}` is running"), format!("running: {}", names())))
            }
            _ => Err(Failure::with_help(
                "several machines are running",
                format!("choose one with --machine: {}", names()),
            )),
        }
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
        let text = self.get("/snapshot")?;
        serde_json::from_str(&text)
            .context(|| "the agent's figures cannot be read (tool and kernel from one source?)".into())
    }

    /// Gets a whole text.
    ///
    /// # Errors
    /// When the machine does not answer, or refuses.
    pub fn get(&self, path: &str) -> Result<String> {
        let (mut reader, length) = self.open(path, Some(PATIENCE))?;
        let mut text = String::new();
        match length {
            Some(length) => reader.take(length).read_to_string(&mut text),
            None => reader.read_to_string(&mut text),
        }
        .context(|| silent(path))?;
        Ok(text)
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
        let mut stream = self.send("POST", "/end", &body)?;
        stream.set_read_timeout(Some(PATIENCE)).context(|| silent("/end"))?;
        let (reader, head) = read_head(&mut stream).context(|| silent("/end"))?;
        refused(reader, head).map(drop)
    }

    /// Opens a stream of text that goes on.
    ///
    /// # Errors
    /// When the machine does not answer, or refuses.
    pub fn stream(&self, path: &str) -> Result<BufReader<UnixStream>> {
        Ok(self.open(path, None)?.0)
    }

    fn open(&self, path: &str, patience: Option<Duration>) -> Result<(BufReader<UnixStream>, Option<u64>)> {
        let mut stream = self.send("GET", path, "")?;
        stream.set_read_timeout(Some(PATIENCE)).context(|| silent(path))?;
        let (reader, head) = read_head(&mut stream).context(|| silent(path))?;
        stream.set_read_timeout(patience).context(|| silent(path))?;
        refused(reader, head)
    }

    /// Sends a request that turns the connection into a stream of frames.
    ///
    /// # Errors
    /// When the machine does not answer, or refuses.
    pub fn upgrade(&self, path: &str, body: &str) -> Result<BufReader<UnixStream>> {
        let (reader, head) = self.ask(path, body)?;
        if head.status == 101 { Ok(reader) } else { refused(reader, head).map(|(reader, _)| reader) }
    }

    fn ask(&self, path: &str, body: &str) -> Result<(BufReader<UnixStream>, Head)> {
        let mut stream = self.send("POST", path, body)?;
        read_head(&mut stream).context(|| silent(path))
    }

    /// Sends a request that shows the key of the run.
    fn send(&self, method: &str, path: &str, body: &str) -> Result<UnixStream> {
        // A name that a user typed must not become a second word, or line, of the request.
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Failure::new(format!(
                "`{}` is not a name in a machine",
                path.rsplit('/').next().unwrap_or(path)
            )));
        }
        let key = std::fs::read_to_string(self.socket.with_file_name(module::KEY_FILE)).unwrap_or_default();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: machine\r\nAuthorization: Bearer {key}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut stream =
            UnixStream::connect(&self.socket).context(|| "the machine's agent cannot be reached".into())?;
        stream.write_all(request.as_bytes()).context(|| "the machine's agent has closed".into())?;
        Ok(stream)
    }
}

struct Head {
    status: u16,
    length: Option<u64>,
}

fn read_head(stream: &mut UnixStream) -> std::io::Result<(BufReader<UnixStream>, Head)> {
    let mut reader = BufReader::new(stream.try_clone()?);
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
            None => return Ok((reader, Head { status, length })),
        }
    }
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
