use super::*;
use crate::address;
use crate::catalogue::Resource;

fn machine() -> Machine {
    Machine {
        name: "test".into(),
        cores: 2,
        memory_bytes: 512 << 20,
        log_level: LogLevel::Debug,
        time_slice_us: 1000,
        messages: Dispatch::Turns,
        started_unix_s: 1,
        has_percent_shares: true,
        seed: [7; 32],
        link: Link {
            mac: address::MACHINE_MAC,
            gateway: address::GATEWAY,
            prefix_bits: address::PREFIX_BITS,
            rate_bits_per_second: Some(20_000_000),
            way: Way::Card,
        },
        disk_depth: 4,
        resources: vec![ResourcePolicy {
            resource: Resource::NetworkWrite,
            policy: Policy { outer: Choice::default(), inner: Some(Choice::of(&gyre_schedulers::round_robin::LISTED)) },
            metric: Metric::Bytes,
            batch: 4,
            cores: 3,
            priority: 1,
            queue_depth: 256,
        }],
        activities: vec![],
        tenants: vec![],
        broker: Broker::default(),
        zones: vec![],
        cells_bytes: 64 << 20,
        cells_runtimes: vec![[7; 32]],
        cells_devices: vec![],
        neighbours: vec![],
        served_disks: 0,
        files: vec![],
        places: 0,
    }
}

#[test]
fn what_was_encoded_is_decoded_with_its_files_at_page_boundaries() {
    let big = vec![9u8; 5000];
    let bytes = encode(&machine(), &[("/agent", 0o755, &big), ("/b", 0o644, b"text")]).unwrap();
    let module = Module::decode(&bytes).unwrap();
    assert_eq!(module.machine.resources, machine().resources);
    assert_eq!(module.file("/agent"), Some(&big[..]));
    assert_eq!(module.file("/b"), Some(&b"text"[..]));
    assert_eq!(module.file("/c"), None);
    assert!(module.machine.files.iter().all(|file| file.offset % 4096 == 0));
}

#[test]
fn another_version_is_named() {
    let mut bytes = encode(&machine(), &[]).unwrap();
    bytes[8] = 99;
    assert_eq!(Module::decode(&bytes).unwrap_err(), ModuleError::Version { found: 99 });
}

#[test]
fn every_flipped_bit_of_the_body_is_noticed() {
    let good = encode(&machine(), &[]).unwrap();
    for at in HEADER_BYTES..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        assert_eq!(Module::decode(&bytes).unwrap_err(), ModuleError::Damaged, "byte {at}");
    }
}

#[test]
fn every_shortened_module_is_refused() {
    let good = encode(&machine(), &[("/agent", 0o755, b"0123456789")]).unwrap();
    for end in 0..good.len() {
        let error = Module::decode(&good[..end]).unwrap_err();
        assert!(matches!(error, ModuleError::NotAModule | ModuleError::Truncated), "{end}: {error}");
    }
}

#[test]
fn a_lying_length_is_refused_without_overflow() {
    let mut bytes = encode(&machine(), &[]).unwrap();
    bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(Module::decode(&bytes).unwrap_err(), ModuleError::Truncated);
}

#[test]
fn random_modules_are_refused_or_decoded() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/boot_corpus");
    let good = encode(&machine(), &[("/agent", 0o755, b"program"), ("/b", 0o644, b"text")]).unwrap();
    gyre_mutate::run("boot-module", &corpus, &good, 20_000, |input| {
        // The header fits, so that the decoder is reached.
        let body = input.get(HEADER_BYTES..).unwrap_or(input);
        let mut whole = header(body);
        whole.extend_from_slice(body);
        if let Ok(module) = Module::decode(&whole) {
            for file in &module.machine.files {
                let _ = (module.contents(file), module.file(&file.path));
            }
        }
    });
}
