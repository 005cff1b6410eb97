//! The terminal while the tool has it: raw, with a screen of its own if a view wants one, and as before afterwards, whatever happens.
//!
//! * [`Held`] takes it, and gives it back when it is dropped.
//! * [`give_back`] gives it back earlier, from any thread: before the text of a panic, so that it can be read, and before a signal ends the
//!   tool ([`crate::stop`]). It does so once; whoever comes later finds nothing to give.
//!
//! The mode of the lines (termios) and the cursor are given back, too. Nothing is waited for: a panic may have happened anywhere.

use std::{
    io::{self, IsTerminal as _},
    os::fd::{AsFd, OwnedFd},
    panic::PanicHookInfo,
    sync::{Mutex, MutexGuard, Once, TryLockError},
};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::failure::{Context as _, Failure, Result};

/// The size of a terminal that does not say its own.
const USUAL: [u16; 2] = [24, 80];

/// The alternate screen, and the way back from it with a cursor that is seen (ctlseqs of xterm, DECSET 1049 and 25).
const ENTER: &[u8] = b"\x1b[?1049h";
const LEAVE: &[u8] = b"\x1b[?1049l\x1b[?25h";

/// The screen that is written on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// The user's.
    Users,
    /// One of our own; the user's comes back.
    Own,
}

/// The terminal as it was.
struct Before {
    input: OwnedFd,
    output: OwnedFd,
    modes: Termios,
    screen: Screen,
}

/// That of the holder, until it is given back.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

/// The terminal is ours, until this is dropped: each key is read as it is, Ctrl-C among them.
#[must_use]
pub struct Held(());

impl Held {
    /// Takes the terminal that standard input and standard output are.
    ///
    /// # Errors
    /// If standard input is no terminal, or somebody has it already.
    pub fn take(screen: Screen) -> Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| std::panic::set_hook(after_giving_back(std::panic::take_hook())));
        Self::of(&io::stdin(), &io::stdout(), screen)
    }

    fn of(input: &impl AsFd, output: &impl AsFd, screen: Screen) -> Result<Self> {
        let cannot = || "cannot change the terminal".to_owned();
        let ours = |fd: &dyn AsFd| fd.as_fd().try_clone_to_owned().context(cannot);
        let modes = tcgetattr(input).map_err(io::Error::from).context(cannot)?;
        let before = Before { input: ours(input)?, output: ours(output)?, modes, screen };
        let mut kept = kept().ok_or_else(|| Failure::new("the terminal is in use"))?;
        let begun = before.begin().context(cannot);
        // If it begins and fails, it is undone as well.
        *kept = Some(before);
        drop(kept);
        let held = Self(());
        begun.map(|()| held)
    }

    /// Returns whether it is still ours: a panic of another thread gives it back.
    pub fn is_ours(&self) -> bool {
        kept().is_none_or(|kept| kept.is_some())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        give_back();
    }
}

impl Before {
    fn begin(&self) -> io::Result<()> {
        let mut raw = self.modes.clone();
        raw.make_raw();
        tcsetattr(&self.input, OptionalActions::Now, &raw)?;
        match self.screen {
            Screen::Users => Ok(()),
            Screen::Own => rustix::io::write(&self.output, ENTER).map(drop).map_err(io::Error::from),
        }
    }

    /// Makes everything as it was. A terminal that has gone needs nothing. The standard library's lock of standard output is not taken.
    fn restore(&self) {
        if self.screen == Screen::Own {
            let _ = rustix::io::write(&self.output, LEAVE);
        }
        let _ = tcsetattr(&self.input, OptionalActions::Now, &self.modes);
    }
}

/// Returns what is kept; none while another thread takes or gives it.
fn kept() -> Option<MutexGuard<'static, Option<Before>>> {
    match BEFORE.try_lock() {
        Ok(kept) => Some(kept),
        Err(TryLockError::Poisoned(kept)) => Some(kept.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Gives the terminal back, if it is held.
pub fn give_back() {
    let before = kept().and_then(|mut kept| kept.take());
    before.iter().for_each(Before::restore);
}

/// Tells of a panic.
type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send>;

/// Returns a hook that gives the terminal back before another one tells of a panic.
fn after_giving_back(tell: Hook) -> Hook {
    Box::new(move |info| {
        give_back();
        tell(info);
    })
}

/// Checks that there is a terminal to take.
///
/// # Errors
/// If standard input is none.
pub fn check() -> Result<()> {
    if io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Failure::with_help("standard input is not a terminal", "leave -t out, or run it from a terminal"))
}

/// Returns rows and columns of our terminal.
pub fn size() -> [u16; 2] {
    let of = |size: rustix::termios::Winsize| [size.ws_row, size.ws_col];
    let asked = tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin()));
    asked.map(of).ok().filter(|size| !size.contains(&0)).unwrap_or(USUAL)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read as _, Write as _},
        panic::catch_unwind,
        sync::PoisonError,
    };

    use nix::pty::openpty;
    use rustix::termios::LocalModes;

    use super::*;

    /// One test at a time has the terminal.
    static ALONE: Mutex<()> = Mutex::new(());

    /// A terminal: the far end that a person sees, and the near one.
    fn terminal() -> (File, File) {
        let pair = openpty(None, None).unwrap();
        (pair.master.into(), pair.slave.into())
    }

    /// Returns what a person has seen until a word.
    fn seen(far: &mut File, until: &str) -> String {
        let mut text = String::new();
        while !text.contains(until) {
            let mut bytes = [0; 256];
            let count = far.read(&mut bytes).unwrap();
            text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
        text
    }

    fn is_raw(terminal: &File) -> bool {
        !tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    #[test]
    fn modes_screen_and_cursor_are_as_before_once_it_is_dropped() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut far, near) = terminal();
        let held = Held::of(&near, &near, Screen::Own).unwrap();
        drop(held);
        assert!(!is_raw(&near));
        (&near).write_all(b"over").unwrap();
        assert_eq!(seen(&mut far, "over"), "\x1b[?1049h\x1b[?1049l\x1b[?25hover");
    }

    #[test]
    fn it_is_raw_meanwhile_and_the_users_screen_stays_if_it_is_wanted() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut far, near) = terminal();
        let before = Before {
            input: near.try_clone().unwrap().into(),
            output: near.try_clone().unwrap().into(),
            modes: tcgetattr(&near).unwrap(),
            screen: Screen::Users,
        };
        before.begin().unwrap();
        assert!(is_raw(&near));
        before.restore();
        assert!(!is_raw(&near));
        (&near).write_all(b"over").unwrap();
        assert_eq!(seen(&mut far, "over"), "over");
    }

    #[test]
    fn a_panics_text_comes_after_the_terminal_was_given_back() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut far, near) = terminal();
        let held = Held::of(&near, &near, Screen::Own).unwrap();
        let screen = near.try_clone().unwrap();
        let usual = std::panic::take_hook();
        let tell = move |_: &PanicHookInfo| (&screen).write_all(if is_raw(&screen) { b"unread" } else { b"panicked" });
        std::panic::set_hook(after_giving_back(Box::new(move |info| tell(info).unwrap_or_default())));
        let panicked = catch_unwind(|| panic!("on purpose"));
        std::panic::set_hook(usual);
        assert!(panicked.is_err() && !held.is_ours());
        assert!(seen(&mut far, "panicked").starts_with("\x1b[?1049h\x1b[?1049l\x1b[?25hpanicked"));
    }

    #[test]
    fn what_is_not_held_is_not_given_back() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        give_back();
        assert!(kept().is_none_or(|kept| kept.is_none()));
    }
}
