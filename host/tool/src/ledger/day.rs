//! The file of one day: for each run of the machine on it who used what. It is replaced as a whole, so that it is never half written.
//!
//! * [`Day`] holds a [`Run`] for each start of the machine, and that a [`Use`] for each tenant.
//! * A [`Sku`] is a thing with a price; a [`Tariff`] has one for each of them, as they were when it was used.
//!
//! Core time is counted by the machine's clock, memory over time too; bytes are those of the machine's own counters. Sums of floating-point
//! numbers are exact to some 15 digits: a month of 64 cores is 1.7 x 10^8 s.
//!
//! [`super::keeper`] writes these files, everything else in [`super`] reads them.

use std::{collections::BTreeMap, fs::File, io::Write as _, path::Path};

use gyre_machine_file::Prices;
use serde::{Deserialize, Serialize};

use crate::failure::{Context as _, Result};

/// The ending of a day's file.
pub const ENDING: &str = ".json";

/// A day of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Day {
    /// The machine.
    pub machine: String,
    /// The day, YYYY-MM-DD of UTC.
    pub day: String,
    /// The runs on it; one that went on over midnight is on both days.
    pub runs: Vec<Run>,
}

/// A run, as far as it was on that day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// When the machine was started, ms since 1970: which run it is.
    pub started_unix_ms: i64,
    /// The first and the last moment that is counted here, ms since 1970.
    pub from_unix_ms: i64,
    /// See there.
    pub until_unix_ms: i64,
    /// The version that ran.
    pub version: String,
    /// Core time of the whole machine, of which tenants have used a part, s.
    pub core_seconds: f64,
    /// The use of each tenant.
    pub tenants: BTreeMap<String, Use>,
    /// The prices that held, if there were any.
    pub prices: Option<Tariff>,
}

/// The use of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// Core time, s.
    pub core_seconds: f64,
    /// Memory over time, bytes x s.
    pub byte_seconds: f64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes read from disk.
    pub read_bytes: u64,
    /// Bytes written to disk.
    pub written_bytes: u64,
}

/// Prices, as [`Prices`] of the machine file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tariff {
    /// ISO 4217.
    pub currency: String,
    /// The price of a unit of each [`Sku`], in their order.
    pub prices: [f64; Sku::ALL.len()],
}

/// A thing that has a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sku {
    /// Core time.
    Cpu,
    /// Memory over time.
    Memory,
    /// Bytes sent.
    Sent,
    /// Bytes received.
    Received,
    /// Bytes read from disk.
    Read,
    /// Bytes written to disk.
    Written,
}

const GIB: f64 = (1u64 << 30) as f64;
const HOUR_S: f64 = 3600.0;

impl Sku {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Cpu, Self::Memory, Self::Sent, Self::Received, Self::Read, Self::Written];

    /// Returns its key in `[prices]`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "core-hour",
            Self::Memory => "gib-hour",
            Self::Sent => "gib-sent",
            Self::Received => "gib-received",
            Self::Read => "gib-read",
            Self::Written => "gib-written",
        }
    }

    /// Returns the unit that is priced.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Cpu => "Core-Hours",
            Self::Memory => "GiB-Hours",
            Self::Sent | Self::Received | Self::Read | Self::Written => "GiB",
        }
    }

    /// Returns how many units a tenant used.
    pub fn units(self, of: &Use) -> f64 {
        match self {
            Self::Cpu => of.core_seconds / HOUR_S,
            Self::Memory => of.byte_seconds / GIB / HOUR_S,
            Self::Sent => of.sent_bytes as f64 / GIB,
            Self::Received => of.received_bytes as f64 / GIB,
            Self::Read => of.read_bytes as f64 / GIB,
            Self::Written => of.written_bytes as f64 / GIB,
        }
    }
}

impl From<&Prices> for Tariff {
    fn from(prices: &Prices) -> Self {
        let Prices { currency, core_hour, gib_hour, gib_sent, gib_received, gib_read, gib_written } = prices.clone();
        Self { currency, prices: [core_hour, gib_hour, gib_sent, gib_received, gib_read, gib_written] }
    }
}

impl Tariff {
    /// Returns the price of a unit.
    pub fn price(&self, sku: Sku) -> f64 {
        self.prices[sku as usize]
    }

    /// Returns what a tenant's use costs.
    pub fn cost(&self, of: &Use) -> f64 {
        Sku::ALL.iter().map(|sku| self.price(*sku) * sku.units(of)).sum()
    }
}

impl Use {
    /// Adds another use.
    pub fn add(&mut self, more: &Self) {
        self.core_seconds += more.core_seconds;
        self.byte_seconds += more.byte_seconds;
        self.sent_bytes += more.sent_bytes;
        self.received_bytes += more.received_bytes;
        self.read_bytes += more.read_bytes;
        self.written_bytes += more.written_bytes;
    }

    /// Returns the use since an earlier moment; all of it if the counters have begun anew since, as those of a zone that was made again.
    pub fn since(&self, before: &Self) -> Self {
        if self.core_seconds < before.core_seconds {
            return *self;
        }
        Self {
            core_seconds: self.core_seconds - before.core_seconds,
            byte_seconds: (self.byte_seconds - before.byte_seconds).max(0.0),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

impl Day {
    /// Reads a day's file.
    ///
    /// # Errors
    /// When it cannot be read, or is no such file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).context(|| format!("{} is no bill of a day", path.display()))
    }

    /// Puts a run's entry in place of its last one.
    pub fn put(&mut self, run: &Run) {
        self.runs.retain(|other| other.started_unix_ms != run.started_unix_ms);
        self.runs.push(run.clone());
    }

    /// Writes the day, as a whole and to the disk.
    ///
    /// # Errors
    /// When the host's disk is full.
    pub fn write(&self, path: &Path) -> Result<()> {
        let cannot = || format!("cannot write {}", path.display());
        let text = serde_json::to_vec(self).context(|| "cannot write JSON".into())?;
        let unfinished = path.with_extension("new");
        let mut file = File::create(&unfinished).context(cannot)?;
        file.write_all(&text).and_then(|()| file.sync_data()).context(cannot)?;
        std::fs::rename(&unfinished, path).context(cannot)
    }
}
