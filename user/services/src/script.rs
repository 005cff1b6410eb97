//! The command line: `files FOLDER`, `network BYTES_PER_S`, `frames` serve for ever; `use` is a client that says what it got.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    client::Client,
    files::Files,
    frames::Frames,
    network::Network,
    protocol::{Done, Join, Refused, Work},
    service::{Server, Service},
    turns::Division,
};

/// The words that it takes.
pub const USAGE: &str = "usage:
  gyre-services files FOLDER
  gyre-services network BYTES_PER_S
  gyre-services frames
  gyre-services use TENANT WORK COUNT FRACTION [grant=US] [goal=PER_KS] [response=US] [every=US]
      WORK: read=NAME, write=NAME, send=ADDRESS:PORT, draw=PIXELS; US and every are microseconds
  gyre-services fractions TENANT
  gyre-services set TENANT CLIENT=THOUSANDTHS...";

/// Does what the words say.
///
/// # Errors
/// In words.
pub fn run(words: &[String]) -> Result<(), String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["files", folder] => serve(Division::Fair, Files::new(Path::new(folder))),
        ["network", rate] => {
            let rate = number(rate)?;
            serve(Division::Reserved(rate), Network::new(rate).map_err(text)?)
        }
        ["frames"] => serve(Division::Deadlines, Frames::default()),
        ["use", tenant, work, count, fraction, more @ ..] => {
            let wishes = Wishes::read(number(fraction)? as u32, more)?;
            use_service(tenant, work, number(count)?, &wishes)
        }
        ["fractions", tenant] => show(tenant),
        ["set", tenant, wishes @ ..] => set(tenant, wishes),
        _ => Err(USAGE.into()),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("`{word}` is no number"))
}

fn serve(division: Division, server: impl Server + 'static) -> Result<(), String> {
    let service: Arc<Service> = Service::new(division);
    service.run(Box::new(server)).map_err(text)
}

/// The wishes of a client at the command line.
#[derive(Default)]
struct Wishes {
    join: Join,
    grant: Option<Duration>,
    every: Duration,
}

impl Wishes {
    fn read(fraction: u32, words: &[&str]) -> Result<Wishes, String> {
        let mut wishes = Wishes { join: Join { fraction, ..Join::default() }, ..Wishes::default() };
        for word in words {
            let (key, value) = word.split_once('=').ok_or(USAGE)?;
            let value = number(value)?;
            match key {
                "grant" => wishes.grant = Some(Duration::from_micros(value)),
                "goal" => wishes.join.goal_per_ks = value,
                "response" => wishes.join.response_ns = value.saturating_mul(1000),
                "every" => wishes.every = Duration::from_micros(value),
                _ => return Err(USAGE.into()),
            }
        }
        Ok(wishes)
    }
}

/// Makes the work of a number.
fn work_of(word: &str, number_of: u64) -> Result<Work, String> {
    let (kind, what) = word.split_once('=').ok_or(USAGE)?;
    Ok(match kind {
        "read" => Work::Read { name: what.into(), offset: 0, bytes: 4096 },
        "write" => Work::Write { name: what.into(), offset: 0, data: vec![number_of as u8; 4096] },
        "send" => Work::Send { to: what.into(), data: vec![number_of as u8; 1000] },
        "draw" => Work::Draw { number: number_of, pixels: number(what)? as u32 },
        _ => return Err(USAGE.into()),
    })
}

/// The sums of a client.
#[derive(Default)]
struct Sums {
    done: u64,
    bytes: u64,
    paid_ns: u64,
    late: u64,
    unpaid: u64,
    longest_ns: u64,
}

impl Sums {
    fn add(&mut self, done: &Done, wish: &Join) {
        self.done += 1;
        self.bytes += done.data.len() as u64;
        self.paid_ns += done.paid_ns;
        self.late += u64::from(wish.response_ns > 0 && done.response_ns > wish.response_ns);
        self.longest_ns = self.longest_ns.max(done.response_ns);
    }
}

fn use_service(tenant: &str, work: &str, count: u64, wishes: &Wishes) -> Result<(), String> {
    let client = Client::connect(tenant).map_err(text)?;
    client.join(&wishes.join).map_err(text)?;
    if let Some(time) = wishes.grant {
        client.grant(time).map_err(text)?;
    }
    let mut sums = Sums::default();
    let mut next = Instant::now();
    for at in 0..count {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        next += wishes.every;
        match client.work(work_of(work, at)?).map_err(text)? {
            Ok(done) => sums.add(&done, &wishes.join),
            Err(Refused::Unpaid) => sums.unpaid += 1,
            Err(refused) => return Err(format!("refused: {refused:?}")),
        }
    }
    let Sums { done, bytes, paid_ns, late, unpaid, longest_ns } = sums;
    println!("done {done} bytes {bytes} paid_ns {paid_ns} late {late} unpaid {unpaid} longest_ns {longest_ns}");
    Ok(())
}

fn show(tenant: &str) -> Result<(), String> {
    for line in Client::connect(tenant).and_then(|client| client.fractions()).map_err(text)? {
        println!("{} fraction {} done {} late {} used {}", line.client, line.fraction, line.done, line.late, line.used);
    }
    Ok(())
}

fn set(tenant: &str, words: &[&str]) -> Result<(), String> {
    let wish = |word: &&str| {
        let (client, fraction) = word.split_once('=').ok_or(USAGE)?;
        Ok((client.to_owned(), number(fraction)? as u32))
    };
    let wishes = words.iter().map(wish).collect::<Result<Vec<_>, String>>()?;
    let client = Client::connect(tenant).map_err(text)?;
    client.set(&wishes).map_err(text)?.map_err(|refused| format!("refused: {refused:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_make_no_sense_are_answered_with_the_usage() {
        let run = |line: &str| run(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(run(""), Err(USAGE.into()));
        assert_eq!(run("network fast"), Err("`fast` is no number".into()));
        assert_eq!(run("use t read=a 1 100 grant"), Err(USAGE.into()));
        assert!(work_of("dance=1", 0).is_err() && work_of("draw=many", 0).is_err());
    }
}
