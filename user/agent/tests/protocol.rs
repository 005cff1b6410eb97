//! The agent as a client sees it, with the fake machine behind it.

mod fake;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
};

use fake::Fake;
use gyre_agent::{
    keeper::Keeper,
    key::Key,
    server::{self, Served},
    source::Source,
};
use gyre_contract::{
    session,
    zones::{Record, Refusal, State, Zones},
};

struct Agent {
    address: SocketAddr,
}

impl Agent {
    /// Serves in a thread of the test, to its end.
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let source: Arc<dyn Source> = Arc::new(Fake::default());
            let keeper = Keeper::new(source.clone(), vec![]);
            server::serve(&listener, &Served { source, keeper, health: Arc::default() }, Key::default())
        });
        Self { address }
    }

    fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
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

    fn post(&self, path: &str, body: &str) -> String {
        let length = body.len();
        let mut stream = self.send(&format!("POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}"));
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
    let snapshot: gyre_contract::monitor::Snapshot = serde_json::from_str(json).unwrap();
    assert!(gyre_contract::bill::Bill::of(&snapshot).adds_up());
    assert!(agent.get("/metrics").contains("container_memory_usage_bytes{name=\"gold\"}"));
    assert!(agent.get("/bill").contains("\"difference_cycles\":0"));
}

#[test]
fn events_come_each_second() {
    let agent = Agent::start();
    let started = std::time::Instant::now();
    let mut lines = BufReader::new(agent.send("GET /events HTTP/1.1\r\n\r\n")).lines();
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

#[test]
fn a_log_that_grows_faster_than_it_is_read_has_an_end() {
    let agent = Agent::start();
    assert!(agent.get("/logs/silver").contains(&".".repeat(64 << 10)));
}

fn body<T: serde::de::DeserializeOwned>(answer: &str) -> T {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn states(agent: &Agent) -> Vec<State> {
    body::<Zones>(&agent.get("/zones")).zones.into_iter().map(|zone| zone.state).collect()
}

#[test]
fn zones_are_shown_and_changed_all_commands_or_none() {
    let agent = Agent::start();
    assert_eq!(states(&agent), [State::Running, State::Absent]);
    let both = r#"[{"destroy":{"zone":"search","grace_ms":0}},{"create":{"zone":"batch"}}]"#;
    assert!(agent.post("/zones", both).starts_with("HTTP/1.1 200 "));
    assert_eq!(states(&agent), [State::Absent, State::Running]);
    let half = r#"[{"create":{"zone":"search"}},{"create":{"zone":"nothing"}}]"#;
    let answer = agent.post("/zones", half);
    assert!(answer.starts_with("HTTP/1.1 409 "), "{answer}");
    assert_eq!(body::<Refusal>(&answer), Refusal::Unknown { zone: "nothing".into() });
    assert_eq!(states(&agent), [State::Absent, State::Running]);
    assert!(agent.post("/zones", "[{\"explode\":{}}]").starts_with("HTTP/1.1 400 "));
}

#[test]
fn a_change_of_zones_names_its_orderer_who_is_the_owner_if_nobody_is_named() {
    let agent = Agent::start();
    let create = r#"[{"create":{"zone":"batch"}}]"#;
    assert!(agent.post("/zones?by=controller", create).starts_with("HTTP/1.1 200 "));
    assert!(agent.post("/zones", create).starts_with("HTTP/1.1 409 "));
    for wrong in ["", "supervisor", "search", "Owner"] {
        let answer = agent.post(&format!("/zones?by={wrong}"), create);
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("owner or controller"), "{answer}");
    }
    let by: Vec<String> =
        body::<Vec<Record>>(&agent.get("/zones/log?from=2")).into_iter().map(|record| record.by).collect();
    assert_eq!(by, ["controller", "owner"]);
}

#[test]
fn a_module_is_handed_over_in_pieces_and_a_refusal_says_why() {
    let agent = Agent::start();
    let sent = |query: &str| agent.post(&format!("/zones/module?{query}"), "abc");
    let taken = sent("number=7&whole=5&offset=0");
    assert!(taken.starts_with("HTTP/1.1 200 ") && taken.ends_with("\r\n\r\n3"), "{taken}");
    assert!(sent("number=9&whole=5&offset=3").starts_with("HTTP/1.1 409 "));
    let full = sent("number=8&whole=5&offset=0");
    assert!(full.starts_with("HTTP/1.1 507 ") && full.contains("no memory"), "{full}");
    for wrong in ["", "number=7", "number=7&whole=5&offset=-1", "number=x&whole=5&offset=0", "whole=5&offset=0"] {
        assert!(sent(wrong).starts_with("HTTP/1.1 400 "), "{wrong}");
    }
}

#[test]
fn a_zone_has_a_console_and_changes_have_a_log() {
    let agent = Agent::start();
    assert!(agent.get("/zones/search/console").ends_with("\r\n\r\nsearch stands\n"));
    assert!(agent.get("/zones/nothing/console").contains("there is: search, batch"));
    let numbers =
        |path: &str| -> Vec<u64> { body::<Vec<Record>>(&agent.get(path)).iter().map(|record| record.number).collect() };
    assert_eq!((numbers("/zones/log"), numbers("/zones/log?from=1")), (vec![0, 1], vec![1]));
    assert!(agent.get("/zones/log?from=x").starts_with("HTTP/1.1 400 "));
    assert!(agent.get("/zones/search").starts_with("HTTP/1.1 404 "));
    assert!(agent.get("/metrics").contains("gyre_zone_cores{holder=\"search\"} 1\n"));
}
