//! The commands against the agent's own server, with a machine behind it that exists in a formula only.

use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use gyre_agent::{keeper::Keeper, key::Key, server, source::Source};
use gyre_contract::zones::{Orderer, State};

use super::*;
use crate::{
    cli::{Changing, ZoneChange},
    lifeline::Life,
    module,
};

#[path = "../../../../user/agent/tests/fake/mod.rs"]
mod fake;

/// An agent behind a socket, and the folder that holds it.
struct Served {
    agent: Agent,
    folder: tempfile::TempDir,
}

fn serve() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = inside.local_addr().unwrap();
    std::thread::spawn(move || {
        let source: Arc<dyn Source> = Arc::new(fake::Fake::default());
        let keeper = Keeper::new(source.clone(), vec![]);
        server::serve(&inside, &server::Served { source, keeper, health: Arc::default() }, Key::default())
    });
    let outside = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for client in outside.incoming().map_while(io::Result::ok) {
            let server = TcpStream::connect(address).unwrap();
            std::thread::spawn(move || pass(client, server));
        }
    });
    Served { agent: Agent::at(&socket), folder }
}

fn pass(client: UnixStream, server: TcpStream) {
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (server, client);
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

impl Served {
    fn states(&self) -> Vec<State> {
        self.agent.zones().unwrap().zones.into_iter().map(|zone| zone.state).collect()
    }

    fn change(&self, wish: &ZoneChange) -> Result<ExitCode> {
        change(&self.agent, &wish::command(wish)?, Form::People)
    }

    fn file(&self, text: &str) -> std::path::PathBuf {
        let path = self.folder.path().join("m.toml");
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn create(name: &str) -> ZoneChange {
    ZoneChange::Create { name: name.into(), file: None, pairs: vec![] }
}

#[test]
fn a_zone_is_made_and_ended_and_a_refusal_says_who_holds_what() {
    let served = serve();
    assert_eq!(served.states(), [State::Running, State::Absent]);
    served.change(&create("batch")).unwrap();
    assert_eq!(served.states(), [State::Running, State::Running]);
    let told = format!("{:?}", served.change(&create("batch")).unwrap_err().report);
    assert!(told.contains("zone `batch` is running") && told.contains("gyre zone destroy batch"), "{told}");
    served.change(&ZoneChange::Destroy { name: "search".into(), grace: Duration::ZERO, by: None }).unwrap();
    assert_eq!(served.states(), [State::Absent, State::Running]);
    let pairs = ["cores", "8"].map(str::to_owned).to_vec();
    let changing = Changing { deadline: Duration::ZERO };
    let failure = served.change(&ZoneChange::Set { name: "batch".into(), pairs, changing }).unwrap_err();
    let told = format!("{:?}", failure.report);
    assert!(
        told.contains("2 cores wanted, 0 cores free") && told.contains("supervisor 1 core, batch 1 core"),
        "{told}"
    );
}

#[test]
fn the_log_names_who_ordered_a_change() {
    let served = serve();
    let create_batch = Command::Create { zone: "batch".into(), cores: None, memory_bytes: None };
    served.agent.control_by(Orderer::Controller, &[create_batch]).unwrap().unwrap();
    served.change(&create("batch")).unwrap_err();
    let by: Vec<String> = served.agent.zone_log(2).unwrap().into_iter().map(|record| record.by).collect();
    assert_eq!(by, ["controller", "owner"]);
}

#[test]
fn list_console_and_log_are_read_to_their_ends() {
    let served = serve();
    list::list(&served.agent, Form::Programs).unwrap();
    show::console(&served.agent, "search", Until::End, Form::People).unwrap();
    show::log(&served.agent, Until::End, Form::Programs).unwrap();
    assert_eq!(served.agent.zone_log(1).unwrap().len(), 1);
    let told = format!("{:?}", show::console(&served.agent, "serach", Until::End, Form::Programs).unwrap_err().report);
    assert!(told.contains("did you mean `search`?"), "{told}");
}

#[test]
fn a_file_is_applied_as_one_change_or_not_at_all() {
    let served = serve();
    let text = |rest: &str| {
        format!("cores = 3\nmemory = \"1 GiB\"\n{rest}[image.a]\n[[tenant]]\nname = \"a\"\nshare = 1\nimage = \"a\"\n")
    };
    let zone = |name: &str| format!("[[zone]]\nname = \"{name}\"\nmemory = \"128 MiB\"\n");
    let apply = |path: &Path, mode| {
        apply::apply(&served.agent, None, path, Changing { deadline: Duration::ZERO }, mode, Form::People)
    };
    let file = served.file(&text(&zone("batch")));
    apply(&file, apply::Mode::Show).unwrap();
    assert_eq!(served.states(), [State::Running, State::Absent], "only shown");
    apply(&file, apply::Mode::Make).unwrap();
    assert_eq!(served.states(), [State::Absent, State::Running]);
    let failure = apply(&served.file(&text(&zone("new"))), apply::Mode::Make).unwrap_err();
    assert!(format!("{:?}", failure.report).contains("was not described with zone `new`"));
    let bigger = zone("batch").replace("128", "256") + &zone("search");
    let told = format!("{:?}", apply(&served.file(&text(&bigger)), apply::Mode::Make).unwrap_err().report);
    assert!(told.contains("wanted"), "{told}");
    assert_eq!(served.states(), [State::Absent, State::Running], "nothing was changed");
}

#[test]
fn nobody_asks_a_zone_that_does_not_run_for_its_figures() {
    let served = serve();
    let zone = |name: &str| format!("[[zone]]\nname = \"{name}\"\nmemory = \"128 MiB\"\n");
    let text = format!(
        "cores = 4\nmemory = \"1 GiB\"\n{}{}[image.a]\n[[tenant]]\nname = \"a\"\nshare = 1\nimage = \"a\"\n",
        zone("search"),
        zone("batch")
    );
    let description = gyre_machine_file::read(&served.file(&text)).unwrap();
    let (folder, socket) = (served.folder.path(), |zone: &str| served.folder.path().join(module::zone_socket(zone)));
    std::os::unix::fs::symlink(folder.join(module::SOCKET_FILE), socket("search")).unwrap();
    // It would wait for ever for an answer; a client that came stands in its queue.
    let silent = UnixListener::bind(socket("batch")).unwrap();
    silent.set_nonblocking(true).unwrap();
    let snapshots = Instances::of(&description, folder).snapshots();
    assert_eq!(snapshots.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(silent.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "a client came");
}

#[test]
fn who_asks_a_zone_that_ends_without_an_answer_hears_of_it() {
    let served = serve();
    let socket = served.folder.path().join(module::zone_socket("search"));
    let _silent = UnixListener::bind(&socket).unwrap();
    let life = Life::now(served.agent.clone(), "search");
    assert!(life.is_some());
    let asked = std::thread::spawn(move || Agent::at(&socket).upgrade("/exec", "{}", life).map(drop));
    served.change(&ZoneChange::Destroy { name: "search".into(), grace: Duration::ZERO, by: None }).unwrap();
    let told = format!("{:?}", asked.join().unwrap().unwrap_err().report);
    assert!(told.contains("zone `search` does not run any more"), "{told}");
}
