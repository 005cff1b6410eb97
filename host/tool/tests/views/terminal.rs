//! A terminal of tmux: what a person would see on it.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use super::fake::PATIENCE;

/// Lines of the screen, as a small window has them.
const LINES: u32 = 24;

/// A terminal with a program on it, as long as it lives.
pub struct Terminal {
    server: String,
}

impl Terminal {
    /// Starts a program on a terminal of so many columns.
    pub fn start(name: &str, columns: u32, program: &str) -> Self {
        let terminal = Self { server: format!("gyre-{name}-{}", std::process::id()) };
        let (columns, lines) = (columns.to_string(), LINES.to_string());
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &lines, program]);
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = Command::new("tmux").args(["-u", "-L", &self.server]).args(words).output();
        let output = output.expect("tmux does not run: apt-get install tmux, as ./gyre test does");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Presses keys, by tmux's names.
    pub fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Returns what is on the screen.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Returns the process of the program.
    pub fn process(&self) -> u32 {
        self.tmux(&["list-panes", "-F", "#{pane_pid}"]).trim().parse().unwrap()
    }

    /// Waits for a screen that is drawn to its end, and returns it.
    pub fn until(&self, is_it: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        let mut before = String::new();
        loop {
            let screen = self.screen();
            // A screen that is seen twice is whole: a view draws once a second, and each time in one piece.
            if screen == before && is_it(&screen) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "the screen stays:\n{screen}");
            before = screen;
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.server, "kill-server"]).output();
    }
}
