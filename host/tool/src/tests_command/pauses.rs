//! `--pauses`: a host that takes processors away. Each 20 to 60 s a machine of this command is held back for 1 to 20 s: one of its processors,
//! all of them, or its QEMU as a whole.
//!
//! * The lengths are drawn from a fixed seed, which is said. Which machines there are at that moment is up to the suites.
//! * A QEMU is stopped by SIGSTOP. Single threads need the freezer control group (version 1) and root; without it only QEMUs are stopped.
//! * A helper ends each pause by itself when its time is over or its standard input ends. So nothing stays held back, however this command ends.

use std::{
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::Duration,
};

use super::{
    draws::Draws,
    processes::{self, Process},
};
use crate::ui::{say, warn};

/// All pauses follow from it.
const SEED: u64 = 1;
/// Seconds from the end of one pause to the next one, and the length of a pause.
const GAP_S: [u64; 2] = [20, 60];
const LENGTH_S: [u64; 2] = [1, 20];
/// Time between two looks at a pause.
const LOOK: Duration = Duration::from_millis(100);
/// The name of a QEMU begins so, that of a thread which is a processor of its machine so, if they have names.
const QEMU: &str = "qemu";
const PROCESSOR: &str = "CPU ";
const FREEZER: &str = "/sys/fs/cgroup/freezer";
/// Holds a process back: its number, then seconds.
const STOPS: &str = r#"trap '' INT TERM HUP
kill -STOP "$1" && read -t "$2" -r _
kill -CONT "$1""#;
/// Holds threads back: a folder for them, seconds, then their numbers.
const FREEZES: &str = r#"trap '' INT TERM HUP
group=$1 seconds=$2; shift 2
mkdir "$group" || exit
for thread in "$@"; do echo "$thread" >"$group/tasks"; done
echo FROZEN >"$group/freezer.state"
read -t "$seconds" -r _
echo THAWED >"$group/freezer.state"
for thread in "$@"; do echo "$thread" >"${group%/*}/tasks"; done
rmdir "$group""#;

/// Pauses until it is dropped.
pub struct Pauses {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pauses {
    /// Begins with a gap.
    pub fn start() -> Self {
        let folder = freezer();
        say(&format!("pauses are drawn from seed {SEED}"));
        if folder.is_none() {
            warn(
                "only whole machines are held back: single processors need root and the freezer control group, version 1",
            );
        }
        let (over, is_over) = channel();
        let thread = std::thread::spawn(move || pause_by_turns(folder.as_deref(), &is_over));
        Self { over: Some(over), thread: Some(thread) }
    }
}

impl Drop for Pauses {
    fn drop(&mut self) {
        self.over = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the folder for groups, if this process may make some.
fn freezer() -> Option<PathBuf> {
    let folder = Path::new(FREEZER).join(format!("gyre-test-{}", std::process::id()));
    let is_freezer = Path::new(FREEZER).join("tasks").exists();
    (is_freezer && std::fs::create_dir(&folder).is_ok()).then_some(())?;
    let _ = std::fs::remove_dir(&folder);
    Some(folder)
}

fn pause_by_turns(folder: Option<&Path>, is_over: &Receiver<()>) {
    let mut draws = Draws::new(SEED);
    let (mut count, mut sum_s) = (0, 0);
    while is_over.recv_timeout(Duration::from_secs(draws.within(GAP_S))) == Err(RecvTimeoutError::Timeout) {
        // All three are drawn each time, so that the next ones do not depend on what runs.
        let (which, how, length_s) = (draws.next(), draws.next(), draws.within(LENGTH_S));
        let Some(pause) = choose(&machines(), which, how, folder) else { continue };
        say(&format!("  held back for {length_s} s: {}", pause.what));
        match pause.start(length_s, folder) {
            Ok(helper) => wait(helper, is_over),
            Err(error) => warn(&format!("a pause did not begin: {error}")),
        }
        (count, sum_s) = (count + 1, sum_s + length_s);
    }
    say(&format!("{count} pauses, {sum_s} s in all"));
}

/// Waits for the end of a pause. If it is over before, the helper sees its standard input end.
fn wait(mut helper: Child, is_over: &Receiver<()>) {
    while matches!(helper.try_wait(), Ok(None)) {
        if is_over.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
            drop(helper.stdin.take());
            let _ = helper.wait();
        }
    }
}

/// A QEMU, and its threads that are processors of its machine.
struct Machine {
    id: u32,
    processors: Vec<u32>,
}

/// Finds the QEMUs that this command has started.
fn machines() -> Vec<Machine> {
    let all = processes::all();
    let tree = processes::tree(&all, std::process::id());
    // A suite that has stopped one itself wants it to stay so.
    let qemus = tree.iter().filter(|process| process.name.starts_with(QEMU) && !process.is_stopped);
    let machine = |process: &&Process| Machine { id: process.id, processors: processors(process.id) };
    qemus.map(machine).collect()
}

fn processors(qemu: u32) -> Vec<u32> {
    let line = std::fs::read_to_string(format!("/proc/{qemu}/cmdline")).unwrap_or_default();
    processors_among(&processes::threads(qemu), cores(&line))
}

/// Returns the threads that are processors: by their names, or as many as there are cores, those that work most.
fn processors_among(threads: &[Process], cores: usize) -> Vec<u32> {
    let named: Vec<u32> =
        threads.iter().filter(|thread| thread.name.starts_with(PROCESSOR)).map(|one| one.id).collect();
    if named.is_empty() { threads.iter().take(cores).map(|thread| thread.id).collect() } else { named }
}

/// Returns the cores that a QEMU's words ask for; they are separated by zeros.
fn cores(line: &str) -> usize {
    let mut words = line.split('\0').skip_while(|word| *word != "-smp").skip(1);
    words.next().and_then(|word| word.split(',').next()?.parse().ok()).unwrap_or(1)
}

/// Something that is held back.
struct Pause {
    what: String,
    /// A process, or threads of one.
    ids: Vec<u32>,
    is_process: bool,
}

/// Chooses what is held back, by two numbers that were drawn.
fn choose(machines: &[Machine], which: u64, how: u64, freezer: Option<&Path>) -> Option<Pause> {
    let machine = pick(machines, which)?;
    let (id, processors) = (machine.id, &machine.processors);
    let whole = Pause { what: format!("QEMU {id}"), ids: vec![id], is_process: true };
    let pause = match (freezer, how % 3, pick(processors, how / 3)) {
        (Some(_), 0, Some(one)) => {
            Pause { what: format!("a processor of QEMU {id}"), ids: vec![*one], is_process: false }
        }
        (Some(_), 1, Some(_)) => {
            Pause { what: format!("all processors of QEMU {id}"), ids: processors.clone(), is_process: false }
        }
        _ => whole,
    };
    Some(pause)
}

fn pick<T>(among: &[T], number: u64) -> Option<&T> {
    let index = usize::try_from(number % u64::try_from(among.len()).ok()?.max(1)).ok()?;
    among.get(index)
}

impl Pause {
    /// Begins it. The helper is in a group of its own, which signals to this command do not reach.
    fn start(&self, length_s: u64, freezer: Option<&Path>) -> io::Result<Child> {
        let mut helper = Command::new("bash");
        let (ids, length) = (self.ids.iter().map(u32::to_string), length_s.to_string());
        match freezer {
            Some(folder) if !self.is_process => {
                helper.args(["-c", FREEZES, "bash"]).arg(folder).arg(length).args(ids);
            }
            _ => {
                helper.args(["-c", STOPS, "bash"]).args(ids).arg(length);
            }
        }
        helper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(process: u32) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().next().unwrap().to_owned()
    }

