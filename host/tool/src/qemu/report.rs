//! The report of a machine that has fallen silent: its cores say on the console what they do and what waits.

use std::time::Duration;

use super::{Qemu, processor};
use crate::{failure::Result, symbols::Symbols};

/// How long the machine has to begin, and then to go on with, its report.
const LULL: Duration = Duration::from_millis(700);
/// Looks at the console until a report must be complete.
const LOOKS: u32 = 10;
/// Targets of the log whose lines are the report.
const TARGETS: [&str; 2] = [" report: ", " trace: "];

impl Qemu {
    /// Has the machine say on its console what its cores do and what waits.
    ///
    /// # Errors
    /// When QEMU takes no command.
    pub fn ask_for_report(&self) -> Result<()> {
        self.monitor.ask_for_report()
    }

    /// Asks the machine what its cores, tasks and processes wait for; answers its lines, traces with names. Takes a second or a few.
    pub fn report(&self) -> String {
        let before = self.console_text().len();
        if self.is_stopped() {
            return "no report: its QEMU is stopped\n".into();
        }
        if let Err(failure) = self.ask_for_report() {
            return format!("no report: {}\n", failure.report);
        }
        let mut length = before;
        for _ in 0..LOOKS {
            std::thread::sleep(LULL);
            let now = self.console_text().len();
            if now == length && now > before {
                break;
            }
            length = now;
        }
        let text = self.console_text();
        let lines = lines_of(text.get(before..).unwrap_or_default());
        let silent = (0..usize::from(self.cores)).filter(|core| !has_said(&lines, *core));
        let silent: String = silent.map(|core| processor::told(&self.monitor, core)).collect();
        Symbols::of(&self.kernel).pass_text(&format!("{lines}{silent}"))
    }

    fn console_text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.console).unwrap_or_default()).into_owned()
    }
}

/// Returns the lines of a report in what a console said meanwhile.
fn lines_of(said: &str) -> String {
    let lines = said.lines().filter(|line| TARGETS.iter().any(|target| line.contains(target)));
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns whether a core has written some of the lines: its number stands before their target.
fn has_said(lines: &str, core: usize) -> bool {
    let starts = |line: &str| TARGETS.iter().find_map(|target| Some(line.split_once(target)?.0.to_owned()));
    let writer = |start: String| start.rsplit(' ').next().and_then(|number| number.parse().ok());
    lines.lines().filter_map(starts).filter_map(writer).any(|number: usize| number == core)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_writes_no_line_is_silent() {
        let lines = "[    9.000002] WARN  1 report: core 0 seen from here: idles\n[    9.1] WARN 10 trace: 0 0x1\n";
        assert_eq!((0..11).filter(|core| has_said(lines, *core)).collect::<Vec<_>>(), [1, 10]);
    }

    #[test]
    fn a_report_is_told_from_other_words_of_the_console() {
        let said = "[    9.000001] INFO  0 disk: all is well\r\n[    9.000002] WARN  1 report: core 1 idles\r\n";
        assert_eq!(lines_of(said), "[    9.000002] WARN  1 report: core 1 idles\n");
        assert_eq!(lines_of("hello\n"), "");
    }
}
