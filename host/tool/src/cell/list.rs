//! `gyre cell list`, `log`, `revoke`, `offer` and `pool`.
//!
//! * The list is a table of cells, what is free beside them, and a table of devices if the machine has some for cells.
//! * The log is a line for each record; with `--follow` it goes on until nobody reads any more.
//! * An order is made of words with units, which are checked here; whether it can be is the machine's to say.
//!
//! Each of them is a document for programs too. The agent of the machine makes the calls; numbers of cells are the kernel's, and a cell is
//! known to people by its tenant and its process.

use std::{process::ExitCode, time::Duration};

use gyre_contract::seats::{Device, Offer, Outcome, Record, Refusal, Returned, Revoke, Seat, Seats, Taken};
use gyre_machine_file::units::{self, show_bytes, show_count};

use crate::{
    agent::Agent,
    check::print_json,
    cli::{CellLog, CellOffer, CellRevoke},
    failure::{Failure, Result},
    out::{self, Form},
    size, ui,
};

/// The log is asked again after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// Digits of a hash in a table.
const DIGITS: usize = 12;

/// Runs `gyre cell list`.
///
/// # Errors
/// When the machine does not answer, or keeps no memory for cells.
pub fn list(agent: &Agent, form: Form) -> Result<ExitCode> {
    let seats = agent.seats()?;
    match form {
        Form::Programs => print_json(&seats)?,
        Form::People => print!("{}", table(&seats)),
    }
    Ok(ExitCode::SUCCESS)
}

