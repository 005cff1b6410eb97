use super::*;
extern crate std;
use proptest::prelude::*;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

#[test]
fn words_are_obeyed() {
    assert_eq!(Options::read(""), Ok(Options::default()));
    assert_eq!(
        Options::read(" cores=3\troot=/dev/vda  tsc_khz=2400000\n"),
        Ok(Options { cores_max: Some(3), tsc_khz: Some(2_400_000), ..Options::default() })
    );
    for (name, way) in [("loops", CopyWay::Loops), ("strings", CopyWay::Strings), ("vectors", CopyWay::Vectors)] {
        assert_eq!(Options::read(&format!("copies={name}")).unwrap().copies, Some(way));
    }
    let said = Options::read("copies=fast").unwrap_err().to_string();
    assert_eq!(said, "the command line says copies=fast: expected loops, strings or vectors");
}

#[test]
fn numbers_that_make_no_sense_are_refused_by_name_and_with_what_was_expected() {
    for value in ["banana", "0", "9", "99999999999999999999", "-1", "1.5", "0x2", "", "2,"] {
        let line = format!("quiet cores={value} tsc_khz=2400000");
        let said = Options::read(&line).unwrap_err().to_string();
        assert_eq!(said, format!("the command line says cores={value}: expected a number of cores, 1 to 8"));
    }
    for value in ["0", "1", "xx", "99999", "10000000", "18446744073709551616"] {
        let line = format!("tsc_khz={value}");
        let said = Options::read(&line).unwrap_err().to_string();
        assert_eq!(
            said,
            format!("the command line says tsc_khz={value}: expected the clock's rate in kHz, 100000 to 9999999")
        );
    }
}

#[test]
fn parts_of_the_machine_are_read_or_refused() {
    let options = Options::read("memory=2M+64M,0x8000+4K devices=00:04.0 cores=2").unwrap();
    assert_eq!(options.memory, parts::ranges("2M+64M,0x8000+4K"));
    assert_eq!(options.devices, parts::devices("0:4.0"));
    for (line, expected) in
        [("memory=64M", parts::RANGES), ("memory=2M+64M,3M+1M", parts::RANGES), ("devices=", parts::DEVICES)]
    {
        let said = Options::read(line).unwrap_err().to_string();
        assert_eq!(said, format!("the command line says {line}: expected {expected}"));
    }
}

#[test]
fn a_zone_is_named_by_its_page_and_by_nothing_beside() {
    assert_eq!(Options::read("zone=0x20600000 root=x").unwrap().zone, Some(0x2060_0000));
    let said = Options::read("zone=0x20600001").unwrap_err().to_string();
    assert_eq!(said, format!("the command line says zone=0x20600001: expected {}", parts::PAGE_ADDRESS));
    for line in ["zone=2M cores=1", "memory=2M+64M zone=2M", "zone=2M devices=none", "tsc_khz=2400000 zone=2M"] {
        assert!(Options::read(line).unwrap_err().to_string().contains("beside zone="), "{line}");
    }
}

#[test]
fn a_word_without_a_value_or_twice_is_refused() {
    assert_eq!(Options::read("cores").unwrap_err(), Fault::Value("cores", None, "a number of cores, 1 to 8"));
    assert_eq!(Options::read("cores=2 cores=2").unwrap_err(), Fault::Twice("cores"));
}

#[test]
fn a_supervisor_says_so_by_the_word_alone() {
    assert!(Options::read("supervisor cores=1").unwrap().is_supervisor);
    assert!(!Options::read("cores=1").unwrap().is_supervisor);
    let fault = Options::read("supervisor=1").unwrap_err();
    assert_eq!(fault, Fault::Value("supervisor", Some("1"), "the word alone"));
    assert_eq!(Options::read("supervisor supervisor").unwrap_err(), Fault::Twice("supervisor"));
}

#[test]
fn unknown_words_are_told_with_the_nearest_known_one() {
    let found: Vec<_> = unknown("coers=2 crash=x root=/dev/vda cores=2 crush=y quiet", &["crash"]).collect();
    assert_eq!(found, [("coers", Some("cores")), ("root", None), ("crush", Some("crash")), ("quiet", None)]);
}

#[test]
fn a_long_or_wild_word_is_shown_short_and_tame() {
    let said = Shown("a\u{1b}[2Jb").to_string();
    assert_eq!(said, "a\\u{1b}[2Jb");
    assert_eq!(Shown(&"x".repeat(49)).to_string(), "x".repeat(48) + "...");
}

/// Lines that look like command lines, and some that do not.
fn line() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "(copies|cores|tsc_khz|memory|devices|root|zone)=[0-9a-fx:.,+KMG]{0,24}",
        "(cores|tsc_khz|memory|devices)?=?",
        "\\PC{0,20}",
    ];
    proptest::collection::vec(word, 0..6).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn any_line_is_options_within_range_or_a_fault_that_names_a_word_of_it(line in line()) {
        match Options::read(&line) {
            Ok(options) => {
                prop_assert!(options.cores_max.is_none_or(|cores| (1..=CORES_MAX).contains(&cores)));
                prop_assert!(options.tsc_khz.is_none_or(|khz| rate::plausible(khz).is_some()));
            }
            Err(Fault::Value(name, ..) | Fault::Twice(name) | Fault::BesideZone(name)) => prop_assert!(WORDS.contains(&name) && line.contains(name)),
        }
        for (name, meant) in unknown(&line, &["crash"]) {
            prop_assert!(!WORDS.contains(&name));
            prop_assert!(meant.is_none_or(|meant| meant == "crash" || WORDS.contains(&meant)));
        }
    }

    #[test]
    fn every_number_of_cores_that_there_may_be_is_taken_and_no_other(cores in any::<u64>().prop_map(|n| n % 20)) {
        let line = format!("cores={cores}");
        prop_assert_eq!(Options::read(&line).is_ok(), (1..=8).contains(&cores));
    }
}
