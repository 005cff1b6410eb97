//! Our own terminal while a program in a tenant has one: raw, and as before afterwards, whatever happens.

use std::io::{self, IsTerminal as _};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::failure::{Context as _, Failure, Result};

/// The size of a terminal that does not say its own.
const USUAL: [u16; 2] = [24, 80];

/// Our terminal in raw mode, until it is dropped: each key is the program's, Ctrl-C among them.
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// Makes the terminal raw.
    ///
    /// # Errors
    /// If standard input is no terminal.
    pub fn new() -> Result<Self> {
        if !io::stdin().is_terminal() {
            let help = "leave -t out, or run it from a terminal";
            return Err(Failure::with_help("standard input is not a terminal", help));
        }
        let cannot = || "cannot change the terminal".to_owned();
        let before = tcgetattr(io::stdin()).map_err(io::Error::from).context(cannot)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw).map_err(io::Error::from).context(cannot)?;
        Ok(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Returns rows and columns of our terminal.
pub fn size() -> [u16; 2] {
    let of = |size: rustix::termios::Winsize| [size.ws_row, size.ws_col];
    let asked = tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin()));
    asked.map(of).ok().filter(|size| !size.contains(&0)).unwrap_or(USUAL)
}
