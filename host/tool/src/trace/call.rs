//! One call as a line of text, or a document.

use std::{collections::BTreeMap, fmt, fmt::Write as _};

use gyre_contract::trace::{Event, Piece};
use nix::errno::Errno;
use serde::Serialize;

use super::names;

/// A call as it is shown.
#[derive(Debug, PartialEq, Serialize)]
pub struct Call {
    /// The thread that made it.
    pub thread: i32,
    /// Its name.
    pub call: String,
    /// Its number.
    pub number: u64,
    /// Its arguments, as a C program names them.
    pub arguments: Vec<String>,
    /// The result; none for an error, or if the thread ended in it.
    pub result: Option<i64>,
    /// The error's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it began, ns of the machine's monotonic clock.
    pub began_ns: u64,
    /// Time until its end, ns.
    pub duration_ns: u64,
    /// Cycles by resource.
    pub cycles: BTreeMap<String, u64>,
}

impl Call {
    /// Decodes an event.
    pub fn of(event: &Event, resources: &[(u16, String)]) -> Self {
        let error = event.result.and_then(error_of);
        Self {
            thread: event.thread,
            call: names::name_of(event.number),
            number: event.number,
            arguments: arguments(event),
            result: event.result.filter(|_| error.is_none()),
            error,
            began_ns: event.began_ns,
            duration_ns: event.duration_ns,
            cycles: event.cycles.iter().map(|&(resource, cycles)| (name(resources, resource), cycles)).collect(),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}({}) = ", self.thread, self.call, self.arguments.join(", "))?;
        match (&self.error, self.result) {
            (Some(error), _) => write!(f, "{error}")?,
            (None, Some(value)) if names::is_address(&self.call) => write!(f, "{value:#x}")?,
            (None, Some(value)) => write!(f, "{value}")?,
            (None, None) => f.write_char('?')?,
        }
        write!(f, "  <{:.3} ms>", self.duration_ns as f64 / 1e6)?;
        let mut cycles: Vec<_> = self.cycles.iter().collect();
        cycles.sort_by_key(|(_, cycles)| std::cmp::Reverse(**cycles));
        cycles.iter().try_for_each(|(resource, cycles)| write!(f, "  {resource} {cycles}"))
    }
}

fn name(resources: &[(u16, String)], resource: u16) -> String {
    let found = resources.iter().find(|(number, _)| *number == resource);
    found.map_or_else(|| format!("resource {resource}"), |(_, name)| name.clone())
}

/// Returns the name of the error that a result is; none if it is a value.
pub fn error_of(result: i64) -> Option<String> {
    let number = i32::try_from(result.checked_neg()?).ok().filter(|number| (1..4096).contains(number))?;
    Some(match number {
        512 => "ERESTARTSYS".into(),
        513 => "ERESTARTNOINTR".into(),
        514 => "ERESTARTNOHAND".into(),
        516 => "ERESTART_RESTARTBLOCK".into(),
        _ if Errno::from_raw(number) == Errno::UnknownErrno => format!("errno {number}"),
        _ => format!("{:?}", Errno::from_raw(number)),
    })
}

fn arguments(event: &Event) -> Vec<String> {
    let kinds = names::arguments_of(event.number);
    kinds.chars().enumerate().filter_map(|(at, kind)| argument(event, at, kind)).collect()
}

fn argument(event: &Event, at: usize, kind: char) -> Option<String> {
    let value = event.arguments.get(at).copied()?;
    if kind == 's' {
        let piece = event.memory.iter().find(|piece| usize::from(piece.argument) == at);
        return Some(piece.map_or_else(|| names::shown('p', value), quoted));
    }
    // A mode counts only if a file may be made.
    if kind == 'm' && at > 0 && event.arguments.get(at - 1).is_some_and(|flags| flags & 0o20_000_100 == 0) {
        return None;
    }
    Some(names::shown(kind, value))
}

fn quoted(piece: &Piece) -> String {
    let mut text = String::from("\"");
    for byte in &piece.bytes {
        let _ = write!(text, "{}", byte.escape_ascii());
    }
    text + if piece.is_cut { "\"..." } else { "\"" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64, arguments: [u64; 6], result: Option<i64>) -> Event {
        Event { thread: 7, number, arguments, result, duration_ns: 1_234_000, ..Event::default() }
    }

    #[test]
    fn a_call_is_written_as_strace_writes_it_with_its_cycles() {
        let mut open = event(257, [(-100i32) as u32 as u64, 0x1000, 0o2_000_000, 0o666, 0, 0], Some(-2));
        open.memory = vec![Piece { argument: 1, bytes: b"/etc/\"x\n".to_vec(), is_cut: false }];
        open.cycles = vec![(3, 100), (4, 2_000)];
        let resources = [(3, "memory".into()), (4, "ext2".into())];
        let shown = Call::of(&open, &resources).to_string();
        assert_eq!(
            shown,
            r#"[7] openat(AT_FDCWD, "/etc/\"x\n", O_RDONLY|O_CLOEXEC) = ENOENT  <1.234 ms>  ext2 2000  memory 100"#
        );
        open.arguments[2] = 0o101;
        assert!(Call::of(&open, &[]).to_string().contains("O_WRONLY|O_CREAT, 0666) = ENOENT"));
        assert!(Call::of(&open, &[]).to_string().ends_with("resource 4 2000  resource 3 100"));
    }

    #[test]
    fn buffers_are_cut_and_results_are_values_addresses_errors_or_unknown() {
        let mut write = event(1, [1, 0x2000, 300, 0, 0, 0], Some(300));
        write.memory = vec![Piece { argument: 1, bytes: b"ab".to_vec(), is_cut: true }];
        assert!(Call::of(&write, &[]).to_string().starts_with(r#"[7] write(1, "ab"..., 300) = 300"#));
        let map = event(9, [0, 4096, 3, 0x22, u64::MAX, 0], Some(0x7f00_0000_0000));
        assert!(Call::of(&map, &[]).to_string().starts_with(
            "[7] mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000"
        ));
        assert!(Call::of(&event(231, [3, 0, 0, 0, 0, 0], None), &[]).to_string().starts_with("[7] exit_group(3) = ?"));
        assert_eq!(error_of(-512).as_deref(), Some("ERESTARTSYS"));
        assert_eq!((error_of(-5000), error_of(5), error_of(i64::MIN)), (None, None, None));
        assert!(Call::of(&event(9999, [1; 6], Some(-38)), &[]).to_string().contains("call 9999(0x1, 0x1"));
    }
}