    fn becomes(process: u32, wanted: &str) -> bool {
        (0..600).any(|_| {
            std::thread::sleep(LOOK);
            state(process) == wanted
        })
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    #[test]
    fn a_process_goes_on_after_its_time_and_when_the_command_has_gone() {
        let mut child = sleeper();
        let pause = || Pause { what: String::new(), ids: vec![child.id()], is_process: true };
        let mut helper = pause().start(1, None).unwrap();
        assert!(helper.wait().unwrap().success() && becomes(child.id(), "S"));
        let mut helper = pause().start(1000, None).unwrap();
        assert!(becomes(child.id(), "T"));
        drop(helper.stdin.take());
        assert!(becomes(child.id(), "S"));
        child.kill().unwrap();
        helper.wait().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn threads_go_on_too_where_they_can_be_frozen() {
        let Some(folder) = freezer() else { return };
        let mut child = sleeper();
        let pause = Pause { what: String::new(), ids: vec![child.id()], is_process: false };
        let mut helper = pause.start(1000, Some(&folder)).unwrap();
        assert!((0..600).any(|_| {
            std::thread::sleep(LOOK);
            std::fs::read_to_string(folder.join("freezer.state")).is_ok_and(|state| state.trim() == "FROZEN")
        }));
        let (over, is_over) = channel();
        drop(over);
        drop(helper.stdin.take());
        wait(helper, &is_over);
        assert!(!folder.exists() && becomes(child.id(), "S"));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn one_processor_all_of_them_or_a_whole_machine_is_chosen() {
        let machines = [Machine { id: 7, processors: vec![8, 9] }];
        let folder = Some(Path::new("/"));
        let ids = |how, folder| choose(&machines, 5, how, folder).unwrap().ids;
        assert_eq!(
            (ids(0, folder), ids(3, folder), ids(1, folder), ids(2, folder)),
            (vec![8], vec![9], vec![8, 9], vec![7])
        );
        assert_eq!(ids(0, None), [7]);
        assert!(choose(&[], 5, 0, folder).is_none());
        assert_eq!((cores("qemu\0-smp\x002,sockets=1\0-m\x0064"), cores("qemu")), (2, 1));
    }
}
