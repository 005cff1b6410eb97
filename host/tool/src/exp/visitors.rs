//! Visitors of a web server from the other end of the wire: each opens a connection, asks for one page, reads it, and goes.
//!
//! * [`Visitors::come`] is an open load: visitors come at a rate, whether or not those before them were served.
//! * [`Visitors::take_turns`] is a closed one: a visitor follows another, so that the server is always busy and nobody waits long. Its rate
//!   is what the server can serve.
//!
//! A visitor has patience for a time, counted from when it was due; who gets a page in that time is *served*. Arrivals are spread over
//! their intervals by a fixed sequence: two loads of a rate are the same load.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    failure::{Context as _, Failure, Result},
    namespace::Namespace,
};

/// A visit that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// The time at which it was due, s after the begin.
    pub due_s: f64,
    /// The outcome.
    pub end: End,
}

/// The outcome of a visit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// It had its page so many seconds after it was due.
    Served(f64),
    /// The server said at once that it does not want it, or broke off.
    Refused,
    /// Its patience ended.
    Left,
}

/// Visitors of a server.
pub struct Visitors {
    /// The namespace that they come from.
    pub namespace: Namespace,
    /// The server.
    pub to: SocketAddr,
    /// The time that each waits.
    pub patience: Duration,
    /// The page of a visitor by its number.
    pub page: fn(u64) -> String,
}

impl Visitors {
    /// Sends visitors at a rate for so many seconds; answers all visits in the order in which they were due.
    ///
    /// # Errors
    /// When no thread or socket can be had.
    pub fn come(&self, per_s: f64, seconds: u32) -> Result<Vec<Visit>> {
        let (to, patience, page) = (self.to, self.patience, self.page);
        self.inside(async move {
            let (begun, mut visits) = (Instant::now(), JoinSet::new());
            for number in 0..(per_s * f64::from(seconds)) as u64 {
                let due_s = (number as f64 + spread(number)) / per_s;
                let due = begun + Duration::from_secs_f64(due_s);
                sleep_until(due).await;
                visits.spawn(visit(to, page(number), due, patience, due_s));
            }
            let mut all = visits.join_all().await;
            all.sort_by(|one, other| one.due_s.total_cmp(&other.due_s));
            all
        })
    }

    /// Has so many visitors at a time for so many seconds; answers how many were served in a second.
    ///
    /// # Errors
    /// As [`Visitors::come`].
    pub fn take_turns(&self, at_a_time: u32, seconds: u32) -> Result<f64> {
        let (to, patience, page) = (self.to, self.patience, self.page);
        let served = self.inside(async move {
            let (end, next) = (Instant::now() + Duration::from_secs(seconds.into()), Arc::new(AtomicU64::new(0)));
            let one_after_the_other = |next: Arc<AtomicU64>| async move {
                let mut served = 0u32;
                while Instant::now() < end {
                    let path = page(next.fetch_add(1, Ordering::Relaxed));
                    let done = visit(to, path, Instant::now(), patience, 0.0).await;
                    served += u32::from(matches!(done.end, End::Served(_)) && Instant::now() <= end);
                }
                served
            };
            let mut lines = JoinSet::new();
            (0..at_a_time).for_each(|_| drop(lines.spawn(one_after_the_other(next.clone()))));
            lines.join_all().await.iter().sum::<u32>()
        })?;
        Ok(f64::from(served) / f64::from(seconds))
    }

    /// Runs a task in the namespace, on a thread of its own.
    fn inside<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let namespace = self.namespace.clone();
        let run = move || -> io::Result<T> {
            namespace.enter()?;
            Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(task))
        };
        let done = std::thread::spawn(run).join().map_err(|_| Failure::new("the visitors' thread died"))?;
        done.context(|| "no visitors can be sent".into())
    }
}

async fn visit(to: SocketAddr, path: String, due: Instant, patience: Duration, due_s: f64) -> Visit {
    let end = match timeout_at(due + patience, fetch(to, &path)).await {
        Ok(Ok(())) => End::Served(due.elapsed().as_secs_f64()),
        Ok(Err(_)) => End::Refused,
        Err(_) => End::Left,
    };
    Visit { due_s, end }
}

async fn fetch(to: SocketAddr, path: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(to).await?;
    let question = format!("GET {path} HTTP/1.1\r\nHost: web\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    stream.write_all(question.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    // it ends with the last piece of a page in pieces
    let is_whole = answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"\r\n0\r\n\r\n");
    is_whole.then_some(()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A part of an interval, 0 to 1, without a pattern that a server could see.
fn spread(number: u64) -> f64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f64 / f64::from(1 << 24)
}

/// Visits that were due in a part of the time.
pub fn within(visits: &[Visit], from_s: f64, to_s: f64) -> impl Iterator<Item = &Visit> {
    visits.iter().filter(move |visit| (from_s..to_s).contains(&visit.due_s))
}

/// The served of those due in a part of the time, in a second.
pub fn served_per_s(visits: &[Visit], from_s: f64, to_s: f64) -> f64 {
    let served = within(visits, from_s, to_s).filter(|visit| matches!(visit.end, End::Served(_))).count();
    served as f64 / (to_s - from_s)
}

/// The delay in the middle of those served, s; 0 if nobody was.
pub fn middle_s(visits: &[Visit], from_s: f64, to_s: f64) -> f64 {
    let delay = |visit: &Visit| if let End::Served(delay_s) = visit.end { Some(delay_s) } else { None };
    let mut delays: Vec<f64> = within(visits, from_s, to_s).filter_map(delay).collect();
    delays.sort_by(f64::total_cmp);
    delays.get(delays.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_served_are_counted_by_when_they_were_due() {
        let visit = |due_s, end| Visit { due_s, end };
        let visits = [
            visit(0.5, End::Served(0.1)),
            visit(1.0, End::Served(0.4)),
            visit(1.5, End::Left),
            visit(2.5, End::Served(0.2)),
            visit(2.9, End::Refused),
            visit(3.0, End::Served(9.0)),
        ];
        assert_eq!(served_per_s(&visits, 1.0, 3.0), 1.0);
        assert_eq!((middle_s(&visits, 1.0, 3.0), middle_s(&visits, 7.0, 8.0)), (0.4, 0.0));
    }

    #[test]
    fn arrivals_are_spread_over_their_intervals() {
        let all: Vec<f64> = (0..1000).map(spread).collect();
        let mean = all.iter().sum::<f64>() / 1000.0;
        assert!(all.iter().all(|one| (0.0..1.0).contains(one)) && (mean - 0.5).abs() < 0.05, "{mean}");
    }
}
