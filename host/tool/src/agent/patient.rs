//! A reader that waits for each part of an answer as long as the machine has time to give it, and not longer.

use std::{
    io::{self, BufRead, BufReader, Read},
    os::{fd::AsFd as _, unix::net::UnixStream},
    time::Duration,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use crate::qemu::Span;

/// Time between two looks at the machine's time, ms.
const LOOK_MS: u16 = 200;

/// Reads an answer of a machine's agent.
pub struct Patient {
    reader: BufReader<UnixStream>,
    span: Span,
    patience: Duration,
}

impl Patient {
    /// Makes one that waits so long for each part, in time of this span.
    pub fn new(reader: BufReader<UnixStream>, span: Span, patience: Duration) -> Self {
        Self { reader, span, patience }
    }

    /// Waits for nothing more.
    pub fn into_inner(self) -> BufReader<UnixStream> {
        self.reader
    }

    /// Waits until there is something to read, or the other end has closed.
    fn wait(&mut self) -> io::Result<()> {
        if !self.reader.buffer().is_empty() {
            return Ok(());
        }
        self.span.restart();
        // A look comes after the time was counted: after a pause of this program the answer may lie there already.
        loop {
            let is_over = self.span.passed() >= self.patience;
            let step = self.patience.min(Duration::from_millis(LOOK_MS.into())).as_millis() as u16;
            let mut sockets = [PollFd::new(self.reader.get_ref().as_fd(), PollFlags::POLLIN)];
            match poll(&mut sockets, PollTimeout::from(if is_over { 0 } else { step })) {
                Ok(0) if is_over => return Err(io::ErrorKind::TimedOut.into()),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for Patient {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        self.reader.read(bytes)
    }
}

impl BufRead for Patient {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.wait()?;
        self.reader.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.reader.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write as _, time::Instant};

    use super::*;

    #[test]
    fn parts_are_waited_for_and_silence_ends_it() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let long = Duration::from_secs(60);
        let mut reader = Patient::new(BufReader::new(ours), Span::of(None), long);
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            theirs.write_all(b"one\ntw").unwrap();
            theirs
        });
        let mut line = String::new();
        assert_eq!((reader.read_line(&mut line).unwrap(), line.as_str()), (4, "one\n"));
        let theirs = writer.join().unwrap();
        let started = Instant::now();
        reader.patience = Duration::from_millis(200);
        assert_eq!(reader.read_line(&mut line).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() < long);
        drop(theirs);
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0, "the other end has closed");
    }
}
