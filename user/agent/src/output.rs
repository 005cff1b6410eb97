//! `GET /output`: what all tenants write from now on and have written, a JSON document for each piece, until the client goes.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use gyre_contract::{
    monitor::{Activity, ActivityKind},
    session::Output,
};

use crate::{http, source::Source};

/// The kernel's call never waits, so this looks again so often.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// After so many quiet looks it asks who the tenants are.
const NAMES_AGAIN: u32 = 4;

/// Sends until the client goes.
///
/// # Errors
/// When the client has gone, which is the normal end.
pub fn stream(mut stream: &TcpStream, source: &Arc<dyn Source>) -> io::Result<()> {
    http::start_stream(&mut stream, "application/x-ndjson")?;
    let mut names = names(source)?;
    let mut quiet = 0u32;
    let mut offsets: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        let mut is_quiet = true;
        for tenant in &names {
            let offset = offsets.entry(tenant.clone()).or_default();
            is_quiet &= !piece(stream, source, tenant, offset)?;
        }
        if is_quiet {
            std::thread::sleep(LOOK_AGAIN);
            quiet = quiet.wrapping_add(1);
        }
        // Tenants may come while the machine runs.
        if is_quiet && quiet.is_multiple_of(NAMES_AGAIN) {
            names = self::names(source)?;
            offsets.retain(|name, _| names.contains(name));
        }
    }
}

/// Sends one piece of a tenant's output, if there is one; says whether there was.
fn piece(mut stream: &TcpStream, source: &Arc<dyn Source>, tenant: &str, offset: &mut u64) -> io::Result<bool> {
    let (first, bytes) = match source.log(tenant, *offset) {
        Ok(part) => part,
        // It has not begun yet, or could not.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if bytes.is_empty() {
        return Ok(false);
    }
    let lost = first.saturating_sub(*offset);
    *offset = first.saturating_add(bytes.len() as u64);
    let output = Output::new(tenant, [lost, *offset], bytes);
    stream.write_all((serde_json::to_string(&output)? + "\n").as_bytes())?;
    Ok(true)
}

fn names(source: &Arc<dyn Source>) -> io::Result<Vec<String>> {
    let is_customer = |one: &Activity| one.kind == ActivityKind::Tenant && !one.state.has_left();
    Ok(source.snapshot()?.activities.into_iter().filter(is_customer).map(|one| one.name).collect())
}
