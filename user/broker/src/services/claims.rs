//! Claims of a service about its clients, which are looked through here before anything is computed with them.

use std::collections::BTreeSet;

use gyre_broker::plan::TENANTS_MAX;
use gyre_services::protocol::{Line, WHOLE};

/// Bytes of a client's name.
const NAME_BYTES_MAX: usize = 64;

/// Returns why no service can say this; nothing if one can.
pub fn fault(lines: &[Line]) -> Option<String> {
    if lines.len() > TENANTS_MAX {
        return Some(format!("its service names {} clients, more than there can be tenants", lines.len()));
    }
    let mut names = BTreeSet::new();
    if lines.iter().any(|line| !is_name(&line.client)) {
        return Some("its service names a client that has no tenant's name".into());
    }
    if let Some(twice) = lines.iter().find(|line| !names.insert(line.client.as_str())) {
        return Some(format!("its service names the client {} twice", twice.client));
    }
    if let Some(line) = lines.iter().find(|line| !(1..=WHOLE).contains(&line.fraction)) {
        return Some(format!("its service gives {} a fraction of {} thousandths", line.client, line.fraction));
    }
    let sum: u64 = lines.iter().map(|line| u64::from(line.fraction)).sum();
    (sum > u64::from(WHOLE)).then(|| format!("its service gives its clients {sum} thousandths together"))
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
