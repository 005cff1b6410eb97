//! QEMU's monitor (QMP, docs/interop/qmp-spec): by it a machine that has fallen silent is asked what it waits for, and QEMU where its
//! processors are.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::failure::{Context as _, Failure, Result};

/// Leaves the negotiation (an error the second time, without effect), then sends an NMI to each virtual processor.
const ASK: &[u8] = b"{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"inject-nmi\"}\n";
/// How long QEMU has to answer a question; one that hangs itself never does.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two looks for an answer.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of answers that are read for one question; QEMU keeps those that nobody wanted.
const ANSWERS_MAX: usize = 1 << 20;

/// Our end of the monitor of a running QEMU.
pub struct Monitor(UnixStream);

impl Monitor {
    /// Makes both ends: ours, and QEMU's.
    ///
    /// # Errors
    /// When the host has no sockets left.
    pub fn pair() -> Result<(Self, UnixStream)> {
        let (ours, qemus) = UnixStream::pair().context(|| "cannot make a socket for QEMU's monitor".into())?;
        ours.set_nonblocking(true).context(|| "cannot use the socket of QEMU's monitor".into())?;
        Ok((Self(ours), qemus))
    }

    /// Asks each core of the machine to say on the console what it does and what waits.
    ///
    /// # Errors
    /// When QEMU has ended, or takes nothing any more.
    pub fn ask_for_report(&self) -> Result<()> {
        (&self.0).write_all(ASK).context(|| "QEMU's monitor takes no command".into())
    }

    /// Gives a command of the human monitor, as seen from one of the processors, and returns its text. The negotiation has been left before.
    ///
    /// # Errors
    /// When QEMU does not answer, or refuses.
    pub fn say(&self, processor: usize, command: &str) -> Result<String> {
        let id = format!("{processor} {command}");
        let arguments = json!({ "command-line": command, "cpu-index": processor });
        let question = json!({ "execute": "human-monitor-command", "arguments": arguments, "id": &id });
        (&self.0).write_all(format!("{question}\n").as_bytes()).context(|| "QEMU's monitor takes no command".into())?;
        let answer = self.answer(&id)?;
        let text = answer.get("return").and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| Failure::new(format!("QEMU's monitor refuses `{command}`")))
    }

    /// Waits for the answer with this mark, and passes by the others.
    fn answer(&self, id: &str) -> Result<Value> {
        let (asked, mut said, mut bytes) = (Instant::now(), vec![], [0; 4096]);
        while asked.elapsed() < PATIENCE && said.len() < ANSWERS_MAX {
            match (&self.0).read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => said.extend_from_slice(bytes.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK),
                Err(error) => return Err(error).context(|| "QEMU's monitor cannot be read".into()),
            }
            if let Some(answer) = marked(&said, id) {
                return Ok(answer);
            }
        }
        Err(Failure::new("QEMU's monitor does not answer"))
    }
}

/// Returns the answer with this mark among lines of answers, the last of which may be incomplete.
fn marked(said: &[u8], id: &str) -> Option<Value> {
    let lines = said.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()).find(|answer| answer["id"] == id)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};

    use super::*;

    #[test]
    fn a_question_is_an_nmi_after_the_negotiation() {
        let (monitor, qemus) = Monitor::pair().unwrap();
        monitor.ask_for_report().unwrap();
        monitor.ask_for_report().unwrap();
        let lines: Vec<serde_json::Value> =
            BufReader::new(qemus).lines().take(4).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        assert_eq!(lines[0]["execute"], "qmp_capabilities");
        assert_eq!((&lines[1]["execute"], &lines[3]["execute"]), (&"inject-nmi".into(), &"inject-nmi".into()));
    }

    #[test]
    fn a_qemu_that_has_ended_takes_no_question() {
        let (monitor, qemus) = Monitor::pair().unwrap();
        drop(qemus);
        assert!(monitor.ask_for_report().is_err());
        assert!(monitor.say(0, "info registers").is_err());
    }

    #[test]
    fn an_answer_is_found_by_its_mark_wherever_it_is_cut() {
        let said = b"{\"QMP\": {}}\n{\"return\": {}}\n{\"return\": \"RIP=1\", \"id\": \"1 info registers\"}\n";
        assert_eq!(marked(said, "1 info registers").unwrap()["return"], "RIP=1");
        assert!(marked(said, "0 info registers").is_none());
        assert!(marked(&said[..said.len() - 1], "1 info registers").is_none(), "its line is not complete");
    }

    #[test]
    fn a_command_is_given_as_a_processor_sees_it() {
        let (monitor, mut qemus) = Monitor::pair().unwrap();
        let lines = BufReader::new(qemus.try_clone().unwrap()).lines();
        qemus.write_all(b"{\"return\": \"HLT=1\\r\\n\", \"id\": \"1 info registers\"}\n").unwrap();
        qemus.write_all(b"{\"error\": {}, \"id\": \"1 x/2gx 0\"}\n").unwrap();
        assert_eq!(monitor.say(1, "info registers").unwrap(), "HLT=1\r\n");
        assert!(monitor.say(1, "x/2gx 0").is_err());
        let asked: Value = serde_json::from_str(&lines.take(1).next().unwrap().unwrap()).unwrap();
        assert_eq!(asked["arguments"], json!({ "command-line": "info registers", "cpu-index": 1 }));
    }
}