fn table(seats: &Seats) -> String {
    let head = [
        "tenant",
        "process",
        "kind",
        "state",
        "cores",
        "memory",
        "for",
        "exits",
        "own cycles",
        "serving cycles",
        "runtime",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(seats.seats.iter().map(|seat| row(seat, seats.now_ns)));
    let free = format!(
        "free: cores {}, {} of {}\n",
        numbers(&seats.free_cores),
        show_bytes(seats.free_bytes),
        show_bytes(seats.pool_bytes)
    );
    let cells = if seats.seats.is_empty() { "no cells\n".into() } else { ui::table(&rows) };
    cells + &free + &devices(seats)
}

/// Returns the table of devices that cells can have; nothing without any.
fn devices(seats: &Seats) -> String {
    if seats.devices.is_empty() {
        return String::new();
    }
    let head = ["device", "kind", "place", "address", "held by", "in", "out", "lost frames"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(seats.devices.iter().enumerate().map(|(number, device)| device_row(seats, number, device)));
    ui::table(&rows)
}

fn device_row(seats: &Seats, number: usize, device: &Device) -> Vec<String> {
    let holder = device.cell.map(|cell| match seats.seats.iter().find(|seat| seat.cell == cell) {
        Some(seat) => format!("{} {}", seat.tenant, seat.process),
        None => "a cell that ends".into(),
    });
    let mac = device.mac.map(|mac| mac.map(|byte| format!("{byte:02x}")).join(":"));
    let nobody = || "-".to_owned();
    vec![
        number.to_string(),
        device.kind.name().into(),
        device.address.to_string(),
        mac.unwrap_or_else(nobody),
        holder.unwrap_or_else(nobody),
        show_bytes(device.read_bytes),
        show_bytes(device.written_bytes),
        show_count(device.lost_frames),
    ]
}

fn row(seat: &Seat, now_ns: u64) -> Vec<String> {
    vec![
        seat.tenant.clone(),
        seat.process.to_string(),
        seat.kind.name().into(),
        seat.state.name().into(),
        numbers(&seat.cores),
        show_bytes(seat.memory_bytes),
        format!("{:.1} s", now_ns.saturating_sub(seat.since_ns) as f64 / 1e9),
        seat.exits.to_string(),
        show_count(seat.own_cycles),
        show_count(seat.serving_cycles),
        seat.runtime.trim_start_matches("sha256:").chars().take(DIGITS).collect(),
    ]
}

fn numbers(all: &[u32]) -> String {
    let all: Vec<String> = all.iter().map(u32::to_string).collect();
    if all.is_empty() { "-".into() } else { all.join(",") }
}

/// Runs `gyre cell log`: a line for each record, or a document.
///
/// # Errors
/// As [`list`].
pub fn log(agent: &Agent, arguments: &CellLog, form: Form) -> Result<ExitCode> {
    let mut next = 0;
    loop {
        let records = agent.seat_log(next)?;
        if records.is_empty() {
            if !arguments.follow || out::is_closed() {
                return Ok(ExitCode::SUCCESS);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        for record in &records {
            next = next.max(record.number.saturating_add(1));
            match form {
                Form::Programs => {
                    let line = serde_json::to_string(record).map_err(|error| Failure::new(error.to_string()))?;
                    println!("{line}");
                }
                Form::People => println!("{}", line(record)),
            }
        }
    }
}

fn line(record: &Record) -> String {
    let mut line = format!(
        "{:>10.3} s  {:<8} {} {}",
        record.at_ns as f64 / 1e9,
        record.deed.name(),
        record.tenant,
        record.process
    );
    if !record.cores.is_empty() {
        line += &format!(", {} cores", record.cores.len());
    }
    if record.memory_bytes > 0 {
        line += &format!(", {}", show_bytes(record.memory_bytes));
    }
    line += &format!(", by the {}, {:.1} ms", record.by.name(), record.took_ns as f64 / 1e6);
    if record.result.is_empty() { line } else { format!("{line}: {}", record.result) }
}

/// Runs `gyre cell revoke`.
///
/// # Errors
/// When the order is refused; nothing was asked of the cell then.
pub fn revoke(agent: &Agent, arguments: &CellRevoke, form: Form) -> Result<ExitCode> {
    let order = order(arguments)?;
    let returned = agent.revoke(&order)?.map_err(refused)?;
    match form {
        Form::Programs => print_json(&returned)?,
        Form::People => println!("{}", outcome(&order, returned)),
    }
    Ok(ExitCode::SUCCESS)
}

fn refused(refusal: Refusal) -> Failure {
    Failure::with_help(refusal.to_string(), "gyre cell list shows the cells, their processes and what they have")
}

/// Runs `gyre cell offer`.
///
/// # Errors
/// When the offer is refused, or the cell has not taken all of it.
pub fn offer(agent: &Agent, arguments: &CellOffer, form: Form) -> Result<ExitCode> {
    let order = Offer {
        tenant: arguments.tenant.clone(),
        process: arguments.process,
        cores: arguments.cores,
        within_ns: within(&arguments.within)?,
    };
    let taken = agent.offer(&order)?.map_err(refused)?;
    match form {
        Form::Programs => print_json(&taken)?,
        Form::People => println!("{}", words_of(&order, taken)),
    }
    Ok(if taken.cores == order.cores { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn words_of(order: &Offer, taken: Taken) -> String {
    let took = format!("after {:.1} ms", taken.took_ns as f64 / 1e6);
    match taken.cores {
        all if all == order.cores => format!("taken {took}"),
        some => format!("the cell has taken {some} of {} cores {took}; the rest is not offered any more", order.cores),
    }
}

fn within(time: &str) -> Result<u64> {
    units::nanoseconds(time).map_err(|why| Failure::new(format!("--within: {why}")))
}

/// Runs `gyre cell pool`.
///
/// # Errors
/// For a size that is none, or no whole lots.
pub fn pool(agent: &Agent, size: &str, form: Form) -> Result<ExitCode> {
    let kept = agent.pool(size::size("pool", size)?)?;
    match form {
        Form::Programs => print_json(&kept)?,
        Form::People => println!("{} are kept for cells", show_bytes(kept)),
    }
    Ok(ExitCode::SUCCESS)
}

fn order(arguments: &CellRevoke) -> Result<Revoke> {
    let memory = arguments.memory.as_deref().map_or(Ok(0), |memory| size::size("--memory", memory))?;
    Ok(Revoke {
        tenant: arguments.tenant.clone(),
        process: arguments.process,
        cores: arguments.cores,
        memory_bytes: memory,
        within_ns: within(&arguments.within)?,
    })
}

fn outcome(order: &Revoke, returned: Returned) -> String {
    let took = format!("after {:.1} ms", returned.took_ns as f64 / 1e6);
    match returned.outcome {
        Outcome::Given if order.is_all() => format!("the cell has ended by itself {took}"),
        Outcome::Given => format!("given back {took}"),
        Outcome::Ended => format!("not given back in time: the cell was ended, and its process with it, {took}"),
    }
}

#[cfg(test)]
mod tests {
    use gyre_contract::{
        seats::{By, Deed, DeviceKind, Kind, State},
        zones::DeviceAddress,
    };

    use super::*;

    fn seats() -> Seats {
        let seat = Seat {
            cell: 0,
            kind: Kind::Plain,
            tenant: "gold".into(),
            process: 17,
            cores: vec![1, 3],
            memory_bytes: 64 << 20,
            since_ns: 1_000_000_000,
            state: State::Runs,
            runtime: format!("sha256:{}", "ab".repeat(32)),
            exits: 12,
            own_cycles: 3_000_000,
            serving_cycles: 200_000,
        };
        let (free_cores, now_ns) = (vec![2], 3_500_000_000);
        Seats { now_ns, pool_bytes: 128 << 20, free_bytes: 64 << 20, free_cores, seats: vec![seat], devices: vec![] }
    }

    #[test]
    fn a_list_says_who_has_which_device() {
        let device = |kind, mac, cell| Device {
            address: DeviceAddress { bus: 0, device: 0x1b, function: 0 },
            kind,
            mac,
            cell,
            read_bytes: 3 << 20,
            written_bytes: 0,
            lost_frames: 21,
        };
        let card = device(DeviceKind::Card, Some([0x52, 0x54, 0, 0x0a, 0, 0xff]), Some(0));
        let ending = device(DeviceKind::Disk, None, Some(9));
        let devices = vec![card, ending, device(DeviceKind::Disk, None, None)];
        let text = table(&Seats { devices, ..seats() });
        for part in ["00:1b.0", "52:54:00:0a:00:ff", "gold 17", "3.00 MiB", "21", "a cell that ends", "disk"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!table(&seats()).contains("lost frames"));
    }

    #[test]
    fn a_list_says_who_has_what() {
        let text = table(&seats());
        for part in
            ["gold", "17", "plain", "runs", "1,3", "64.0 MiB", "2.5 s", "3.00 M", "abababababab", "free: cores 2"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(table(&Seats::default()).starts_with("no cells\nfree: cores -"));
    }

    #[test]
    fn a_record_is_a_line() {
        let record = Record {
            number: 3,
            at_ns: 1_500_000_000,
            cell: Some(0),
            tenant: "gold".into(),
            process: 17,
            deed: Deed::Give,
            cores: vec![],
            memory_bytes: 2 << 20,
            by: By::Owner,
            took_ns: 2_300_000,
            result: String::new(),
        };
        assert_eq!(line(&record).trim_start(), "1.500 s  give     gold 17, 2.00 MiB, by the owner, 2.3 ms");
    }

    #[test]
    fn an_offer_says_how_much_of_it_was_taken() {
        let order = Offer { tenant: "gold".into(), process: 17, cores: 2, within_ns: within("1 s").unwrap() };
        let words = |cores| words_of(&order, Taken { cores, took_ns: 1_500_000 });
        assert_eq!(words(2), "taken after 1.5 ms");
        assert_eq!(words(1), "the cell has taken 1 of 2 cores after 1.5 ms; the rest is not offered any more");
        assert!(within("soon").is_err());
    }

    #[test]
    fn an_order_has_units() {
        let mut arguments = CellRevoke {
            tenant: "gold".into(),
            process: 17,
            cores: 0,
            memory: Some("32 MiB".into()),
            within: "100 ms".into(),
        };
        let wanted = order(&arguments).unwrap();
        assert_eq!((wanted.memory_bytes, wanted.within_ns, wanted.is_all()), (32 << 20, 100_000_000, false));
        for value in ["much", "32"] {
            arguments.memory = Some(value.into());
            assert!(order(&arguments).is_err());
        }
    }
}
