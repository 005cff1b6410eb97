//! Goals on Linux, so that the same broker divides both machines: what tenants are to reach comes from the file that the tool writes
//! (`/goals.json`), measures from control groups and from the file `/beats` of a tenant, which is the page of its heartbeats.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use gyre_contract::{
    catalogue::Resource,
    goals::{BUCKETS, Beats, BeatsPage, Goals, TenantGoal},
    policy::Entitlement,
};

/// The page in a tenant's root.
const BEATS: &str = "beats";
/// Pressure stall information of a group; a kernel without it says nothing (Documentation/accounting/psi.rst).
const PRESSURE: &str = "cpu.pressure";

/// Returns what the tool wrote, with the measures of now.
///
/// # Errors
/// When there is no such file, or a group cannot be read.
pub fn goals(file: &Path, groups: &Path, tenants: &Path) -> io::Result<Goals> {
    let text = fs::read_to_string(file).map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
    let mut goals: Goals = serde_json::from_str(&text)?;
    goals.now_ns = super::uptime_ns()?;
    for tenant in goals.tenants.iter_mut().filter(|tenant| !tenant.is_system) {
        let group = groups.join(&tenant.name);
        let usage_us = super::field(&fs::read_to_string(group.join("cpu.stat"))?, "usage_usec");
        tenant.cycles = usage_us.saturating_mul(1000);
        tenant.stalled_ns = fs::read_to_string(group.join(PRESSURE)).map_or(0, |text| stalled_ns(&text));
        let share = u32::try_from(super::number(&group.join("cpu.weight"))).ok();
        tenant.at_cpu = Some(Entitlement { share, ..Entitlement::none(Resource::Cpu) });
        tenant.pages = page(&tenants.join(&tenant.name).join(BEATS), tenant).into_iter().collect();
    }
    Ok(goals)
}

/// Reads the time in which some task of a group was ready and had no processor: `total`, microseconds.
fn stalled_ns(text: &str) -> u64 {
    let some = text.lines().find_map(|line| line.strip_prefix("some "));
    let total = some.and_then(|line| line.split_once("total=")?.1.trim().parse::<u64>().ok());
    total.unwrap_or(0).saturating_mul(1000)
}

/// Reads a page; what is too short, or no page, is none.
fn page(file: &Path, tenant: &TenantGoal) -> Option<Beats> {
    let id = fs::metadata(file).ok()?.ino();
    let bytes = fs::read(file).ok()?;
    let words: Vec<u64> = bytes
        .get(..size_of::<BeatsPage>())?
        .chunks_exact(8)
        .filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)))
        .collect();
    let [_version, beats, _beat_ns, sum_ns, _last_ns, buckets @ ..] = &words[..] else { return None };
    let buckets = buckets.get(..BUCKETS)?.to_vec();
    let name = format!("{} of {}", BEATS, tenant.name);
    Some(Beats { id, name, process: 0, aim: None, beats: *beats, sum_ns: *sum_ns, buckets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_come_from_the_file_and_measures_from_the_group_and_the_page() {
        let folder = std::env::temp_dir().join(format!("gyre-goals-{}", std::process::id()));
        for sub in ["groups/film", "tenants/film"] {
            fs::create_dir_all(folder.join(sub)).unwrap();
        }
        let tenant = TenantGoal { name: "film".into(), share: 90, ..TenantGoal::default() };
        let written = Goals { cores: 1, cycles_per_second: 1_000_000_000, tenants: vec![tenant], ..Goals::default() };
        let file = folder.join("goals.json");
        fs::write(&file, serde_json::to_string(&written).unwrap()).unwrap();
        fs::write(folder.join("groups/film/cpu.stat"), "usage_usec 12\n").unwrap();
        fs::write(folder.join("groups/film/cpu.weight"), "77\n").unwrap();
        let pressure =
            "some avg10=0.00 avg60=0.12 avg300=0.00 total=345\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        fs::write(folder.join("groups/film/cpu.pressure"), pressure).unwrap();
        let mut words = vec![1u64, 30, 0, 900, 0];
        words.resize(size_of::<BeatsPage>() / 8, 0);
        words[5] = 30;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        fs::write(folder.join("tenants/film/beats"), &bytes).unwrap();
        let read = || goals(&file, &folder.join("groups"), &folder.join("tenants")).unwrap().tenants.remove(0);
        let seen = read();
        assert_eq!((seen.cycles, seen.share, seen.at_cpu.unwrap().share), (12_000, 90, Some(77)));
        assert_eq!(seen.stalled_ns, 345_000);
        let page = &seen.pages[0];
        assert_eq!((page.beats, page.sum_ns, page.buckets[0], page.buckets.len()), (30, 900, 30, BUCKETS));
        fs::write(folder.join("tenants/film/beats"), &bytes[..100]).unwrap();
        assert!(read().pages.is_empty(), "half a page is none");
        fs::remove_dir_all(&folder).unwrap();
    }
}
