//! QEMU's monitor (QMP, docs/interop/qmp-spec): by it a machine that has fallen silent is asked what it waits for.
//!
//! Nothing is read: QEMU keeps its answers, which are few.

use std::{io::Write as _, os::unix::net::UnixStream};

use crate::failure::{Context as _, Result};

/// Leaves the negotiation (an error the second time, without effect), then sends an NMI to each virtual processor.
const ASK: &[u8] = b"{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"inject-nmi\"}\n";

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
    }
}
