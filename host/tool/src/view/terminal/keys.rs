//! Keys of the live view that end it, and the wait for keys.
//!
//! `q` leaves a view at once; it asks before it ends a machine for all its tenants. Ctrl-C is clear by itself.

use std::{os::fd::AsFd as _, time::Duration};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::failure::{Context as _, Result};

/// One step of the loop: short enough for keys, long enough to cost nothing.
pub(super) const STEP: Duration = Duration::from_millis(200);

/// The user's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Go on.
    Stay,
    /// End.
    Leave,
}

/// The question on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Nothing.
    None,
    /// Whether the machine is to end.
    End,
}

/// The effect of leaving the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The view ends and nothing else.
    View,
    /// The machine ends for all its tenants: it is asked for.
    Machine,
}

pub(super) fn is_control_c(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// Returns the meaning of a key; Ctrl-C is clear by itself.
pub(super) fn answered(question: Question, leaving: Leaving, key: Option<KeyEvent>) -> (Wish, Question) {
    let Some(key) = key else { return (Wish::Stay, question) };
    let is_leave = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    match (question, key.code) {
        _ if is_control_c(key) => (Wish::Leave, Question::None),
        (Question::End, KeyCode::Char('y' | 'Y')) => (Wish::Leave, Question::None),
        (Question::End, _) => (Wish::Stay, Question::None),
        (Question::None, _) if is_leave && leaving == Leaving::View => (Wish::Leave, Question::None),
        (Question::None, _) if is_leave => (Wish::Stay, Question::End),
        _ => (Wish::Stay, Question::None),
    }
}

/// The terminal's news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// None within a step.
    Nothing,
    /// Something was typed.
    Ready,
    /// The terminal has vanished.
    Gone,
}

/// Waits for a step at most. crossterm reads the end of a terminal that has vanished again and again, so it is not asked then.
pub(super) fn input() -> Result<Input> {
    let stdin = std::io::stdin();
    let mut waited = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let step = PollTimeout::try_from(STEP).unwrap_or(PollTimeout::ZERO);
    match poll(&mut waited, step) {
        Ok(0) | Err(Errno::EINTR) => return Ok(Input::Nothing),
        Ok(_) => {}
        Err(error) => return Err(error).context(|| "the terminal does not work".into()),
    }
    let told = waited.iter().filter_map(PollFd::revents).fold(PollFlags::empty(), |all, one| all | one);
    let is_gone = told.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL);
    Ok(if is_gone { Input::Gone } else { Input::Ready })
}

/// Returns all keys that were pressed: crossterm may have read several at once, and those are not waited for again.
pub(super) fn keys() -> Result<Vec<KeyEvent>> {
    let failed = || "the terminal does not work".to_owned();
    let mut keys = vec![];
    while event::poll(Duration::ZERO).context(failed)? {
        match event::read().context(failed)? {
            Event::Key(key) if key.kind == KeyEventKind::Press => keys.push(key),
            _ => {}
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_asks_before_it_ends_a_machine_and_leaves_a_view_at_once() {
        let key = |code| Some(KeyEvent::new(code, KeyModifiers::NONE));
        let q = key(KeyCode::Char('q'));
        assert_eq!(answered(Question::None, Leaving::View, q), (Wish::Leave, Question::None));
        assert_eq!(answered(Question::None, Leaving::Machine, q), (Wish::Stay, Question::End));
        assert_eq!(answered(Question::End, Leaving::Machine, None), (Wish::Stay, Question::End));
        assert_eq!(answered(Question::End, Leaving::Machine, key(KeyCode::Char('n'))), (Wish::Stay, Question::None));
        assert_eq!(answered(Question::End, Leaving::Machine, key(KeyCode::Char('y'))), (Wish::Leave, Question::None));
        let control_c = Some(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert_eq!(answered(Question::None, Leaving::Machine, control_c), (Wish::Leave, Question::None));
    }
}
