//! The user as whom somebody logged in, and the number of that session: /proc/PID/loginuid and sessionid (proc(5), credentials(7)).
//!
//! Programs that log somebody in (login, sshd, cron: pam_loginuid(8)) write the user; children inherit both. `su` and `sudo` change them not.
//!
//! Other than on Linux, whoever may write the file writes it, not the process alone that it is about: a write does not know who makes it.

use core::sync::atomic::{AtomicU32, Ordering};
use gyre_interface::files::FileError;

/// The user, and the session, of a process that nobody's login began.
pub const NONE: u32 = u32::MAX;

/// The login of a process.
#[derive(Debug)]
pub struct Login {
    user: AtomicU32,
    session: AtomicU32,
}

impl Default for Login {
    fn default() -> Login {
        Login { user: AtomicU32::new(NONE), session: AtomicU32::new(NONE) }
    }
}

/// The rights of a process that writes a login.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rights {
    /// Writes a first one.
    First,
    /// Replaces one too (CAP_AUDIT_CONTROL).
    Control,
}

/// The numbers of a tenant's sessions.
#[derive(Debug, Default)]
pub struct Sessions(AtomicU32);

impl Sessions {
    /// Returns a number for a new session: from 1 on, and [`NONE`] never.
    fn next(&self) -> u32 {
        loop {
            let number = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if number != NONE && number != 0 {
                return number;
            }
        }
    }
}

impl Login {
    /// Takes over a parent's.
    pub fn inherit(&self, from: &Login) {
        self.user.store(from.user.load(Ordering::Relaxed), Ordering::Relaxed);
        self.session.store(from.session.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Writes the user as text; [`NONE`] ends the login. Each other one begins a session.
    ///
    /// # Errors
    /// Invalid for what is no number of 32 bits; Denied if there is one and it may not be replaced.
    pub fn write(&self, text: &[u8], rights: Rights, sessions: &Sessions) -> Result<(), FileError> {
        let number = core::str::from_utf8(text.trim_ascii()).ok().and_then(|number| number.parse().ok());
        let user = number.ok_or(FileError::Invalid)?;
        if rights == Rights::First && self.user.load(Ordering::Relaxed) != NONE {
            return Err(FileError::Denied);
        }
        let session = if user == NONE { NONE } else { sessions.next() };
        self.user.store(user, Ordering::Relaxed);
        self.session.store(session, Ordering::Relaxed);
        Ok(())
    }

    /// The user.
    pub fn user(&self) -> u32 {
        self.user.load(Ordering::Relaxed)
    }

    /// The number of the session.
    pub fn session(&self) -> u32 {
        self.session.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_written_once_inherited_and_replaced_by_who_may() {
        let (login, sessions) = (Login::default(), Sessions::default());
        assert_eq!((login.user(), login.session()), (NONE, NONE));
        assert_eq!(login.write(b"alice", Rights::Control, &sessions), Err(FileError::Invalid));
        assert_eq!(login.write(b"1000\n", Rights::First, &sessions), Ok(()));
        assert_eq!(login.write(b"0", Rights::First, &sessions), Err(FileError::Denied));
        let child = Login::default();
        child.inherit(&login);
        assert_eq!((child.user(), child.session()), (1000, 1));
        assert_eq!(child.write(b"0", Rights::Control, &sessions), Ok(()));
        assert_eq!((child.user(), child.session()), (0, 2));
        assert_eq!(child.write(b"4294967295", Rights::Control, &sessions), Ok(()));
        assert_eq!((child.user(), child.session()), (NONE, NONE));
    }
}
