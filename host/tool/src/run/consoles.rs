//! The consoles of zones: each goes to a file of the run and, if it is wanted, to standard output, with the zone's name
//! before each line.

use std::{
    fs::File,
    io::{BufRead as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use gyre_machine_file::Description;

use crate::{
    agent::Agent,
    failure::{Context as _, Result},
    instances::Instances,
    view::sampler::LastLines,
};

/// Pause before a console is asked for again that broke off.
const PAUSE: Duration = Duration::from_millis(500);

/// The place of lines besides the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To standard output.
    Screen,
    /// Nowhere.
    Nowhere,
}

impl From<bool> for Place {
    /// Reads the switch `--console`.
    fn from(is_shown: bool) -> Self {
        if is_shown { Self::Screen } else { Self::Nowhere }
    }
}

/// Follows the consoles of all zones until the process ends.
///
/// # Errors
/// When a file cannot be written or no thread can be had.
pub fn follow(description: &Description, agent: &Agent, folder: &Path, place: Place) -> Result<LastLines> {
    let lines = LastLines::default();
    for zone in &description.machine.zones {
        let path = file(folder, &zone.name);
        let file = File::create(&path).context(|| format!("cannot write {}", path.display()))?;
        let mut console =
            Console { zone: zone.name.clone(), agent: agent.clone(), lines: lines.clone(), file, place, offset: 0 };
        let (folder, own) = (folder.to_owned(), zone.is_place.then(|| zone.name.clone()));
        let run = move || loop {
            // A zone that came has a name of its own.
            if let Some(name) = own.as_ref().and_then(|own| name_at(&folder, own)) {
                console.zone = name;
            }
            // A console that breaks off goes on where it was.
            let _ = console.pass();
            std::thread::sleep(PAUSE);
        };
        std::thread::Builder::new()
            .name("zone console".into())
            .spawn(run)
            .context(|| "cannot start a thread".into())?;
    }
    Ok(lines)
}

/// Returns the name of the zone that has a place.
fn name_at(folder: &Path, place: &str) -> Option<String> {
    let all = Instances::read(folder).ok()?.all;
    all.into_iter().find(|instance| instance.place.as_deref() == Some(place))?.zone
}

/// Returns the file of a zone's console: that of its place if it came.
pub fn file(folder: &Path, zone: &str) -> PathBuf {
    folder.join(format!("zone-{zone}.log"))
}

struct Console {
    zone: String,
    agent: Agent,
    lines: LastLines,
    file: File,
    place: Place,
    /// Bytes that have come so far.
    offset: u64,
}

impl Console {
    /// Passes lines on until the stream breaks off.
    fn pass(&mut self) -> Result<()> {
        let path = format!("/zones/{}/console?follow=1&from={}", self.zone, self.offset);
        let mut stream = self.agent.stream(&path)?;
        let mut line = vec![];
        loop {
            line.clear();
            let bytes = stream.read_until(b'\n', &mut line).context(|| "the console breaks off".into())?;
            if bytes == 0 {
                return Ok(());
            }
            self.offset = self.offset.saturating_add(bytes as u64);
            self.tell(String::from_utf8_lossy(&line).trim_end());
        }
    }

    fn tell(&mut self, line: &str) {
        // A full disk ends the file, not the run.
        let _ = writeln!(self.file, "{line}");
        self.lines.keep(&self.zone, line);
        if self.place == Place::Screen {
            println!("{}", prefixed(&self.zone, line));
        }
    }
}

fn prefixed(zone: &str, line: &str) -> String {
    format!("{zone} | {line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_zone_it_is_from() {
        assert_eq!(prefixed("search", "[ 0.1] INFO stands"), "search | [ 0.1] INFO stands");
    }
}
