//! The agent as a client sees it, with the fake machine behind it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use gyre_config::session;

struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gyre-agent"));
        command.args(["--fake", "--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self { child, address }
    }

    fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn get(&self, path: &str) -> String {
        let mut stream = self.send(&format!("GET {path} HTTP/1.1\r\n\r\n"));
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn exec(&self, body: &str) -> TcpStream {
        let mut stream = self.send(&format!("POST /exec HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
        stream
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn frames(mut stream: TcpStream) -> Vec<(u8, Vec<u8>)> {
    let mut all = vec![];
    let mut header = [0; session::HEADER_BYTES];
    while stream.read_exact(&mut header).is_ok() {
        let (kind, length) = session::parse(header).unwrap();
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).unwrap();
        all.push((kind, bytes));
    }
    all
}

#[test]
fn figures_come_as_json_prometheus_text_and_a_bill_that_adds_up() {
    let agent = Agent::start();
    let snapshot = agent.get("/snapshot");
    let json = snapshot.split_once("\r\n\r\n").unwrap().1;
    let snapshot: gyre_config::monitor::Snapshot = serde_json::from_str(json).unwrap();
    assert!(gyre_config::bill::Bill::of(&snapshot).adds_up());
    assert!(agent.get("/metrics").contains("container_memory_usage_bytes{name=\"gold\"}"));
    assert!(agent.get("/bill").contains("\"difference_cycles\":0"));
}

#[test]
fn events_come_each_second() {
    let agent = Agent::start();
    let mut lines = BufReader::new(agent.send("GET /events HTTP/1.1\r\n\r\n")).lines();
    let started = std::time::Instant::now();
    let events = lines.by_ref().map_while(Result::ok).filter(|line| line == "event: snapshot").take(3).count();
    assert_eq!(events, 3);
    assert!(started.elapsed().as_millis() >= 1900, "three events span two seconds");
}

#[test]
fn a_program_gets_its_input_and_returns_output_errors_and_code() {
    let agent = Agent::start();
    let mut stream = agent.exec(r#"{"tenant": "gold", "argv": ["sh", "-c", "cat; echo oops >&2; exit 7"]}"#);
    stream.write_all(&[&session::header(session::STDIN, 5)[..], b"hello"].concat()).unwrap();
    stream.write_all(&session::header(session::STDIN, 0)).unwrap();
    let frames = frames(stream);
    assert!(frames.contains(&(session::STDOUT, b"hello".to_vec())), "{frames:?}");
    assert!(frames.contains(&(session::STDERR, b"oops\n".to_vec())), "{frames:?}");
    assert_eq!(frames.last(), Some(&(session::EXIT, vec![0, 0, 0, 7])));
}

#[test]
fn a_signal_ends_the_program_and_is_its_exit_code() {
    let agent = Agent::start();
    let mut stream = agent.exec(r#"{"tenant": "gold", "argv": ["sleep", "100"]}"#);
    stream.write_all(&[&session::header(session::SIGNAL, 1)[..], &[15]].concat()).unwrap();
    assert_eq!(frames(stream).last(), Some(&(session::EXIT, vec![0, 0, 0, 143])));
}

#[test]
fn a_program_that_does_not_exist_is_a_failure_with_text() {
    let agent = Agent::start();
    let frames = frames(agent.exec(r#"{"tenant": "gold", "argv": ["/no/such/program"]}"#));
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].0, session::FAILED);
    assert!(!frames[0].1.is_empty());
}

#[test]
fn wrong_requests_are_refused_with_a_reason() {
    let agent = Agent::start();
    assert!(agent.get("/nonsense").starts_with("HTTP/1.1 404 "));
    assert!(agent.get("/logs/nobody").starts_with("HTTP/1.1 404 "));
    assert!(agent.get("/logs/gold").contains("gold: second 000000"));
    assert!(!agent.get("/logs/gold").contains("[gyre:"));
    assert!(agent.get("/logs/bronze").ends_with("[gyre: the first program of tenant bronze has ended with code 7]\n"));
    let mut stream = agent.send("POST /exec HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}");
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    let mut stream = agent.send("\x16\x03\x01 this is not HTTP\r\n\r\n");
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
}
