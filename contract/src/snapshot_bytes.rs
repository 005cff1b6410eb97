//! The bytes of a [`Snapshot`], made in pieces: one of thousands of activities has megabytes, and a core that writes them at once does nothing
//! else meanwhile.
//!
//! The format is postcard's: a structure is its fields one after the other, a list is its length and its rows.

use crate::monitor::Snapshot;
use alloc::vec::Vec;
use serde::Serialize;

/// Rows that are written before others may run.
const ROWS_AT_ONCE: usize = 64;

/// Writes a snapshot as `postcard::to_allocvec` does, and awaits `give_way` after each 64 rows.
///
/// # Errors
/// Those of postcard.
pub async fn to_bytes<F: Future<Output = ()>>(
    snapshot: &Snapshot,
    give_way: impl Fn() -> F,
) -> postcard::Result<Vec<u8>> {
    // Each by its name: the compiler asks for a field that comes later.
    let Snapshot {
        version,
        machine,
        uptime_ns,
        cycles_per_second,
        has_percent_shares,
        cores,
        activities,
        resources,
        records,
        memory,
        address_spaces,
        locks,
        pools,
        missing_calls,
        vacant_places,
        on_behalf,
    } = snapshot;
    let mut bytes = postcard::to_allocvec(&(version, machine, uptime_ns, cycles_per_second, has_percent_shares))?;
    rows(&mut bytes, cores, &give_way).await?;
    rows(&mut bytes, activities, &give_way).await?;
    rows(&mut bytes, resources, &give_way).await?;
    rows(&mut bytes, records, &give_way).await?;
    append(&mut bytes, &(memory, address_spaces, locks))?;
    rows(&mut bytes, pools, &give_way).await?;
    rows(&mut bytes, missing_calls, &give_way).await?;
    append(&mut bytes, vacant_places)?;
    rows(&mut bytes, on_behalf, &give_way).await?;
    Ok(bytes)
}

async fn rows<F: Future<Output = ()>>(
    bytes: &mut Vec<u8>,
    rows: &[impl Serialize],
    give_way: &impl Fn() -> F,
) -> postcard::Result<()> {
    append(bytes, &rows.len())?;
    for piece in rows.chunks(ROWS_AT_ONCE) {
        piece.iter().try_for_each(|row| append(bytes, row))?;
        give_way().await;
    }
    Ok(())
}

fn append(bytes: &mut Vec<u8>, value: &impl Serialize) -> postcard::Result<()> {
    *bytes = postcard::to_extend(value, core::mem::take(bytes))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{Activity, CoreTime, Event, Lock, MissingCall, OnBehalf, Pool, Record, Resource};
    use alloc::vec;
    use core::cell::Cell;
    use core::future::ready;
    use core::pin::pin;
    use core::task::{Context, Poll, Waker};

    /// A snapshot with so many rows in each list.
    fn snapshot(rows: usize) -> Snapshot {
        Snapshot {
            version: crate::monitor::VERSION,
            machine: "three-tenants".into(),
            uptime_ns: u64::MAX,
            cycles_per_second: 3_000_000_000,
            has_percent_shares: true,
            cores: vec![CoreTime { core: 7, elapsed_cycles: 1 << 50, ..CoreTime::default() }; rows],
            activities: vec![Activity { id: 300, name: "gold".into(), ..Activity::default() }; rows],
            resources: vec![Resource { name: "tcp".into(), ..Resource::default() }; rows],
            records: vec![Record { activity: 300, ..Record::default() }; rows],
            address_spaces: vec![Event::default(); rows],
            locks: vec![Lock::default(); rows],
            pools: vec![Pool::default(); rows],
            missing_calls: vec![MissingCall::default(); rows],
            vacant_places: vec![1000; rows],
            on_behalf: vec![OnBehalf { payer: 4, service: "files".into(), cycles: 12 }; rows],
            ..Snapshot::default()
        }
    }

    /// Returns the bytes, and how often others could run.
    fn written(snapshot: &Snapshot) -> (Vec<u8>, usize) {
        let pauses = Cell::new(0);
        let give_way = || {
            pauses.set(pauses.get() + 1);
            ready(())
        };
        let Poll::Ready(bytes) = pin!(to_bytes(snapshot, give_way)).poll(&mut Context::from_waker(Waker::noop()))
        else {
            panic!("nothing waits")
        };
        (bytes.unwrap(), pauses.get())
    }

    #[test]
    fn the_bytes_are_those_of_a_snapshot_written_at_once() {
        for rows in [0, 1, ROWS_AT_ONCE, 1000] {
            let snapshot = snapshot(rows);
            let (bytes, _) = written(&snapshot);
            assert!(bytes == postcard::to_allocvec(&snapshot).unwrap(), "{rows} rows");
            assert_eq!(postcard::from_bytes::<Snapshot>(&bytes).unwrap(), snapshot);
        }
    }

    #[test]
    fn others_run_after_each_few_rows() {
        assert_eq!(written(&snapshot(0)).1, 0);
        assert_eq!(written(&snapshot(10 * ROWS_AT_ONCE)).1, 70);
    }
}
