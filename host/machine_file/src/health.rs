//! `[tenant.health]`: how it is found out whether a tenant's program is well.

use gyre_contract::{
    boot::{Restart, Tenant},
    health::{Check, Probe},
};

use super::{
    Problem,
    check::{self, Checker},
    raw::{self, At},
    units,
};

/// Times between tries, and of a try, ns.
const TIMES_NS: core::ops::RangeInclusive<u64> = 100_000_000..=3_600_000_000_000;
/// The usual pause between tries, ns.
const INTERVAL_NS: u64 = 10_000_000_000;
/// The usual time that a try may take, ns.
const TIMEOUT_NS: u64 = 3_000_000_000;
/// The usual time after a start in which failures do not count, ns.
const GRACE_NS: u64 = 30_000_000_000;
const RETRIES: i64 = 3;

/// Reads a tenant's check.
pub(super) fn read(checker: &mut Checker, raw: &At<raw::Health>, tenant: &Tenant) -> Option<Check> {
    let health = raw.get_ref();
    let probe = probe(checker, raw)?;
    let ms = |checker: &mut Checker, text: &Option<At<String>>, usual: u64| time(checker, text.as_ref(), usual);
    Some(Check {
        tenant: tenant.name.clone(),
        address: tenant.address,
        probe,
        interval_ms: ms(checker, &health.interval, INTERVAL_NS),
        timeout_ms: ms(checker, &health.timeout, TIMEOUT_NS),
        retries: checker.number(health.retries.as_ref(), "the number of retries", 1, 100, RETRIES) as u32,
        grace_ms: ms(checker, &health.grace, GRACE_NS),
        restarts: tenant.restart != Restart::Never,
    })
}

fn time(checker: &mut Checker, text: Option<&At<String>>, usual: u64) -> u64 {
    let ns = checker.unit(text, usual, units::nanoseconds);
    if let Some(text) = text.filter(|_| !TIMES_NS.contains(&ns)) {
        let message = format!("a health check cannot wait for {}", text.get_ref());
        checker.wrong(Problem::new(text.span(), message, "expected 100 ms to 1 h"));
    }
    ns / 1_000_000
}

fn probe(checker: &mut Checker, raw: &At<raw::Health>) -> Option<Probe> {
    let health = raw.get_ref();
    match (&health.command, &health.tcp, &health.http) {
        (Some(command), None, None) => {
            let first = command.get_ref().first().map_or("", String::as_str);
            check::absolute_text(checker, first, command.span());
            Some(Probe::Command(command.get_ref().clone()))
        }
        (None, Some(port), None) => Some(Probe::Tcp(checker.number(Some(port), "a TCP port", 1, 65535, 1) as u16)),
        (None, None, Some(page)) => page_of(checker, page),
        _ => {
            let problem = Problem::new(raw.span(), "a health check tries one thing", "expected command, tcp or http");
            checker.wrong(problem.help("for example tcp = 5432, http = \"80/health\", or command = [\"/bin/check\"]"));
            None
        }
    }
}

/// Reads PORT/PATH, or /PATH on port 80.
fn page_of(checker: &mut Checker, text: &At<String>) -> Option<Probe> {
    let (port, path) = text.get_ref().split_once('/').unwrap_or((text.get_ref(), ""));
    let port = if port.is_empty() { Some(80) } else { port.parse().ok().filter(|port: &u16| *port > 0) };
    let is_good = !path.contains(|c: char| c.is_whitespace() || c.is_control());
    let Some(port) = port.filter(|_| is_good) else {
        let message = format!("`{}` is not a page of a tenant", text.get_ref());
        checker.wrong(Problem::new(text.span(), message, "expected \"PORT/PATH\", such as \"8080/health\""));
        return None;
    };
    Some(Probe::Http { port, path: format!("/{path}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use std::path::Path;

    fn read(words: &str) -> Result<Check, String> {
        let text = format!(
            "[image.a]\n[[tenant]]\nname = \"one\"\nshare = 1\nimage = \"a\"\nrestart = \"always\"\n[tenant.health]\n{words}\n"
        );
        let read = parse(Path::new("m.toml"), &text);
        let words = |error: crate::FileError| error.problems().map(|one| one.message.clone()).collect::<String>();
        read.map(|all| all.tenants[0].health.clone().unwrap()).map_err(words)
    }

    #[test]
    fn a_check_tries_one_thing() {
        let page = read("http = \"8080/health\"\ninterval = \"500 ms\"").unwrap();
        assert_eq!(page.probe, Probe::Http { port: 8080, path: "/health".into() });
        assert_eq!((page.interval_ms, page.timeout_ms, page.retries, page.restarts), (500, 3000, 3, true));
        assert_eq!(read("http = \"/\"").unwrap().probe, Probe::Http { port: 80, path: "/".into() });
        assert_eq!(read("tcp = 5432").unwrap().probe, Probe::Tcp(5432));
        assert!(read("tcp = 1\nhttp = \"/\"").unwrap_err().contains("one thing"));
        assert!(read("").unwrap_err().contains("one thing"));
        assert!(read("command = [\"check\"]").unwrap_err().contains("absolute"));
        assert!(read("http = \"0/x\"").unwrap_err().contains("not a page"));
        assert!(read("tcp = 1\ninterval = \"1 ms\"").unwrap_err().contains("cannot wait"));
    }
}
